"""Fold the records of a session into what a viewer shows.

Pure: no I/O, and the time is handed in. Any prefix of a log gives a valid
session, and every unknown is None with a reason.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dlmon.records import (
    GRADIENTS_PHASE,
    SCRIPT_PHASE,
    Alert,
    AlertEvent,
    Batches,
    BatchSummary,
    CodeSamples,
    Epoch,
    Evaluation,
    Facts,
    FrameworkMemory,
    LoopResult,
    Machine,
    Metrics,
    Model,
    NamedPause,
    Node,
    Notice,
    OutOfMemory,
    Output,
    Phase,
    ProcessStack,
    Profile,
    Record,
    Requirement,
    Result,
    RunSeconds,
    SecondsPerEpoch,
    SessionHeader,
    Stack,
    Status,
    StepParts,
    TimePart,
    TokenShares,
    Trainer,
)
from dlmon.records.changes import newest_facts
from dlmon.session import reasons
from dlmon.session.effective import effective_of
from dlmon.session.epoch_comparison import EpochHistory, slow_epochs
from dlmon.session.framework_memory import MemoryHistory, MemoryUse, out_of_memory_text
from dlmon.session.gaps import MIN_GAP_NS, NEWEST_PAUSES, Gap, GapKind, Gaps, Stacks
from dlmon.session.learning import Learning
from dlmon.session.limits.evidence import Evidence, Limit
from dlmon.session.limits.find import (
    RULES_OF_THE_START,
    WINDOW_S,
    RuleCheck,
    RuleChecks,
    check_rules,
    history_s,
    limit_of,
    loss_is_no_number,
    unmeasured_wait,
)
from dlmon.session.limits.ranks import rank_holds_up
from dlmon.session.limits.rules import gpu_lost
from dlmon.session.limits.run_samples import RunSamples
from dlmon.session.loops import Loop, Loops, ProcessLoops, ProcessRate, in_tokens, network_of
from dlmon.session.machine_history import MachineHistory, NodeMachine
from dlmon.session.marks import MOST_MARKS, Mark, MarkKind, Marks, Throttling, stalls
from dlmon.session.plain_batches import PlainBatches
from dlmon.session.readings import MachineReading, TrainingReadings, values_of
from dlmon.session.snapshot import PhaseSpan, Progress, Snapshot, Validity, find_doubts
from dlmon.session.time_breakdown import DataWait, RecentCode, StepPartSums, TimeAccount
from dlmon.statistics.projection import epoch_interval, project_epoch
from dlmon.statistics.series import Series
from dlmon.statistics.steady_batches import MIN_OPENINGS
from dlmon.statistics.steady_state import LEAST_FOR_P95, SteadyState

OUTPUT_LINES = 500
OUTPUT_LINES_IN_INDEX = 20
EARLIER_OUTPUT = "(earlier output is in the log)"
NOTICES = 100
MAX_PHASE_SPANS = 2000
# Of more, the longest are kept.
MAX_PAUSES = 1000

FEW_OPENINGS = (
    f"fewer than {MIN_OPENINGS} epochs have been opened, so the projection leaves that time out"
)
# What of these is folded depends on no plain batch, nor does one on them.
_BESIDE_BATCHES = (CodeSamples, FrameworkMemory, Machine, Metrics, Output, StepParts)
_MOST_PLAIN = 512
# The phases whose batches are the ones that count.
STEADY_PHASES = ("training", "predicting", GRADIENTS_PHASE)


def alert_text(alert: Alert) -> str:
    """Return what was told, as it stands among the notices."""
    figures = "; ".join(alert.figures)
    return f"alert: {alert.text}{f' ({figures})' if figures else ''}"


def time_of(record: Record) -> int | None:
    """Return when what a record reports was over; None where it doesn't say."""
    if isinstance(record, (Batches, BatchSummary)):
        return record.t_last
    if isinstance(record, (Epoch, Evaluation, NamedPause)):
        return record.end
    t = getattr(record, "t", None)
    return t if isinstance(t, int) else None


class Session:
    """Folds records; `snapshot` gives the figures, the series give the charts."""

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self.facts = header.machine
        """What does not change about the machine: the newest that was reported."""
        self.machine = MachineHistory(_interval_of(header))
        self.nodes: dict[str, NodeMachine] = {}
        """The other machines of the run, by their names."""
        self.gaps = Gaps(self.machine.interval_s)
        self.account = TimeAccount(header.t, self.gaps, header.is_script)
        self.samples_rate, self.steps_rate, self.tokens_rate = Series(), Series(), Series()
        self.learning = Learning()
        self.memory = MemoryHistory()
        """What frameworks hold of GPUs."""
        self.phase_spans: deque[PhaseSpan] = deque(maxlen=MAX_PHASE_SPANS)
        self.epoch_starts: deque[tuple[int, int]] = deque(maxlen=MAX_PHASE_SPANS)
        self.model: Model | None = None
        self.result: Result | None = None
        self.newest_alert: Alert | None = None
        self.last_t = header.t
        self.training_start: int | None = None
        """When the first batch that compiles nothing began."""
        self.loops = Loops()
        self._epochs: list[Epoch] = []
        self._evaluation: Evaluation | None = None
        self.readings = TrainingReadings()
        interval_s = self.machine.interval_s
        self.data_wait = DataWait(history_s(interval_s))
        self.step_parts = StepPartSums(history_s(interval_s))
        self.own_code = RecentCode(history_s(interval_s))
        self.epoch_history = EpochHistory()
        self.trainers = ProcessLoops()
        self._start_checks = RuleChecks(header.t, interval_s)
        """The checks before steady training."""
        self._checks = RuleChecks(header.t, interval_s)
        self._output: deque[Output] = deque(maxlen=OUTPUT_LINES)
        self._notices: deque[Notice | Alert] = deque(maxlen=NOTICES)
        self._pauses: list[NamedPause] = []
        self.stacks = Stacks()
        self.profiles: deque[Profile] = deque(maxlen=20)
        """The newest of what a person had profiled."""
        self.marks = Marks()
        """The moments that somebody who looks through it wants to see."""
        self._throttling = Throttling()
        self._epoch_now = 0
        self._steps_done = self._updates_done = 0
        self._last_step_ns = 0
        self._build_start: int | None = None
        self._build_s = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Keep the last lines of the output alone: all of them are in the log."""
        lines = list(self._output)
        if len(lines) > OUTPUT_LINES_IN_INDEX:
            del lines[:-OUTPUT_LINES_IN_INDEX]
            lines.insert(0, Output(lines[0].t, "dlmon", EARLIER_OUTPUT))
        return vars(self) | {"_output": deque(lines, maxlen=OUTPUT_LINES)}

    def fold(self, record: Record) -> None:
        """Take one record; those of an unknown kind are skipped."""
        self.fold_all((record,))

    def fold_all(self, records: Iterable[Record]) -> None:
        """Take records in order, those of plain batches many at once.

        It comes to the same as to take them one by one.
        """
        plain: PlainBatches | None = None
        for record in records:
            if isinstance(record, Batches):
                plain = plain or self._plain_batches()
                if plain is not None and plain.take(record):
                    self.last_t = max(self.last_t, plain.end_ns)
                    if len(plain.records) == _MOST_PLAIN:
                        self._fold_plain(plain)
                        plain = None
                    continue
            if plain is not None and not isinstance(record, _BESIDE_BATCHES):
                self._fold_plain(plain)
                plain = None
            self._fold_one(record)
        if plain is not None:
            self._fold_plain(plain)

    def _fold_one(self, record: Record) -> None:
        t = time_of(record)
        if t is not None:
            self.last_t = max(self.last_t, t)
        if isinstance(record, Trainer):
            self.trainers.add(record)
            if not record.number:
                self.learning.add(record)
            pause = self.stacks.ended(record.number)
            if pause is not None and not record.number and self.account.end_in_pause(pause.t):
                place = self._epoch_now, self._steps_done
                stall = Gap(pause.begin, pause.t, GapKind.STALL, *place, loop=self.loops.number)
                self.gaps.add(stall)
            if record.ended and not record.number:
                self.account.end_process(record.t)
        elif isinstance(record, Profile):
            self.profiles.append(record)
        elif isinstance(record, (Stack, ProcessStack)):
            self.stacks.fold(record)
        elif isinstance(record, (FrameworkMemory, OutOfMemory)):
            self.memory.add(record)
            if isinstance(record, OutOfMemory):
                text = out_of_memory_text(record)
                self._mark(Mark(record.t, MarkKind.NOTICE, text=text))
                # What looks for a batch that fits may run out many times.
                if all(notice.text != text for notice in self._notices):
                    self._notices.append(Notice(record.t, text))
        elif isinstance(record, TokenShares):
            # Those of other processes too: they share each step.
            now = self.loops.now
            now.shares = now.shares.plus(record)
        elif getattr(record, "trainer", None):
            self._fold_of_another(record)
        elif isinstance(record, (Batches, BatchSummary)):
            self._fold_batches(record)
        elif isinstance(record, Machine):
            self._keep_reading(self.machine.add(record))
            latest = self.machine.latest
            for key in self._throttling.new_reasons(record, (latest and latest.gpus) or ()):
                self._mark(Mark(record.t, MarkKind.THROTTLING, *key))
        elif isinstance(record, Node):
            self._fold_node(record)
        elif isinstance(record, StepParts):
            self.step_parts.fold(record)
        elif isinstance(record, CodeSamples):
            self.own_code.fold(record)
        elif isinstance(record, Metrics):
            # What was read before the phase is of another stretch.
            since = self.phase_spans[-1].start if self.phase_spans else self.header.t
            self.learning.add(record, since)
        elif isinstance(record, Facts):
            self.facts = newest_facts(self.facts, record.machine)
        elif isinstance(record, Phase):
            self._fold_phase(record)
        elif isinstance(record, NamedPause):
            self._fold_pause(record)
        elif isinstance(record, Model):
            self.model = record
            self.loops.begin(record)
            self.gaps.has_epochs = record.has_epochs is not False
        elif isinstance(record, Epoch):
            self._fold_epoch(record)
            self._mark(Mark(record.end, MarkKind.EPOCH, record.epoch))
        elif isinstance(record, Evaluation):
            self._evaluation = record
            self.account.end_evaluation(record)
        elif isinstance(record, Output):
            self._output.append(record)
        elif isinstance(record, Notice):
            self._notices.append(record)
            self._mark(Mark(record.t, MarkKind.NOTICE, text=record.text))
        elif isinstance(record, Alert):
            text = alert_text(record)
            self._mark(Mark(record.t, MarkKind.ALERT, text=text))
            if record.event not in (AlertEvent.FINISHED, AlertEvent.FAILED):
                self.newest_alert = record
                self._notices.append(replace(record, text=text))
        elif isinstance(record, Result):
            self.result = record
            self._close_span(self.last_t)

    def _fold_node(self, record: Node) -> None:
        node = self.nodes.get(record.host)
        if node is None:
            node = self.nodes[record.host] = NodeMachine(self.machine.interval_s)
        if record.facts is not None:
            node.facts = newest_facts(node.facts, record.facts)
        if record.machine is not None:
            node.history.add(record.machine)

    def _mark(self, mark: Mark) -> None:
        """Keep a moment; none is earlier than what is known by then: it shows what that was."""
        if len(self.marks) < MOST_MARKS:
            self.marks.append(replace(mark, t=max(mark.t, self.last_t)))

    def _fold_of_another(self, record: Record) -> None:
        """Take a record of a process that trains beside the one that is shown in full."""
        if isinstance(record, (Model, Batches, BatchSummary, Epoch, StepParts)):
            self.trainers.add(record)
        if isinstance(record, (Batches, BatchSummary)):
            steps = self.steady.counts_steps if self.steady.batches else record.samples is None
            rate = _rate_of(record, steps)
            if rate is not None:
                series = self.steps_rate if steps else self.samples_rate
                series.add_beside(record.begin, record.t_last, rate)
            tokens = _tokens_rate_of(record)
            if tokens is not None:
                self.tokens_rate.add_beside(record.begin, record.t_last, tokens)

    @property
    def steady(self) -> SteadyState:
        """What the times of the batches come to in the loop that runs."""
        return self.loops.now.steady

    @property
    def counts_steps(self) -> bool:
        """Whether steps stand for samples: the size of the batches that count isn't known."""
        return self.loops.longest.steady.counts_steps

    @property
    def throughput(self) -> Series:
        """The throughput over time, in what the session counts in."""
        return self.steps_rate if self.counts_steps else self.samples_rate

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """The epoch, its steps and updates so far, the time of the last step, the last moment."""
        epoch = self._epoch_now, self._steps_done, self._updates_done
        return (*epoch, self._last_step_ns, self.last_t)

    def last_output(self, count: int) -> list[Output]:
        return list(self._output)[-count:]

    def _plain_batches(self) -> PlainBatches | None:
        """Return what takes plain batches from here on; None where the next can't be plain."""
        loop = self.loops.now
        steady, tokens, limit_us = loop.steady, loop.tokens, self.epoch_history.stall_limit_us
        goes_on = self.account.trains_in(self._epoch_now) and self.stacks.going_on is None
        if not goes_on or limit_us is None or loop.holds_batches or not steady.is_even:
            return None
        if tokens is not None and not tokens.is_even:
            return None
        if steady.batch_size not in self.gaps.batch_sizes:
            return None
        limits_us = limit_us, steady.plain_limit_us, MIN_GAP_NS // 1000 - 1
        return PlainBatches(
            self._epoch_now,
            None if steady.counts_steps else steady.batch_size,
            None if tokens is None else tokens.batch_size,
            min(*limits_us, math.inf if tokens is None else tokens.plain_limit_us),
            self.account.until_ns,
        )

    def _fold_plain(self, plain: PlainBatches) -> None:
        if not plain.records:
            return
        last = plain.records[-1]
        dt_us, times_us, ends_ns = plain.dt_us, plain.times_us, plain.ends_ns
        self.data_wait.fold_plain(plain)
        self.account.take_plain(plain.end_ns)
        self.loops.now.add_plain(plain)
        self.epoch_history.add_plain(plain.waits_us)
        for record in plain.records:
            self._steps_done = max(self._steps_done, record.first + len(record.dt_us))
            self._updates_done += len(record.dt_us) if record.updates is None else record.updates
        self._last_step_ns = last.dt_us[-1] * 1000
        series = self.samples_rate if plain.samples is not None else self.steps_rate
        samples, tokens = plain.samples or 1, plain.tokens
        for end_ns, took_us, time_us in zip(ends_ns, dt_us, times_us, strict=True):
            begin_ns = end_ns - time_us * 1000
            series.add_batches(begin_ns, took_us, (samples,) * len(took_us))
            if tokens is not None and time_us:
                rate = tokens * len(took_us) / time_us * 1e6
                self.tokens_rate.add(begin_ns, end_ns, rate)

    def _fold_batches(self, record: Batches | BatchSummary) -> None:
        # What is sent last may be of before the pause in which the process ended.
        self.stacks.went_on(0, record.t_last)
        if record.epoch != self._epoch_now:
            self._epoch_now, self._steps_done, self._updates_done = record.epoch, 0, 0
        if record.first == 0:
            self._mark_epoch(record.epoch, record.begin - (record.opening_us or 0) * 1000)
        self._steps_done = max(self._steps_done, record.first + record.count)
        if isinstance(record, Batches) and record.profiled:
            # They are steps of the run, and stand in its breakdown; no figure is of them.
            self.account.take_batches(record)
            return
        compiling, sizes = self.steady.is_at_start, len(self.steady.first_batches)
        self.data_wait.fold(record)
        sources: Sequence[TimePart] = ()
        if isinstance(record, Batches) and self.account.awaits_batches:
            sources = self._sources_of(record)
        gaps = self.gaps.add_batches(record, self.steady, self.loops.number)
        self.account.take_batches(record, sources)
        # An epoch that was cut short begins with its first batches.
        opening = record.first == 0 and self.model is not None and self.model.cut_short
        self.loops.now.add(record, opening)
        for mark in stalls(record, gaps, self.steady):
            self._mark(mark)
        compiled = len(self.steady.first_batches) - sizes
        self.epoch_history.add_batches(record, self.steady, compiled)
        tokens = None if compiling else _tokens_rate_of(record)
        if tokens is not None:
            self.tokens_rate.add(record.begin, record.t_last, tokens)
        self._updates_done += record.count if record.updates is None else record.updates
        steps = self.steady.counts_steps or record.samples is None
        series = self.steps_rate if steps else self.samples_rate
        if isinstance(record, BatchSummary):
            self._last_step_ns = record.time_us * 1000 // record.count
            rate = _rate_of(record, steps)
            if rate is not None:
                series.add(record.begin, record.t_last, rate)
            return
        self._last_step_ns = record.dt_us[-1] * 1000
        start, dt_us, samples = record.begin, record.dt_us, record.counted_in(steps)
        assert samples is not None
        if compiling:
            # The first execution's time is compilation: it says nothing of throughput.
            per_execution = record.per_execution or 1
            start += sum(dt_us[:per_execution]) * 1000
            dt_us, samples = dt_us[per_execution:], samples[per_execution:]
        series.add_batches(start, dt_us, samples)

    def _sources_of(self, record: Batches) -> list[TimePart]:
        """Return what each batch counts as, as far as it takes longer than usual."""
        steady, together = self.steady, record.per_execution or 1
        known = set() if steady.is_at_start else self.gaps.batch_sizes
        limit_us, sources = steady.stall_limit_us() or math.inf, []
        for first in range(0, len(record.dt_us), together):
            took_us = record.dt_us[first : first + together]
            sizes = set(record.counted[first : first + together])
            source = TimePart.TRAINING
            if not sizes <= known:
                source = TimePart.COMPILING
            elif steady.is_expected(steady.batches + first, took_us[0]):
                source = TimePart.BETWEEN_STEPS
            elif took_us[0] > limit_us:
                source = TimePart.STALLS
            known |= sizes
            sources += [source] * len(took_us)
        return sources

    def _fold_pause(self, record: NamedPause) -> None:
        self.account.take_pause(record)
        # Of one that goes on, what came of it so far is part of it.
        newest = self._pauses[-NEWEST_PAUSES:]
        self._pauses[-NEWEST_PAUSES:] = [each for each in newest if not record.contains(each)]
        self._pauses.append(record)
        if len(self._pauses) >= 2 * MAX_PAUSES:
            longest = sorted(self._pauses, key=lambda pause: pause.t - pause.end)[:MAX_PAUSES]
            self._pauses = sorted(longest, key=lambda pause: pause.t)
        if not record.beside and record.end - record.t >= MIN_GAP_NS:
            self.gaps.add(Gap(record.t, record.end, GapKind.NAMED))

    def _mark_epoch(self, epoch: int, start: int) -> None:
        if not self.epoch_starts or self.epoch_starts[-1][0] < epoch:
            self.epoch_starts.append((epoch, start))

    def _fold_phase(self, record: Phase) -> None:
        now = self.phase_spans[-1] if self.phase_spans else None
        repeated = now is not None and (now.phase, now.start) == (record.name, record.t)
        if repeated or (now is not None and record.t < now.start):
            # Earlier versions went on in another file where a log was lost, and said it again.
            return
        self.account.enter(record)
        self._close_span(record.t)
        self.phase_spans.append(PhaseSpan(record.name, record.t, None))
        if record.name == "building" and self._build_start is None:
            self._build_start = record.t
        if record.name in STEADY_PHASES and self.training_start is None:
            self.training_start = record.t

    def _close_span(self, t: int) -> None:
        if self.phase_spans and self.phase_spans[-1].end is None:
            span = self.phase_spans.pop()
            end = max(t, span.start)
            self.phase_spans.append(replace(span, end=end))
            if span.phase == "building":
                self._build_s += (end - span.start) / 1e9

    def _fold_epoch(self, record: Epoch) -> None:
        last = self._epochs[-1] if self._epochs else None
        is_again = last is not None and (record.epoch, record.begin) == (last.epoch, last.begin)
        if last is not None and record.end <= last.end:
            # It ended before one that is known: a log of earlier versions may repeat it.
            self._add_to_epoch(record)
            return
        if last is not None and is_again:
            # With the validation that followed it.
            self._epochs.pop()
        self._epochs.append(record)
        self.epoch_history.add_epoch(record)
        self.learning.add(record)
        self.memory.end_epoch(record)
        self.account.end_epoch(record, self.last_t, self.loops.of(record).steady)
        self._mark_epoch(record.epoch, record.begin)
        self._epoch_now, self._steps_done, self._updates_done = record.epoch + 1, 0, 0
        self.loops.of(record).add_epoch(record)

    def epochs_like(
        self, epoch: Epoch, epochs: Sequence[Epoch]
    ) -> tuple[list[Epoch], float | None]:
        """Return the epochs of the same loop as one of them, and how long the loop compiled.

        That is None where the first of these epochs didn't compile.
        """
        loop = self.loops.of(epoch)
        alike = [one for one in epochs if one.begin in loop.epochs]
        compiles = bool(alike) and alike[0].epoch in loop.compiling
        return alike, loop.compile_s if compiles else None

    def slow_epochs(self, epochs: Sequence[Epoch]) -> frozenset[int]:
        """Return when those epochs began that are clearly slower than others of their loop."""
        slow: set[int] = set()
        for loop in self.loops.seen:
            first = next(iter(loop.epochs.values()), None)
            if first is not None:
                alike, compile_s = self.epochs_like(first, epochs)
                slow |= slow_epochs(alike, self.epoch_history.of, compile_s)
        return frozenset(slow)

    def _add_to_epoch(self, record: Epoch) -> None:
        """Take what is known of an epoch later, such as the loss of a validation: it takes no time.

        Of a GPU, the loss of an epoch may be known when the next ones have ended.
        """
        for place, known in enumerate(reversed(self._epochs), 1):
            if known.end < record.end:
                return
            if (known.epoch, known.begin, known.end) == (record.epoch, record.begin, record.end):
                metrics, why = {**known.metrics, **record.metrics}, {**known.why, **record.why}
                self._epochs[-place] = changed = replace(record, metrics=metrics, why=why)
                self.loops.of(record).add_epoch(changed)
                self.learning.add(record)
                return

    def snapshot(self, now_ns: int | None = None, is_over: bool = False) -> Snapshot:
        """Return all figures at `now_ns` (the clock of the session's machine).

        Without a time, or after the end, the moment of the last record counts. `is_over` says that
        the session is over though it has no result yet.
        """
        now = self.last_t if now_ns is None or self.result is not None else now_ns
        is_over = is_over or self.result is not None
        why: dict[str, str] = {}
        loop, seen = self.loops.longest, self.loops.seen
        seconds_per_epoch = self._seconds_per_epoch(loop, is_over, why)
        own_rate = loop.steady.samples_per_second()
        samples_per_second = self.trainers.together(loop)
        trainers = self.trainers.rates(own_rate, loop, self.data_wait, self.step_parts)
        tokens_per_second = self.trainers.together(loop, Loop.tokens_per_second)
        rough_step_us = loop.steady.rough_step_us
        compiled = [one.compile_s for one in seen if one.compile_s is not None]
        compile_s = math.fsum(compiled) if compiled else None
        if samples_per_second is None:
            unsteady = ("samples_per_second", "step_ms", "stalls")
            why |= dict.fromkeys(unsteady, Requirement.STEADY_STATE)
        elif samples_per_second.standard_error is None:
            why["samples_per_second.standard_error"] = reasons.NO_BAND
        step_ms = loop.steady.step_time()
        if step_ms is not None and step_ms.p95 is None:
            why["step_ms.p95"] = f"it takes {LEAST_FOR_P95} steady batches"
        stalls = _sum(one.steady.stalls() for one in seen if one.steady.steady)
        if samples_per_second is not None and stalls is None:
            why["stalls"] = reasons.SUMMARISED
        if compile_s is None:
            why["compile_s"] = reasons.NO_BATCH if is_over else reasons.NO_BATCH_YET
        run_seconds = self._run_seconds(seconds_per_epoch, compile_s, why)
        lacking = {name: lack for name, lack in why.items() if isinstance(lack, Requirement)}
        not_steady = reasons.NEVER_STEADY if is_over else reasons.NOT_STEADY
        if is_over and not any(one.steady.batches for one in seen):
            not_steady = reasons.NOTHING_RECORDED
        for name, lack in lacking.items():
            not_built = reasons.NEVER_BUILT if is_over else reasons.NOT_BUILT
            if self.header.is_script:
                not_built = reasons.NOTHING_SEEN if is_over else reasons.NOTHING_SEEN_YET
            why[name] = not_built if lack == Requirement.MODEL else not_steady
        if self.header.is_machine_recording:
            why, lacking = dict.fromkeys(why, reasons.NO_WORKLOAD), {}
        overdue_s = None
        if not is_over:
            since = self.account.overdue_since(min(self.last_t, now), self.steady)
            overdue_s = None if since is None else (now - since) / 1e9
        sample = self.machine.latest
        account: dict[TimePart, float] = {}
        if not self.header.is_machine_recording:
            waited_us = self.data_wait.waited_us
            steady = [one.steady for one in seen]
            account = self.account.parts(
                *(now, self.last_t, steady, self.steady, is_over, waited_us, self._was_stopped)
            )
        return Snapshot(
            header=self.header,
            phase=self.phase,
            model=self.model,
            gpus=self.gpus,
            elapsed_s=max(0, now - self.header.t) / 1e9,
            progress=self._progress(now),
            overdue_s=overdue_s,
            samples_per_second_now=None if overdue_s else self._rate_now(self.throughput, now),
            samples_per_second=samples_per_second,
            tokens_per_second_now=None if overdue_s else self._rate_now(self.tokens_rate, now),
            tokens_per_second=tokens_per_second,
            token_shares=loop.shares,
            rough_step_ms=None if rough_step_us is None else rough_step_us / 1000,
            step_ms=step_ms,
            compile_s=compile_s,
            validation_compile_s=math.fsum(one.validations.compile_s for one in seen),
            stalls=stalls,
            opening_stalls=_sum(one.steady.opening_stalls() for one in seen if one.steady.steady),
            batches=sum(one.steady.batches for one in seen),
            seconds_per_epoch=seconds_per_epoch,
            run_seconds=run_seconds,
            epochs=tuple(map(self.trainers.with_samples, self._epochs_shown())),
            trainers=trainers,
            counts_steps=self.counts_steps,
            loops=tuple(self._loop_result(one, loop, is_over) for one in seen),
            measured_model=loop.model
            and replace(loop.model, samples_per_epoch=self.trainers.samples_of_all(loop)),
            effective=effective_of(
                loop.model,
                samples_per_second,
                tokens_per_second,
                self.trainers.peak_of_all(loop),
                loop.steady.counts_steps,
            ),
            evaluation=self._evaluation,
            machine=sample,
            machine_age_s=None if sample is None else max(0, now - sample.t) / 1e9,
            output=tuple(self._output),
            notices=tuple(self._notices),
            pauses=tuple(self._pauses),
            limit=self._limit(is_over, trainers, is_overdue=overdue_s is not None),
            account=account,
            validity=self._validity(account, is_over),
            gaps=self.gaps.found([one.steady for one in self.loops.all]),
            stacks=self.stacks.of_pauses,
            pause=None if is_over else self._pause(now),
            regular_steps=loop.steady.regular_steps(),
            memory=self.memory_use,
            result=self.result,
            why=why,
            lacking=lacking,
            step_parts=self.step_parts.total,
            why_no_parts=self.step_parts.why,
        )

    @property
    def _was_stopped(self) -> bool:
        """Whether it was stopped, or a signal ended it."""
        result = self.result
        if result is None:
            return False
        return result.status == Status.STOPPED or (result.exit_code or 0) < 0

    def _pause(self, now: int) -> Gap | None:
        """Return the time without a batch that goes on, where its processes say that it does."""
        stack = self.stacks.going_on
        if stack is None or now - stack.begin < MIN_GAP_NS:
            return None
        is_in_epoch = self.phase in STEADY_PHASES
        kind = GapKind.STALL if is_in_epoch else GapKind.BETWEEN
        step = self._steps_done if is_in_epoch else None
        epoch = self._epoch_now if is_in_epoch else max(0, self._epoch_now - 1)
        known = epoch if self.gaps.has_epochs else None
        return self.gaps.explained(Gap(stack.begin, now, kind, known, step))

    def _validity(self, account: dict[TimePart, float], is_over: bool) -> Validity | None:
        if self.header.is_machine_recording:
            return None
        loop, facts = self.loops.longest, self.header.machine
        return find_doubts(
            loop.steady, account, self.readings, facts, loop.model, self.gpus, is_over
        )

    def _loop_result(self, loop: Loop, longest: Loop, is_over: bool) -> LoopResult:
        """Return what loops that are alike came to."""
        model, steady = loop.model or Model(None, None, None, None, None, None), loop.steady
        return LoopResult(
            network=network_of(model),
            parameters=model.parameters,
            batch_size=model.batch_size,
            samples_per_epoch=self.trainers.samples_of_all(loop),
            count=loop.count,
            epochs=len(loop.epochs),
            batches=steady.batches,
            train_s=steady.time_us / 1e6,
            seconds_per_epoch=self._seconds_per_epoch(loop, is_over, {}),
            samples_per_second=self.trainers.together(loop),
            tokens_per_second=self.trainers.together(loop, Loop.tokens_per_second),
            step_ms=steady.step_time(),
            counts_steps=steady.counts_steps or None,
            headline=True if loop is longest else None,
        )

    def _rate_now(self, series: Series, now: int) -> float | None:
        """Return the throughput of the last two seconds of training; of more where steps are slow.

        A batch is known once it has ended, so the last one stands until the next is overdue.
        """
        if self.result is not None or self.phase not in STEADY_PHASES:
            return None
        window_ns = max(2_000_000_000, 2 * self._last_step_ns)
        return series.columns(now - window_ns, window_ns, 1)[0]

    def _keep_reading(self, start_ns: int) -> None:
        """Keep what is needed to explain gaps, and half a minute of what limits the run."""
        sample = self.machine.latest
        assert sample is not None
        reading = MachineReading(start_ns, sample.t, values_of(sample, self.gpus))
        self.gaps.fold_reading(reading)
        self.epoch_history.add_reading(reading)
        if self.phase in STEADY_PHASES and self.steady.steady:
            self.readings.add(reading.values, sample, self.gpus)
            self._checks.add(sample)
        if not self._checks.are_enough and not self.header.is_machine_recording:
            self._start_checks.add(sample)

    def _limit(
        self, is_over: bool, trainers: Sequence[ProcessRate], is_overdue: bool = False
    ) -> Limit | None:
        loss, latest = self.bad_loss(is_over), self.machine.latest
        inputs = (self.facts, self.model, is_over)
        if loss is None and not is_over and not self._checks.are_enough:
            checks = self._start_checks.newest_checks(inputs, self._check_start)
            limit = limit_of(checks, is_over)
            return limit if limit is not None and limit.evidence else None
        lost = None
        if latest is not None and self._checks.are_enough:
            lost = gpu_lost(self._checks.newest, latest, self.gpus, is_over)

        def check(samples: tuple[Machine, ...], at_ns: int) -> RuleCheck:
            return self._check_training(samples, at_ns, is_over, is_lost=lost is not None)

        if is_overdue:
            # The limit of the steps before says nothing of now.
            return limit_of((), is_over, (loss, lost))
        checks = self._checks.newest_checks((*inputs, lost is not None), check)
        return limit_of(checks, is_over, (loss, lost, rank_holds_up(trainers, is_over)))

    def _check_start(self, samples: tuple[Machine, ...], at_ns: int) -> RuleCheck:
        cpus, interval_s = self.header.options.get("cpus"), self.machine.interval_s
        run = RunSamples(samples, self.facts, cpus=cpus, interval_s=interval_s)
        return check_rules(run, RULES_OF_THE_START)

    def _check_training(
        self, samples: tuple[Machine, ...], at_ns: int, is_over: bool, is_lost: bool
    ) -> RuleCheck:
        """Check the rules for samples of steady training that end at a moment."""
        model, wait = self.model, self.data_wait.before(at_ns)
        backend = model.backend if model is not None else None
        run = RunSamples(
            samples,
            self.facts,
            self.gpus,
            cpus=self.header.options.get("cpus"),
            threads=self.header.options.get("threads"),
            waited_share=None if wait is None else wait.share,
            waited_window_s=WINDOW_S if wait is None else wait.of_s,
            workers=model.workers if model is not None else None,
            unmeasured=unmeasured_wait(backend) if wait is None else None,
            parts=self.step_parts.before(at_ns),
            code=self.own_code.before(at_ns),
            model=model,
            is_over=is_over,
            on_cpu=model is not None and model.device == "cpu",
            is_lost=is_lost,
            interval_s=self.machine.interval_s,
            retries=self.memory.retries_between(samples[0].t, at_ns),
        )
        return check_rules(run)

    def bad_loss(self, is_over: bool) -> Evidence | None:
        return loss_is_no_number(
            self.learning.metrics,
            self._epochs,
            self._epoch_now if self.has_epochs else None,
            self.model.precision if self.model is not None else None,
            self.header.is_script,
            is_over,
        )

    @property
    def gpus(self) -> tuple[int, ...]:
        """NVML's numbers of the GPUs of this machine that any of the processes trains on."""
        found = set() if self.model is None else set(self.model.gpus)
        for number, loops in self.trainers.loops.items():
            model, trainer = loops.now.model, self.trainers.known.get(number)
            if model is not None and trainer is not None and trainer.host is None:
                found |= set(model.gpus)
        return tuple(sorted(found))

    @property
    def memory_use(self) -> MemoryUse:
        """What a framework holds of the GPU, and what of that one is left where it is known."""
        free_mib, latest = None, self.machine.latest
        if len(self.gpus) == 1 and latest is not None:
            (index,) = self.gpus
            used = (gpu.memory_used_mib for gpu in latest.gpus or () if gpu.index == index)
            total = (gpu.memory_mib for gpu in self.facts.gpus or () if gpu.index == index)
            used_mib, total_mib = next(used, None), next(total, None)
            if used_mib is not None and total_mib is not None:
                free_mib = total_mib - used_mib
        return self.memory.use(free_mib)

    @property
    def has_epochs(self) -> bool:
        """Whether there are epochs, or may be: not where a script's loop is known to have none."""
        return self.model is None or self.model.has_epochs is not False

    @property
    def phase(self) -> str | None:
        return self.phase_spans[-1].phase if self.phase_spans else None

    def _seconds_per_epoch(
        self, loop: Loop, is_over: bool, why: dict[str, str]
    ) -> SecondsPerEpoch | None:
        model = loop.model
        if model is not None and model.why_no_epochs is not None:
            why["seconds_per_epoch"] = model.why_no_epochs
            return None
        whole_s = loop.whole_s(self._without_validation(is_over))
        measured = epoch_interval(*whole_s, loop.steady, loop.compile_s or 0.0)
        if measured is not None:
            if measured.low is None:
                why["seconds_per_epoch.band"] = reasons.NO_BAND
            return measured
        if model is None:
            why["seconds_per_epoch"] = Requirement.MODEL
            return None
        if model.samples_per_epoch is None:
            has_epochs = model.has_epochs is not False
            why["seconds_per_epoch"] = reasons.NO_LENGTH if has_epochs else reasons.NO_PASSES
            return None
        if model.epochs == 0 or model.samples_per_epoch < 1:
            why["seconds_per_epoch"] = reasons.NO_EPOCHS
            return None
        if loop.validations.seconds(model.validation_steps or 0) is None:
            why["validation"] = reasons.NOT_IN_PROJECTION
        projected = _projected_epoch(loop, model)
        if projected is None:
            why["seconds_per_epoch"] = Requirement.STEADY_STATE
        elif loop.steady.opening_us[0] is None:
            why["openings"] = FEW_OPENINGS
        return projected

    def _without_validation(self, is_over: bool) -> Epoch | None:
        """Return the last epoch, if its validation is still to come.

        Of a loop of PyTorch an epoch is recorded before its validation, and again after it.
        """
        last = self._unvalidated
        if last is None:
            return None
        epochs = self.loops.of(last).epochs.values()
        has_validated = len(epochs) == 1 or any(one.validation is not None for one in epochs)
        is_expected = self.header.is_script and has_validated
        is_to_come = self.phase == "validating" or (is_expected and not is_over)
        return last if is_to_come else None

    def _epochs_shown(self) -> list[Epoch]:
        """Return the epochs; one that is being validated, or was at the end, is not whole."""
        last = self._unvalidated
        if last is None or self.phase != "validating":
            return self._epochs
        return [*self._epochs[:-1], replace(last, whole=False)]

    @property
    def _unvalidated(self) -> Epoch | None:
        """The last epoch, if no later one has started, and it was not validated as others were."""
        last = self._epochs[-1] if self._epochs else None
        if last is None:
            return None
        if (self._epoch_now, self._steps_done) != (last.epoch + 1, 0):
            return None
        alike = self.loops.of(last).epochs.values()
        passes = [0 if e.validation is None else e.validation.count for e in alike]
        if passes.pop() >= max(passes, default=1) and last.validation is not None:
            return None
        return last

    def _run_seconds(
        self,
        seconds_per_epoch: SecondsPerEpoch | None,
        compile_s: float | None,
        why: dict[str, str],
    ) -> RunSeconds | None:
        """Return the time of build, all epochs and the evaluation: measured, or projected."""
        model, build = self.model, self._build_start
        if model is not None and model.why_no_epochs is not None:
            why["run_seconds"] = model.why_no_epochs
            return None
        evaluation_steps = (model.evaluation_steps if model else None) or 0
        if model is not None and self.header.is_script:
            why["run_seconds"] = reasons.NO_WHOLE_RUN
            return None
        if model is None or build is None:
            why["run_seconds"] = Requirement.MODEL
            return None
        if evaluation_steps < 1:
            why["run_seconds"] = "published numbers of this workload are for an epoch"
            return None
        evaluation = self._evaluation
        # Epochs beyond those that were asked for belong to no run that was published.
        epochs = max(0, model.epochs or 0)
        loop = self.loops.now
        compiled_s, others_s = loop.whole_s()
        whole_s = [*compiled_s, *others_s]
        asked_s = whole_s[:epochs]
        whole = len(whole_s) == epochs
        if evaluation is not None and evaluation.whole and whole and evaluation.end > build:
            took_s = (evaluation.end - build) / 1e9
            why["run_seconds.band"] = reasons.ONE_RUN
            return RunSeconds(value=took_s, low=None, high=None, projected=False)
        if seconds_per_epoch is None:
            why["run_seconds"] = why["seconds_per_epoch"]
            return None
        # Epochs that have ended hold their compilation; before the first, it comes on top.
        fixed_s = self._build_s + (sum(asked_s) if asked_s else compile_s or 0.0)
        evaluation_half_s: float | None = 0.0
        if evaluation is not None and evaluation.steps > 0:
            fixed_s += _projected_evaluation_s(evaluation, evaluation_steps)
            if evaluation.steps < evaluation_steps:
                # It counts as just as uneven as the steady training.
                measured_s = max(0.0, (evaluation.end - evaluation.begin) / 1e9)
                half_s = self.steady.band_of_span_s(measured_s)
                scale = evaluation_steps / evaluation.steps
                evaluation_half_s = None if half_s is None else half_s * scale
        else:
            why["evaluation"] = reasons.NOT_IN_PROJECTION
        coming = seconds_per_epoch
        if not coming.first_left_out:
            # The first epoch compiled: it says too much of those to come.
            coming = _projected_epoch(loop, model) or coming
        epochs_left = max(0, epochs - len(asked_s))
        value = fixed_s + coming.value * epochs_left
        if not epochs_left and evaluation_half_s == 0:
            why["run_seconds.band"] = reasons.ONE_RUN
        elif coming.high is None or evaluation_half_s is None:
            why["run_seconds.band"] = reasons.NO_BAND
        else:
            half = math.hypot((coming.high - coming.value) * epochs_left, evaluation_half_s)
            return RunSeconds(value, max(0.0, value - half), value + half, projected=True)
        return RunSeconds(value, None, None, projected=True)

    def _progress(self, now: int) -> Progress | None:
        model = self.model
        if model is None:
            return None
        over = self._epoch_that_is_over()
        # While it is validated, that is still a part of it.
        is_over = over is not None and (self.phase != "validating" or self._unvalidated is None)
        epoch = max(0, self._epoch_now if over is None else over.epoch)
        updates = self._updates_done if over is None else over.updates
        updates = None if updates == self._steps_done else updates
        epochs, has_length = model.epochs_in_all, model.steps_per_epoch is not None
        ended = epochs is not None and has_length and epoch >= epochs
        if epochs is not None:
            epochs = max(0, epochs)
            epoch = max(0, min(epoch, epochs - 1))
        epoch_left_s = run_left_s = end_left_s = None
        if model.steps_per_epoch is None:
            done = self._steps_done if over is None else over.steps or 0
            steps, left_s = self._of_all_steps(model)
            # One that goes on beyond what it was asked for goes on for nobody knows how long.
            steps = None if steps is None or steps < done else steps
            return Progress(
                *(epoch, epochs, done, steps, None, left_s, left_s),
                *(self.header.is_script, is_over, updates),
            )
        steps = max(0, min(model.steps_per_epoch, model.steps_cap or model.steps_per_epoch))
        done = steps if ended or over is not None else min(self._steps_done, steps)
        step_us = self.steady.mean_step_us
        if step_us is not None and self.result is None:
            validating_s = self._time_in("validating", now, 0 if over is None else over.end)
            if over is not None and over.validation is not None:
                # That of the passes before the one that runs.
                validating_s += over.validation.took_s
            validation_steps = self._validation_steps(model)
            known = validation_steps is not None
            whole_s = self.loops.now.validations.seconds(validation_steps or 0) if known else None
            validation_s = whole_s or 0.0
            opening_us = self.steady.opening_us[0] or 0.0
            epoch_s = (steps * step_us + opening_us) / 1e6 + validation_s + self._mean_pause_s()
            epoch_left_s = (steps - done) * step_us / 1e6 + max(0.0, validation_s - validating_s)
            if ended or (over is not None and over.validation and self._unvalidated is None):
                epoch_left_s = 0.0
            if epochs is not None:
                run_left_s = epoch_left_s + (0 if ended else epochs - 1 - epoch) * epoch_s
            if whole_s is None and validating_s:
                # The first validation: nobody knows yet how long it takes.
                epoch_left_s = run_left_s = None
        evaluation_s = self._evaluation_left_s(model, now)
        # More epochs than are known may follow, as those of `--seconds` do.
        are_known = model.extra_epochs is not None or not self.header.options.get("seconds")
        if run_left_s is not None and are_known:
            end_left_s = run_left_s + (evaluation_s or 0.0)
        return Progress(
            epoch=epoch,
            epochs=epochs,
            step=done,
            steps=steps,
            epoch_left_s=epoch_left_s,
            run_left_s=run_left_s,
            end_left_s=end_left_s,
            end_of_training=self.header.is_script or evaluation_s is None,
            is_over=is_over,
            updates=updates,
        )

    def _of_all_steps(self, model: Model) -> tuple[int | None, float | None]:
        """Return the steps of a loop without epochs, and how long those of any loop yet take."""
        if model.steps is None or model.steps < 1:
            return None, None
        ended = [e.steps or 0 for e in self._epochs if e.epoch >= (model.first_epoch or 0)]
        left = max(0, model.steps - sum(ended) - self._steps_done)
        step_us = self.steady.mean_step_us
        left_s = None if step_us is None or self.result is not None else left * step_us / 1e6
        return model.steps if model.has_epochs is False else None, left_s

    def _epoch_that_is_over(self) -> Epoch | None:
        """Return the epoch that ended last, as long as a loop of PyTorch has begun no other.

        It is validated then, or the script does something else or ends, and may begin no other.
        """
        span = self.phase_spans[-1] if self.phase_spans else None
        if span is None or span.end is not None or not self._epochs:
            return None
        last, is_script = self._epochs[-1], self.header.is_script
        if (self._epoch_now, self._steps_done) != (last.epoch + 1, 0):
            return None
        if span.phase == "validating":
            return last if is_script or last.validation is None else None
        return last if is_script and span.phase in (SCRIPT_PHASE, "closing") else None

    def _validation_steps(self, model: Model) -> int | None:
        """Return how many batches a validation has: as asked for, else as the last one had."""
        if model.validation_steps is not None:
            asked = model.validation_steps
            return min(asked, model.steps_cap) if model.steps_cap else asked
        epochs, unvalidated = self.loops.now.epochs, self._unvalidated
        passes = (e.validation for e in reversed(epochs.values()) if e is not unvalidated)
        return next((each.steps for each in passes if each is not None), None)

    def _mean_pause_s(self) -> float:
        epochs = list(self.loops.now.epochs.values())
        pauses = [
            max(0, after.begin - before.end) / 1e9
            for before, after in pairwise(epochs)
            if after.epoch == before.epoch + 1
        ]
        return math.fsum(pauses) / len(pauses) if pauses else 0.0

    def _time_in(self, phase: str, now: int, since: int = 0) -> float:
        """Return how long it has been in a phase, since then at the earliest; 0 where it isn't."""
        span = self.phase_spans[-1] if self.phase_spans else None
        inside = span is not None and span.phase == phase and span.end is None
        return max(0, now - max(span.start, since)) / 1e9 if span is not None and inside else 0.0

    def _evaluation_left_s(self, model: Model, now: int) -> float | None:
        """Return what the evaluation after the training takes; None where that isn't known."""
        steps = model.evaluation_steps or 0
        if steps < 1 or self._evaluation is not None:
            return 0.0
        # Each of its batches takes what one of the validation does.
        whole_s = self.loops.now.validations.seconds(steps) if model.validation_steps else None
        return None if whole_s is None else max(0.0, whole_s - self._time_in("evaluating", now))


def _tokens_rate_of(record: Batches | BatchSummary) -> float | None:
    """Return the throughput of some batches in tokens; None where they hold none."""
    return None if record.tokens is None else _rate_of(in_tokens(record), steps=False)


def _rate_of(record: Batches | BatchSummary, steps: bool) -> float | None:
    """Return the throughput of some batches, in steps or samples; None where not known."""
    counted = record.counted_in(steps)
    if counted is None or not record.time_us:
        return None
    return (counted if isinstance(counted, int) else sum(counted)) / record.time_us * 1e6


def _projected_epoch(loop: Loop, model: Model) -> SecondsPerEpoch | None:
    steps = model.validation_steps or 0
    validation_s = loop.validations.seconds(steps) or 0.0
    half_s = loop.validations.half_s(steps, loop.steady)
    return project_epoch(loop.steady, model.samples_per_epoch or 0, validation_s, half_s)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None where one isn't known, or there are none."""
    known = list(counts)
    return None if not known or None in known else sum(count or 0 for count in known)


def _projected_evaluation_s(evaluation: Evaluation, steps: int) -> float:
    """Scale an evaluation to `steps` batches; its first one compiles, so it counts once."""
    if evaluation.first_end is None:
        return max(0.0, (evaluation.end - evaluation.begin) / 1e9) / evaluation.steps * steps
    first_s = max(0.0, (evaluation.first_end - evaluation.begin) / 1e9)
    rest_s = max(0.0, (evaluation.end - evaluation.first_end) / 1e9)
    return first_s + rest_s / max(1, evaluation.steps - 1) * (steps - 1)


def _interval_of(header: SessionHeader) -> float:
    interval_s = header.options.get("interval")
    if isinstance(interval_s, (int, float)) and 0.05 <= interval_s <= 3600:
        return float(interval_s)
    return 1.0
