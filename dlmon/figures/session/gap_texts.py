"""The pauses of a session and their causes, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dlmon.figures import units
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.stack_lines import pause_cause, standing_stack
from dlmon.records import COMPILE, GARBAGE, NamedPause
from dlmon.session.gaps import Gap, GapKind, notices_in, pauses_in, stacks_in
from dlmon.session.snapshot import Snapshot

# The least shares of time to name.
_WAITED_PCT, _WAITED_FOR_CPU_PCT = 0.5, 5.0
_TAKEN_PCT = 1.0
# A run with less CPU time was asleep: a process that waits for a CPU gets some of it.
_ASLEEP_CORES = 0.05
# Leave out a cause's time if it is at least this share of the gap.
_NEARLY_ALL = 0.9
_PAUSE_NAMES = {COMPILE: "compiled", GARBAGE: "garbage collection"}
_MISMATCH = re.compile(r"tensor '(.+?)' (size|dtype|stride|rank|dispatch key set) mismatch")
_SWAPPED_MIB_S = 0.05
_MOST_NOTICES = 2


def longest_gaps(gaps: Sequence[Gap], count: int) -> tuple[Gap, ...]:
    """Return the longest gaps, the longest first."""
    return tuple(sorted(gaps, key=lambda gap: gap.start - gap.end)[:count])


def gap_of_session(gap: Gap, snapshot: Snapshot, *, brief: bool = False) -> str:
    """Describe a gap as `gap_text` does, with the causes and notices of its session."""
    stacks = stacks_in(gap.start, gap.end, snapshot.stacks)
    causes = pauses_texts(pauses_in(gap, snapshot.pauses), gap.seconds)
    stack = standing_stack(stacks)
    causes += [] if stack is None else [pause_cause(stack, gap, snapshot)]
    word, notices = epoch_word(snapshot.header), notices_in(gap, snapshot.notices)
    return gap_text(gap, word, notices, causes, brief=brief)


def gap_text(
    gap: Gap,
    epoch_word: str = "epoch",
    notices: Sequence[str] = (),
    causes: Sequence[str] = (),
    *,
    brief: bool = False,
) -> str:
    """Describe a gap: its length, its place in training, its causes, and what the machine did.

    For example: 2.1 s without a batch at the start of epoch 4: CPU 0 %, disk 0 MiB/s, nothing
    waited for memory. A `brief` text leaves out "without a batch", for use under such a heading.
    """
    place = gap_place(gap, epoch_word)
    words = (units.seconds(gap.seconds), "" if brief else "without a batch", place)
    text = " ".join(word for word in words if word)
    notice_texts = (_cause_in_notice(notice, place) for notice in notices[:_MOST_NOTICES])
    reasons = "; ".join((*causes, *notice_texts))
    text = f"{text}: {reasons}" if reasons else text
    if gap.meanwhile is None:
        return f"{text}; the machine was not read meanwhile"
    machine = ", ".join(meanwhile_texts(gap))
    return f"{text}{'; ' if reasons else ': '}{machine}" if machine else text


def pauses_texts(pauses: Sequence[NamedPause], within_s: float) -> list[str]:
    """Say what a framework did in a gap of `within_s`, with pauses of one kind as one text.

    For example: checkpoint, 1.9 GB written to /data at 680 MB/s.
    """
    kinds: dict[tuple[str, bool], list[NamedPause]] = {}
    for pause in pauses:
        kinds.setdefault((pause.name, bool(pause.beside)), []).append(pause)
    texts = []
    for (name, is_beside), same_kind in kinds.items():
        seconds = sum(pause.seconds for pause in same_kind)
        words = f"{_PAUSE_NAMES.get(name, name)}{' in another thread' if is_beside else ''}"
        if name == COMPILE and (reason := next((p.reason for p in same_kind if p.reason), None)):
            words = f"re{words}: {guard_text(reason)}"
        breaks = sum(pause.graph_breaks or 0 for pause in same_kind)
        if breaks:
            words += f" ({units.counted(breaks, 'graph break')})"
        if not is_beside and seconds < _NEARLY_ALL * within_s:
            words += f", {units.seconds(seconds)} of it"
        size = sum(pause.written_bytes or 0 for pause in same_kind)
        if size:
            folder = next((f" to {pause.folder}" for pause in same_kind if pause.folder), "")
            words += f", {units.size(size)} written{folder}"
            if seconds > 0:
                words += f" at {units.size(round(size / seconds))}/s"
        texts.append(words)
    return texts


def guard_text(guard: str) -> str:
    """Say what changed if a guard of PyTorch's tells; else return the guard as it is."""
    mismatch = _MISMATCH.match(guard)
    if mismatch is None:
        return guard
    property_name = {"size": "shape", "dtype": "type"}.get(mismatch[2], mismatch[2])
    return f"the {property_name} of {mismatch[1]} changed"


def _cause_in_notice(notice: str, place: str) -> str:
    """Return a notice in a gap; if it names the place of the gap, only the cause."""
    _, names_place, cause = notice.rstrip(".").partition(f" {place}: ")
    return cause if names_place else f"notice in it: {notice.rstrip('.')}"


def gap_place(gap: Gap, epoch_word: str) -> str:
    """Say where in training a gap is: at step 601 of epoch 3."""
    if gap.kind is GapKind.NAMED:
        return ""
    if gap.before == "evaluating":
        return "before the evaluation"
    if gap.kind is GapKind.OPENING and gap.epoch is None:
        return "before the first step"
    step = "" if gap.step is None else f"at step {gap.step + 1:,}"
    regularly = "" if gap.every is None else f", as every {gap.every:,} steps"
    if gap.epoch is None:
        return f"{step}{regularly}" if step else "between two phases"
    epoch = f"{epoch_word} {gap.epoch + 1:,}"
    if step:
        return f"{step} of {epoch}{regularly}"
    return f"at the start of {epoch}" if gap.kind is GapKind.OPENING else f"after {epoch}"


# The readings to mention in a gap, and from which mean on.
_READINGS = (
    ("gpu_pct", 0.0, "GPU {:.0f} %"),
    ("disk_mib_s", 0.0, "disk {:.0f} MiB/s"),
    ("swap_mib_s", _SWAPPED_MIB_S, "swap {:.1f} MiB/s"),
    ("stopped_pct", _TAKEN_PCT, "stopped by the CPU limit in {:.0f} % of periods"),
    ("steal_pct", _TAKEN_PCT, "CPU steal {:.0f} %"),
    ("memory_wait_pct", _WAITED_PCT, "programs waited for memory {:.0f} % of the time"),
    ("io_wait_pct", _WAITED_PCT, "programs waited for a disk {:.0f} % of the time"),
)


def meanwhile_texts(gap: Gap) -> tuple[str, ...]:
    """Say what the machine did in a gap: CPU 2 %, disk 0 MiB/s; empty if it was not read."""
    means = gap.meanwhile or {}
    parts = [f"CPU {means['cpu_pct']:.0f} %{_cores(means)}"] if "cpu_pct" in means else []
    parts += [
        text.format(means[name])
        for name, least, text in _READINGS
        if means.get(name, -1.0) >= least
    ]
    parts += _waited_for_cpu(means)
    if means.get("memory_wait_pct", _WAITED_PCT) < _WAITED_PCT:
        parts.append("nothing waited for memory")
    return tuple(parts)


def _waited_for_cpu(means: Mapping[str, float]) -> list[str]:
    """Say how long the run waited for a CPU; if unknown, how long any program did."""
    who, pct = "programs", means.get("cpu_wait_pct")
    if "run_cpu_wait_pct" in means:
        who, pct = "this run", means["run_cpu_wait_pct"]
    elif means.get("run_cores", 1.0) < _ASLEEP_CORES:
        return []
    if pct is None or pct < _WAITED_FOR_CPU_PCT:
        return []
    return [f"{who} waited for a CPU {pct:.0f} % of the time"]


def _cores(means: Mapping[str, float]) -> str:
    """Return the CPU cores that this run and all else used."""
    if "run_cores" not in means or "busy_cores" not in means:
        return ""
    other_cores = max(0.0, means["busy_cores"] - means["run_cores"])
    return f" (this run {means['run_cores']:.1f} cores, all else {other_cores:.1f})"
