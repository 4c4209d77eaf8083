"""Which epochs were slow, and what differed in one from the usual ones. Pure.

An epoch is slow by a rule that a few others can't hide: it lies further above the median than
several times the usual spread, which is that of most epochs, and by a share that a person cares
for. What differed is judged by the same rule, quantity by quantity; what wasn't measured differs
in nothing. What is known of each epoch is kept as its batches and readings come.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from dlmon.quantities import OTHER_CORES, RUN_CORES
from dlmon.records import Batches, BatchSummary, Epoch
from dlmon.records.record import record
from dlmon.session.readings import Means, Reading
from dlmon.statistics.steady_state import STALL_FACTOR, SteadyState

MIN_EPOCHS = 3
"""With fewer comparable epochs there is no telling which of them are the usual ones."""
FEW_EPOCHS, SLOW_OF_FEW = 3, 1.5
"""Of three epochs, one is slow if it takes this many times as long as each of the others."""
SPREADS = 4.0
LEAST_SHARE = 0.05
# The median distance from the median, as a standard deviation.
_AS_DEVIATION = 1.4826
# From which share of what an epoch took longer, and of an epoch, a part counts. Of a slow epoch
# everything is to be accounted for: there is more to it than chance.
_SHARE_OF_EXCESS, _SHARE_OF_EPOCH = 0.2, 0.02
_SHARE_OF_SLOW, _SHARE_OF_SLOW_EPOCH = 0.05, 0.01
MIN_READINGS = 2
MOST_PARTS = 3
MOST_CAUSES = 4

COMPILING_S, VALIDATION_S, ENDING_S, STEPS_S = "compiling_s", "validation_s", "ending_s", "steps_s"

# From which difference on a quantity of the machine is named; of the clock that is a share.
_LEAST = {
    "heat_pct": 10.0,
    "power_brake_pct": 10.0,
    "slowdown_pct": 10.0,
    "power_cap_pct": 25.0,
    "stopped_pct": 5.0,
    "others_gpu_gib": 0.5,
    RUN_CORES: 0.5,
    OTHER_CORES: 0.5,
    "steal_pct": 5.0,
    "swap_mib_s": 1.0,
    "memory_wait_pct": 10.0,
    "io_wait_pct": 10.0,
    "cpu_wait_pct": 10.0,
}
_LESS = {"sm_mhz": 0.03, "gpu_pct": 0.1}
# How much a run computes may vary by far: it did clearly less where that is below this share of
# the least of all others, and by so many cores below the usual.
_IDLE_SHARE, _IDLE_CORES = 0.5, 0.1


class Usual(NamedTuple):
    """What a quantity is as a rule, and how far it is off that as a rule."""

    value: float
    spread: float

    def is_exceeded(self, value: float, least: float) -> bool:
        """Whether a value is clearly greater: by more than the spread, and at least `least`."""
        return value - self.value > max(SPREADS * self.spread, least)


@record(frozen=True)
class Differing:
    """One thing that differed: its value, what it is as a rule, and how many made it up."""

    name: str
    value: float
    usual: float
    count: int = 0


@record(frozen=True)
class EpochComparison:
    """An epoch beside the others.

    Attributes:
        seconds: how long it took.
        usual_s: the median of the others; None where there are too few.
        is_slow: whether it is clearly slower.
        parts: where it spent longer than usual, what is most beyond it first.
        causes: what of the machine differed meanwhile.
        is_read: whether the machine was read often enough, in this epoch and in others, to say
            that nothing of it differed.
        rest_s: by how much all else took longer than usual, or less where below 0; 0 where that
            is little.
    """

    epoch: Epoch
    seconds: float
    usual_s: float | None
    is_slow: bool
    parts: tuple[Differing, ...] = ()
    causes: tuple[Differing, ...] = ()
    is_read: bool = False
    rest_s: float = 0.0


def seconds_of(epoch: Epoch) -> float:
    """Return how long an epoch took, its validation included."""
    return max(0, epoch.end - epoch.begin) / 1e9


def slow_epochs(
    epochs: Sequence[Epoch], use_of: Callable[[Epoch], EpochUse], compile_s: float | None
) -> frozenset[int]:
    """Return when those epochs began that are clearly slower than the others.

    What compiled is taken out: the first always takes longer for that.
    """
    took = _comparable_s(epochs, _compiled_s(epochs, use_of, compile_s))
    if len(took) == FEW_EPOCHS:
        *others, longest = sorted(took, key=lambda begin: took[begin])
        is_slow = took[longest] > SLOW_OF_FEW * max(took[begin] for begin in others) > 0
        return frozenset((longest,) if is_slow else ())
    usual = _usual(list(took.values()), MIN_EPOCHS)
    if usual is None or usual.value <= 0:
        return frozenset()
    least_s = LEAST_SHARE * usual.value
    return frozenset(b for b, seconds in took.items() if usual.is_exceeded(seconds, least_s))


def compare_epoch(
    epoch: Epoch,
    epochs: Sequence[Epoch],
    use_of: Callable[[Epoch], EpochUse],
    compile_s: float | None,
    validation_compile_s: float = 0.0,
) -> EpochComparison:
    """Return what differed in an epoch from the others.

    Args:
        epoch: one of `epochs`.
        epochs: all of its loop that have ended.
        use_of: what is known of each.
        compile_s: what compiled in all of them, beyond usual batches; None where the first of
            them is none that compiles.
        validation_compile_s: what of that did so in the first one's validation.
    """
    seconds = seconds_of(epoch)
    compiled = _compiled_s(epochs, use_of, compile_s)
    took = _comparable_s(epochs, compiled)
    others = [one for one in epochs if one.begin in took and one.begin != epoch.begin]
    if len(others) + 1 < MIN_EPOCHS or epoch.begin not in took:
        return EpochComparison(epoch, seconds, None, False)
    compiled_s = compiled.get(epoch.begin, 0.0)
    usual_s = median(took[one.begin] for one in others)
    excess_s = max(0.0, seconds - usual_s)
    is_slow = epoch.begin in slow_epochs(epochs, use_of, compile_s)
    use = use_of(epoch)
    uses = {one.begin: use_of(one) for one in others}
    of_excess, of_epoch = (_SHARE_OF_EXCESS, _SHARE_OF_EPOCH)
    if is_slow:
        of_excess, of_epoch = (_SHARE_OF_SLOW, _SHARE_OF_SLOW_EPOCH)
    least_s = max(of_excess * excess_s, of_epoch * usual_s)
    parts = [] if compiled_s < least_s else [Differing(COMPILING_S, compiled_s, 0.0)]

    def parts_of(one: Epoch, its_use: EpochUse) -> dict[str, float]:
        both_s = compiled.get(one.begin, 0.0)
        is_first = one.begin == epochs[0].begin
        validated_s = min(validation_compile_s, both_s) if is_first else 0.0
        return _parts_s(one, its_use, both_s - validated_s, validated_s)

    own = parts_of(epoch, use)
    theirs = [parts_of(one, uses[one.begin]) for one in others]
    for name, part_s in own.items():
        usual = _usual([part[name] for part in theirs if name in part])
        if usual is None:
            continue
        if is_slow:
            usual = usual._replace(spread=0.0)
        if usual.is_exceeded(part_s, least_s):
            count = round(use.values.get(STALLS, 0)) if name == STALLED_S else 0
            parts.append(Differing(name, part_s, usual.value, count))
    parts.sort(key=lambda part: part.usual - part.value)
    parts = parts[:MOST_PARTS]
    rest_s = seconds - usual_s - sum(part.value - part.usual for part in parts)
    return EpochComparison(
        epoch,
        seconds,
        usual_s,
        is_slow,
        tuple(parts),
        tuple(_causes(use, list(uses.values()))[:MOST_CAUSES]),
        use.readings >= MIN_READINGS
        and sum(one.readings > 0 for one in uses.values()) >= MIN_EPOCHS - 1,
        rest_s if parts and abs(rest_s) >= least_s else 0.0,
    )


def _parts_s(
    epoch: Epoch, use: EpochUse, compiled_s: float, validation_compiled_s: float
) -> dict[str, float]:
    """Return what the time of an epoch went into, without what compiled in it.

    What is left of its training is its steps.
    """
    names = (STALLED_S, OPENING_S, WAITED_S)
    known = {name: use.values[name] for name in names if name in use.values}
    train_s = (epoch.train_end - epoch.begin) / 1e9
    trained_until = epoch.train_end
    parts = dict(known)
    if epoch.validation is not None:
        parts[VALIDATION_S] = epoch.validation.took_s - validation_compiled_s
        trained_until = epoch.validation.end
    parts[ENDING_S] = (epoch.end - trained_until) / 1e9
    parts[STEPS_S] = train_s - compiled_s - sum(known.values())
    if not _are_stalls(use, epoch.steps, parts):
        parts[STEPS_S] += parts.pop(STALLED_S)
        parts[STALLED_S] = 0.0
    return {name: max(0.0, part_s) for name, part_s in parts.items()}


def _are_stalls(use: EpochUse, steps: int | None, parts: Mapping[str, float]) -> bool:
    """Whether what stalled did so beside the epoch's own steps, not only those of the run.

    Where all steps of an epoch are slow, some of them are over ten times those of the others.
    """
    stalls = use.values.get(STALLS, 0)
    if not stalls or steps is None or STALLED_S not in parts:
        return True
    others = steps - stalls
    if others < stalls:
        return False
    return parts[STALLED_S] / stalls > STALL_FACTOR * parts[STEPS_S] / others


def _causes(use: EpochUse, others: Sequence[EpochUse]) -> list[Differing]:
    if use.readings < MIN_READINGS:
        return []
    found = []
    for name, least in {**_LEAST, **_LESS}.items():
        value = use.values.get(name)
        known = [one.values[name] for one in others if name in one.values]
        usual = _usual(known)
        if value is None or usual is None:
            continue
        if name in _LEAST:
            differs = usual.is_exceeded(value, least)
            if name == RUN_CORES and value < _IDLE_SHARE * min(known):
                differs = differs or usual.value - value >= _IDLE_CORES
        else:
            less = Usual(-usual.value, usual.spread)
            differs = less.is_exceeded(-value, least * usual.value)
        if differs:
            found.append(Differing(name, value, usual.value))
    return found


def _comparable_s(epochs: Sequence[Epoch], compiled_s: Mapping[int, float]) -> dict[int, float]:
    """Return the seconds of each whole epoch without what compiled, by when it began.

    Where all are capped (`--steps`), those compare that have as many steps as were asked for.
    """
    counted = [epoch for epoch in epochs if epoch.whole]
    if not counted:
        most = max((epoch.steps or 0 for epoch in epochs), default=0)
        counted = [epoch for epoch in epochs if epoch.steps and epoch.steps == most]
    return {
        epoch.begin: seconds_of(epoch) - compiled_s.get(epoch.begin, 0.0)
        for epoch in counted
        if epoch.end > epoch.begin
    }


def _compiled_s(
    epochs: Sequence[Epoch], use_of: Callable[[Epoch], EpochUse], compile_s: float | None
) -> dict[int, float]:
    """Return how long each compiled, by when it began: what none of the others did, the first."""
    found = {}
    for epoch in epochs:
        later_s = use_of(epoch).values.get(COMPILED_S)
        if later_s:
            found[epoch.begin] = min(later_s, seconds_of(epoch))
    if epochs and compile_s:
        first, rest_s = epochs[0], compile_s - sum(found.values())
        found[first.begin] = min(max(0.0, rest_s), seconds_of(first))
    return found


def _usual(values: Sequence[float], least: int = MIN_EPOCHS - 1) -> Usual | None:
    """Return the median and the usual distance from it; None of too few."""
    if len(values) < least:
        return None
    middle = median(values)
    return Usual(middle, _AS_DEVIATION * median(abs(value - middle) for value in values))


MAX_EPOCHS = 2000
"""At most this many of the newest epochs are kept."""
# How many readings may come between batches and the record of them.
_PENDING = 16

STALLS, STALLED_S, OPENING_S, WAITED_S = "stalls", "stalled_s", "opening_s", "waited_s"
COMPILED_S = "compiled_s"
"""What compiled in an epoch after the first, as for batches of another size, beyond usual ones."""


class EpochUse(NamedTuple):
    """What is known of one epoch beside its times.

    Attributes:
        readings: of the machine, within it.
        values: sums of its batches (stalls, seconds that stalled or waited for data), and means of
            its readings; what was not measured is left out. A stall that waited for data is in the
            wait alone.
    """

    readings: int
    values: Mapping[str, float]


NOTHING = EpochUse(0, {})


class EpochUses:
    """Folds readings and batches, and puts them to the epoch that they lie in."""

    def __init__(self) -> None:
        self.ended: dict[int, EpochUse] = {}
        """By when each epoch began, oldest first."""
        self._pending = deque[Reading]()
        """The newest readings, which may be of the next epoch."""
        self.stall_limit_us: float | None = None
        """From when on a batch stalls; None before that is known."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._begin = 0
        """Readings of before then are of no epoch that goes on."""
        self._means = Means()
        self._batches: dict[str, float] = {}
        """Sums of what batches say, by name; times in microseconds."""

    def fold_reading(self, reading: Reading) -> None:
        self._pending.append(reading)
        if len(self._pending) > _PENDING:
            oldest = self._pending.popleft()
            if oldest.lies_in(self._begin, oldest.end):
                self._means.add(oldest.values)

    def fold_batches(
        self, record: Batches | BatchSummary, steady: SteadyState, compiled: int = 0
    ) -> None:
        """Take batches, which `steady` has folded; so many of them were the first of their size."""
        if record.first == 0:
            self._begin_anew()
        if record.first == 0 or self.stall_limit_us is None:
            # Once an epoch: what is usual takes long to find, and changes little.
            self.stall_limit_us = steady.stall_limit_us()
        if isinstance(record, Batches):
            if record.first == 0:
                self._begin = record.t - (record.dt_us[0] + (record.opening_us or 0)) * 1000
            if record.opening_us is not None:
                self._add(OPENING_S, record.opening_us)
            by_themselves: Sequence[int] = record.dt_us
            if steady.regular.every is not None:
                first = steady.batches - len(record.dt_us)
                by_themselves = [
                    us
                    for number, us in enumerate(record.dt_us, first)
                    if not steady.regular.period_at(number)
                ]
            self._add_batches(by_themselves, record.wait_us, compiled)
            if compiled and record.epoch > 0:
                self._add_compiled(steady, compiled)
        else:
            self._add_batches(record.step_us[-1:] if record.stalls == 1 else (), record.wait_us, 0)

    def fold_plain(self, waits_us: Sequence[int | None]) -> None:
        """Take plain batches: how long those of each record waited, where that was measured."""
        known_us = [waited_us for waited_us in waits_us if waited_us is not None]
        if known_us:
            self._add(WAITED_S, sum(known_us))
        self._add(STALLS, 0)
        self._add(STALLED_S, 0)

    def _add_batches(self, dt_us: Sequence[int], wait_us: int | None, compiled: int) -> None:
        """Take what stalled of batches, and what waited for data; what did both waited."""
        stalls = self._stalls_among(dt_us, compiled)
        waited_us = 0
        if wait_us is not None:
            # A wait in what compiles, as for loaders that start, is in the time for that.
            compiled_us = sum(heapq.nlargest(compiled, dt_us)) if compiled else 0
            waited_us = max(0, wait_us - compiled_us)
            self._add(WAITED_S, waited_us)
        if stalls is not None:
            self._add(STALLS, len(stalls))
            self._add(STALLED_S, max(0, sum(stalls) - waited_us))

    def _add_compiled(self, steady: SteadyState, count: int) -> None:
        usual_us = steady.usual_step_us
        if usual_us is not None:
            firsts = steady.first_batches[-count:]
            beyond_us = sum(max(0.0, took_us - usual_us * steps) for took_us, steps in firsts)
            self._add(COMPILED_S, beyond_us)

    def _stalls_among(self, dt_us: Sequence[int], compiled: int) -> list[int] | None:
        """Return the batches that stalled; None where it isn't known what is usual."""
        limit_us = self.stall_limit_us
        if limit_us is None or not dt_us:
            return None
        if max(dt_us) <= limit_us:
            return []
        stalls = sorted(us for us in dt_us if us > limit_us)
        # What compiles takes the longest.
        return stalls[: max(0, len(stalls) - compiled)]

    def _add(self, name: str, value: float) -> None:
        self._batches[name] = self._batches.get(name, 0) + value

    def fold_epoch(self, epoch: Epoch) -> None:
        """Take an epoch that has ended; one that comes again has what it had."""
        if epoch.begin in self.ended:
            return
        for reading in self._pending:
            if reading.lies_in(epoch.begin, epoch.end):
                self._means.add(reading.values)
        self._pending = deque(reading for reading in self._pending if reading.end > epoch.end)
        of_batches = self._batches.items()
        sums = {name: value if name == STALLS else value / 1e6 for name, value in of_batches}
        self.ended[epoch.begin] = EpochUse(self._means.readings, self._means.by_name | sums)
        while len(self.ended) > MAX_EPOCHS:
            del self.ended[next(iter(self.ended))]
        self._begin_anew()

    def of(self, epoch: Epoch) -> EpochUse:
        return self.ended.get(epoch.begin, NOTHING)
