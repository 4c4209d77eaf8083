"""A profile in words, and as a table of text. Pure."""

from __future__ import annotations

from dlmon.records import TITLES, Profile
from tui.formatting import units

_LONGEST_NAME = 52


def profile_text(profile: Profile) -> str:
    """Say what was profiled, and what the time went into: 5 steps by PyTorch, 62 ms: idle 12 %."""
    by = TITLES.get(profile.profiler or "", profile.profiler or "an unknown profiler")
    text = f"{units.counted(profile.steps, 'step')} by {by}'s profiler"
    if profile.begin is not None and profile.end is not None:
        text += f", {units.step_time((profile.end - profile.begin) / 1e6)}"
    parts = (
        ("the device idle", profile.idle),
        ("copying", profile.copying),
        ("communicating", profile.communicating),
    )
    known = [f"{name} {units.share(share)}" for name, share in parts if share is not None]
    return ", ".join([text, *known])


def profile_lines(profile: Profile) -> list[tuple[str, bool]]:
    """Return the lines of a profile, each with whether it is a heading."""
    lines = [(profile_text(profile), True)]
    if profile.operations is None:
        why = profile.why.get("operations") or profile.why.get("file") or "no operation is known"
        return [*lines, (why, False)]
    name = "operation"
    lines.append((f"{name:<{_LONGEST_NAME}}  share    calls       host     device", True))
    for each in profile.operations:
        name = each.name
        if len(name) > _LONGEST_NAME:
            name = f"{name[: _LONGEST_NAME - 1]}…"
        host, device = (
            units.step_time(us / 1e3) if us else "–" for us in (each.host_us, each.device_us)
        )
        row = f"{name:<{_LONGEST_NAME}}  {100 * each.share:4.1f} %  {each.calls:>6,}"
        lines.append((f"{row}  {host:>9}  {device:>9}", False))
    return lines
