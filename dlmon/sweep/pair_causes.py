"""Where the two sides of an experiment differ: the parts of a step, memory and loss. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.sides import ACCOUNT, STEP_PART
from dlmon.quantities import SAMPLES_PER_SECOND
from dlmon.records import RunStatus, TimePart
from dlmon.records.record import record
from dlmon.session.learning import LEAST_CHANGE
from dlmon.session.loss_by_step import mean_loss
from dlmon.statistics.pairs import PairedRatio, paired_half_width, paired_ratio
from dlmon.sweep.pairs import BASE, NEW
from dlmon.sweep.progress import Sweep

STEPS = f"{ACCOUNT}{TimePart.TRAINING}"
DATA_WAIT = f"{ACCOUNT}{TimePart.DATA_WAIT}"
_STEP_WAIT = f"{STEP_PART}wait_ms"
# Parts of the time that come once a run, and so say nothing about a step.
_EVERY_STEP = tuple(
    f"{ACCOUNT}{part}"
    for part in (
        TimePart.TRAINING,
        TimePart.DATA_WAIT,
        TimePart.STALLS,
        TimePart.BETWEEN_STEPS,
        TimePart.OPENINGS,
        TimePart.GARBAGE,
        TimePart.CHECKPOINT,
        TimePart.VALIDATION,
    )
)
MEMORY = ("gpu_memory_mib", "memory_mib")
_MOST = 0.8
"""From this share of the difference on, a part explains all of it."""
_LEAST_RUNS = 3
"""With fewer runs of a side, it isn't known by how much two of them differ."""


@record(frozen=True)
class PartDifference:
    """How much longer a part of a step takes in new than in base.

    Attributes:
        part: a key of `RunFigures.values`: of a part of a step, or of the time breakdown.
        base_ms, new_ms: the means of both sides, in milliseconds a step.
        difference_ms: the mean of the pairs' differences.
        half_ms: the half-width of its 95 % interval; None with a single pair.
    """

    part: str
    base_ms: float
    new_ms: float
    difference_ms: float
    half_ms: float | None

    @property
    def is_proven(self) -> bool:
        """True if 0 is outside the interval."""
        return self.half_ms is not None and abs(self.difference_ms) > self.half_ms

    @property
    def is_certain(self) -> bool:
        """True if 0 is outside an interval of twice the width.

        From five pairs on, chance gives that in one of 200 parts; a step has up to ten parts.
        """
        return self.half_ms is not None and abs(self.difference_ms) > 2 * self.half_ms


@record(frozen=True)
class Causes:
    """The differences between both sides, from the pairs that count.

    Attributes:
        step: the mean step; None if it isn't known, or if the steps of the sides have other sizes.
        parts: the parts of a step and of the time, the largest difference first.
        memory: the ratio of the peak memory, and whether it is that of the GPU.
        sizes: the samples of a step of base and new, if they differ.
    """

    step: PartDifference | None
    parts: tuple[PartDifference, ...]
    memory: tuple[str, PairedRatio] | None
    sizes: tuple[float, float] | None = None

    @property
    def leading(self) -> tuple[PartDifference, ...]:
        """The proven parts that explain most of the difference: one, or two if one is too small.

        Empty if two are less than half of it.
        """
        if self.step is None or not self.step.is_proven:
            return ()
        whole_ms = self.step.difference_ms
        same_way = [p for p in self.parts if p.is_proven and p.difference_ms * whole_ms > 0]
        if same_way and same_way[0].difference_ms / whole_ms >= _MOST:
            return (same_way[0],)
        explained_ms = sum(part.difference_ms for part in same_way[:2])
        return tuple(same_way[:2]) if explained_ms / whole_ms >= 0.5 else ()

    def explains_all(self, part: PartDifference) -> bool:
        """Return whether a part's difference is that of the whole step."""
        return self.step is not None and part.difference_ms / self.step.difference_ms >= _MOST


def causes_of(pairs: Sequence[tuple[RunFigures, RunFigures]]) -> Causes:
    """Return where the difference comes from.

    Args:
        pairs: the runs of the pairs that count, base and new, in the order in which they were run.
    """
    sizes = {run.batch_size for pair in pairs for run in pair}
    parts = [(_parts_ms(base), _parts_ms(new)) for base, new in pairs]
    names = [name for pair in parts[:1] for name in dict.fromkeys([*pair[0], *pair[1]])]
    steps = [(_step_ms(base), _step_ms(new)) for base, new in pairs]
    step = None
    if len(sizes) == 1 and steps and all(value is not None for pair in steps for value in pair):
        step = _difference("", [(base or 0.0, new or 0.0) for base, new in steps])
    differences = [
        _difference(name, [(base.get(name, 0.0), new.get(name, 0.0)) for base, new in parts])
        for name in names
    ]
    return Causes(
        step=step,
        parts=tuple(sorted(differences, key=lambda part: -abs(part.difference_ms))),
        memory=next(filter(None, (_memory(name, pairs) for name in MEMORY)), None),
        sizes=_other_sizes(pairs),
    )


def _other_sizes(pairs: Sequence[tuple[RunFigures, RunFigures]]) -> tuple[float, float] | None:
    base, new = (run.batch_size for run in pairs[0])
    return (base, new) if base is not None and new is not None and base != new else None


def _parts_ms(run: RunFigures) -> Mapping[str, float]:
    """Return the parts of a run's mean step, in milliseconds."""
    parts = {name: ms for name, ms in run.values.items() if name.startswith(STEP_PART)}
    in_steps = (STEPS, DATA_WAIT) if parts else ()
    if run.batches:
        if _STEP_WAIT in parts and DATA_WAIT in run.values:
            # Of all steps; the parts of a step are measured a few times a second.
            parts[_STEP_WAIT] = 1000 * run.values[DATA_WAIT] / run.batches
        parts |= {
            name: 1000 * run.values[name] / run.batches
            for name in _EVERY_STEP
            if name in run.values and name not in in_steps
        }
    return parts


def _step_ms(run: RunFigures) -> float | None:
    """Return the mean time of a step by the throughput, which has all that steps wait for."""
    rate = run.values.get(SAMPLES_PER_SECOND)
    if not rate:
        return None
    size = 1 if run.throughput_unit == "steps/s" else run.batch_size
    return None if size is None else 1000 * size / rate


def _difference(part: str, pairs: Sequence[tuple[float, float]]) -> PartDifference:
    differences = [new - base for base, new in pairs]
    return PartDifference(
        part=part,
        base_ms=fmean(base for base, _ in pairs),
        new_ms=fmean(new for _, new in pairs),
        difference_ms=fmean(differences),
        half_ms=paired_half_width(differences),
    )


def _memory(
    name: str, pairs: Sequence[tuple[RunFigures, RunFigures]]
) -> tuple[str, PairedRatio] | None:
    values = [(base.values.get(name), new.values.get(name)) for base, new in pairs]
    ratios = [new / base for base, new in values if base and new]
    ratio = paired_ratio(ratios) if len(ratios) == len(pairs) else None
    return None if ratio is None else (name, ratio)


@record(frozen=True)
class LossDifference:
    """The mean loss of both sides over the first steps of all runs.

    Attributes:
        steps: the number of steps.
        base, new: the means of the runs of both sides; NaN if the loss of a run is.
        spread: the largest difference between two runs of one side.
    """

    steps: int
    base: float
    new: float
    spread: float

    @property
    def is_alike(self) -> bool:
        """True if the sides differ by no more than two runs of one side; False with a NaN."""
        return abs(self.new - self.base) <= max(self.spread, LEAST_CHANGE * abs(self.base))


def loss_difference(sweep: Sweep) -> LossDifference | None:
    """Return the loss of both sides, warm-up included.

    None with too few runs, without a loss in one of them, or with steps of unlike sizes.
    """
    sides = [
        [
            sweep.figures[outcome.session]
            for slot, outcome in sweep.outcomes.items()
            if slot.combination == side and outcome.status == RunStatus.COMPLETED
            if outcome.session in sweep.figures
        ]
        for side in (BASE, NEW)
    ]
    runs = [run for side in sides for run in side]
    steps = min((run.losses[-1][0] if run.losses else 0 for run in runs), default=0)
    is_too_few = min(map(len, sides)) < _LEAST_RUNS
    if is_too_few or not steps or len({run.batch_size for run in runs}) > 1:
        return None
    base, new = ([mean_loss(run.losses, steps) for run in side] for side in sides)
    spread = max(max(side) - min(side) for side in (base, new))
    return LossDifference(steps, fmean(base), fmean(new), spread)
