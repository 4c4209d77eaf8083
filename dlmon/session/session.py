"""The state of a session, built up from its records.

There is no I/O, and callers pass the time. Any prefix of a log gives a valid session, and every
unknown figure is None with a reason.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dlmon.records import (
    GRADIENTS_PHASE,
    NOT_NUMBERS,
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
    Imported,
    Injection,
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
    RateNow,
    Record,
    Requirement,
    Result,
    RunSeconds,
    SecondsPerEpoch,
    SessionHeader,
    SourceLines,
    Stack,
    Status,
    StepParts,
    Suspended,
    TimePart,
    TokenShares,
    Trainer,
)
from dlmon.records.changes import newest_facts
from dlmon.records.words import STEPS_PER_S, TOKENS_PER_S
from dlmon.session import reasons
from dlmon.session.effective import effective_of
from dlmon.session.epoch_comparison import EpochHistory, slow_epochs
from dlmon.session.framework_memory import MemoryHistory, MemoryUse, out_of_memory_text
from dlmon.session.gaps import (
    MIN_GAP_NS,
    NEWEST_PAUSES,
    Gap,
    GapKind,
    Gaps,
    Stacks,
    takes_down_pipeline,
)
from dlmon.session.learning import LOSS, Learning
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
from dlmon.session.limits.run_samples import RunSamples, summed_parts, with_wait
from dlmon.session.limits.time_parts import time_shares
from dlmon.session.loops import Loop, Loops, ProcessLoops, ProcessRate, in_tokens, network_of
from dlmon.session.machine_history import MachineHistory, NodeMachine
from dlmon.session.marks import MOST_MARKS, Mark, MarkKind, Marks, Throttling, stalls
from dlmon.session.plain_batches import PlainBatches
from dlmon.session.readings import MachineReading, TrainingReadings, values_of
from dlmon.session.running_time import RunningTime
from dlmon.session.snapshot import (
    PhaseSpan,
    Progress,
    Snapshot,
    Validity,
    find_warnings,
    is_stalled,
)
from dlmon.session.time_breakdown import DataWait, RecentCode, StepPartSums, TimeBreakdown, Waited
from dlmon.statistics.projection import epoch_interval, project_epoch
from dlmon.statistics.regular_gaps import RegularSteps
from dlmon.statistics.series import Series
from dlmon.statistics.steady_batches import MIN_OPENINGS
from dlmon.statistics.steady_state import LEAST_FOR_P95, SteadyState
from dlmon.statistics.totals import total

OUTPUT_LINES = 500
OUTPUT_LINES_IN_INDEX = 20
EARLIER_OUTPUT = "(earlier output is in the log)"
NOTICES = 100
MAX_PHASE_SPANS = 2000
# At most this many pauses are kept: the longest.
MAX_PAUSES = 1000

FEW_OPENINGS = (
    f"fewer than {MIN_OPENINGS} epochs have been opened, so the projection leaves that time out"
)
# Records that may be added before or after plain batches with the same result.
_INDEPENDENT_OF_BATCHES = (CodeSamples, FrameworkMemory, Machine, Metrics, Output, StepParts)
_MOST_PLAIN = 512
# The phases whose batches are measured.
STEADY_PHASES = ("training", "predicting", GRADIENTS_PHASE)


def alert_text(alert: Alert) -> str:
    """Return the text of an alert among the notices."""
    figures = "; ".join(alert.figures)
    return f"alert: {alert.text}{f' ({figures})' if figures else ''}"


def time_of(record: Record) -> int | None:
    """Return the end of what a record reports; None if the record has no time."""
    if isinstance(record, (Batches, BatchSummary)):
        return record.t_last
    if isinstance(record, (Epoch, Evaluation, NamedPause)):
        return record.end
    if isinstance(record, Suspended):
        # It stops the session's clock.
        return None
    t = getattr(record, "t", None)
    return t if isinstance(t, int) else None


class Session:
    """A session as its records tell it: `snapshot` has the figures, the series are for charts."""

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self.running_time = RunningTime()
        """The clock of all times in this session but those of the records that are added."""
        self.facts = header.machine
        """The newest facts of the machine."""
        self.machine = MachineHistory(_interval_of(header))
        self.nodes: dict[str, NodeMachine] = {}
        """The other hosts of the run, by name."""
        self.gaps = Gaps(self.machine.interval_s)
        self.time_breakdown = TimeBreakdown(header.t, self.gaps, header.is_script)
        self.samples_rate, self.steps_rate, self.tokens_rate = Series(), Series(), Series()
        self.learning = Learning()
        self.memory = MemoryHistory()
        """The GPU memory of frameworks."""
        self.injections: dict[str, Injection] = {}
        """The outcomes of injections in the main process, by name."""
        self.imported: frozenset[str] = frozenset()
        """The files of its repository that a script has imported, if that was asked for."""
        self.phase_spans: deque[PhaseSpan] = deque(maxlen=MAX_PHASE_SPANS)
        self.epoch_starts: deque[tuple[int, int]] = deque(maxlen=MAX_PHASE_SPANS)
        self.model: Model | None = None
        self.result: Result | None = None
        self._stopping_ns: int | None = None
        self._stopped_stall: Gap | None = None
        self.newest_alert: Alert | None = None
        self.last_t = header.t
        self.training_start: int | None = None
        """The start of the first phase of training."""
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
        self._taken_down_s: dict[int, float] = {}
        """The seconds in which TensorFlow took down a data pipeline, by the start of the pause."""
        self.stacks = Stacks()
        self.profiles: deque[Profile] = deque(maxlen=20)
        """The newest profiles that the user requested."""
        self.marks = Marks()
        """The moments that a viewer can jump to."""
        self._throttling = Throttling()
        self._epoch_now = 0
        self._steps_done = self._updates_done = 0
        self._last_step_ns = 0
        self._bad_since: tuple[int, int] | None = None
        """The epoch and the step at the first NaN or infinite loss since the last good one."""
        self._build_start: int | None = None
        self._build_s = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the last lines of the output: the log has all of them."""
        lines = list(self._output)
        if len(lines) > OUTPUT_LINES_IN_INDEX:
            del lines[:-OUTPUT_LINES_IN_INDEX]
            lines.insert(0, Output(lines[0].t, "dlmon", EARLIER_OUTPUT))
        return vars(self) | {"_output": deque(lines, maxlen=OUTPUT_LINES)}

    def add(self, record: Record) -> None:
        """Add one record; ignore a record of an unknown type."""
        self.add_all((record,))

    def add_all(self, records: Iterable[Record]) -> None:
        """Add records in order.

        Plain batches are added many at once, which gives the same session as one by one.
        """
        plain: PlainBatches | None = None
        running_time = self.running_time
        for logged in records:
            record = running_time.of(logged) if running_time.was_suspended else logged
            if record is None:
                continue
            if isinstance(record, Batches):
                plain = plain or self._plain_batches()
                if plain is not None and plain.take(record):
                    self.last_t = max(self.last_t, plain.end_ns)
                    if len(plain.records) == _MOST_PLAIN:
                        self._add_plain(plain)
                        plain = None
                    continue
            if plain is not None and not isinstance(record, _INDEPENDENT_OF_BATCHES):
                self._add_plain(plain)
                plain = None
            self._add_one(record)
        if plain is not None:
            self._add_plain(plain)

    def _add_one(self, record: Record) -> None:
        t = time_of(record)
        if t is not None:
            self.last_t = max(self.last_t, t)
        record_type = type(record)
        if getattr(record, "trainer", None) and record_type not in _OF_ALL_PROCESSES:
            self._add_of_another_process(record)
            return
        add = ADD.get(record_type)
        if add is not None:
            add(self, record)

    def _add_process(self, record: Trainer) -> None:
        self.trainers.add(record)
        is_main = not record.number
        if is_main:
            self.learning.add(record)
        pause = self.stacks.end_process(record.number)
        if pause is not None and is_main and self.time_breakdown.end_in_pause(pause.t):
            position = self._epoch_now, self._steps_done
            stall = Gap(pause.begin, pause.t, GapKind.STALL, *position, loop=self.loops.number)
            self.gaps.add(stall)
        if record.ended and is_main:
            self.time_breakdown.end_process(record.t)

    def _add_out_of_memory(self, record: OutOfMemory) -> None:
        self.memory.add(record)
        text = out_of_memory_text(record)
        self._mark(Mark(record.t, MarkKind.NOTICE, text=text))
        # A search for the largest batch size may run out of memory many times.
        if all(notice.text != text for notice in self._notices):
            self._notices.append(Notice(record.t, text))

    def _add_token_shares(self, record: TokenShares) -> None:
        # All processes share each step, so those of other processes count too.
        loop = self.loops.now
        loop.shares = loop.shares.plus(record)

    def _add_sample(self, record: Machine) -> None:
        is_whole = self.running_time.sample_is_whole
        start_ns, sample = self.machine.add(record, is_whole), self.machine.latest
        assert sample is not None
        if not is_whole:
            return
        gpus = self.gpus
        reading = MachineReading(start_ns, sample.t, values_of(sample, gpus))
        self.gaps.add_reading(reading)
        self.epoch_history.add_reading(reading)
        if self.phase in STEADY_PHASES and self.steady.steady:
            self.readings.add(reading.values, sample, gpus)
            self._checks.add(sample)
        if not self._checks.are_enough and not self.header.is_machine_recording:
            self._start_checks.add(sample)
        for gpu_and_cause in self._throttling.new_reasons(record, sample.gpus or ()):
            self._mark(Mark(record.t, MarkKind.THROTTLING, *gpu_and_cause))

    def _add_metrics(self, record: Metrics) -> None:
        # Metrics from before the phase belong to another one.
        self.learning.add(record, self._phase_since_ns)
        loss = self.learning.metrics.get(LOSS)
        if loss is None or loss.why not in NOT_NUMBERS:
            self._bad_since = None
        elif self._bad_since is None:
            self._bad_since = self._epoch_now, self._steps_done

    def _add_facts(self, record: Facts) -> None:
        self.facts = newest_facts(self.facts, record.machine)

    def _add_model(self, record: Model) -> None:
        self.model = record
        self.loops.begin(record)
        self.gaps.has_epochs = record.has_epochs is not False

    def _add_evaluation(self, record: Evaluation) -> None:
        self._evaluation = record
        self.time_breakdown.end_evaluation(record)

    def _add_notice(self, record: Notice) -> None:
        self._notices.append(record)
        self._mark(Mark(record.t, MarkKind.NOTICE, text=record.text))
        if record.stops and self._stopping_ns is None:
            self._stopping_ns = record.t
            self._stopped_stall = self._stall(record.t)

    def _add_injection(self, record: Injection) -> None:
        self.injections[record.name] = record

    def _add_imported(self, record: Imported) -> None:
        self.imported |= frozenset(record.files)

    def _add_alert(self, record: Alert) -> None:
        text = alert_text(record)
        self._mark(Mark(record.t, MarkKind.ALERT, text=text))
        if record.event not in (AlertEvent.FINISHED, AlertEvent.FAILED):
            self.newest_alert = record
            self._notices.append(replace(record, text=text))

    def _add_result(self, record: Result) -> None:
        self.result = record
        self._close_span(self.last_t)

    def _add_node(self, record: Node) -> None:
        node = self.nodes.get(record.host)
        if node is None:
            node = self.nodes[record.host] = NodeMachine(self.machine.interval_s)
        if record.facts is not None:
            node.facts = newest_facts(node.facts, record.facts)
        if record.machine is not None:
            node.history.add(record.machine)

    def _mark(self, mark: Mark) -> None:
        """Add a mark, not before the newest record: a jump to it shows what was known then."""
        if len(self.marks) < MOST_MARKS:
            self.marks.append(replace(mark, t=max(mark.t, self.last_t)))

    def _add_of_another_process(self, record: Record) -> None:
        """Add a record of a process that trains beside the main one."""
        if isinstance(record, (Model, Batches, BatchSummary, Epoch, StepParts, CodeSamples)):
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
        """The step times of the current loop."""
        return self.loops.now.steady

    @property
    def throughput_unit(self) -> str:
        """The unit of the throughput: steps/s if the size of a script's batches is unknown."""
        return self.loops.longest.steady.unit

    @property
    def throughput(self) -> Series:
        """The throughput over time, in samples or steps."""
        return self.steps_rate if self.throughput_unit == STEPS_PER_S else self.samples_rate

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """The epoch, its steps and updates so far, the last step in ns, and the last moment."""
        epoch = self._epoch_now, self._steps_done, self._updates_done
        return (*epoch, self._last_step_ns, self.last_t)

    def last_output(self, count: int) -> list[Output]:
        return list(self._output)[-count:]

    def _plain_batches(self) -> PlainBatches | None:
        """Return a collector of the plain batches from now on; None if the next can't be plain."""
        loop = self.loops.now
        steady, tokens, limit_us = loop.steady, loop.tokens, self.epoch_history.stall_limit_us
        trains_on = self.time_breakdown.trains_in(self._epoch_now)
        if not trains_on or self.stacks.current_pause is not None:
            return None
        if limit_us is None or loop.holds_batches or not steady.is_even:
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
            self.time_breakdown.until_ns,
        )

    def _add_plain(self, plain: PlainBatches) -> None:
        if not plain.records:
            return
        last = plain.records[-1]
        dt_us, times_us, ends_ns = plain.dt_us, plain.times_us, plain.ends_ns
        self.data_wait.add_plain(plain)
        self.time_breakdown.add_plain(plain.end_ns)
        self.loops.now.add_plain(plain)
        self.epoch_history.add_plain(plain.waits_us)
        for record in plain.records:
            self._steps_done = max(self._steps_done, record.first + len(record.dt_us))
            self._updates_done += len(record.dt_us) if record.updates is None else record.updates
        self._last_step_ns = last.dt_us[-1] * 1000
        series = self.samples_rate if plain.samples is not None else self.steps_rate
        samples, tokens = plain.samples or 1, plain.tokens
        for end_ns, record_dt_us, time_us in zip(ends_ns, dt_us, times_us, strict=True):
            begin_ns = end_ns - time_us * 1000
            series.add_batches(begin_ns, record_dt_us, (samples,) * len(record_dt_us))
            if tokens is not None and time_us:
                rate = tokens * len(record_dt_us) / time_us * 1e6
                self.tokens_rate.add(begin_ns, end_ns, rate)

    def _add_batches(self, record: Batches | BatchSummary) -> None:
        # Batches from before the pause in which a process ended may be sent after it.
        self.stacks.end_batch(0, record.t_last)
        if self._stopped_stall is not None and record.t_last > self._stopped_stall.end:
            self._stopped_stall = None
        if record.epoch != self._epoch_now:
            self._epoch_now, self._steps_done, self._updates_done = record.epoch, 0, 0
        if record.first == 0:
            self._mark_epoch(record.epoch, record.begin - (record.opening_us or 0) * 1000)
        self._steps_done = max(self._steps_done, record.first + record.count)
        if isinstance(record, Batches) and record.profiled:
            # Profiled steps are part of the time breakdown, but of no figure.
            self.time_breakdown.add_batches(record)
            return
        compiling, sizes = self.steady.is_at_start, len(self.steady.first_batches)
        self.data_wait.add(record)
        sources: Sequence[TimePart] = ()
        if isinstance(record, Batches) and self.time_breakdown.awaits_batches:
            sources = self._sources_of(record)
        gaps = self.gaps.add_batches(record, self.steady, self.loops.number)
        self.time_breakdown.add_batches(record, sources)
        # In an epoch that is cut short, the first batches are its opening.
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
            # The first execution compiles, so it has no throughput.
            per_execution = record.per_execution or 1
            start += sum(dt_us[:per_execution]) * 1000
            dt_us, samples = dt_us[per_execution:], samples[per_execution:]
        series.add_batches(start, dt_us, samples)

    def _sources_of(self, record: Batches) -> list[TimePart]:
        """Return the part of the time breakdown for the extra time of each batch."""
        steady, per_execution = self.steady, record.per_execution or 1
        compiled = set() if steady.is_at_start else self.gaps.batch_sizes
        limit_us, sources = steady.stall_limit_us() or math.inf, []
        for first in range(0, len(record.dt_us), per_execution):
            dt_us = record.dt_us[first : first + per_execution]
            sizes = set(record.counted[first : first + per_execution])
            source = TimePart.TRAINING
            if not sizes <= compiled:
                source = TimePart.COMPILING
            elif steady.is_expected(steady.batches + first, dt_us[0]):
                source = TimePart.BETWEEN_STEPS
            elif dt_us[0] > limit_us:
                source = TimePart.STALLS
            compiled |= sizes
            sources += [source] * len(dt_us)
        return sources

    def _add_stack(self, record: Stack) -> None:
        self.stacks.add(record)
        pause = self.gaps.explained(Gap(record.begin, record.t, GapKind.BETWEEN))
        is_final = not record.goes_on and not record.trainer
        if is_final and takes_down_pipeline(record, pause.meanwhile, self.model):
            self._taken_down_s[record.begin] = pause.seconds

    def _add_pause(self, record: NamedPause) -> None:
        self.time_breakdown.add_pause(record)
        # Earlier records of the same pause cover a part of it.
        newest = self._pauses[-NEWEST_PAUSES:]
        self._pauses[-NEWEST_PAUSES:] = [pause for pause in newest if not record.contains(pause)]
        self._pauses.append(record)
        if len(self._pauses) >= 2 * MAX_PAUSES:
            longest = sorted(self._pauses, key=lambda pause: pause.t - pause.end)[:MAX_PAUSES]
            self._pauses = sorted(longest, key=lambda pause: pause.t)
        if not record.beside and record.end - record.t >= MIN_GAP_NS:
            self.gaps.add(Gap(record.t, record.end, GapKind.NAMED))

    def _mark_epoch(self, epoch: int, start: int) -> None:
        if not self.epoch_starts or self.epoch_starts[-1][0] < epoch:
            self.epoch_starts.append((epoch, start))

    def _add_phase(self, record: Phase) -> None:
        now = self.phase_spans[-1] if self.phase_spans else None
        repeated = now is not None and (now.phase, now.start) == (record.name, record.t)
        if repeated or (now is not None and record.t < now.start):
            # If a log was lost, earlier versions repeated the phase in a new one.
            return
        self.time_breakdown.begin_phase(record)
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

    def _add_epoch(self, record: Epoch) -> None:
        self._mark(Mark(record.end, MarkKind.EPOCH, record.epoch))
        last = self._epochs[-1] if self._epochs else None
        if last is not None and record.end <= last.end:
            self._complete_epoch(record)
            return
        if last is not None and (record.epoch, record.begin) == (last.epoch, last.begin):
            # The new record has the validation, too.
            self._epochs.pop()
        self._epochs.append(record)
        self.epoch_history.add_epoch(record)
        self.learning.add(record)
        self.memory.end_epoch(record)
        steady, step = self.loops.of(record).steady, record.steps
        if step and self.stacks.has_pause_at(record.train_end):
            # That pause lies in its last step, which ended only as the process did.
            step -= 1
        self.time_breakdown.end_epoch(record, self.last_t, steady, step)
        self._mark_epoch(record.epoch, record.begin)
        self._epoch_now, self._steps_done, self._updates_done = record.epoch + 1, 0, 0
        self.loops.of(record).add_epoch(record)

    def epochs_like(
        self, epoch: Epoch, epochs: Sequence[Epoch]
    ) -> tuple[list[Epoch], float | None]:
        """Return those of `epochs` that belong to the loop of `epoch`, and its compile time.

        The compile time is None if the first of these epochs didn't compile.
        """
        loop = self.loops.of(epoch)
        of_loop = [candidate for candidate in epochs if candidate.begin in loop.epochs]
        compiles = bool(of_loop) and of_loop[0].epoch in loop.compiling
        return of_loop, loop.compile_s if compiles else None

    def slow_epochs(self, epochs: Sequence[Epoch]) -> frozenset[int]:
        """Return the starts of the epochs that are clearly slower than others of their loop."""
        slow: set[int] = set()
        for loop in self.loops.seen:
            first = next(iter(loop.epochs.values()), None)
            if first is not None:
                of_loop, compile_s = self.epochs_like(first, epochs)
                slow |= slow_epochs(of_loop, self.epoch_history.of, compile_s)
        return frozenset(slow)

    def _complete_epoch(self, record: Epoch) -> None:
        """Add what became known of an earlier epoch, such as its loss: it takes no time.

        The loss of an epoch on a GPU may be known only after the next epochs.
        """
        for offset, epoch in enumerate(reversed(self._epochs), 1):
            if epoch.end < record.end:
                return
            if (epoch.epoch, epoch.begin, epoch.end) == (record.epoch, record.begin, record.end):
                metrics, why = {**epoch.metrics, **record.metrics}, {**epoch.why, **record.why}
                self._epochs[-offset] = completed = replace(record, metrics=metrics, why=why)
                self.loops.of(record).add_epoch(completed)
                self.learning.add(record)
                return

    def snapshot(self, now_ns: int | None = None, is_over: bool = False) -> Snapshot:
        """Return all figures at one moment.

        Args:
            now_ns: the moment, on the session's `running_time`. Without it, or after the end, it
                is that of the last record.
            is_over: the session is over though it has no result.
        """
        now = self.last_t if now_ns is None or self.result is not None else now_ns
        is_over = is_over or self.result is not None
        why: dict[str, str] = {}
        longest, loops = self.loops.longest, self.loops.seen
        longest_result = self._loop_result(longest, is_over, why)
        seconds_per_epoch = longest_result.seconds_per_epoch
        samples_per_second = longest_result.samples_per_second
        tokens_per_second, step_ms = longest_result.tokens_per_second, longest_result.step_ms
        steady_loops = [loop.steady for loop in loops if loop.steady.steady]
        of_main = self.data_wait, self.step_parts, self.own_code
        trainers = self.trainers.rates(longest, *of_main)
        rough_step_us = longest.steady.rough_step_us
        compiled_s = [loop.compile_s for loop in loops if loop.compile_s is not None]
        compile_s = math.fsum(compiled_s) if compiled_s else None
        if samples_per_second is None:
            unsteady = ("samples_per_second", "step_ms", "stalls")
            why |= dict.fromkeys(unsteady, Requirement.STEADY_STATE)
        elif samples_per_second.standard_error is None:
            why["samples_per_second.standard_error"] = reasons.NO_BAND
        if step_ms is not None and step_ms.p95 is None:
            why["step_ms.p95"] = f"it takes {LEAST_FOR_P95} steady batches"
        stalls = total(steady.stalls() for steady in steady_loops)
        if samples_per_second is not None and stalls is None:
            why["stalls"] = reasons.SUMMARISED
        if compile_s is None:
            why["compile_s"] = reasons.NO_BATCH if is_over else reasons.NO_BATCH_YET
        run_seconds = self._run_seconds(seconds_per_epoch, compile_s, why)
        lacking = {name: lack for name, lack in why.items() if isinstance(lack, Requirement)}
        not_steady = reasons.NEVER_STEADY if is_over else reasons.NOT_STEADY
        if is_over and not any(loop.steady.batches for loop in loops):
            not_steady = reasons.NOTHING_RECORDED
        for name, lack in lacking.items():
            not_built = reasons.NEVER_BUILT if is_over else reasons.NOT_BUILT
            if self.header.is_script:
                not_built = reasons.NOTHING_SEEN if is_over else reasons.NOTHING_SEEN_YET
            why[name] = not_built if lack == Requirement.MODEL else not_steady
        if self.header.is_machine_recording:
            why, lacking = dict.fromkeys(why, reasons.NO_WORKLOAD), {}
        since = None if is_over else self._overdue_since(now)
        overdue_s = None if since is None else (now - since) / 1e9
        sample, regular = self.machine.latest, longest.steady.regular_steps()
        time_breakdown: dict[TimePart, float] = {}
        if not self.header.is_machine_recording:
            heard_ns = self.last_t
            if is_over:
                heard_ns = 0 if sample is None else sample.t
            time_breakdown = self.time_breakdown.parts(
                *(now, heard_ns, [loop.steady for loop in loops], self.steady, is_over),
                waited_us=self.data_wait.waited_us,
                stopped=self._was_stopped,
                completed=self.result is not None and self.result.status == Status.COMPLETED,
            )
        return Snapshot(
            header=self.header,
            phase=self.phase,
            phase_s=max(0, now - self._phase_since_ns) / 1e9,
            is_suspended=self.running_time.is_suspended,
            suspended_s=self.running_time.suspended_ns / 1e9,
            model=self.model,
            gpus=self.gpus,
            elapsed_s=max(0, now - self.header.t) / 1e9,
            progress=self._progress(now, is_over),
            overdue_s=overdue_s,
            samples_per_second_now=self._rate_now(
                self.throughput, self.throughput_unit, now, overdue_s
            ),
            samples_per_second=samples_per_second,
            tokens_per_second_now=self._rate_now(self.tokens_rate, TOKENS_PER_S, now, overdue_s),
            tokens_per_second=tokens_per_second,
            token_shares=longest.shares,
            rough_step_ms=None if rough_step_us is None else rough_step_us / 1000,
            step_ms=step_ms,
            compile_s=compile_s,
            validation_compile_s=math.fsum(loop.validations.compile_s for loop in loops),
            stalls=stalls,
            opening_stalls=total(steady.opening_stalls() for steady in steady_loops),
            batches=sum(loop.steady.batches for loop in loops),
            seconds_per_epoch=seconds_per_epoch,
            run_seconds=run_seconds,
            epochs=tuple(map(self.trainers.with_samples, self._epochs_shown())),
            trainers=trainers,
            throughput_unit=self.throughput_unit,
            loops=tuple(
                longest_result if loop is longest else self._loop_result(loop, is_over, {})
                for loop in loops
            ),
            measured_model=longest.model
            and replace(longest.model, samples_per_epoch=longest_result.samples_per_epoch),
            effective=effective_of(
                longest.model,
                samples_per_second,
                tokens_per_second,
                self.trainers.peak_of_all(longest),
            ),
            evaluation=self._evaluation,
            machine=sample,
            machine_age_s=None if sample is None else max(0, now - sample.t) / 1e9,
            output=tuple(self._output),
            notices=tuple(self._notices),
            pauses=tuple(self._pauses),
            limit=self._limit(is_over, trainers, time_breakdown, overdue_s, regular),
            time_breakdown=time_breakdown,
            validity=self._validity(time_breakdown, is_over),
            gaps=self.gaps.listed([loop.steady for loop in self.loops.all]),
            stacks=self.stacks.of_pauses,
            source_lines=tuple(self.stacks.source_lines),
            worker_stacks=tuple(s for s in self.stacks.of_processes if s.worker is not None),
            pause=None if is_over else self._pause(now),
            last_stall=self._last_stall(now) if is_over else None,
            regular_steps=regular,
            memory=self.memory_use,
            injections=tuple(self.injections.values()),
            result=self.result,
            why=why,
            lacking=lacking,
            step_parts=self.step_parts.total,
            judged_parts=self._judged_parts(is_over),
            why_no_parts=self.step_parts.why,
            stopping_s=None if self._stopping_ns is None else (now - self._stopping_ns) / 1e9,
            silent_s=max(0, now - self.last_t) / 1e9,
        )

    @property
    def _was_stopped(self) -> bool:
        """True if the run was stopped, or a signal ended it."""
        result = self.result
        if result is None:
            return False
        return result.status == Status.STOPPED or (result.exit_code or 0) < 0

    def _last_stall(self, now: int) -> Gap | None:
        """Return the gap in which a run ended; None for one that ended by itself."""
        if self.result is None:
            return self._stall(min(now, self.last_t))
        return self._stopped_stall if self._was_stopped else None

    def _overdue_since(self, now: int) -> int | None:
        """Return the end of the last step, or the start of a hang elsewhere; None without one."""
        since = self.time_breakdown.overdue_since(min(self.last_t, now), self.steady)
        if since is None:
            since = self.stacks.stands_still_since(now, self.phase == "compiling")
        return since

    def _stall(self, now: int) -> Gap | None:
        """Return the current gap if the next step is overdue, with or without a stack."""
        since = self._overdue_since(now)
        if since is None:
            return None
        step = self._epoch_now if self.gaps.has_epochs else None, self._steps_done
        return self._pause(now) or Gap(since, now, GapKind.STALL, *step)

    def _pause(self, now: int) -> Gap | None:
        """Return the current gap without a batch, if its process has reported one."""
        stack = self.stacks.current_pause
        if stack is None or now - stack.begin < MIN_GAP_NS:
            return None
        is_in_epoch = self.phase in STEADY_PHASES
        kind = GapKind.STALL if is_in_epoch else GapKind.BETWEEN
        step = self._steps_done if is_in_epoch else None
        epoch = self._epoch_now if is_in_epoch else max(0, self._epoch_now - 1)
        if not self.loops.longest.steady.batches:
            return self.gaps.explained(Gap(stack.begin, now, GapKind.OPENING))
        gap = Gap(stack.begin, now, kind, epoch if self.gaps.has_epochs else None, step)
        return self.gaps.explained(gap)

    def _validity(self, parts: dict[TimePart, float], is_over: bool) -> Validity | None:
        if self.header.is_machine_recording:
            return None
        loop, facts, bad = self.loops.longest, self.header.machine, self.bad_loss(is_over)
        loss = None if bad is None else bad.reasons[0]
        return find_warnings(
            loop.steady, parts, self.readings, facts, loop.model, self.gpus, is_over, loss
        )

    def _loop_result(self, loop: Loop, is_over: bool, why: dict[str, str]) -> LoopResult:
        """Return the result of a loop; `why` gets the reasons why its epochs have no time."""
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
            seconds_per_epoch=self._seconds_per_epoch(loop, is_over, why),
            samples_per_second=self.trainers.together(loop),
            tokens_per_second=self.trainers.together(loop, Loop.tokens_per_second),
            step_ms=steady.step_time(),
            counts_steps=steady.counts_steps or None,
            headline=True if loop is self.loops.longest else None,
        )

    def _rate_now(
        self, series: Series, unit: str, now: int, overdue_s: float | None
    ) -> RateNow | None:
        """Return the throughput of the last two seconds of training, or of two slow steps.

        A batch is recorded when it ends, so the last one counts until the next is overdue.
        """
        is_training = self.phase in STEADY_PHASES and not self.running_time.is_suspended
        if overdue_s or self.result is not None or not is_training:
            return None
        window_ns = max(2_000_000_000, 2 * self._last_step_ns)
        (mean,) = series.columns(now - window_ns, window_ns, 1)
        return None if mean is None else RateNow(mean, unit)

    def _limit(
        self,
        is_over: bool,
        trainers: Sequence[ProcessRate],
        time_breakdown: Mapping[TimePart, float],
        overdue_s: float | None,
        regular: RegularSteps | None,
    ) -> Limit | None:
        loss, latest = self.bad_loss(is_over), self.machine.latest
        taken_down_s = sum(self._taken_down_s.values())
        time = time_shares(time_breakdown, self._pauses, is_over, overdue_s or 0.0, taken_down_s)
        inputs = (self.facts, self.model, is_over)
        ranks = rank_holds_up(trainers, is_over)
        start: tuple[Evidence, ...] = ()
        if not is_over and not self._checks.are_settled:
            checks = self._start_checks.newest_checks(inputs, self._check_start)
            if loss is None and not self._checks.are_enough:
                checks = checks or self._check_steps(is_over)
                limit = limit_of(checks, is_over, ranks=ranks, time=time)
                return limit if limit is not None and limit.evidence else None
            of_start = limit_of(checks, is_over)
            start = () if of_start is None else of_start.evidence
        lost = None
        if latest is not None and self._checks.are_enough:
            lost = gpu_lost(self._checks.newest, latest, self.gpus, is_over)

        def check(samples: tuple[Machine, ...], at_ns: int) -> RuleCheck:
            return self._check_training(samples, at_ns, is_over, is_lost=lost is not None)

        if is_stalled(overdue_s, regular):
            # The limit of the steps before says nothing of now.
            return limit_of((), is_over, (loss, lost))
        checks = self._checks.newest_checks((*inputs, lost is not None), check)
        checks = checks or self._check_steps(is_over)
        if not self._checks.are_settled:
            # What took the CPU at the start holds until it is known of the training alone.
            checks = tuple(check.with_evidence(start) for check in checks)
        return limit_of(checks, is_over, (loss, lost), ranks, time)

    def _check_steps(self, is_over: bool) -> tuple[RuleCheck, ...]:
        """Return what the steps tell alone; nothing if the machine was read."""
        if self.machine.latest is not None or not self.steady.batches:
            return ()
        check = self._check_training((), self.last_t, is_over, is_lost=False)
        return (check,) if check.clear else ()

    def _check_start(self, samples: tuple[Machine, ...], at_ns: int) -> RuleCheck:
        cpus, interval_s = self.header.options.get("cpus"), self.machine.interval_s
        run = RunSamples(samples, self.facts, cpus=cpus, interval_s=interval_s)
        return check_rules(run, RULES_OF_THE_START)

    def _check_training(
        self, samples: tuple[Machine, ...], at_ns: int, is_over: bool, is_lost: bool
    ) -> RuleCheck:
        """Check the rules for samples of steady training that end at a moment."""
        model, (wait, records) = self.model, self._judged_steps(at_ns, is_over)
        window = f"the last {WINDOW_S if wait is None else wait.window_s:.0f} s"
        window = "all steps" if is_over else window
        backend = model.backend if model is not None else None
        run = RunSamples(
            samples,
            self.facts,
            self.gpus,
            cpus=self.header.options.get("cpus"),
            threads=self.header.options.get("threads"),
            waited_share=None if wait is None else wait.share,
            waited_window=window,
            workers=model.workers if model is not None else None,
            unmeasured=unmeasured_wait(backend) if wait is None else None,
            step_records=records,
            code=self.own_code.before(at_ns),
            model=model,
            is_over=is_over,
            on_cpu=model is not None and model.device == "cpu",
            is_lost=is_lost,
            interval_s=self.machine.interval_s,
            retries=self.memory.retries_between(samples[0].t, at_ns) if samples else 0,
        )
        return check_rules(run)

    def _judged_steps(self, at_ns: int, is_over: bool) -> tuple[Waited | None, Sequence[StepParts]]:
        """Return the data wait and the parts of steps before a moment; of all steps at the end."""
        if not is_over:
            return self.data_wait.before(at_ns), self.step_parts.items_before(at_ns)
        total = self.step_parts.total
        return self.data_wait.whole, () if total is None else (total,)

    def _judged_parts(self, is_over: bool) -> StepParts | None:
        """Return the parts of the steps that the newest check of the rules judged."""
        wait, records = self._judged_steps(self._checks.newest_at_ns or self.last_t, is_over)
        parts = summed_parts(records) or self.step_parts.total
        return with_wait(parts, None if wait is None else wait.share)

    def bad_loss(self, is_over: bool) -> Evidence | None:
        return loss_is_no_number(
            self.learning.metrics,
            self._epochs,
            self._epoch_now if self.has_epochs else None,
            self.model.precision if self.model is not None else None,
            self.header.is_script,
            is_over,
            self._bad_since,
        )

    @property
    def gpus(self) -> tuple[int, ...]:
        """The NVML indices of the GPUs of this machine that train."""
        indices = set() if self.model is None else set(self.model.gpus)
        for number, loops in self.trainers.loops.items():
            model, trainer = loops.now.model, self.trainers.known.get(number)
            if model is not None and trainer is not None and trainer.host is None:
                indices |= set(model.gpus)
        return tuple(sorted(indices))

    @property
    def memory_use(self) -> MemoryUse:
        """The GPU memory of the framework, with the free memory of the GPU if known."""
        free_mib, latest = None, self.machine.latest
        if len(self.gpus) == 1 and latest is not None:
            (index,) = self.gpus
            used = (gpu.memory_used_mib for gpu in latest.gpus or () if gpu.index == index)
            sizes = (gpu.memory_mib for gpu in self.facts.gpus or () if gpu.index == index)
            used_mib, total_mib = next(used, None), next(sizes, None)
            if used_mib is not None and total_mib is not None:
                free_mib = total_mib - used_mib
        return self.memory.use(free_mib)

    @property
    def has_epochs(self) -> bool:
        """False if the loop of a script is known to have no epochs."""
        return self.model is None or self.model.has_epochs is not False

    @property
    def phase(self) -> str | None:
        return self.phase_spans[-1].phase if self.phase_spans else None

    @property
    def _phase_since_ns(self) -> int:
        return self.phase_spans[-1].start if self.phase_spans else self.header.t

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
        """Return the last epoch if its validation is still to come.

        An epoch of a PyTorch loop is recorded before its validation, and again after it.
        """
        last = self._unvalidated
        if last is None:
            return None
        epochs = self.loops.of(last).epochs.values()
        has_validated = len(epochs) == 1 or any(epoch.validation is not None for epoch in epochs)
        is_expected = self.header.is_script and has_validated
        is_to_come = self.phase == "validating" or (is_expected and not is_over)
        return last if is_to_come else None

    def _epochs_shown(self) -> list[Epoch]:
        """Return the epochs; one whose validation runs, or was cut short, is not whole."""
        last = self._unvalidated
        if last is None or self.phase != "validating":
            return self._epochs
        return [*self._epochs[:-1], replace(last, whole=False)]

    @property
    def _unvalidated(self) -> Epoch | None:
        """The last epoch, if no other has started and it lacks a validation that others have."""
        last = self._epochs[-1] if self._epochs else None
        if last is None or (self._epoch_now, self._steps_done) != (last.epoch + 1, 0):
            return None
        epochs = self.loops.of(last).epochs.values()
        passes = [0 if e.validation is None else e.validation.count for e in epochs]
        if passes.pop() >= max(passes, default=1) and last.validation is not None:
            return None
        return last

    def _run_seconds(
        self,
        seconds_per_epoch: SecondsPerEpoch | None,
        compile_s: float | None,
        why: dict[str, str],
    ) -> RunSeconds | None:
        """Return the time of the build, all epochs and the evaluation: measured or projected."""
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
        # No published run has epochs beyond those requested.
        epochs = max(0, model.epochs or 0)
        loop = self.loops.now
        compiling_s, later_s = loop.whole_s()
        whole_s = [*compiling_s, *later_s]
        requested_s = whole_s[:epochs]
        whole = len(whole_s) == epochs
        if evaluation is not None and evaluation.whole and whole and evaluation.end > build:
            took_s = (evaluation.end - build) / 1e9
            why["run_seconds.band"] = reasons.ONE_RUN
            return RunSeconds(value=took_s, low=None, high=None, projected=False)
        if seconds_per_epoch is None:
            why["run_seconds"] = why["seconds_per_epoch"]
            return None
        # Epochs that have ended include their compilation; before the first, it is added.
        fixed_s = self._build_s + (sum(requested_s) if requested_s else compile_s or 0.0)
        evaluation_half_s: float | None = 0.0
        if evaluation is not None and evaluation.steps > 0:
            fixed_s += _projected_evaluation_s(evaluation, evaluation_steps)
            if evaluation.steps < evaluation_steps:
                # Its steps are assumed to vary as much as those of steady training.
                measured_s = max(0.0, (evaluation.end - evaluation.begin) / 1e9)
                half_s = self.steady.band_of_span_s(measured_s)
                scale = evaluation_steps / evaluation.steps
                evaluation_half_s = None if half_s is None else half_s * scale
        else:
            why["evaluation"] = reasons.NOT_IN_PROJECTION
        coming = seconds_per_epoch
        if not coming.first_left_out:
            # The first epoch compiled, so it is longer than the later ones.
            coming = _projected_epoch(loop, model) or coming
        remaining_epochs = max(0, epochs - len(requested_s))
        value = fixed_s + coming.value * remaining_epochs
        if not remaining_epochs and evaluation_half_s == 0:
            why["run_seconds.band"] = reasons.ONE_RUN
        elif coming.high is None or evaluation_half_s is None:
            why["run_seconds.band"] = reasons.NO_BAND
        else:
            half = math.hypot((coming.high - coming.value) * remaining_epochs, evaluation_half_s)
            return RunSeconds(value, max(0.0, value - half), value + half, projected=True)
        return RunSeconds(value, None, None, projected=True)

    def _progress(self, now: int, has_ended: bool) -> Progress | None:
        model = self.model
        if model is None:
            return None
        over = self._finished_epoch()
        # A process that closes in the middle of an epoch ends early.
        has_ended = has_ended or (self.phase == "closing" and over is None)
        # The validation is a part of the epoch.
        is_over = over is not None and (self.phase != "validating" or self._unvalidated is None)
        epoch = max(0, self._epoch_now if over is None else over.epoch)
        updates = self._updates_done if over is None else over.updates
        updates = None if updates == self._steps_done else updates
        epochs, has_length = model.epochs_in_all, model.steps_per_epoch is not None
        all_done = epochs is not None and has_length and epoch >= epochs
        if epochs is not None:
            epochs = max(0, epochs)
            epoch = max(0, min(epoch, epochs - 1))
        epoch_left_s = run_left_s = end_left_s = None
        if model.steps_per_epoch is None:
            done = self._steps_done if over is None else over.steps or 0
            steps, left_s = self._of_all_steps(model, has_ended)
            # The end of a loop that goes on beyond its requested steps is unknown.
            steps = None if steps is None or steps < done else steps
            return Progress(
                *(epoch, epochs, done, steps, None, left_s, left_s),
                *(self.header.is_script, is_over, updates),
            )
        steps = max(0, min(model.steps_per_epoch, model.steps_cap or model.steps_per_epoch))
        done = steps if all_done or over is not None else min(self._steps_done, steps)
        step_us = self.steady.mean_step_us
        if step_us is not None and not has_ended:
            validating_s = self._time_in("validating", now, 0 if over is None else over.end)
            if over is not None and over.validation is not None:
                # The time of the validation passes before the current one.
                validating_s += over.validation.took_s
            validation_steps = self._validation_steps(model)
            whole_s = None
            if validation_steps is not None:
                whole_s = self.loops.now.validations.seconds(validation_steps)
            validation_s = whole_s or 0.0
            opening_us = self.steady.opening_us[0] or 0.0
            epoch_s = (steps * step_us + opening_us) / 1e6 + validation_s + self._mean_pause_s()
            epoch_left_s = (steps - done) * step_us / 1e6 + max(0.0, validation_s - validating_s)
            if all_done or (over is not None and over.validation and self._unvalidated is None):
                epoch_left_s = 0.0
            if epochs is not None:
                run_left_s = epoch_left_s + (0 if all_done else epochs - 1 - epoch) * epoch_s
            if whole_s is None and validating_s:
                # The time of the first validation is unknown.
                epoch_left_s = run_left_s = None
        evaluation_s = self._evaluation_left_s(model, now)
        # With `--seconds`, more epochs may follow than the model has.
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

    def _of_all_steps(self, model: Model, has_ended: bool) -> tuple[int | None, float | None]:
        """Return the steps of a loop without epochs, and the remaining time of any loop's steps."""
        if model.steps is None or model.steps < 1:
            return None, None
        done = [e.steps or 0 for e in self._epochs if e.epoch >= (model.first_epoch or 0)]
        remaining = max(0, model.steps - sum(done) - self._steps_done)
        step_us = self.steady.mean_step_us
        left_s = None if step_us is None or has_ended else remaining * step_us / 1e6
        return model.steps if model.has_epochs is False else None, left_s

    def _finished_epoch(self) -> Epoch | None:
        """Return the last epoch, if it has ended and no other has begun.

        Meanwhile it is validated, or the script does something else or ends.
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
        """Return the batches of a validation: as requested, else those of the last one."""
        if model.validation_steps is not None:
            return min(model.validation_steps, model.steps_cap or model.validation_steps)
        epochs, unvalidated = self.loops.now.epochs, self._unvalidated
        passes = (e.validation for e in reversed(epochs.values()) if e is not unvalidated)
        return next((validation.steps for validation in passes if validation is not None), None)

    def _mean_pause_s(self) -> float:
        epochs = list(self.loops.now.epochs.values())
        pauses = [
            max(0, after.begin - before.end) / 1e9
            for before, after in pairwise(epochs)
            if after.epoch == before.epoch + 1
        ]
        return math.fsum(pauses) / len(pauses) if pauses else 0.0

    def _time_in(self, phase: str, now: int, since: int = 0) -> float:
        """Return the time in the current phase after `since`; 0 if it is in another phase."""
        span = self.phase_spans[-1] if self.phase_spans else None
        inside = span is not None and span.phase == phase and span.end is None
        return max(0, now - max(span.start, since)) / 1e9 if span is not None and inside else 0.0

    def _evaluation_left_s(self, model: Model, now: int) -> float | None:
        """Return the remaining time of the evaluation after the training; None if unknown."""
        steps = model.evaluation_steps or 0
        if steps < 1 or self._evaluation is not None:
            return 0.0
        # Its batches take as long as those of the validation.
        whole_s = self.loops.now.validations.seconds(steps) if model.validation_steps else None
        return None if whole_s is None else max(0.0, whole_s - self._time_in("evaluating", now))


def _tokens_rate_of(record: Batches | BatchSummary) -> float | None:
    """Return the throughput of batches in tokens; None if they have none."""
    return None if record.tokens is None else _rate_of(in_tokens(record), steps=False)


def _rate_of(record: Batches | BatchSummary, steps: bool) -> float | None:
    """Return the throughput of batches, in steps or samples; None if unknown."""
    count = record.counted_in(steps)
    if count is None or not record.time_us:
        return None
    return (count if isinstance(count, int) else sum(count)) / record.time_us * 1e6


def _projected_epoch(loop: Loop, model: Model) -> SecondsPerEpoch | None:
    steps = model.validation_steps or 0
    validation_s = loop.validations.seconds(steps) or 0.0
    half_s = loop.validations.half_s(steps, loop.steady)
    return project_epoch(loop.steady, model.samples_per_epoch or 0, validation_s, half_s)


def _projected_evaluation_s(evaluation: Evaluation, steps: int) -> float:
    """Scale an evaluation to `steps` batches; the first one compiles, so it counts once."""
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


ADD: dict[type[Any], Callable[[Session, Any], None]] = {
    Alert: Session._add_alert,
    Batches: Session._add_batches,
    BatchSummary: Session._add_batches,
    CodeSamples: lambda session, record: session.own_code.add(record),
    Epoch: Session._add_epoch,
    Evaluation: Session._add_evaluation,
    Facts: Session._add_facts,
    FrameworkMemory: lambda session, record: session.memory.add(record),
    Injection: Session._add_injection,
    Imported: Session._add_imported,
    Machine: Session._add_sample,
    Metrics: Session._add_metrics,
    Model: Session._add_model,
    NamedPause: Session._add_pause,
    Node: Session._add_node,
    Notice: Session._add_notice,
    OutOfMemory: Session._add_out_of_memory,
    Output: lambda session, record: session._output.append(record),
    Phase: Session._add_phase,
    ProcessStack: lambda session, record: session.stacks.add(record),
    Profile: lambda session, record: session.profiles.append(record),
    Result: Session._add_result,
    SourceLines: lambda session, record: session.stacks.source_lines.append(record),
    Stack: Session._add_stack,
    StepParts: lambda session, record: session.step_parts.add(record),
    Suspended: lambda session, record: session.running_time.add(record),
    TokenShares: Session._add_token_shares,
    Trainer: Session._add_process,
}
"""Adds a record to a session, by its type."""
_OF_ALL_PROCESSES = frozenset(
    (FrameworkMemory, OutOfMemory, ProcessStack, Profile, Stack, TokenShares)
)
"""The records that count for any process that trains, not only the main one."""
