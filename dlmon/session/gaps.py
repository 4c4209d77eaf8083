"""Stalls and gaps: times of over a second without a batch, with readings and stacks.

A reading of the machine covers the time since the previous one, and counts for a gap only if that
time lies within it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import Any

from dlmon.records import (
    Alert,
    Batches,
    BatchSummary,
    Model,
    NamedPause,
    Notice,
    ProcessStack,
    SourceLines,
    Stack,
)
from dlmon.records.record import record
from dlmon.session.limits.run_samples import settled_after_ns
from dlmon.session.readings import MachineReading, Means
from dlmon.statistics.steady_state import STALL_FACTOR, SteadyState

MIN_GAP_NS = 1_000_000_000
# At most this many gaps are kept: the longest.
MAX_GAPS = 1000
STANDS_STILL_NS = 30_000_000_000
"""Own code between steps is taken to hang if it is at one line for this time."""
_AT_ONE_LINE = 0.95
NEWEST_PAUSES, MOST_SOURCES = 16, 64
"""Earlier records of a pause are searched for among this many of the newest."""
# Where a process waits for its loader.
_LOADS = re.compile(r"/(?:multiprocessing/|torch/utils/data/|(?:selectors|queue|threading)\.py$)")
# At most this many readings are kept; a gap may have begun with the oldest.
MAX_READINGS = 600
# A notice at the end of a gap may be a little late: times of batches are whole microseconds.
NOTICE_LATE_NS = 1_000_000


class GapKind(str, Enum):
    """The kind of time without a batch."""

    STALL = "stall"
    """One step, or one execution of several."""
    BETWEEN_STEPS = "between_steps"
    """A long step that recurs regularly, such as one with an evaluation."""
    OPENING = "opening"
    """The start of an epoch."""
    BETWEEN = "between"
    """The time between an epoch, or the evaluation, and the next phase."""
    NAMED = "named"
    """A named pause of a framework that lies in no other gap: in validation, or a first batch."""


_MEANWHILE = (
    *("cpu_pct", "busy_cores", "run_cores", "gpu_pct", "disk_mib_s", "swap_mib_s", "stopped_pct"),
    *("steal_pct", "cpu_wait_pct", "memory_wait_pct", "io_wait_pct", "run_cpu_wait_pct"),
)
"""The readings of the machine that are kept for a gap."""


@record(frozen=True)
class Gap:
    """A time of over a second without a batch.

    Attributes:
        start: its start.
        end: its end.
        kind: its kind.
        epoch: the epoch, from 0, that it is in, opens or follows; None if unknown.
        step: the index of its batch in that epoch, or in a loop without epochs.
        steps: the number of batches that ended together.
        before: the phase that follows it.
        meanwhile: the mean readings of the machine, by name; None if none lies within the gap. The
            CPU wait of the run is read rarely, so only long gaps have it.
        number: the index of its batch in its loop, from 0.
        every: the number of steps from one such gap to the next; None if it doesn't recur.
        loop: the index of its loop.
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
    """The gaps of a session, with the readings of its machine that lie in them."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.has_epochs = True
        """False if the loop is known to have no epochs, so gaps have none either."""
        self._settled_ns = settled_after_ns(int(interval_s * 1e9))
        self._readings = deque[MachineReading](maxlen=MAX_READINGS)
        self._gaps: list[Gap] = []
        self._last: Gap | None = None
        """The newest gap, however short: the next one may continue it."""
        self.batch_sizes: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the readings: a reader that resumes from an index reads the newest again."""
        return vars(self) | {"_readings": deque(maxlen=MAX_READINGS)}

    def add(self, gap: Gap) -> Gap:
        """Add a time without a batch unless it is short; return it with its readings.

        A gap between two epochs may come in pieces, which are joined.
        """
        before = self._last
        is_between = gap.kind is GapKind.BETWEEN
        if is_between and before and (before.kind, before.end) == (gap.kind, gap.start):
            gap = replace(gap, start=before.start)
            if self._gaps and self._gaps[-1].start == gap.start:
                self._gaps.pop()
        gap = self.explained(gap if self.has_epochs else replace(gap, epoch=None))
        if gap.kind is not GapKind.NAMED:
            self._last = gap
        else:
            # Earlier records of the same pause cover a part of it.
            newest = self._gaps[-NEWEST_PAUSES:]
            self._gaps[-NEWEST_PAUSES:] = [part for part in newest if not _is_part(part, gap)]
        if gap.end - gap.start >= MIN_GAP_NS:
            self._gaps.append(gap)
        if len(self._gaps) >= 2 * MAX_GAPS:
            # Trimmed rarely: there may be hundreds of thousands of gaps.
            self._gaps = self._longest()
        return gap

    def add_batches(
        self, record: Batches | BatchSummary, steady: SteadyState, loop: int = 0
    ) -> list[Gap]:
        """Add the batches that stalled for over a second, and return them as gaps.

        The first batch of each size compiles, so it isn't one. `steady` has the earlier batches of
        the loop.
        """
        if isinstance(record, BatchSummary):
            longest_ns = record.step_us[-1] * 1000
            if record.stalls and longest_ns >= MIN_GAP_NS:
                # Its position is unknown: it counts as the last batch.
                span = record.t_last - longest_ns, record.t_last
                return [self.add(Gap(*span, GapKind.STALL, record.epoch, record.first, loop=loop))]
            return []
        if steady.is_at_start:
            self.batch_sizes = set()
        sizes = set(record.counted)
        new, self.batch_sizes = sizes - self.batch_sizes, self.batch_sizes | sizes
        per_execution = record.per_execution or 1
        stalls: list[Gap] = []
        if max(record.dt_us) * per_execution * 1000 < MIN_GAP_NS:
            return stalls
        limit_ns = max(MIN_GAP_NS, per_execution * _stall_limit_ns(steady.usual_step_us))
        end = record.begin
        for first in range(0, len(record.dt_us), per_execution):
            step_dt_us = record.dt_us[first : first + per_execution]
            start, end = end, end + sum(step_dt_us) * 1000
            compiles = new.intersection(record.counted[first : first + per_execution])
            new -= compiles
            if not compiles and end - start >= limit_ns:
                position = GapKind.STALL, record.epoch, record.first + first, len(step_dt_us)
                gap = Gap(start, end, *position, number=steady.batches + first, loop=loop)
                stalls.append(self.add(gap))
        return stalls

    def add_reading(self, reading: MachineReading) -> None:
        self._readings.append(reading)
        # Batches may be recorded before the reading of the same time.
        for number in range(len(self._gaps) - 1, -1, -1):
            if self._gaps[number].end <= reading.start:
                break
            self._gaps[number] = self.explained(self._gaps[number])

    def listed(self, loops: Sequence[SteadyState]) -> tuple[Gap, ...]:
        """Return the gaps so far, in order.

        A step is a stall if it takes ten times as long as usual in its loop, unless it recurs
        regularly.
        """
        limits_ns = [_stall_limit_ns(steady.usual_step_us) for steady in loops]
        gaps = [
            _between_steps(gap, loops)
            for gap in self._longest()
            if gap.kind is not GapKind.STALL
            or gap.loop >= len(loops)
            or gap.end - gap.start > gap.steps * limits_ns[gap.loop]
        ]
        gaps.sort(key=lambda gap: gap.start)
        unnamed = [gap for gap in gaps if gap.kind is not GapKind.NAMED]
        starts = [gap.start for gap in unnamed]

        def is_in_another(gap: Gap) -> bool:
            at = bisect_left(starts, gap.end) - 1
            return at >= 0 and unnamed[at].end > gap.start

        return tuple(g for g in gaps if g.kind is not GapKind.NAMED or not is_in_another(g))

    def _longest(self) -> list[Gap]:
        """Return the longest gaps, in the order in which they ended."""
        if len(self._gaps) <= MAX_GAPS:
            return self._gaps
        by_length = sorted(self._gaps, key=lambda gap: gap.start - gap.end)
        return sorted(by_length[:MAX_GAPS], key=lambda gap: gap.end)

    def explained(self, gap: Gap) -> Gap:
        """Return a gap with the means of the readings that lie in it."""
        ended_in = takewhile(lambda reading: reading.end > gap.start, reversed(self._readings))
        within = [reading for reading in ended_in if reading.lies_in(gap.start, gap.end)]
        if not within:
            return gap
        settled = Means(r for r in within if r.end - gap.start >= self._settled_ns).by_name
        means = {**Means(within).by_name, "run_cpu_wait_pct": settled.get("run_cpu_wait_pct")}
        meanwhile = {name: value for name in _MEANWHILE if (value := means.get(name)) is not None}
        return replace(gap, meanwhile=meanwhile)


def _between_steps(gap: Gap, loops: Sequence[SteadyState]) -> Gap:
    if gap.number is None or gap.loop >= len(loops):
        return gap
    every = loops[gap.loop].regular.period_at(gap.number)
    return gap if every is None else replace(gap, kind=GapKind.BETWEEN_STEPS, every=every)


def notices_in(gap: Gap, notices: Iterable[Notice | Alert]) -> tuple[str, ...]:
    """Return the notices in a gap, or at its end: they may say why there was no batch."""
    return tuple(
        notice.text
        for notice in notices
        if isinstance(notice, Notice) and gap.start < notice.t - NOTICE_LATE_NS <= gap.end
    )


def pauses_in(gap: Gap, pauses: Iterable[NamedPause]) -> tuple[NamedPause, ...]:
    """Return the named pauses of a framework in a gap."""
    return tuple(pause for pause in pauses if pause.t < gap.end and pause.end > gap.start)


def _stall_limit_ns(usual_us: float | None) -> float:
    return STALL_FACTOR * (usual_us or 0.0) * 1000


_IDLE_CORES = 0.2
_MOSTLY = 0.9
_DELETES_ITERATOR = (
    ("/keras/src/backend/tensorflow/trainer.py", ("fit", "evaluate", "predict")),
    # All that `fit` held is deleted as it returns.
    ("/keras/src/utils/traceback_utils.py", ("error_handler",)),
)
"""The ends of files of Keras and the functions in which the iterator of an epoch is deleted."""


def takes_down_pipeline(
    stack: Stack, meanwhile: Mapping[str, float] | None, model: Model | None
) -> bool:
    """Return whether TensorFlow takes down the data pipeline of the epoch before in a pause.

    Then the run is idle, nearly always at a line of Keras that deletes its iterator.
    """
    idle = (meanwhile or {}).get("run_cores", _IDLE_CORES) < _IDLE_CORES
    if not idle or not stack.places or model is None or model.backend != "tensorflow":
        return False
    seen, inner = stack.places[0].looks, stack.places[0].inner
    return seen >= _MOSTLY * stack.looks and any(
        inner.file.endswith(file) and inner.function in functions
        for file, functions in _DELETES_ITERATOR
    )


# A pause of ten seconds has five records, of which the last counts.
MOST = 4000


class Stacks:
    """The stacks of pauses, and those of all processes at once."""

    def __init__(self) -> None:
        self._of_pauses: deque[Stack] = deque(maxlen=MOST)
        self._current: dict[int, Stack] = {}
        self._of_processes: dict[int, ProcessStack] = {}
        self.source_lines = deque[SourceLines](maxlen=MOST_SOURCES)
        """The lines of source at which pauses and stacks were."""

    def add(self, record: Stack | ProcessStack) -> None:
        """Add a stack; it replaces the earlier one of its pause, or those of earlier requests."""
        if isinstance(record, ProcessStack):
            if any(stack.request != record.request for stack in self._of_processes.values()):
                self._of_processes = {}
            self._of_processes[record.pid] = record
            return
        number = record.trainer or 0
        if record.goes_on:
            self._current[number] = record
            return
        self._current.pop(number, None)
        of_process = (s for s in reversed(self._of_pauses) if s.trainer == record.trainer)
        before = next(of_process, None)
        if before is not None and before.begin == record.begin:
            self._of_pauses.remove(before)
        self._of_pauses.append(record)

    def end_batch(self, number: int, t: int) -> None:
        """Note the end of a batch, which ends an earlier pause of its process.

        The last stack of the pause is kept until its final record comes, which a process that ends
        at once may not send.
        """
        last = self._current.get(number)
        if last is not None and last.t < t:
            self.end_process(number)

    def end_process(self, number: int) -> Stack | None:
        """Note the end of a process; return the last stack of the pause in which it ended."""
        last = self._current.pop(number, None)
        if last is not None:
            self._of_pauses.append(last)
        return last

    @property
    def current_pause(self) -> Stack | None:
        """The stack of the current pause of the main process."""
        return self._current.get(0)

    def stands_still_since(self, now: int, compiling: bool = False) -> int | None:
        """Return the start of the current pause if the run hangs in it, wherever that is.

        It hangs if it is long and nearly all stack samples are at one line; while the framework
        may be `compiling`, also if it waits for data there.
        """
        stack = self.current_pause
        if stack is None or not stack.places or now - stack.begin < STANDS_STILL_NS:
            return None
        if compiling and not _LOADS.search(stack.places[0].inner.file):
            return None
        return stack.begin if stack.places[0].looks >= _AT_ONE_LINE * stack.looks else None

    def has_pause_at(self, t: int) -> bool:
        """Return whether a time lies in a pause of the process that is shown in full."""
        return any(s.begin < t < s.t for s in self.of_pauses if not s.trainer)

    @property
    def of_pauses(self) -> tuple[Stack, ...]:
        """The stacks of pauses in the order of their ends, then those of current pauses."""
        return (*self._of_pauses, *self._current.values())

    @property
    def of_processes(self) -> tuple[ProcessStack, ...]:
        """The stacks of all processes at the last request, in order."""
        return in_order(self._of_processes.values())


def stacks_in(start: int, end: int, stacks: tuple[Stack, ...]) -> list[Stack]:
    """Return the stacks that lie mostly within a time, those of the main process first."""
    within = [s for s in stacks if min(s.t, end) - max(s.begin, start) > (s.t - s.begin) / 2]
    return sorted(within, key=lambda stack: (stack.trainer or 0, stack.begin - stack.t))


def in_order(stacks: Iterable[ProcessStack]) -> tuple[ProcessStack, ...]:
    """Return stacks by rank, then by process id; those of loader workers come last."""

    def order_of(stack: ProcessStack) -> tuple[bool, int, int]:
        return stack.worker is not None, stack.rank or 0, stack.pid

    return tuple(sorted(stacks, key=order_of))
