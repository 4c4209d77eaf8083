"""Where the time of a session went.

Pure. Every moment between a session's start and now belongs to one part: the records are swept in
order, and each one says what the time since the one before it was. So the parts add up to the
wall time, whatever a log lacks, repeats or has in the wrong order. What a framework did that has a
name, as saving, is taken out of the part that it lay in.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from functools import reduce
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
from dlmon.session.plain_batches import PlainBatches
from dlmon.statistics.steady_state import STALL_FACTOR, SteadyState

_T = TypeVar("_T")

# What is known of batches comes a few times a second: only what is later than that is a stall.
OVERDUE_NS = 2_000_000_000

# All other phases, "closing" among them, are gaps between what is measured.
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
# Out of which parts a pause is taken that lay in one of them, in this order.
_SOURCES = {
    TimePart.TRAINING: (TimePart.TRAINING, TimePart.STALLS),
    TimePart.STALLS: (TimePart.STALLS, TimePart.BETWEEN_STEPS, TimePart.TRAINING),
    TimePart.BETWEEN_STEPS: (*(TimePart.BETWEEN_STEPS, TimePart.STALLS, TimePart.TRAINING),),
    TimePart.COMPILING: (TimePart.COMPILING, TimePart.TRAINING),
    TimePart.STARTUP: (TimePart.STARTUP, TimePart.SCRIPT),
}
# At most this many pauses wait until what they lay in is recorded.
MAX_WAITING = 1000
MAX_RECORDS = 4096
# In these a script trains, or begins to.
_TRAINS = (TimePart.COMPILING, TimePart.TRAINING)
_GAP_KINDS = {
    TimePart.OPENINGS: GapKind.OPENING,
    TimePart.GAPS: GapKind.BETWEEN,
    TimePart.SCRIPT: GapKind.BETWEEN,
}


class TimeAccount:
    """Folds the records of a workload, and says what every second since `start_ns` went into.

    What had no batch for over a second is noted in `gaps`. Of a script, all that it does before
    it trains is its start.
    """

    def __init__(self, start_ns: int, gaps: Gaps, is_script: bool = False) -> None:
        self._gaps = gaps
        self._is_script = is_script
        self.until_ns = start_ns
        """All time before is in the account."""
        self._part = TimePart.STARTUP
        """What the time from there on goes into, until a record says otherwise."""
        self._closing = False
        self._ended_ns = start_ns
        """When the process ended, where that was in training."""
        self._epoch: int | None = None
        self._spent_ns = Counter[TimePart]()
        self._waiting: list[tuple[int, int, TimePart]] = []
        """Pauses that overlap neither each other nor what is in the account."""
        self._paused_ns = Counter[tuple[TimePart, TimePart]]()

    def parts(
        self,
        now_ns: int,
        heard_ns: int,
        loops: Sequence[SteadyState],
        steady: SteadyState,
        ended: bool,
        waited_us: int | None = None,
        stopped: bool = False,
    ) -> dict[TimePart, float]:
        """Return the seconds of each part that took any, in their order; they add up to the time.

        Args:
            now_ns: until when.
            heard_ns: when the last record of any kind came: in silence no batch is missed.
            loops: the batches of each loop.
            steady: those of the one that runs.
            ended: whether nothing more will come.
            waited_us: how long the batches waited for data, where that was measured.
            stopped: whether it was stopped, and did not come to its end.
        """
        seconds = {part: self._spent_ns[part] / 1e9 for part in TimePart}
        open_ns = max(0, now_ns - self.until_ns)
        heard_for_ns = min(heard_ns, now_ns) - self.until_ns
        open_part = self._open_part(heard_for_ns, steady, ended)
        seconds[open_part] += open_ns / 1e9
        if stopped and open_part is TimePart.CLOSING:
            cut_s = (min(self._ended_ns, now_ns) - self.until_ns) / 1e9
            _move(seconds, TimePart.CLOSING, TimePart.TRAINING, cut_s)
        if ended and self._is_script and not self._has_trained:
            # It was the start of nothing.
            _move(seconds, TimePart.STARTUP, TimePart.SCRIPT, seconds[TimePart.STARTUP])
        for loop in loops:
            _divide_steps(seconds, loop)
        paused_ns = self._paused_ns + self._paused_within(now_ns, open_part)
        for (source, part), ns in paused_ns.items():
            left_s = ns / 1e9
            if source is part and steady.usual_step_us is not None:
                # It is there already.
                continue
            comes_regularly = (TimePart.BETWEEN_STEPS, part) in paused_ns
            if source is TimePart.STALLS and comes_regularly:
                # The first ones, before that was known.
                source = TimePart.BETWEEN_STEPS
            for each in _SOURCES.get(source, (source,)):
                if each is not part:
                    left_s -= _move(seconds, each, part, left_s)
        _move(seconds, TimePart.TRAINING, TimePart.DATA_WAIT, (waited_us or 0) / 1e6)
        return {part: spent_s for part, spent_s in seconds.items() if spent_s > 0}

    def end_process(self, t: int) -> None:
        """Note when the process ended; a step was under way where it was in training."""
        if self._part is TimePart.TRAINING and not self._closing:
            self._ended_ns = t

    def end_in_pause(self, seen_ns: int) -> bool:
        """Note that a process ended in a pause seen until then; return whether in an epoch."""
        in_epoch = self._part is TimePart.TRAINING and not self._closing
        if in_epoch:
            self._spend(seen_ns, TimePart.STALLS)
        return in_epoch

    def _open_part(self, heard_for_ns: int, steady: SteadyState, ended: bool) -> TimePart:
        """Return what the time goes into that no record of the workload accounts for yet."""
        in_pass = self._part is TimePart.TRAINING
        if self._closing or (ended and (in_pass or self._part is TimePart.GAPS)):
            return TimePart.CLOSING
        return TimePart.STALLS if self._is_overdue(heard_for_ns, steady) else self._part

    def _is_overdue(self, heard_for_ns: int, steady: SteadyState) -> bool:
        usual_us = steady.usual_step_us
        if self._closing or self._part is not TimePart.TRAINING or not usual_us:
            return False
        return heard_for_ns > max(OVERDUE_NS, STALL_FACTOR * usual_us * 1000)

    def overdue_since(self, heard_ns: int, steady: SteadyState) -> int | None:
        """Return when the last step ended, where the next one is overdue; else None."""
        is_overdue = self._is_overdue(heard_ns - self.until_ns, steady)
        return self.until_ns if is_overdue else None

    @property
    def awaits_batches(self) -> bool:
        """Whether pauses are known, and not yet in what batches they lay."""
        return bool(self._waiting)

    def take_pause(self, pause: NamedPause) -> None:
        """Keep a pause, as far as no other is known of that time, until what it lay in is known."""
        part = _PART_OF_PAUSE.get(pause.name)
        if part is None or pause.beside:
            return
        # What is known of it from when it went on is part of it.
        self._waiting = [
            (begin, end, of)
            for begin, end, of in self._waiting
            if of is not part or begin < pause.t or end > pause.end
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
        """Return how long the pauses that wait took since what is in the account, until then."""
        paused_ns: Counter[tuple[TimePart, TimePart]] = Counter()
        for begin, end, part in self._waiting:
            paused_ns[source, part] += max(0, min(end, until_ns) - max(begin, self.until_ns))
        return paused_ns

    def enter(self, phase: Phase) -> None:
        """Take a phase that begins."""
        self._spend(phase.t, self._part, phase.name)
        self._part = _PART_OF_PHASE.get(phase.name, TimePart.GAPS)
        if self._part is TimePart.SCRIPT and not self._has_trained:
            self._part = TimePart.STARTUP
        self._closing = phase.name == "closing"
        if phase.epoch is not None:
            self._epoch = phase.epoch

    def take_batches(
        self, record: Batches | BatchSummary, sources: Sequence[TimePart] = ()
    ) -> None:
        """Take batches; `sources` is what the time of each counts as beyond a usual step."""
        dt_us: Sequence[int] = (record.time_us,)
        if isinstance(record, Batches):
            dt_us = record.dt_us
        elif record.stalls:
            sources = (TimePart.STALLS,)
        before, start = self._part, record.begin
        if before is TimePart.GAPS and record.first > 0:
            # Batches of this epoch came before these, and were not recorded.
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
        """Whether more batches of an epoch would go on with it, and no pause waits for them."""
        in_pass = self._part is TimePart.TRAINING and not self._closing
        return in_pass and self._epoch == epoch and not self._waiting

    def take_plain(self, end_ns: int) -> None:
        """Take batches that go on with the epoch, until they ended."""
        self._spend(end_ns, TimePart.TRAINING)

    def end_epoch(self, epoch: Epoch, heard_ns: int, steady: SteadyState) -> None:
        """Take an epoch that has ended.

        Args:
            epoch: the epoch.
            heard_ns: when the last record before it came.
            steady: the batches of its loop.
        """
        self._epoch = epoch.epoch
        self._spend(min(epoch.begin, epoch.end), self._part)
        # As a rule its batches came before: else these were not recorded.
        self._spend(min(epoch.train_end, epoch.end), TimePart.TRAINING)
        if not epoch.whole and heard_ns - epoch.end > MIN_GAP_NS and self._is_script:
            # It ended with its last whole step, and another one was under way until then.
            is_overdue = self._is_overdue(heard_ns - epoch.end, steady)
            self._gaps.add(Gap(epoch.end, heard_ns, GapKind.STALL, epoch.epoch, epoch.steps))
            self._spend(heard_ns, TimePart.STALLS if is_overdue else TimePart.TRAINING)
        rest = TimePart.GAPS if self._part is TimePart.TRAINING else self._part
        if epoch.validation is not None:
            self._spend(min(epoch.validation.end, epoch.end), TimePart.VALIDATION)
            rest = TimePart.GAPS
        self._spend(epoch.end, rest)
        self._part = TimePart.GAPS

    def end_evaluation(self, record: Evaluation) -> None:
        """Take an evaluation that has ended."""
        self._spend(min(record.begin, record.end), self._part, "evaluating")
        self._spend(record.end, TimePart.EVALUATION)
        self._part = TimePart.GAPS

    @property
    def _has_trained(self) -> bool:
        return any(self._part is part or self._spent_ns[part] for part in _TRAINS)

    def _spend(
        self,
        until_ns: int,
        part: TimePart,
        before: str = "",
        source: TimePart | None = None,
    ) -> None:
        """Put the time until then into a part, as far as it isn't in the account.

        Pauses in it are taken out of `source` at last, where that is another one.
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
    """Take out of the steps what compiled, or stalled, and give them their share of what compiled.

    The first batch of a run is in the phase that compiles, and those of other sizes are steps.
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
    """Move seconds from one part to another, and return how many there were."""
    moved_s = min(max(0.0, moved_s), seconds[source])
    seconds[source] -= moved_s
    seconds[target] += moved_s
    return moved_s


@record(frozen=True)
class StepMean:
    """How long something took in a step, and the standard error of that."""

    mean_ms: float
    error_ms: float


LEAST_FOR_ERROR = 8
"""Records of batches, below which how far they spread says little."""


class Waited(NamedTuple):
    """A wait for data: its share of a time, 0 to 1, and of how many seconds."""

    share: float
    of_s: float


class Recent(Generic[_T]):
    """Keeps what came last, with its time.

    Args:
        kept_s: for how long before the newest it is kept.
    """

    def __init__(self, kept_s: float = WINDOW_S) -> None:
        self._kept_ns = int(kept_s * 1e9)
        self._recent = deque[tuple[int, _T]](maxlen=MAX_RECORDS)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the newest: who goes on from an index reads them again."""
        return vars(self) | {"_recent": deque(maxlen=MAX_RECORDS)}

    def _keep(self, t: int, what: _T) -> None:
        self._recent.append((t, what))
        self._drop_old(t)

    def _drop_old(self, newest_ns: int) -> None:
        while self._recent[0][0] < newest_ns - self._kept_ns:
            self._recent.popleft()


class DataWait(Recent[tuple[int, int | None, int]]):
    """Folds batches, and how long those waited for their data of which that is known."""

    waited_us: int | None = None
    """Of all batches; None where it was not measured."""

    def fold(self, record: Batches | BatchSummary) -> None:
        waited_us = None if record.wait_us is None else min(record.wait_us, record.time_us)
        if waited_us is not None:
            self.waited_us = (self.waited_us or 0) + waited_us
        self._keep(record.t_last, (record.begin, waited_us, record.count))

    def fold_plain(self, plain: PlainBatches) -> None:
        for each, time_us, end_ns in zip(plain.records, plain.times_us, plain.ends_ns, strict=True):
            waited_us = None if each.wait_us is None else min(each.wait_us, time_us)
            if waited_us is not None:
                self.waited_us = (self.waited_us or 0) + waited_us
            kept = end_ns - time_us * 1000, waited_us, len(each.dt_us)
            self._recent.append((end_ns, kept))
        self._drop_old(plain.end_ns)

    def before(self, at_ns: int) -> Waited | None:
        """Return the wait in the half minute of batches that ended before a moment.

        None where it was not measured of any.
        """
        before = [record for record in self._recent if record[0] <= at_ns]
        end_ns = before[-1][0] if before else 0
        recent = [batches for end, batches in before if end >= end_ns - int(WINDOW_S * 1e9)]
        known = [waited for _, waited, _ in recent if waited is not None]
        span_us = (end_ns - min((begin for begin, _, _ in recent), default=end_ns)) / 1000
        if not known or span_us <= 0:
            return None
        return Waited(min(1.0, sum(known) / span_us), min(WINDOW_S, span_us / 1e6))

    def per_step(self) -> StepMean | None:
        """Return how long the newest steps waited; None where too little of it is known."""
        waits = [(waited, steps) for _, (_, waited, steps) in self._recent]
        is_known = any(waited is not None for waited, _ in waits)
        return _mean_of([(waited or 0, steps) for waited, steps in waits]) if is_known else None


def _mean_of(times_us: Sequence[tuple[int, int]]) -> StepMean | None:
    """Return the mean of times of so many steps each; None where there are few."""
    if len(times_us) < LEAST_FOR_ERROR:
        return None
    steps = sum(count for _, count in times_us)
    mean_us = sum(took for took, _ in times_us) / steps
    # Each record is one observation, which weighs as much as the steps that it holds.
    squares = sum((took - count * mean_us) ** 2 for took, count in times_us)
    error_us = math.sqrt(squares * len(times_us) / (len(times_us) - 1)) / steps
    return StepMean(mean_us / 1000, error_us / 1000)


class RecentCode(Recent[CodeSamples]):
    """Adds up the newest samples of the script's own code."""

    def fold(self, record: CodeSamples) -> None:
        self._keep(record.t, record)

    def before(self, at_ns: int) -> CodeSamples | None:
        """Return the samples of the half minute before a moment; None if there are none."""
        first_ns = at_ns - int(WINDOW_S * 1e9)
        recent = [samples for t, samples in self._recent if first_ns <= t <= at_ns]
        if not recent:
            return None
        counts: Counter[tuple[Frame, Frame | None]] = Counter()
        for place in chain.from_iterable(samples.places for samples in recent):
            counts[place.inner, place.script] += place.looks
        places = tuple(SeenAt(count, *frames) for frames, count in counts.most_common())
        return CodeSamples(recent[-1].t, sum(samples.samples for samples in recent), places)


class StepPartSums(Recent[StepParts]):
    """Adds up the parts of the steps that were measured."""

    total: StepParts | None = None
    """Of all steps; None where none was measured."""
    why: str | None = None
    """Why none could be."""

    def fold(self, record: StepParts) -> None:
        self.why = next(iter(record.why.values()), None)
        parts = [getattr(record, name) or 0 for name in STEP_PARTS]
        if record.steps < 1 or record.step_us < 1 or min(*parts, record.rest_us) < 0:
            return
        self.total = record if self.total is None else self.total.plus(record)
        self._keep(record.t, record)

    def before(self, at_ns: int) -> StepParts | None:
        """Return the sums of the half minute before a moment; None where none was measured."""
        first_ns = at_ns - int(WINDOW_S * 1e9)
        recent = [parts for t, parts in self._recent if first_ns <= t <= at_ns]
        return reduce(StepParts.plus, recent) if recent else None

    def own_work(self) -> StepMean | None:
        """Return what the newest steps took outside of where ranks wait for each other.

        That is in backward and in the optimiser; None where too little is known.
        """
        return _mean_of(
            [
                (parts.step_us - (parts.backward_us or 0) - (parts.optimizer_us or 0), parts.steps)
                for _, parts in self._recent
            ]
        )
