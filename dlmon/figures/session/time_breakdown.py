"""The time breakdown of a session and the parts of a step, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.phases import BEFORE_TRAINING, SCRIPT_CODE
from dlmon.figures.value_axis import stacked_bar
from dlmon.records import StepParts, TimePart
from dlmon.records.record import record

if TYPE_CHECKING:
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
