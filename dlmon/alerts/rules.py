"""Decide when an alert of a session begins and ends. Pure: the caller passes the time.

Each rule says whether its cause holds now. `advance` turns a cause that lasts into one alert, and
the end of that cause into another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from statistics import median
from typing import NamedTuple

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.comparison.peaks import MEASURED
from dlmon.records import (
    Alert,
    AlertEvent,
    FailureKind,
    Gpu,
    GpuState,
    Machine,
    Result,
    Status,
    StopCause,
)
from dlmon.records.record import record
from dlmon.records.words import TOKENS_PER_S, memory_amount, number_text
from dlmon.records.xid import xid_text
from dlmon.session.limits.evidence import KINDS
from dlmon.session.limits.rules import HEAT, gpu_lost
from dlmon.session.limits.run_samples import is_below
from dlmon.session.loops import Loop
from dlmon.session.session import STEADY_PHASES, Session

Key = tuple[AlertEvent, int | None]
"""An event, and the number of the GPU that it is about."""
GIB = 2**30
SECOND_NS = 10**9
RATE_OVER_S = 10.0
"""Current throughput is measured over this time, or over the last two steps if they take longer."""
LEAST_WINDOWS = 5
INTERRUPTED = 0.05
"""A cause that must last longer than `_LONG_S` may be absent for this share of that time."""
_LONG_S = 20.0
# On a busy machine, a short sampling interval is missed by several intervals.
_OVERDUE_SAMPLES, _OVERDUE_S = 3, 2.0
_BY_A_PERSON = (
    *(StopCause.LIVE_SCREEN, StopCause.OTHER_SCREEN, StopCause.CTRL_C),
    *(StopCause.COMMAND, StopCause.SWEEP),
)


@record(frozen=True)
class RuleState:
    """The state of a rule.

    Attributes:
        is_on: whether its alert was sent and is not over yet.
        since: the time since which its cause holds; None if it doesn't.
        gone_since: the time since which the cause is absent; None while it holds.
        usual: the usual throughput; for GPU errors, the number of errors seen.
    """

    is_on: bool = False
    since: int | None = None
    gone_since: int | None = None
    usual: float | None = None


@record(frozen=True)
class Cause:
    """The result of a rule for this moment.

    Attributes:
        event: the event of the alert.
        holds: whether the cause holds; None if unknown.
        text: the text of the alert.
        over: the text when the alert is over.
        figures: the measured figures, in words.
        lasts_s: how long the cause must hold before an alert is sent.
        gpu: NVML's number of the GPU that it is about.
        since: when the cause began, if the rule knows it.
        usual: as in `RuleState`.
    """

    event: AlertEvent
    holds: bool | None
    text: str
    over: str
    figures: tuple[str, ...] = ()
    lasts_s: float = 0.0
    gpu: int | None = None
    since: int | None = None
    usual: float | None = None


class RuleInputs(NamedTuple):
    """The input of every rule.

    Attributes:
        session: the session.
        now: the time by the session's clock.
        settings: the thresholds.
        before: the state of each rule at the last update.
        disk: the total, used and free bytes of the disk that holds the log.
    """

    session: Session
    now: int
    settings: AlertSettings
    before: Mapping[Key, RuleState] = {}
    disk: tuple[int, int, int] | None = None

    def state(self, event: AlertEvent, gpu: int | None = None) -> RuleState:
        return self.before.get((event, gpu), RuleState())


def evaluate(inputs: RuleInputs) -> tuple[dict[Key, RuleState], list[Alert]]:
    """Return the new state of each rule, and the alerts to send."""
    states, alerts = dict(inputs.before), []
    for cause in chain.from_iterable(rule(inputs) for rule in _RULES):
        if cause.event in inputs.settings.events:
            key = (cause.event, cause.gpu)
            states[key], alert = advance(inputs.state(*key), cause, inputs.now, inputs.settings)
            alerts += [] if alert is None else [alert]
    return states, alerts


def advance(
    before: RuleState, cause: Cause, now: int, settings: AlertSettings
) -> tuple[RuleState, Alert | None]:
    """Return a rule's new state, and its alert if one begins or is over now.

    While `holds` is None, an alert that was sent goes on.
    """
    if cause.holds is None and before.is_on:
        return before, None
    if cause.holds:
        since = before.since if before.since is not None else min(now, cause.since or now)
        state = RuleState(before.is_on, since, None, cause.usual)
        if before.is_on or now - since < cause.lasts_s * SECOND_NS:
            return state, None
        begins = Alert(now, cause.event, cause.text, since, False, cause.figures, cause.gpu)
        return replace(state, is_on=True), begins
    if before.since is None:
        return RuleState(usual=cause.usual), None
    gone_since = now if before.gone_since is None else before.gone_since
    may_be_gone_s = settings.over_s
    if not before.is_on:
        may_be_gone_s = INTERRUPTED * cause.lasts_s if cause.lasts_s > _LONG_S else 0.0
    if now - gone_since < may_be_gone_s * SECOND_NS:
        return replace(before, gone_since=gone_since), None
    alert = None
    if before.is_on:
        text = f"{cause.over}, after {duration_text((gone_since - before.since) / SECOND_NS)}"
        alert = Alert(now, cause.event, text, before.since, True, cause.figures, cause.gpu)
    return RuleState(usual=cause.usual), alert


def alerts_of_end(
    session: Session, result: Result, now: int, settings: AlertSettings
) -> list[Alert]:
    """Return the alert that a session ended; none if a person stopped it."""
    if result.status == Status.STOPPED and result.stopped_by in _BY_A_PERSON:
        return []
    took = duration_text((now - session.header.t) / SECOND_NS)
    event = AlertEvent.FAILED if result.status == Status.FAILED else AlertEvent.FINISHED
    if event not in settings.events:
        return []
    if event is AlertEvent.FAILED:
        is_memory = result.failure == FailureKind.OUT_OF_MEMORY
        name = KINDS["out-of-memory" if is_memory else "failed"].name
        text = f"{name} after {took}{f': {result.error}' if result.error else ''}"
    elif result.status == Status.STOPPED:
        text = f"Stopped after {took} ({str(result.stopped_by or 'unknown').replace('_', ' ')})"
    else:
        text = f"Finished after {took}"
    epoch, rate, share = result.seconds_per_epoch, result.samples_per_second, ""
    if result.tokens_per_second is not None:
        # People compare language models by tokens.
        epoch, rate = None, result.tokens_per_second
        if result.peak_share is not None:
            is_measured = result.peak_from in (None, MEASURED)
            peak = "the measured" if is_measured else f"{result.peak_from}'s"
            share = f", {number_text(100 * result.peak_share)} % of {peak} peak"
    parts = [
        _counted(result.epochs, "epoch") or _counted(result.batches, "batch", "es"),
        f"{number_text(epoch.value)} s per epoch" if epoch is not None else "",
        f"{number_text(rate.mean)} {rate.unit}{share}" if rate is not None else "",
    ]
    figures = () if session.header.is_machine_recording else tuple(filter(None, parts))[:2]
    return [Alert(now, event, text, now, False, figures)]


def _counted(number: int | None, noun: str, ending: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else ending}" if number else ""


def duration_text(seconds: float) -> str:
    """Write a duration: 41 s, 13 min, 2 h 5 min."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"


# ---- the rules ----


def _position(session: Session, before_step: str = "") -> str:
    epoch, step, *_ = session.counts
    text = f"{before_step}step {step:,}"
    return f"epoch {epoch + 1:,}, {text}" if session.has_epochs else text


def _nan(inputs: RuleInputs) -> Iterator[Cause]:
    session = inputs.session
    if not session.learning.metrics:
        return
    bad = session.bad_loss(is_over=False)
    text = "" if bad is None else bad.text
    batches = f"{session.steady.batches:,} batches so far"
    figures = (_position(session), batches)
    yield Cause(AlertEvent.NAN, bad is not None, text, "The loss is a number again", figures)


def _stalled(inputs: RuleInputs) -> Iterator[Cause]:
    session, now, settings = inputs.session, inputs.now, inputs.settings
    last, usual_us = session.throughput.end_ns, session.steady.usual_step_us
    if session.phase not in STEADY_PHASES or last is None or usual_us is None:
        return
    since = max(last, session.phase_spans[-1].start)
    waited_s, limit_s = (now - since) / SECOND_NS, settings.stalled_s
    holds = waited_s > max(limit_s, settings.stalled_steps * usual_us / 1e6)
    regular = session.steady.regular_steps() if holds else None
    if regular is not None:
        # Some steps regularly take long, such as those that include an evaluation.
        holds = waited_s > 2 * regular.seconds / regular.times
    step_ms = usual_us / 1000
    took = f"{number_text(step_ms)} ms" if step_ms < 999.5 else f"{number_text(step_ms / 1000)} s"
    step = f"a step usually takes {took}"
    yield Cause(
        AlertEvent.STALLED,
        holds,
        f"{KINDS['stalled'].name}: no batch for {duration_text(waited_s)}",
        "Batches end again",
        (_position(session, "after "), step),
        since=since,
    )


def _slower(inputs: RuleInputs) -> Iterator[Cause]:
    session, now, settings = inputs.session, inputs.now, inputs.settings
    state = inputs.state(AlertEvent.SLOWER)
    loop = session.loops.longest
    if session.phase not in STEADY_PHASES or session.loops.now is not loop:
        return
    # A slow stretch is compared with the throughput before it.
    usual = _usual_rate(session) if state.since is None else state.usual
    if usual is None:
        return
    *_, last_step_ns, _ = session.counts
    window_ns = max(int(RATE_OVER_S * SECOND_NS), 2 * last_step_ns)
    # Text samples differ in length, so tokens are compared.
    has_tokens = loop.tokens is not None
    rates = session.tokens_rate if has_tokens else session.throughput
    (now_rate,) = rates.columns(now - window_ns, window_ns, 1)
    holds = None
    if now_rate is not None:
        holds = is_below(now_rate, settings.slower_pct / 100 * usual, state.is_on)
    unit = TOKENS_PER_S if has_tokens else session.throughput_unit
    share = "" if now_rate is None or not usual else f", {100 * now_rate / usual:.0f} % of before"
    yield Cause(
        AlertEvent.SLOWER,
        holds,
        f"Slower for {duration_text(settings.slower_s)}{share}",
        "As fast as before",
        (f"{number_text(now_rate or 0.0)} {unit} now", f"{number_text(usual)} {unit} before"),
        settings.slower_s,
        usual=usual,
    )


def _usual_rate(session: Session) -> float | None:
    """Return the median throughput of the run's windows: a slow part hardly moves a median."""
    loop = session.loops.longest
    steady = loop.steady if loop.tokens is None else loop.tokens
    rate = Loop.samples_per_second if loop.tokens is None else Loop.tokens_per_second
    windows, rank_rate = steady.windows, rate(loop)
    run_rate = session.trainers.together(loop, rate)
    if rank_rate is None or run_rate is None or len(windows) < LEAST_WINDOWS:
        return None
    usual = median(samples / time_us * 1e6 for samples, time_us in windows)
    return usual * run_rate.mean / rank_rate.mean if rank_rate.mean else None


def gpus_of_run(session: Session) -> set[int]:
    """Return NVML's numbers of the GPUs that the run uses; all GPUs for a machine recording."""
    if session.header.is_machine_recording:
        return {gpu.index for gpu in session.facts.gpus or ()}
    trainers = session.trainers
    local = {number for number, trainer in trainers.known.items() if trainer.host is None}
    loops = [loops for number, loops in trainers.loops.items() if number in local]
    models = [loop.now.model for loop in (session.loops, *loops)]
    rows = session.machine.latest.processes if session.machine.latest is not None else None
    held = {index for row in rows or () if row.of_run for index in row.gpus}
    return held.union(*(model.gpus for model in models if model is not None))


def _gpus(inputs: RuleInputs) -> Iterator[Cause]:
    session, now, settings = inputs.session, inputs.now, inputs.settings
    latest = session.machine.latest
    overdue_s = max(_OVERDUE_S, _OVERDUE_SAMPLES * session.machine.interval_s)
    if latest is None or now - latest.t > overdue_s * SECOND_NS:
        return
    alerted = {index for _, index in inputs.before if index is not None}
    rows = {gpu.index: gpu for gpu in latest.gpus or ()}
    for index in sorted(gpus_of_run(session) | alerted):
        row = rows.get(index)
        yield _lost(latest, row, index, settings)
        if row is None:
            continue
        temperature = "" if row.temperature_c is None else f"{row.temperature_c} °C"
        clock = "" if row.sm_mhz is None else f"{row.sm_mhz:,} MHz"
        yield Cause(
            AlertEvent.GPU_HOT,
            None if row.throttle is None else not HEAT.keys().isdisjoint(row.throttle),
            f"GPU {index} has been slowed by heat for {duration_text(settings.gpu_hot_s)}",
            f"GPU {index} is no longer slowed by heat",
            tuple(filter(None, (temperature, clock))),
            settings.gpu_hot_s,
            index,
        )
        if not session.header.is_machine_recording:
            yield _idle(row, inputs)
        if row.xid_errors is not None:
            yield _error(row, inputs)


def _idle(row: Gpu, inputs: RuleInputs) -> Cause:
    busy_pct, index, settings = row.utilization_pct, row.index, inputs.settings
    is_on = inputs.state(AlertEvent.GPU_IDLE, index).is_on
    memory = row.memory_used_mib
    in_use = "" if memory is None else f"{memory / 1024:.1f} GiB in use"
    return Cause(
        AlertEvent.GPU_IDLE,
        None if busy_pct is None else is_below(busy_pct, settings.gpu_idle_pct, is_on),
        f"GPU {index} has been idle for {duration_text(settings.gpu_idle_s)}",
        f"GPU {index} is used again",
        tuple(filter(None, (f"{busy_pct or 0} % busy", in_use))),
        settings.gpu_idle_s,
        index,
    )


def _error(row: Gpu, inputs: RuleInputs) -> Cause:
    """Return the cause that the driver has reported an error since the last update."""
    count, index, event = row.xid_errors or 0, row.index, AlertEvent.GPU_ERROR
    newer = count > (inputs.state(event, index).usual or 0)
    text = f"GPU {index}: {xid_text(row.xids[-1])}" if row.xids else ""
    none_more = f"GPU {index} reports no more errors"
    figures = tuple(filter(None, [_counted(count, "error")]))
    return Cause(event, newer, text, none_more, figures, gpu=index, usual=float(count))


def _lost(latest: Machine, row: Gpu | None, index: int, settings: AlertSettings) -> Cause:
    state = latest.gpus_state if row is None else row.state
    evidence = None if state is GpuState.ASLEEP else gpu_lost((), latest, (index,), is_over=False)
    text = "" if evidence is None else evidence.text
    again = f"GPU {index} gives readings again"
    lasts_s = settings.gpu_lost_s
    return Cause(AlertEvent.GPU_LOST, evidence is not None, text, again, (), lasts_s, index)


def _disk(inputs: RuleInputs) -> Iterator[Cause]:
    settings, (total, _, free) = inputs.settings, inputs.disk or (0, 0, 0)
    if not total:
        return
    is_on = inputs.state(AlertEvent.DISK).is_on
    left_pct, left_gib = 100 * free / total, free / GIB
    holds = is_below(left_pct, settings.disk_pct, is_on)
    holds = holds or is_below(left_gib, settings.disk_gib, is_on)
    yield Cause(
        AlertEvent.DISK,
        holds,
        "The disk that the log is on is nearly full",
        "There is room on the disk again",
        (f"{left_gib:.1f} GiB left", f"{left_pct:.0f} % of {total / GIB:,.0f} GiB"),
    )


FULL_WITHIN = 100
"""Epochs that a run may still have if its number of epochs is unknown."""


def _memory(inputs: RuleInputs) -> Iterator[Cause]:
    """Yield whether growing memory will fill the GPU before the last epoch ends."""
    session = inputs.session
    use, epochs = session.memory_use, session.model.epochs_in_all if session.model else None
    growth = use.growth
    if use.newest is None:
        return
    epochs_left = FULL_WITHIN if epochs is None else max(0, epochs - session.counts[0])
    full_in = None if growth is None else growth.full_in
    text, figures = "", tuple[str, ...]()
    if growth is not None and full_in is not None:
        mib, after = memory_amount(growth.epoch_mib), max(1, round(full_in))
        times = _counted(after, "epoch")
        text = f"The peak of GPU memory grows {mib} per epoch: full in about {times}"
        of = "" if use.newest.limit_mib is None else f" of {memory_amount(use.newest.limit_mib)}"
        figures = (f"peak {memory_amount(use.newest.peak_mib)}{of}",)
    yield Cause(
        AlertEvent.MEMORY,
        full_in is not None and full_in < epochs_left,
        text,
        "GPU memory no longer grows so that it would be full",
        figures,
    )


_RULES: tuple[Callable[[RuleInputs], Iterator[Cause]], ...] = (
    *(_nan, _stalled, _slower, _gpus, _disk, _memory),
)


def host_cause(host: str, problem: str | None, settings: AlertSettings) -> Cause:
    """Return the cause of a watched host's alert; `problem` says why it can't be reached, if so."""
    lost = f"{host} has been lost for {duration_text(settings.host_lost_s)}"
    text = f"{lost}: {problem}" if problem else lost
    again, lasts_s = f"{host} answers again", settings.host_lost_s
    return Cause(AlertEvent.HOST_LOST, problem is not None, text, again, (), lasts_s)
