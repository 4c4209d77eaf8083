"""What the machine and the batches of each epoch did: means by which epochs are compared. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dlmon.records import Batches, BatchSummary, Epoch
from dlmon.session.readings import Means, Reading
from dlmon.statistics.steady_state import SteadyState

MAX_EPOCHS = 2000
"""Of so many, the newest, it is kept."""
# A record of batches may come so many readings after what it reports.
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
        self._stall_limit_us: float | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._means = Means()
        self._batches: dict[str, float] = {}

    def fold_reading(self, reading: Reading) -> None:
        self._pending.append(reading)
        if len(self._pending) > _PENDING:
            self._means.add(self._pending.popleft().values)

    def fold_batches(
        self, record: Batches | BatchSummary, steady: SteadyState, compiled: int = 0
    ) -> None:
        """Take batches, which `steady` has folded; so many of them were the first of their size."""
        if record.first == 0:
            self._begin_anew()
        if record.first == 0 or self._stall_limit_us is None:
            # Once an epoch: what is usual takes long to find, and changes little.
            self._stall_limit_us = steady.stall_limit_us()
        if isinstance(record, Batches):
            if record.first == 0:
                self._forget_before(record.t - (record.dt_us[0] + (record.opening_us or 0)) * 1000)
            if record.opening_us is not None:
                self._add(OPENING_S, record.opening_us / 1e6)
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

    def _add_batches(self, dt_us: Sequence[int], wait_us: int | None, compiled: int) -> None:
        """Take what stalled of batches, and what waited for data; what did both waited."""
        stalls = self._stalls_among(dt_us, compiled)
        waited_us = 0
        if wait_us is not None:
            # A wait in what compiles, as for loaders that start, is in the time for that.
            waited_us = max(0, wait_us - sum(heapq.nlargest(compiled, dt_us)))
            self._add(WAITED_S, waited_us / 1e6)
        if stalls is not None:
            self._add(STALLS, len(stalls))
            self._add(STALLED_S, max(0, sum(stalls) - waited_us) / 1e6)

    def _add_compiled(self, steady: SteadyState, count: int) -> None:
        usual_us = steady.usual_step_us
        if usual_us is not None:
            firsts = steady.first_batches[-count:]
            beyond_us = sum(max(0.0, took_us - usual_us * steps) for took_us, steps in firsts)
            self._add(COMPILED_S, beyond_us / 1e6)

    def _stalls_among(self, dt_us: Sequence[int], compiled: int) -> list[int] | None:
        """Return the batches that stalled; None where it isn't known what is usual."""
        limit_us = self._stall_limit_us
        if limit_us is None or not dt_us:
            return None
        if max(dt_us) <= limit_us:
            return []
        stalls = sorted(us for us in dt_us if us > limit_us)
        # What compiles takes the longest.
        return stalls[: max(0, len(stalls) - compiled)]

    def _add(self, name: str, value: float) -> None:
        self._batches[name] = self._batches.get(name, 0.0) + value

    def _forget_before(self, begin: int) -> None:
        """Forget the readings of what came before an epoch."""
        while self._pending and self._pending[0].start < begin:
            reading = self._pending[0]
            if reading.lies_in(begin, reading.end):
                break
            self._pending.popleft()

    def fold_epoch(self, epoch: Epoch) -> None:
        """Take an epoch that has ended; one that comes again has what it had."""
        if epoch.begin in self.ended:
            return
        while self._pending and self._pending[0].start < epoch.end:
            reading = self._pending[0]
            is_within = reading.lies_in(epoch.begin, epoch.end)
            if not is_within and reading.end > epoch.end:
                break
            self._pending.popleft()
            if is_within:
                self._means.add(reading.values)
        self.ended[epoch.begin] = EpochUse(
            self._means.readings, self._means.by_name | self._batches
        )
        while len(self.ended) > MAX_EPOCHS:
            del self.ended[next(iter(self.ended))]
        self._begin_anew()

    def of(self, epoch: Epoch) -> EpochUse:
        return self.ended.get(epoch.begin, NOTHING)
