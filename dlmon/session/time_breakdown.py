"""The time breakdown of a session: the seconds of each part of its wall time.

Every moment since the start of a session belongs to one part. Each record in turn says what the
time since the previous record was, so the parts add up to the wall time even if a log lacks
records, repeats them or has them in the wrong order. A named pause of a framework, such as a
checkpoint, is moved out of the part in which it lay.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from dlmon.records import (
    CHECKPOINT,
    COMPILE,
    GARBAGE,
    GRADIENTS_PHASE,
    SCRIPT_PHASE,
    Batches,
    BatchSummary,
    CodeSamples,
    Epoch,
    Evaluation,
    Frame,
    NamedPause,
    Phase,
    SeenAt,
    StepParts,
    TimePart,
)
from dlmon.records.record import record
from dlmon.records.training import STEP_PARTS
from dlmon.session.gaps import MIN_GAP_NS, Gap, GapKind, Gaps
from dlmon.session.limits.find import WINDOW_S
from dlmon.session.limits.run_samples import LEAST_FOR_ERROR, summed_parts
from dlmon.session.plain_batches import PlainBatches
from dlmon.statistics.steady_state import STALL_FACTOR, SteadyState

_T = TypeVar("_T")

# Batches are reported a few times a second: a step that is late by less is no stall.
OVERDUE_NS = 2_000_000_000

# All other phases, such as "closing", are gaps between the measured parts.
_PART_OF_PHASE = {
    "importing": TimePart.STARTUP,
    "loading": TimePart.LOADING,
    "building": TimePart.BUILDING,
    "compiling": TimePart.COMPILING,
    "training": TimePart.TRAINING,
    "predicting": TimePart.TRAINING,
    GRADIENTS_PHASE: TimePart.TRAINING,
    "validating": TimePart.VALIDATION,
    "evaluating": TimePart.EVALUATION,
    "opening": TimePart.OPENINGS,
    SCRIPT_PHASE: TimePart.SCRIPT,
}
_PART_OF_PAUSE = {
    CHECKPOINT: TimePart.CHECKPOINT,
    COMPILE: TimePart.COMPILING,
    GARBAGE: TimePart.GARBAGE,
}
# The parts that a pause in a part is moved out of, in this order.
_SOURCES = {
    TimePart.TRAINING: (TimePart.TRAINING, TimePart.STALLS),
    TimePart.STALLS: (TimePart.STALLS, TimePart.BETWEEN_STEPS, TimePart.TRAINING),
    TimePart.BETWEEN_STEPS: (TimePart.BETWEEN_STEPS, TimePart.STALLS, TimePart.TRAINING),
    TimePart.COMPILING: (TimePart.COMPILING, TimePart.TRAINING),
    TimePart.STARTUP: (TimePart.STARTUP, TimePart.SCRIPT),
}
# At most this many pauses wait for the record of the part in which they lay.
MAX_WAITING = 1000
MAX_RECORDS = 4096
# The parts in which a script trains, or begins to.
_TRAINS = (TimePart.COMPILING, TimePart.TRAINING)
_GAP_KINDS = {
    TimePart.OPENINGS: GapKind.OPENING,
    TimePart.GAPS: GapKind.BETWEEN,
    TimePart.SCRIPT: GapKind.BETWEEN,
}


class TimeBreakdown:
    """Assigns every second since `start_ns` to a part.

    Times of over a second without a batch are added to `gaps`. All that a script does before it
    trains is its start-up.
    """

    def __init__(self, start_ns: int, gaps: Gaps, is_script: bool = False) -> None:
        self._gaps = gaps
        self._is_script = is_script
        self.until_ns = start_ns
        """The end of the time that is assigned."""
        self._part = TimePart.STARTUP
        """The part of the time from there on, until a record says otherwise."""
        self._closing = False
        self._ended_ns = start_ns
        """The end of the process, if it ended in training."""
        self._epoch: int | None = None
        self._spent_ns = Counter[TimePart]()
        self._waiting: list[tuple[int, int, TimePart]] = []
        """Pauses after the assigned time, which don't overlap."""
        self._paused_ns = Counter[tuple[TimePart, TimePart]]()

    def parts(
        self,
        now_ns: int,
        heard_ns: int,
        loops: Sequence[SteadyState],
        steady: SteadyState,
        is_over: bool,
        waited_us: int | None = None,
        stopped: bool = False,
        completed: bool = True,
    ) -> dict[TimePart, float]:
        """Return the seconds of each part that took any, in order; they add up to the wall time.

        Args:
            now_ns: the end of the wall time.
            heard_ns: the time of the last record of any kind, or of the last sample of the machine
                if the run is over: in silence no batch is missed.
            loops: the batches of each loop.
            steady: the batches of the current loop.
            is_over: no more records will come.
            waited_us: the time that batches waited for data, if measured.
            stopped: the run was stopped before its end.
            completed: the run came to its own end.
        """
        seconds = {part: self._spent_ns[part] / 1e9 for part in TimePart}
        open_ns = max(0, now_ns - self.until_ns)
        heard_for_ns = min(heard_ns, now_ns) - self.until_ns
        open_part = self._open_part(heard_for_ns, steady, is_over)
        seconds[open_part] += open_ns / 1e9
        if is_over and self._is_in_epoch:
            cut_s = (min(self._ended_ns, now_ns) - self.until_ns) / 1e9
            if not completed and self._is_overdue(heard_for_ns, steady):
                # What was a stall while it ran stays one.
                _move(seconds, TimePart.CLOSING, TimePart.STALLS, cut_s if cut_s > 0 else math.inf)
            elif stopped:
                _move(seconds, TimePart.CLOSING, TimePart.TRAINING, cut_s)
        if is_over and self._is_script and not self._has_trained:
            # No training followed, so it was no start-up.
            _move(seconds, TimePart.STARTUP, TimePart.SCRIPT, seconds[TimePart.STARTUP])
        for loop in loops:
            _divide_steps(seconds, loop)
        paused_ns = self._paused_ns + self._paused_within(now_ns, open_part)
        for (source, part), ns in paused_ns.items():
            remaining_s = ns / 1e9
            if source is part and steady.usual_step_us is not None:
                # The time is in that part already.
                continue
            comes_regularly = (TimePart.BETWEEN_STEPS, part) in paused_ns
            if source is TimePart.STALLS and comes_regularly:
                # The first of these pauses came before their regularity was known.
                source = TimePart.BETWEEN_STEPS
            for from_part in _SOURCES.get(source, (source,)):
                if from_part is not part:
                    remaining_s -= _move(seconds, from_part, part, remaining_s)
        _move(seconds, TimePart.TRAINING, TimePart.DATA_WAIT, (waited_us or 0) / 1e6)
        return {part: spent_s for part, spent_s in seconds.items() if spent_s > 0}

    def end_process(self, t: int) -> None:
        """Note the end of the process, which cuts off a step if it was training."""
        if self._is_in_epoch:
            self._ended_ns = t

    def end_in_pause(self, until_ns: int) -> bool:
        """Note that a process ended in a pause; return whether that was in an epoch."""
        in_epoch = self._is_in_epoch
        if in_epoch:
            self._spend(until_ns, TimePart.STALLS)
        return in_epoch

    def _open_part(self, heard_for_ns: int, steady: SteadyState, is_over: bool) -> TimePart:
        """Return the part of the time that no record of the workload covers yet."""
        ends_a_run = self._part in (TimePart.TRAINING, TimePart.GAPS)
        if self._closing or (is_over and ends_a_run):
            return TimePart.CLOSING
        return TimePart.STALLS if self._is_overdue(heard_for_ns, steady) else self._part

    def _is_overdue(self, heard_for_ns: int, steady: SteadyState) -> bool:
        usual_us = steady.usual_step_us
        if not self._is_in_epoch or not usual_us:
            return False
        return heard_for_ns > max(OVERDUE_NS, STALL_FACTOR * usual_us * 1000)

    def overdue_since(self, heard_ns: int, steady: SteadyState) -> int | None:
        """Return the end of the last step if the next one is overdue; else None."""
        is_overdue = self._is_overdue(heard_ns - self.until_ns, steady)
        return self.until_ns if is_overdue else None

    @property
    def awaits_batches(self) -> bool:
        """True if there are pauses whose batches are not recorded yet."""
        return bool(self._waiting)

    def add_pause(self, pause: NamedPause) -> None:
        """Keep a pause, apart from the time of other pauses, until its part is recorded."""
        part = _PART_OF_PAUSE.get(pause.name)
        if part is None or pause.beside:
            return
        # Earlier records of the same pause cover a part of it.
        self._waiting = [
            (begin, end, other_part)
            for begin, end, other_part in self._waiting
            if other_part is not part or begin < pause.t or end > pause.end
        ]
        pieces = [(max(pause.t, self.until_ns), pause.end)]
        for begin, end, _ in self._waiting:
            pieces = [
                piece
                for start, stop in pieces
                for piece in ((start, min(stop, begin)), (max(start, end), stop))
                if piece[0] < piece[1]
            ]
        self._waiting += [(start, stop, part) for start, stop in pieces]
        del self._waiting[:-MAX_WAITING]

    def _paused_within(self, until_ns: int, source: TimePart) -> Counter[tuple[TimePart, TimePart]]:
        """Return the time of the waiting pauses from the assigned time until then."""
        paused_ns: Counter[tuple[TimePart, TimePart]] = Counter()
        for begin, end, part in self._waiting:
            paused_ns[source, part] += max(0, min(end, until_ns) - max(begin, self.until_ns))
        return paused_ns

    def begin_phase(self, phase: Phase) -> None:
        """Assign the time until a phase, which begins."""
        self._spend(phase.t, self._part, phase.name)
        self._part = _PART_OF_PHASE.get(phase.name, TimePart.GAPS)
        if self._part is TimePart.SCRIPT and not self._has_trained:
            self._part = TimePart.STARTUP
        self._closing = phase.name == "closing"
        if phase.epoch is not None:
            self._epoch = phase.epoch

    def add_batches(self, record: Batches | BatchSummary, sources: Sequence[TimePart] = ()) -> None:
        """Assign the time of batches; `sources` are the parts of the extra time of each batch."""
        dt_us: Sequence[int] = (record.time_us,)
        if isinstance(record, Batches):
            dt_us = record.dt_us
        elif record.stalls:
            sources = (TimePart.STALLS,)
        before, start = self._part, record.begin
        if before is TimePart.GAPS and record.first > 0:
            # The earlier batches of this epoch were not recorded.
            before = TimePart.TRAINING
        self._spend(start - (record.opening_us or 0) * 1000, before, "training")
        self._epoch = record.epoch
        self._spend(start, TimePart.OPENINGS)
        end = start
        for number, took_us in enumerate(dt_us if self._waiting else ()):
            end += took_us * 1000
            source = sources[number] if sources else TimePart.TRAINING
            self._spend(end, TimePart.TRAINING, source=source)
        self._spend(record.t_last, TimePart.TRAINING)
        self._part, self._closing = TimePart.TRAINING, False

    def trains_in(self, epoch: int) -> bool:
        """Return whether batches of an epoch would continue it, and no pause waits for them."""
        return self._is_in_epoch and self._epoch == epoch and not self._waiting

    def add_plain(self, end_ns: int) -> None:
        """Assign the time of batches that continue the epoch."""
        self._spend(end_ns, TimePart.TRAINING)

    def end_epoch(self, epoch: Epoch, heard_ns: int, steady: SteadyState, step: int | None) -> None:
        """Assign the time of an epoch that has ended.

        Args:
            epoch: the epoch.
            heard_ns: the time of the last record before it.
            steady: the batches of its loop.
            step: the one that was under way as it ended.
        """
        self._epoch = epoch.epoch
        self._spend(min(epoch.begin, epoch.end), self._part)
        # Usually its batches came before; if not, they were not recorded.
        self._spend(min(epoch.train_end, epoch.end), TimePart.TRAINING)
        if not epoch.whole and heard_ns - epoch.end > MIN_GAP_NS and self._is_script:
            # It ended with its last whole step, and the next step ran on after it.
            is_overdue = self._is_overdue(heard_ns - epoch.end, steady)
            self._gaps.add(Gap(epoch.end, heard_ns, GapKind.STALL, epoch.epoch, step))
            self._spend(heard_ns, TimePart.STALLS if is_overdue else TimePart.TRAINING)
        rest = TimePart.GAPS if self._part is TimePart.TRAINING else self._part
        if epoch.validation is not None:
            self._spend(min(epoch.validation.end, epoch.end), TimePart.VALIDATION)
            rest = TimePart.GAPS
        self._spend(epoch.end, rest)
        self._part = TimePart.GAPS

    def end_evaluation(self, record: Evaluation) -> None:
        """Assign the time of an evaluation that has ended."""
        self._spend(min(record.begin, record.end), self._part, "evaluating")
        self._spend(record.end, TimePart.EVALUATION)
        self._part = TimePart.GAPS

    @property
    def _is_in_epoch(self) -> bool:
        return self._part is TimePart.TRAINING and not self._closing

    @property
    def _has_trained(self) -> bool:
        return any(self._part is part or self._spent_ns[part] for part in _TRAINS)

    def _spend(
        self, until_ns: int, part: TimePart, before: str = "", source: TimePart | None = None
    ) -> None:
        """Assign the time until then, as far as it isn't assigned yet, to a part.

        Pauses in it are later moved out of `source`, by default the part.
        """
        start_ns = self.until_ns
        if until_ns <= start_ns:
            return
        if self._waiting:
            self._paused_ns += self._paused_within(until_ns, source or part)
            self._waiting = [pause for pause in self._waiting if pause[1] > until_ns]
        self._spent_ns[part] += until_ns - start_ns
        self.until_ns = until_ns
        kind = _GAP_KINDS.get(part)
        if kind is not None:
            self._gaps.add(Gap(start_ns, until_ns, kind, self._epoch, before=before))


def _divide_steps(seconds: dict[TimePart, float], steady: SteadyState) -> None:
    """Move compilation, stalls and regular long steps out of the training time.

    The first batch of a run is in the compiling part, of which a usual step is training; the first
    batch of any other size is in the training part.
    """
    usual_us = steady.usual_step_us
    if usual_us is None:
        return
    for number, (took_us, steps) in enumerate(steady.first_batches):
        usual_s, took_s = steps * usual_us / 1e6, took_us / 1e6
        if number == 0 and seconds[TimePart.COMPILING] > 0:
            _move(seconds, TimePart.COMPILING, TimePart.TRAINING, min(usual_s, took_s))
        else:
            _move(seconds, TimePart.TRAINING, TimePart.COMPILING, took_s - usual_s)
    _move(seconds, TimePart.TRAINING, TimePart.STALLS, steady.stalled_us() / 1e6)
    regular = steady.regular_steps()
    if regular is not None:
        _move(seconds, TimePart.TRAINING, TimePart.BETWEEN_STEPS, regular.seconds)


def _move(
    seconds: dict[TimePart, float], source: TimePart, target: TimePart, moved_s: float
) -> float:
    """Move seconds from one part to another, at most all; return how many were moved."""
    moved_s = min(max(0.0, moved_s), seconds[source])
    seconds[source] -= moved_s
    seconds[target] += moved_s
    return moved_s


@record(frozen=True)
class StepMean:
    """A mean time per step, and its standard error."""

    mean_ms: float
    error_ms: float


class Waited(NamedTuple):
    """A wait for data: its share of the steps of a window, 0 to 1, and the window's length."""

    share: float
    window_s: float


class Recent(Generic[_T]):
    """The newest items, with their times.

    Args:
        kept_s: the time before the newest item for which items are kept.
    """

    def __init__(self, kept_s: float = WINDOW_S) -> None:
        self._kept_ns = int(kept_s * 1e9)
        self._recent = deque[tuple[int, _T]](maxlen=MAX_RECORDS)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the items: a reader that resumes from an index reads them again."""
        return vars(self) | {"_recent": deque(maxlen=MAX_RECORDS)}

    def _keep(self, t: int, item: _T) -> None:
        self._recent.append((t, item))
        self._drop_old(t)

    def _drop_old(self, newest_ns: int) -> None:
        while self._recent[0][0] < newest_ns - self._kept_ns:
            self._recent.popleft()

    @property
    def newest_ns(self) -> int | None:
        """The time of the newest item."""
        return self._recent[-1][0] if self._recent else None

    def items_before(self, at_ns: int) -> list[_T]:
        """Return the items of the half minute before a moment."""
        first_ns = at_ns - int(WINDOW_S * 1e9)
        return [item for t, item in self._recent if first_ns <= t <= at_ns]


class DataWait(Recent[tuple[int, int | None, int]]):
    """The time that batches waited for data: of all, and of each recent record.

    A record has its time and its wait, in microseconds, and its number of batches.
    """

    waited_us: int | None = None
    """The wait of all batches; None if it was not measured."""
    time_us = 0
    """The time of all batches."""

    def add(self, record: Batches | BatchSummary) -> None:
        waited_us = self._add_wait(record.wait_us, record.time_us)
        self._keep(record.t_last, (record.time_us, waited_us, record.count))

    def add_plain(self, plain: PlainBatches) -> None:
        rows = zip(plain.records, plain.times_us, plain.ends_ns, strict=True)
        for batches, time_us, end_ns in rows:
            waited_us = self._add_wait(batches.wait_us, time_us)
            self._recent.append((end_ns, (time_us, waited_us, len(batches.dt_us))))
        self._drop_old(plain.end_ns)

    def _add_wait(self, wait_us: int | None, time_us: int) -> int | None:
        """Add the wait of a record, which is at most its time, and return it."""
        self.time_us += time_us
        if wait_us is None:
            return None
        waited_us = min(wait_us, time_us)
        self.waited_us = (self.waited_us or 0) + waited_us
        return waited_us

    def before(self, at_ns: int) -> Waited | None:
        """Return the wait in the half minute of batches before a moment; None if not measured."""
        before = [(end, batches) for end, batches in self._recent if end <= at_ns]
        end_ns = before[-1][0] if before else 0
        recent = [batches for end, batches in before if end >= end_ns - int(WINDOW_S * 1e9)]
        waits_us = [waited_us for _, waited_us, _ in recent if waited_us is not None]
        steps_us = sum(time_us for time_us, _, _ in recent)
        if not waits_us or not steps_us:
            return None
        return Waited(sum(waits_us) / steps_us, min(WINDOW_S, steps_us / 1e6))

    @property
    def whole(self) -> Waited | None:
        """The wait in all batches; None if not measured."""
        if self.waited_us is None or not self.time_us:
            return None
        return Waited(self.waited_us / self.time_us, self.time_us / 1e6)

    def per_step(self) -> StepMean | None:
        """Return the mean wait of recent steps; None if too few are known."""
        waits = [(waited_us, steps) for _, (_, waited_us, steps) in self._recent]
        if all(waited_us is None for waited_us, _ in waits):
            return None
        return _mean_of([(waited_us or 0, steps) for waited_us, steps in waits])


def _mean_of(times_us: Sequence[tuple[int, int]]) -> StepMean | None:
    """Return the mean per step of records, each a time and its steps; None if they are too few."""
    if len(times_us) < LEAST_FOR_ERROR:
        return None
    steps = sum(count for _, count in times_us)
    mean_us = sum(took for took, _ in times_us) / steps
    # Each record is one observation, weighted by its steps.
    squares = sum((took - count * mean_us) ** 2 for took, count in times_us)
    error_us = math.sqrt(squares * len(times_us) / (len(times_us) - 1)) / steps
    return StepMean(mean_us / 1000, error_us / 1000)


class StepPartSums(Recent[StepParts]):
    """The sums of the parts of measured steps."""

    _newest: StepParts | None = None
    why: str | None = None
    """The reason why none could be measured."""

    def __init__(self, kept_s: float = WINDOW_S) -> None:
        super().__init__(kept_s)
        self._sums: dict[str, int] = {}

    def add(self, record: StepParts) -> None:
        self.why = next(iter(record.why.values()), None)
        known = {name: part for name in STEP_PARTS if (part := getattr(record, name)) is not None}
        parts = known.values()
        if record.steps < 1 or record.step_us < max(1, sum(parts)) or min(parts, default=0) < 0:
            return
        for name, part in (("steps", record.steps), ("step_us", record.step_us), *known.items()):
            self._sums[name] = self._sums.get(name, 0) + part
        self._newest = record
        self._keep(record.t, record)

    @property
    def total(self) -> StepParts | None:
        """The sum over all steps; None if none was measured."""
        sums: dict[str, Any] = {**dict.fromkeys(STEP_PARTS), **self._sums}
        return self._newest and replace(self._newest, **sums)

    @property
    def recent(self) -> StepParts | None:
        """The sums of all recent steps; None if none was measured."""
        return summed_parts([parts for _, parts in self._recent])

    def own_work(self) -> StepMean | None:
        """Return the mean time of recent steps outside the parts in which ranks wait for others.

        None if too few steps are known.
        """
        recent = self.recent
        waits = () if recent is None else recent.parts_with_waits
        return _mean_of(
            [
                (parts.step_us - sum(getattr(parts, name) or 0 for name in waits), parts.steps)
                for _, parts in self._recent
            ]
        )


class RecentCode(Recent[CodeSamples]):
    """The newest samples of the script's own code."""

    def add(self, record: CodeSamples) -> None:
        self._keep(record.t, record)

    @property
    def newest(self) -> CodeSamples | None:
        """The samples of the last half minute that has any; None without samples."""
        return self.before(self._recent[-1][0]) if self._recent else None

    def before(self, at_ns: int) -> CodeSamples | None:
        """Return the samples of the half minute before a moment; None if there are none."""
        recent = self.items_before(at_ns)
        if not recent:
            return None
        counts: Counter[tuple[Frame, Frame | None]] = Counter()
        for place in chain.from_iterable(samples.places for samples in recent):
            counts[place.inner, place.script] += place.looks
        places = tuple(SeenAt(count, *frames) for frames, count in counts.most_common())
        return CodeSamples(recent[-1].t, sum(samples.samples for samples in recent), places)
