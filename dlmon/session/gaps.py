"""Stalls and gaps: times of over a second without a batch, and what was done meanwhile.

Pure. A reading of the machine stands for the time since the one before it, and counts for a gap
only where that time lies in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import Any

from dlmon.records import Alert, Batches, BatchSummary, NamedPause, Notice, ProcessStack, Stack
from dlmon.records.record import record
from dlmon.session.limits.run_samples import settled_after_ns
from dlmon.session.readings import MachineReading, Means
from dlmon.statistics.steady_state import STALL_FACTOR, SteadyState

MIN_GAP_NS = 1_000_000_000
# At most this many gaps are kept: the longest.
MAX_GAPS = 1000
NEWEST_PAUSES = 16
"""A pause that goes on is looked for among so many of the newest."""
# At most this many readings are kept, for a gap that may have begun with the oldest.
MAX_READINGS = 600
# What is said as a gap ends may be a little later: times of batches are whole microseconds.
NOTICE_LATE_NS = 1_000_000


class GapKind(str, Enum):
    """What was without a batch."""

    STALL = "stall"
    """One step, or one execution of several."""
    BETWEEN_STEPS = "between_steps"
    """The same, where it comes every so many steps, as with an evaluation in it."""
    OPENING = "opening"
    """The start of an epoch."""
    BETWEEN = "between"
    """What lies between an epoch, or the evaluation, and what follows it."""
    NAMED = "named"
    """What a framework did, where that lies in no other: within validation, or a first batch."""


_MEANWHILE = (
    *("cpu_pct", "busy_cores", "run_cores", "disk_mib_s", "swap_mib_s", "stopped_pct"),
    *("steal_pct", "cpu_wait_pct", "memory_wait_pct", "io_wait_pct", "run_cpu_wait_pct"),
)
"""What of the machine is kept of a gap."""


@record(frozen=True)
class Gap:
    """A time of over a second without a batch.

    Attributes:
        start: when it began.
        end: when it ended.
        kind: what it was.
        epoch: the epoch, from 0, that it is in, opens or follows; None where none is known.
        step: the index in that epoch, or in a loop without epochs, of the batch that took so long.
        steps: how many batches ended together.
        before: the phase that follows what lies between.
        meanwhile: the means of what the machine did, by name; the share of time in which the run's
            thread waited for a CPU is read so seldom that it is known of long gaps alone. None
            where no reading lies within the gap.
        number: that of the batch among all of its loop, from 0.
        every: every how many steps there is one of these; None where it is by itself.
        loop: the place of that loop among those that are unlike.
    """

    start: int
    end: int
    kind: GapKind
    epoch: int | None = None
    step: int | None = None
    steps: int = 1
    before: str = ""
    meanwhile: Mapping[str, float] | None = None
    number: int | None = None
    every: int | None = None
    loop: int = 0

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def _is_part(gap: Gap, of: Gap) -> bool:
    return gap.kind is of.kind and of.start <= gap.start and gap.end <= of.end


class Gaps:
    """Collects the gaps of a session, and the readings of its machine that lie in them."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.has_epochs = True
        """Whether what trains has epochs: a gap is in none of a loop without."""
        self._settled_ns = settled_after_ns(int(interval_s * 1e9))
        self._readings = deque[MachineReading](maxlen=MAX_READINGS)
        self._gaps: list[Gap] = []
        self._last: Gap | None = None
        """The newest, be it ever so short: what comes next may be its other part."""
        self.batch_sizes: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the readings: who goes on from an index reads the newest again."""
        return vars(self) | {"_readings": deque(maxlen=MAX_READINGS)}

    def add(self, gap: Gap) -> Gap:
        """Take a time without a batch; a short one is left out, but for one that goes on.

        Return it with what is known of it.
        """
        before = self._last
        is_between = gap.kind is GapKind.BETWEEN
        if is_between and before and (before.kind, before.end) == (gap.kind, gap.start):
            # What lies between two passes may come in pieces.
            gap = replace(gap, start=before.start)
            if self._gaps and self._gaps[-1].start == gap.start:
                self._gaps.pop()
        gap = self.explained(gap if self.has_epochs else replace(gap, epoch=None))
        if gap.kind is not GapKind.NAMED:
            self._last = gap
        else:
            # Of one that goes on, what came of it so far is part of it.
            newest = self._gaps[-NEWEST_PAUSES:]
            self._gaps[-NEWEST_PAUSES:] = [each for each in newest if not _is_part(each, gap)]
        if gap.end - gap.start >= MIN_GAP_NS:
            self._gaps.append(gap)
        if len(self._gaps) >= 2 * MAX_GAPS:
            # Not for each one: there may be hundreds of thousands.
            self._gaps = self._longest()
        return gap

    def add_batches(
        self, record: Batches | BatchSummary, steady: SteadyState, loop: int = 0
    ) -> list[Gap]:
        """Take the batches that stalled for over a second, and return them.

        The first of each size compiles. `steady` has folded the batches before these of their loop.
        """
        if isinstance(record, BatchSummary):
            longest_ns = record.step_us[-1] * 1000
            if record.stalls and longest_ns >= MIN_GAP_NS:
                # Nothing else is known of it: it stands as if it were the last of them.
                span = record.t_last - longest_ns, record.t_last
                return [self.add(Gap(*span, GapKind.STALL, record.epoch, record.first, loop=loop))]
            return []
        if steady.is_at_start:
            self.batch_sizes = set()
        sizes = set(record.counted)
        new, self.batch_sizes = sizes - self.batch_sizes, self.batch_sizes | sizes
        together = record.per_execution or 1
        found: list[Gap] = []
        if max(record.dt_us) * together * 1000 < MIN_GAP_NS:
            return found
        limit_ns = max(MIN_GAP_NS, together * _stall_limit_ns(steady.usual_step_us))
        end = record.begin
        for first in range(0, len(record.dt_us), together):
            took_us = record.dt_us[first : first + together]
            start, end = end, end + sum(took_us) * 1000
            compiles = new.intersection(record.counted[first : first + together])
            new -= compiles
            if not compiles and end - start >= limit_ns:
                place = GapKind.STALL, record.epoch, record.first + first, len(took_us)
                gap = Gap(start, end, *place, number=steady.batches + first, loop=loop)
                found.append(self.add(gap))
        return found

    def fold_reading(self, reading: MachineReading) -> None:
        self._readings.append(reading)
        # What is known of batches may come before the reading of the same time.
        for number in range(len(self._gaps) - 1, -1, -1):
            if self._gaps[number].end <= reading.start:
                break
            self._gaps[number] = self.explained(self._gaps[number])

    def found(self, loops: Sequence[SteadyState]) -> tuple[Gap, ...]:
        """Return the gaps so far, in order; `loops` have folded the batches and know the usual.

        Steps stall from ten times the usual one of their loop on, but for those that come
        regularly.
        """
        limits_ns = [_stall_limit_ns(steady.usual_step_us) for steady in loops]
        found = [
            _between_steps(gap, loops)
            for gap in self._longest()
            if gap.kind is not GapKind.STALL
            or gap.loop >= len(loops)
            or gap.end - gap.start > gap.steps * limits_ns[gap.loop]
        ]
        found.sort(key=lambda gap: gap.start)
        others = [gap for gap in found if gap.kind is not GapKind.NAMED]
        starts = [gap.start for gap in others]

        def is_in_another(gap: Gap) -> bool:
            at = bisect_left(starts, gap.end) - 1
            return at >= 0 and others[at].end > gap.start

        return tuple(g for g in found if g.kind is not GapKind.NAMED or not is_in_another(g))

    def _longest(self) -> list[Gap]:
        """Return the longest of the gaps, in the order in which they came."""
        if len(self._gaps) <= MAX_GAPS:
            return self._gaps
        by_length = sorted(self._gaps, key=lambda gap: gap.start - gap.end)
        return sorted(by_length[:MAX_GAPS], key=lambda gap: gap.end)

    def explained(self, gap: Gap) -> Gap:
        """Return a gap with the mean of the readings that lie in it."""
        ended_in = takewhile(lambda reading: reading.end > gap.start, reversed(self._readings))
        within = [reading for reading in ended_in if reading.lies_in(gap.start, gap.end)]
        if not within:
            return gap
        whole = Means(one for one in within if one.end - gap.start >= self._settled_ns).by_name
        means = {**Means(within).by_name, "run_cpu_wait_pct": whole.get("run_cpu_wait_pct")}
        known = {name: value for name in _MEANWHILE if (value := means.get(name)) is not None}
        return replace(gap, meanwhile=known)


def _between_steps(gap: Gap, loops: Sequence[SteadyState]) -> Gap:
    if gap.number is None or gap.loop >= len(loops):
        return gap
    every = loops[gap.loop].regular.period_at(gap.number)
    return gap if every is None else replace(gap, kind=GapKind.BETWEEN_STEPS, every=every)


def notices_in(gap: Gap, notices: Iterable[Notice | Alert]) -> tuple[str, ...]:
    """Return what was said in a gap, or as it ended: it may say why there was no batch."""
    return tuple(
        notice.text
        for notice in notices
        if isinstance(notice, Notice) and gap.start < notice.t - NOTICE_LATE_NS <= gap.end
    )


def pauses_in(gap: Gap, pauses: Iterable[NamedPause]) -> tuple[NamedPause, ...]:
    """Return what a framework did in a gap."""
    return tuple(pause for pause in pauses if pause.t < gap.end and pause.end > gap.start)


def _stall_limit_ns(usual_us: float | None) -> float:
    return STALL_FACTOR * (usual_us or 0.0) * 1000


# A pause of ten seconds has five records, of which the last counts.
MOST = 4000


class Stacks:
    """Collects the stacks of pauses, and those of all processes at once."""

    def __init__(self) -> None:
        self._of_pauses: deque[Stack] = deque(maxlen=MOST)
        self._going_on: dict[int, Stack] = {}
        self._of_processes: dict[int, ProcessStack] = {}

    def fold(self, record: Stack | ProcessStack) -> None:
        """Take a record; the last one of a pause counts, and of questions the last one."""
        if isinstance(record, ProcessStack):
            if any(each.request != record.request for each in self._of_processes.values()):
                self._of_processes = {}
            self._of_processes[record.pid] = record
            return
        number = record.trainer or 0
        if record.goes_on:
            self._going_on[number] = record
            return
        self._going_on.pop(number, None)
        of_process = (s for s in reversed(self._of_pauses) if s.trainer == record.trainer)
        before = next(of_process, None)
        if before is not None and before.begin == record.begin:
            self._of_pauses.remove(before)
        self._of_pauses.append(record)

    def went_on(self, number: int, t: int) -> None:
        """Note that a batch of a process ended: a pause that was seen before is over.

        What was seen last of it counts until its last record comes, for which a process that ends
        at once may have no time.
        """
        last = self._going_on.get(number)
        if last is not None and last.t < t:
            self.ended(number)

    def ended(self, number: int) -> Stack | None:
        """Note that a process has ended; return the pause in which it did, as it was seen last."""
        last = self._going_on.pop(number, None)
        if last is not None:
            self._of_pauses.append(last)
        return last

    @property
    def going_on(self) -> Stack | None:
        """The pause that goes on of the process that is shown in full."""
        return self._going_on.get(0)

    @property
    def of_pauses(self) -> tuple[Stack, ...]:
        """Those of pauses, in the order in which they ended; at last those that go on."""
        return (*self._of_pauses, *self._going_on.values())

    @property
    def of_processes(self) -> tuple[ProcessStack, ...]:
        """What each process was doing when they were asked last: by rank, then by process id."""
        return in_order(self._of_processes.values())


def stacks_in(start: int, end: int, stacks: tuple[Stack, ...]) -> list[Stack]:
    """Return those that were seen for the greater part of a time, of its first process first."""
    within = [s for s in stacks if min(s.t, end) - max(s.begin, start) > (s.t - s.begin) / 2]
    return sorted(within, key=lambda stack: (stack.trainer or 0, stack.begin - stack.t))


def in_order(stacks: Iterable[ProcessStack]) -> tuple[ProcessStack, ...]:
    """Return stacks of processes by rank, then by process id; those that load data at last."""

    def place_of(stack: ProcessStack) -> tuple[bool, int, int]:
        return stack.worker is not None, stack.rank or 0, stack.pid

    return tuple(sorted(stacks, key=place_of))
