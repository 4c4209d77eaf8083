"""The steps of ranks that train together, and the rank that the others wait for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from statistics import median

from dlmon.records.record import record
from dlmon.records.stacks import place_text
from dlmon.records.training import STEP_PARTS, WAITS
from dlmon.session.limits.evidence import RANKS, Evidence
from dlmon.session.limits.rules import LINE_SHARE
from dlmon.session.loops import ProcessRate
from dlmon.session.time_breakdown import StepMean

LEAST_APART = 0.05
"""The least extra time of a straggler, as a share of a step."""
# The least extra time, in standard errors.
_ERRORS_APART = 3.0
_DATA, OWN_CODE = "wait_us", "rest_us"
PARTS = (*STEP_PARTS, OWN_CODE)
_OTHER = "the other"
_WHERE = {
    "copy_us": "in copies to its GPU",
    "forward_us": "in forward",
    "backward_us": "in backward",
    "optimizer_us": "in the optimiser",
    OWN_CODE: "in your code",
}


@record(frozen=True)
class RankStep:
    """The mean step of a rank, split in its own work and waiting for other ranks.

    Attributes:
        parts_ms: the parts of its own work, by their fields of `StepParts`.
        waits_ms: the time that it waits for other ranks.
    """

    parts_ms: dict[str, float]
    waits_ms: float

    @property
    def own_ms(self) -> float:
        return sum(self.parts_ms.values())

    @property
    def all_ms(self) -> dict[str, float]:
        """The times of all parts, with the waiting."""
        return self.parts_ms | {WAITS: self.waits_ms}


@record(frozen=True)
class Straggler:
    """The rank that the others wait for.

    Attributes:
        rank: the rank.
        part: the part of a step that it takes longest for, compared with the others.
        rank_ms: its own work in a step; of data, its wait for data.
        others_ms: the median of that time over the other ranks.
        longer_ms: the time that the part takes longer than the median of the others.
        others: the other ranks in words.
    """

    rank: ProcessRate
    part: str
    rank_ms: float
    others_ms: float
    longer_ms: float
    others: str

    def compared(self, was: bool) -> str:
        """Compare the time of the rank with that of the others."""
        verb, of = ("wait", " for data") if self.part == _DATA else ("work", "")
        rank_time, others_time = _milliseconds(self.rank_ms), _milliseconds(self.others_ms)
        does = f"{self.rank.name_and_host} {verb}{'ed' if was else 's'} {rank_time} a step{of}"
        return f"{does}, {self.others} {others_time}"

    @property
    def where(self) -> str:
        """The part of a step in which it works longer; empty for data."""
        where = _WHERE.get(self.part)
        return f"{_milliseconds(self.longer_ms)} more {where}" if where else ""

    @property
    def advice(self) -> str:
        name = self.rank.name_and_host
        if self.part == _DATA:
            return f"look for what {name} loads more slowly: its data, its CPUs, its disk"
        code = self.rank.code if self.part == OWN_CODE else None
        line = code.places[0] if code is not None and code.places else None
        if code and line and line.looks >= LINE_SHARE * sum(place.looks for place in code.places):
            place = place_text(line.script, line.inner)
            line_text = place.partition(" in ")[0]
            return f"take {line_text} out of the loop of {name}, or run it every few steps"
        return f"look for what {name} does more slowly: your code, its CPUs, its GPU"


def step_together(ranks: Sequence[ProcessRate]) -> bool:
    """Return whether the steps of several ranks take equally long, as collectives make them.

    Processes without a rank train separately.
    """
    steps_ms = [rank.step_ms for rank in ranks if rank.step_ms]
    if any(rank.trainer.rank is None for rank in ranks) or len(steps_ms) < max(2, len(ranks)):
        return False
    return max(steps_ms) - min(steps_ms) <= LEAST_APART * max(steps_ms)


def rank_steps(ranks: Sequence[ProcessRate]) -> tuple[RankStep, ...]:
    """Split the step of each rank; empty unless the same parts of all are known.

    Ranks that step together wait for each other in collective operations, or, where these were
    not seen, in backward and in the optimizer: the one that is longest with its own work waits
    least. What another takes longer there is waiting.
    """
    steps = [
        {
            name: part_us / rank.parts.steps / 1000
            for name in PARTS
            if (part_us := getattr(rank.parts, name))
        }
        for rank in ranks
        if rank.parts is not None
    ]
    waits_in = {rank.parts.parts_with_waits for rank in ranks if rank.parts is not None}
    if len(steps) < len(ranks) or len(waits_in) > 1:
        return ()
    waits_ms = [0.0] * len(steps)
    for name in chain(*waits_in) if step_together(ranks) else ():
        least_ms = min(step.get(name, 0.0) for step in steps)
        for number, step in enumerate(steps):
            if name in step:
                waits_ms[number] += step[name] - least_ms
                step[name] = least_ms
    return tuple(map(RankStep, steps, waits_ms))


def straggler_of(ranks: Sequence[ProcessRate]) -> Straggler | None:
    """Return the rank that makes all others wait; None if no rank stands out.

    It has clearly more work of its own than any other, or waits clearly longer for its data.
    """
    if not step_together(ranks):
        return None
    steps = rank_steps(ranks)
    index = _index_apart(ranks, [rank.work for rank in ranks]) if steps else None
    parts_ms = {name: [step.parts_ms.get(name, 0.0) for step in steps] for name in PARTS}
    if index is None:
        index = _index_apart(ranks, [rank.wait for rank in ranks])
        parts_ms = {_DATA: [rank.wait.mean_ms if rank.wait else 0.0 for rank in ranks]}
    if index is None:
        return None
    part = max(parts_ms, key=lambda name: _longer_ms(parts_ms[name], index))
    works_ms = parts_ms[part] if part == _DATA else [step.own_ms for step in steps]
    longer_ms = _longer_ms(works_ms, index)
    return Straggler(
        *(ranks[index], part, works_ms[index], works_ms[index] - longer_ms),
        longer_ms=_longer_ms(parts_ms[part], index),
        others=_OTHER if len(ranks) == 2 else "others",
    )


def _index_apart(ranks: Sequence[ProcessRate], means: Sequence[StepMean | None]) -> int | None:
    """Return the index of the longest mean, if it is clearly longer than all others."""
    known = [(mean.mean_ms, mean.error_ms, number) for number, mean in enumerate(means) if mean]
    if len(known) < len(ranks):
        return None
    (next_ms, next_error_ms, _), (mean_ms, error_ms, index) = sorted(known)[-2:]
    step_ms = min(rank.step_ms or 0.0 for rank in ranks)
    least_ms = max(_ERRORS_APART * math.hypot(error_ms, next_error_ms), LEAST_APART * step_ms)
    return index if mean_ms - next_ms > least_ms else None


def _longer_ms(times_ms: Sequence[float], index: int) -> float:
    """Return the time at an index less the median of all others."""
    return times_ms[index] - median((*times_ms[:index], *times_ms[index + 1 :]))


def _milliseconds(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals if value else 0}f} ms"


def rank_holds_up(ranks: Sequence[ProcessRate], is_over: bool) -> Evidence | None:
    """Return evidence if the others wait for one rank."""
    straggler = straggler_of(ranks)
    if straggler is None:
        return None
    share = (straggler.rank_ms - straggler.others_ms) / (straggler.rank.step_ms or math.inf)
    rank, compared = straggler.rank, straggler.compared(is_over)
    if rank.name_and_host == rank.name:
        # The name of the finding ends in its name.
        compared = f"it{compared.removeprefix(rank.name)}"
    reasons = tuple(filter(None, (compared, straggler.where)))
    name = rank.name.upper()
    return Evidence(RANKS, f"{100 * share:.0f} %", reasons, straggler.advice, share, name)
