"""Slow epochs, and their differences from the others. Pure.

An epoch is slow if it lies above the median by more than several times the median deviation, and
by a noticeable share; a few other slow epochs can't hide it. Each quantity is judged by the same
rule; one that wasn't measured doesn't differ. The statistics of each epoch are collected as its
batches and readings come.
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
from dlmon.session.readings import MachineReading, Means
from dlmon.statistics.steady_state import MAD_TO_SIGMA, STALL_FACTOR, SteadyState

MIN_EPOCHS = 3
"""With fewer comparable epochs it isn't known which are the usual ones."""
FEW_EPOCHS, SLOW_OF_FEW = 3, 1.5
"""With three epochs, one is slow if it takes this many times as long as each of the others."""
SPREADS = 4.0
LEAST_SHARE = 0.05
# A part of an epoch counts from these shares of the excess and of the epoch on. In a slow epoch
# smaller parts count too: its excess isn't chance.
_SHARES, _SHARES_IN_SLOW = (0.2, 0.02), (0.05, 0.01)
MIN_READINGS = 2
MOST_PARTS = 3
MOST_CAUSES = 4

COMPILING_S, VALIDATION_S, ENDING_S, STEPS_S = "compiling_s", "validation_s", "ending_s", "steps_s"

# The least difference of a reading that is named. In `_LEAST_DROPS` it is a share.
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
_LEAST_DROPS = {"sm_mhz": 0.03, "gpu_pct": 0.1}
# The CPU use of a run varies much: it was clearly lower if it was below this share of the least of
# all other epochs, and by this many cores below the usual.
_IDLE_SHARE, _IDLE_CORES = 0.5, 0.1


class Usual(NamedTuple):
    """The median of a quantity, and its usual deviation."""

    value: float
    spread: float

    def is_exceeded(self, value: float, least: float) -> bool:
        """Return whether a value is clearly greater: beyond the spread, and by `least` or more."""
        return value - self.value > max(SPREADS * self.spread, least)


@record(frozen=True)
class EpochDifference:
    """A quantity that differed: its value, its usual value, and the number of its parts."""

    name: str
    value: float
    usual: float
    count: int = 0


@record(frozen=True)
class EpochComparison:
    """An epoch compared with the others.

    Attributes:
        seconds: its time.
        usual_s: the median of the others; None if they are too few.
        is_slow: whether it is clearly slower.
        parts: the parts that took longer than usual, the largest excess first.
        causes: the readings of the machine that differed.
        is_read: whether the machine was read often enough, in this epoch and in others, to say
            that nothing differed.
        rest_s: the excess of all other parts, which may be below 0; 0 if it is small.
    """

    epoch: Epoch
    seconds: float
    usual_s: float | None
    is_slow: bool
    parts: tuple[EpochDifference, ...] = ()
    causes: tuple[EpochDifference, ...] = ()
    is_read: bool = False
    rest_s: float = 0.0


def seconds_of(epoch: Epoch) -> float:
    """Return the time of an epoch, with its validation."""
    return max(0, epoch.end - epoch.begin) / 1e9


def slow_epochs(
    epochs: Sequence[Epoch],
    statistics_of: Callable[[Epoch], EpochStatistics],
    compile_s: float | None,
) -> frozenset[int]:
    """Return the begin times of the epochs that are clearly slower than the others.

    Compilation doesn't count: it always makes the first epoch longer.
    """
    took = _comparable_s(epochs, _compiled_s(epochs, statistics_of, compile_s))
    if len(took) == FEW_EPOCHS:
        *shorter, longest = sorted(took, key=lambda begin: took[begin])
        is_slow = took[longest] > SLOW_OF_FEW * max(took[begin] for begin in shorter) > 0
        return frozenset((longest,) if is_slow else ())
    usual = _usual(list(took.values()), MIN_EPOCHS)
    if usual is None or usual.value <= 0:
        return frozenset()
    least_s = LEAST_SHARE * usual.value
    return frozenset(b for b, seconds in took.items() if usual.is_exceeded(seconds, least_s))


def compare_epoch(
    epoch: Epoch,
    epochs: Sequence[Epoch],
    statistics_of: Callable[[Epoch], EpochStatistics],
    compile_s: float | None,
    validation_compile_s: float = 0.0,
) -> EpochComparison:
    """Compare an epoch with the others of its loop.

    Args:
        epoch: one of `epochs`.
        epochs: all of its loop that have ended.
        statistics_of: gives the statistics of an epoch.
        compile_s: the compile time of all epochs; None if the first of them doesn't compile.
        validation_compile_s: the part of it in the validation of the first epoch.
    """
    seconds = seconds_of(epoch)
    compiled = _compiled_s(epochs, statistics_of, compile_s)
    took = _comparable_s(epochs, compiled)
    peers = [peer for peer in epochs if peer.begin in took and peer.begin != epoch.begin]
    if len(peers) + 1 < MIN_EPOCHS or epoch.begin not in took:
        return EpochComparison(epoch, seconds, None, False)
    compiled_s = compiled.get(epoch.begin, 0.0)
    usual_s = median(took[peer.begin] for peer in peers)
    excess_s = max(0.0, seconds - usual_s)
    is_slow = epoch.begin in slow_epochs(epochs, statistics_of, compile_s)
    statistics = statistics_of(epoch)
    peer_statistics = [statistics_of(peer) for peer in peers]
    of_excess, of_epoch = _SHARES_IN_SLOW if is_slow else _SHARES
    least_s = max(of_excess * excess_s, of_epoch * usual_s)
    parts = [] if compiled_s < least_s else [EpochDifference(COMPILING_S, compiled_s, 0.0)]

    def parts_of(epoch: Epoch, statistics: EpochStatistics) -> dict[str, float]:
        total_s = compiled.get(epoch.begin, 0.0)
        is_first = epoch.begin == epochs[0].begin
        validation_s = min(validation_compile_s, total_s) if is_first else 0.0
        return _parts_s(epoch, statistics, total_s - validation_s, validation_s)

    peer_parts = list(map(parts_of, peers, peer_statistics))
    for name, part_s in parts_of(epoch, statistics).items():
        usual = _usual([part[name] for part in peer_parts if name in part])
        if usual is None:
            continue
        if is_slow:
            usual = usual._replace(spread=0.0)
        if usual.is_exceeded(part_s, least_s):
            count = round(statistics.values.get(STALLS, 0)) if name == STALLED_S else 0
            parts.append(EpochDifference(name, part_s, usual.value, count))
    parts.sort(key=lambda part: part.usual - part.value)
    parts = parts[:MOST_PARTS]
    rest_s = seconds - usual_s - sum(part.value - part.usual for part in parts)
    return EpochComparison(
        epoch,
        seconds,
        usual_s,
        is_slow,
        tuple(parts),
        tuple(_causes(statistics, peer_statistics)[:MOST_CAUSES]),
        statistics.readings >= MIN_READINGS
        and sum(peer.readings > 0 for peer in peer_statistics) >= MIN_EPOCHS - 1,
        rest_s if parts and abs(rest_s) >= least_s else 0.0,
    )


def _parts_s(
    epoch: Epoch, statistics: EpochStatistics, compiled_s: float, validation_compiled_s: float
) -> dict[str, float]:
    """Return the time of an epoch by its parts, without compilation.

    Training that is in no other part is steps.
    """
    names = (STALLED_S, OPENING_S, WAITED_S)
    parts = {name: statistics.values[name] for name in names if name in statistics.values}
    train_s = (epoch.train_end - epoch.begin) / 1e9
    steps_s = train_s - compiled_s - sum(parts.values())
    trained_until = epoch.train_end
    if epoch.validation is not None:
        parts[VALIDATION_S] = epoch.validation.took_s - validation_compiled_s
        trained_until = epoch.validation.end
    parts[ENDING_S] = (epoch.end - trained_until) / 1e9
    parts[STEPS_S] = steps_s
    if not _are_stalls(statistics, epoch.steps, parts):
        parts[STEPS_S] += parts[STALLED_S]
        parts[STALLED_S] = 0.0
    return {name: max(0.0, part_s) for name, part_s in parts.items()}


def _are_stalls(statistics: EpochStatistics, steps: int | None, parts: Mapping[str, float]) -> bool:
    """Return whether the stalls are long beside the other steps of the epoch, not only of the run.

    If all steps of an epoch are slow, some take over ten times the median of the run.
    """
    stalls = statistics.values.get(STALLS, 0)
    if not stalls or steps is None or STALLED_S not in parts:
        return True
    other_steps = steps - stalls
    if other_steps < stalls:
        return False
    return parts[STALLED_S] / stalls > STALL_FACTOR * parts[STEPS_S] / other_steps


def _causes(statistics: EpochStatistics, peers: Sequence[EpochStatistics]) -> list[EpochDifference]:
    if statistics.readings < MIN_READINGS:
        return []
    causes = []
    for name, least in {**_LEAST, **_LEAST_DROPS}.items():
        value = statistics.values.get(name)
        peer_values = [peer.values[name] for peer in peers if name in peer.values]
        usual = _usual(peer_values)
        if value is None or usual is None:
            continue
        if name in _LEAST:
            differs = usual.is_exceeded(value, least)
            if name == RUN_CORES and value < _IDLE_SHARE * min(peer_values):
                differs = differs or usual.value - value >= _IDLE_CORES
        else:
            negative = Usual(-usual.value, usual.spread)
            differs = negative.is_exceeded(-value, least * usual.value)
        if differs:
            causes.append(EpochDifference(name, value, usual.value))
    return causes


def _comparable_s(epochs: Sequence[Epoch], compiled_s: Mapping[int, float]) -> dict[int, float]:
    """Return the time of each whole epoch without compilation, by its begin time.

    Those that a profiler slowed are left out.

    If all epochs are capped (`--steps`), those with the most steps are comparable.
    """
    epochs = [epoch for epoch in epochs if not epoch.profiled]
    comparable = [epoch for epoch in epochs if epoch.whole]
    if not comparable:
        most = max((epoch.steps or 0 for epoch in epochs), default=0)
        comparable = [epoch for epoch in epochs if epoch.steps and epoch.steps == most]
    return {
        epoch.begin: seconds_of(epoch) - compiled_s.get(epoch.begin, 0.0)
        for epoch in comparable
        if epoch.end > epoch.begin
    }


def _compiled_s(
    epochs: Sequence[Epoch],
    statistics_of: Callable[[Epoch], EpochStatistics],
    compile_s: float | None,
) -> dict[int, float]:
    """Return the compile time of epochs by begin time; the first has what is in no other one."""
    compiled_s = {}
    for epoch in epochs:
        later_s = statistics_of(epoch).values.get(COMPILED_S)
        if later_s:
            compiled_s[epoch.begin] = min(later_s, seconds_of(epoch))
    if epochs and compile_s:
        first, rest_s = epochs[0], compile_s - sum(compiled_s.values())
        compiled_s[first.begin] = min(max(0.0, rest_s), seconds_of(first))
    return compiled_s


def _usual(values: Sequence[float], least: int = MIN_EPOCHS - 1) -> Usual | None:
    """Return the median and the usual deviation from it; None if the values are too few."""
    if len(values) < least:
        return None
    middle = median(values)
    return Usual(middle, MAD_TO_SIGMA * median(abs(value - middle) for value in values))


MAX_EPOCHS = 2000
"""At most this many of the newest epochs are kept."""
# Readings that may come between batches and their record.
_PENDING = 16

STALLS, STALLED_S, OPENING_S, WAITED_S = "stalls", "stalled_s", "opening_s", "waited_s"
COMPILED_S = "compiled_s"
"""The compile time of an epoch after the first, as for batches of another size."""


class EpochStatistics(NamedTuple):
    """The batches and readings of one epoch.

    Attributes:
        readings: the number of readings of the machine.
        values: sums over its batches (stalls, seconds that stalled or waited for data) and means
            of its readings, as far as measured. A stall that waited for data is only in the wait.
    """

    readings: int
    values: Mapping[str, float]


NO_STATISTICS = EpochStatistics(0, {})


class EpochHistory:
    """The statistics of epochs, from readings and batches as they come."""

    def __init__(self) -> None:
        self.ended: dict[int, EpochStatistics] = {}
        """Ended epochs by their begin time, oldest first."""
        self._pending = deque[MachineReading]()
        """The newest readings, which may be of the next epoch."""
        self.stall_limit_us: float | None = None
        """A batch longer than this stalls; None before it is known."""
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._begin = 0
        """Earlier readings are not of this epoch."""
        self._means = Means()
        self._batches: dict[str, float] = {}
        """Sums over batches, by name; times in microseconds."""

    def add_reading(self, reading: MachineReading) -> None:
        self._pending.append(reading)
        if len(self._pending) > _PENDING:
            oldest = self._pending.popleft()
            if oldest.lies_in(self._begin, oldest.end):
                self._means.add(oldest.values)

    def add_batches(
        self, record: Batches | BatchSummary, steady: SteadyState, compiled: int = 0
    ) -> None:
        """Add batches.

        Args:
            record: the batches.
            steady: the steady state, with these batches.
            compiled: the number of these batches that were the first of their size.
        """
        if record.first == 0:
            self._begin_epoch()
        if record.first == 0 or self.stall_limit_us is None:
            # Once an epoch: the median is slow to compute, and changes little.
            self.stall_limit_us = steady.stall_limit_us()
        if isinstance(record, Batches):
            if record.first == 0:
                self._begin = record.t - (record.dt_us[0] + (record.opening_us or 0)) * 1000
            if record.opening_us is not None:
                self._add(OPENING_S, record.opening_us)
            irregular: Sequence[int] = record.dt_us
            if steady.regular.every is not None:
                first = steady.batches - len(record.dt_us)
                irregular = [
                    us
                    for number, us in enumerate(record.dt_us, first)
                    if not steady.regular.period_at(number)
                ]
            self._add_times(irregular, record.wait_us, compiled)
            if compiled and record.epoch > 0:
                self._add_compiled(steady, compiled)
        else:
            self._add_times(record.step_us[-1:] if record.stalls == 1 else (), record.wait_us, 0)

    def add_plain(self, waits_us: Sequence[int | None]) -> None:
        """Add plain batches by their waits for data, record by record; None if not measured."""
        measured_us = [wait_us for wait_us in waits_us if wait_us is not None]
        if measured_us:
            self._add(WAITED_S, sum(measured_us))
        self._add(STALLS, 0)
        self._add(STALLED_S, 0)

    def _add_times(self, dt_us: Sequence[int], wait_us: int | None, compiled: int) -> None:
        """Add the stalls among batches and their wait for data; a stall that waited is a wait."""
        stalls = self._stalls_among(dt_us, compiled)
        waited_us = 0
        if wait_us is not None:
            # A wait in a batch that compiles, as for loader processes to start, is compile time.
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
        """Return the times of batches that stalled; None if the limit isn't known."""
        limit_us = self.stall_limit_us
        if limit_us is None or not dt_us:
            return None
        if max(dt_us) <= limit_us:
            return []
        stalls = sorted(us for us in dt_us if us > limit_us)
        # The longest ones compiled.
        return stalls[: max(0, len(stalls) - compiled)]

    def _add(self, name: str, value: float) -> None:
        self._batches[name] = self._batches.get(name, 0) + value

    def add_epoch(self, epoch: Epoch) -> None:
        """Add an epoch that has ended; one that is reported again keeps its statistics."""
        if epoch.begin in self.ended:
            return
        for reading in self._pending:
            if reading.lies_in(epoch.begin, epoch.end):
                self._means.add(reading.values)
        self._pending = deque(reading for reading in self._pending if reading.end > epoch.end)
        sums = {
            name: value if name == STALLS else value / 1e6 for name, value in self._batches.items()
        }
        self.ended[epoch.begin] = EpochStatistics(self._means.readings, self._means.by_name | sums)
        while len(self.ended) > MAX_EPOCHS:
            del self.ended[next(iter(self.ended))]
        self._begin_epoch()

    def of(self, epoch: Epoch) -> EpochStatistics:
        return self.ended.get(epoch.begin, NO_STATISTICS)
