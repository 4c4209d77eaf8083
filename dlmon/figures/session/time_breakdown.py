"""The time breakdown of a session, its pauses and their causes, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlmon.figures import units
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.phases import BEFORE_TRAINING, SCRIPT_CODE
from dlmon.figures.session.stack_lines import pause_cause, standing_stack
from dlmon.figures.value_axis import stacked_bar
from dlmon.records import COMPILE, GARBAGE, NamedPause, StepParts, TimePart
from dlmon.records.record import record
from dlmon.session.gaps import Gap, GapKind, notices_in, pauses_in, stacks_in
from dlmon.session.snapshot import Snapshot
from dlmon.statistics.regular_gaps import RegularSteps

PART_NAMES = {
    TimePart.STARTUP: "start and imports",
    TimePart.LOADING: "loading data",
    TimePart.BUILDING: "building",
    TimePart.COMPILING: "compiling",
    TimePart.TRAINING: "steps",
    TimePart.STALLS: "stalls",
    TimePart.BETWEEN_STEPS: "between steps",
    TimePart.OPENINGS: "starting epochs",
    TimePart.DATA_WAIT: "waiting for data",
    TimePart.VALIDATION: "validation",
    TimePart.EVALUATION: "evaluation",
    TimePart.CHECKPOINT: "checkpoints",
    TimePart.GARBAGE: "garbage collection",
    TimePart.GAPS: "between epochs",
    TimePart.CLOSING: "shutdown",
    TimePart.SCRIPT: SCRIPT_CODE,
    TimePart.UNKNOWN: "other",
}
BRIEF_NAMES = {
    TimePart.STARTUP: "start",
    TimePart.LOADING: "loading",
    TimePart.OPENINGS: "epoch starts",
    TimePart.DATA_WAIT: "data wait",
    TimePart.GARBAGE: "garbage",
    TimePart.GAPS: "between",
    TimePart.SCRIPT: "script",
}
STEP_NAMES = {
    "wait_us": "waiting for data",
    "copy_us": "copy to the device",
    "forward_us": "forward",
    "backward_us": "backward",
    "optimizer_us": "optimiser",
    "collective_us": "collectives",
    "rest_us": "your code",
}
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
_BAR_CELLS = 12
TIME_FILLS = {
    **dict.fromkeys(TimePart, "░"),
    TimePart.TRAINING: "█",
    TimePart.STARTUP: "▓",
    **dict.fromkeys((TimePart.COMPILING, TimePart.SCRIPT), "▒"),
    **dict.fromkeys((TimePart.VALIDATION, TimePart.EVALUATION), "▞"),
    **dict.fromkeys((TimePart.STALLS, TimePart.BETWEEN_STEPS, TimePart.GAPS), "▚"),
    TimePart.UNKNOWN: "·",
}
"""The fill of each part of the time in a bar, the same everywhere."""
LEAST_S = 0.005
"""Less time would be written as 0.00 s."""


@record(frozen=True)
class PartRow:
    """A part of a session's time: its name, its seconds, and its share, 0 to 1."""

    part: TimePart
    name: str
    seconds: float
    share: float

    @property
    def in_figures(self) -> str:
        """The time and the share: 12.3 s, 62 %."""
        return f"{units.seconds(self.seconds)}, {units.share(self.share)}"

    @property
    def percent(self) -> int:
        """The share in whole percent."""
        return round(100 * self.share)


def part_name(part: TimePart, is_script: bool = False, compiles: bool = True) -> str:
    """Return the name of a part of the time."""
    if part is TimePart.STARTUP and is_script:
        return BEFORE_TRAINING
    if part is TimePart.COMPILING and not compiles:
        return "first batch"
    return PART_NAMES[part]


def names_of(snapshot: Snapshot) -> Mapping[TimePart, str]:
    """Return the names of the parts of a session's time."""
    is_script, compiles = snapshot.header.is_script, snapshot.compiles
    names = {part: part_name(part, is_script, compiles) for part in TimePart}
    if epoch_word(snapshot.header) != "epoch":
        names[TimePart.GAPS] = "between passes"
    return names


def breakdown_rows(
    breakdown: Mapping[TimePart, float], names: Mapping[TimePart, str] = PART_NAMES
) -> tuple[PartRow, ...]:
    """Return the parts with at least `LEAST_S`, in the order of a run."""
    total = sum(breakdown.values())
    return tuple(
        PartRow(part, names[part], breakdown[part], breakdown[part] / total)
        for part in TimePart
        if breakdown.get(part, 0.0) >= LEAST_S
    )


def in_short(rows: Sequence[PartRow], most: int) -> tuple[PartRow, ...]:
    """Return the steps and the `most` largest other parts, with short names, in the order of a run.

    One more part sums up the rest. Parts of 0 % are left out.
    """
    parts = [row for row in rows if row.part is not TimePart.UNKNOWN and row.percent]
    without_steps = [row for row in parts if row.part is not TimePart.TRAINING]
    largest = sorted(without_steps, key=lambda row: -row.seconds)[:most]
    named = [row for row in parts if row in largest or row not in without_steps]
    unnamed = [row for row in rows if row not in named]
    seconds, share = sum(row.seconds for row in unnamed), sum(row.share for row in unnamed)
    rest = PartRow(TimePart.UNKNOWN, PART_NAMES[TimePart.UNKNOWN], seconds, share)
    short = (replace(row, name=BRIEF_NAMES.get(row.part, row.name)) for row in named)
    return (*short, *[rest] * bool(rest.percent))


def time_bar(snapshot: Snapshot, most: int) -> str:
    """Return a bar of the steps, the `most` largest other parts and the rest.

    Empty without a time breakdown.
    """
    rows = in_short(breakdown_rows(snapshot.time_breakdown, names_of(snapshot)), most)
    bar = stacked_bar(
        [row.share for row in rows], [(TIME_FILLS[row.part], "") for row in rows], _BAR_CELLS
    )
    parts = [f"{TIME_FILLS[row.part]} {row.name} {row.percent} %" for row in rows]
    return "  ".join(("".join(fill for fill, _ in bar), *parts))


def step_rows(parts: StepParts) -> tuple[tuple[str, float, float], ...]:
    """Return the parts of a step: the field, the milliseconds and the share, 0 to 1, of each."""
    shares = ((name, parts.share(name)) for name in STEP_NAMES)
    step_ms = parts.step_us / parts.steps / 1000
    return tuple((name, share * step_ms, share) for name, share in shares if share is not None)


def regular_steps_text(steps: RegularSteps) -> str:
    """Say how long the regular long steps of a loop take, and how often they come."""
    return f"{units.seconds(steps.seconds / steps.times)} every {steps.every:,} steps"


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
