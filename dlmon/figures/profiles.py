"""A profile in words, and as a table of text. Pure."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.records import TITLES, Profile


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


HEADINGS = ("operation", "share", "calls", "host", "device")
_WIDTHS = (7, 8, 10, 10)
"""Of the columns after the first one, with the space before each."""
_LEAST_OF_NAME = 20


def operation_rows(profile: Profile) -> list[tuple[str, ...]]:
    """Return a row for each operation of a profile, under `HEADINGS`."""
    return [
        (
            each.name,
            f"{100 * each.share:.1f} %",
            f"{each.calls:,}",
            _time(each.host_us),
            _time(each.device_us),
        )
        for each in profile.operations or ()
    ]


def why_no_operations(profile: Profile) -> str:
    """Say why there is no table of operations."""
    return profile.why.get("operations") or profile.why.get("file") or "no operation is known"


def profile_lines(profile: Profile, width: int = 90) -> list[tuple[str, bool]]:
    """Return the lines of a profile, each with whether it is a heading; names are cut."""
    lines = [(profile_text(profile), True)]
    if profile.operations is None:
        return [*lines, (why_no_operations(profile), False)]
    of_name = max(_LEAST_OF_NAME, width - sum(_WIDTHS))
    for number, (name, *others) in enumerate([HEADINGS, *operation_rows(profile)]):
        cut = name if len(name) <= of_name else f"{name[: of_name - 1]}…"
        cells = (f"{text:>{cells}}" for text, cells in zip(others, _WIDTHS, strict=True))
        lines.append((f"{cut:<{of_name}}{''.join(cells)}", number == 0))
    return lines


def _time(us: int) -> str:
    return units.step_time(us / 1e3) if us else "–"
