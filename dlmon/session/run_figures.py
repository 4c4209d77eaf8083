"""The figures of sessions for comparisons, read from their logs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.comparison.compared_run import Curve, RunFigures, timings_of
from dlmon.comparison.conditions import busy_at_start, first_batch_compiled
from dlmon.comparison.peaks import MEASURED
from dlmon.comparison.price import usd_per_hour_of
from dlmon.comparison.same_script import script_of
from dlmon.comparison.sides import (
    ACCOUNT,
    METRIC,
    STEP_PART,
    THROUGHPUT,
    NoThroughput,
    RunComparison,
    compare_sides,
)
from dlmon.log.directory import SessionEntry, list_sessions, read_entry
from dlmon.log.folder import LogError, log_directory_of
from dlmon.quantities import MEASURED_PEAK_PCT, PRINTED_PEAK_PCT, QUANTITIES, value_of
from dlmon.records import Doubt, Model, Record, Result, SessionHeader, Status
from dlmon.records.training import STEP_PARTS
from dlmon.records.words import SAMPLES_PER_S
from dlmon.session.follower import SessionFollower
from dlmon.session.learning import LOSS, MetricFigure, metric_figures
from dlmon.session.loss_by_step import LossBySteps
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from dlmon.statistics.ratios import throughput_error

OnRead = Callable[[float], object]
"""Called repeatedly with the share of logs that is read; an exception ends the reading."""
TakeRecords = Callable[[list[Record]], object]


def ignore(share: float) -> None:
    """Ignore the progress."""


def compare_logs(
    base: Sequence[Path], new: Sequence[Path], on_read: OnRead = ignore
) -> RunComparison:
    """Compare the sessions of two sides by their logs.

    Raises:
        LogError: a log can't be read.
        NotComparable: a session is on both sides, or a side has no throughput.
    """
    # The live screen opens without what hashes files.
    from dlmon.session.code_changes import with_code_changes

    logs = [*base, *new]

    def read(number: int) -> RunFigures:
        return read_figures(logs[number], lambda share: on_read((number + share) / len(logs)))

    runs = [read(number) for number in range(len(logs))]
    earlier = earlier_runs(logs)
    try:
        return with_code_changes(compare_sides(runs[: len(base)], runs[len(base) :], earlier))
    except NoThroughput as refused:
        usable = _newest_before(refused.run, earlier, runs) if refused.run in runs[:1] else None
        hint = f"; the newest run before it that has one is {usable}" if usable else ""
        comparison = with_code_changes(refused.comparison)
        raise NoThroughput(refused.run, f"{refused}{hint}", comparison) from None


def _newest_before(
    run: RunFigures, earlier: Sequence[RunFigures], compared: Sequence[RunFigures]
) -> str | None:
    """Return the newest run with a throughput, of the same workload, before a run."""
    sessions = {run.session for run in compared}
    return next(
        (
            candidate.session
            for candidate in reversed(earlier)
            if candidate.wall < run.wall and candidate.workload == run.workload
            if THROUGHPUT in candidate.values and candidate.session not in sessions
        ),
        None,
    )


def earlier_runs(logs: Iterable[Path]) -> list[RunFigures]:
    """Return all runs in the log directories of these logs, which show how much runs differ."""
    directories = dict.fromkeys(map(log_directory_of, logs))
    return runs_that_ended(e for directory in directories for e in list_sessions(directory))


def runs_that_ended(entries: Iterable[SessionEntry]) -> list[RunFigures]:
    """Return the figures of the sessions that completed or were stopped."""
    statuses = (Status.COMPLETED, Status.STOPPED)
    return [figures_of_entry(entry) for entry in entries if entry.status in statuses]


def read_pair_figures(log: Path) -> RunFigures:
    """Read all of a log, and return its figures with the loss by steps.

    Raises:
        LogError: it can't be read.
    """
    losses = LossBySteps()
    return replace(read_figures(log, take=losses.add), losses=losses.sums())


def read_figures(
    log: Path, on_read: OnRead = ignore, take: TakeRecords | None = None
) -> RunFigures:
    """Read a log to its end and return its figures; the arguments are those of `read_session`.

    Raises:
        LogError: it can't be read.
    """
    entry = read_entry(log)
    session = read_session(log, on_read, take)
    is_over = entry.status not in (Status.RUNNING, Status.UNKNOWN)
    snapshot, result = session.snapshot(is_over=is_over), session.result
    values = {} if result is None else _values_of(result)
    values |= _values_of(snapshot) | session.readings.means | session.readings.maxima
    curve = loss = None
    if session.training_start is not None and session.throughput.end_ns is not None:
        curve = Curve(session.throughput, session.training_start, unit=session.throughput_unit)
        if (metric := session.learning.metrics.get(LOSS)) and metric.series.end_ns is not None:
            loss = Curve(metric.series, session.training_start)
    metrics = metric_figures(snapshot.epochs, session.learning, session.loops.of)
    figures = _figures(entry.header, entry.status, result, values, snapshot, metrics)
    return _of_entry(replace(figures, curve=curve, loss=loss, imported=session.imported), entry)


def read_session(log: Path, on_read: OnRead = ignore, take: TakeRecords | None = None) -> Session:
    """Read a log to its current end.

    Args:
        log: the log.
        on_read: called with the share that is read.
        take: called with all records; without it, a log is read from its index if it has one.

    Raises:
        LogError: it can't be read.
    """
    with contextlib.closing(SessionFollower(log, by_index=take is None)) as follower:
        while (records := follower.poll(0.1)) or follower.read_share is not None:
            if take is not None:
                take(records)
            on_read(1.0 if follower.read_share is None else follower.read_share)
        if follower.unreadable is not None:
            raise LogError(f"{log}: {follower.unreadable}")
        on_read(1.0)
        return follower.session


def figures_of_entry(entry: SessionEntry) -> RunFigures:
    """Return the figures in the result of a session, without reading its log."""
    values = {} if entry.result is None else _values_of(entry.result)
    return _of_entry(_figures(entry.header, entry.status, entry.result, values), entry)


def figures_of_snapshot(snapshot: Snapshot, status: Status = Status.RUNNING) -> RunFigures:
    """Return the current figures of a session."""
    return _figures(snapshot.header, status, snapshot.result, _values_of(snapshot), snapshot)


def _of_entry(figures: RunFigures, entry: SessionEntry) -> RunFigures:
    return replace(figures, name=entry.label.name, log=str(entry.path))


def _values_of(figures: Snapshot | Result) -> dict[str, float]:
    values = {
        quantity.key: value
        for quantity in QUANTITIES
        if quantity.is_compared and (value := value_of(figures, quantity.key)) is not None
    }
    effective = figures if isinstance(figures, Result) else figures.effective
    if effective.peak_share is not None:
        is_measured = effective.peak_from in (None, MEASURED)
        key = MEASURED_PEAK_PCT if is_measured else PRINTED_PEAK_PCT
        values[key] = 100 * effective.peak_share
    return values


def _figures(
    header: SessionHeader,
    status: Status,
    result: Result | None,
    values: dict[str, float],
    snapshot: Snapshot | None = None,
    metrics: Sequence[MetricFigure] = (),
) -> RunFigures:
    """Return the figures of a run; its settings are those of its model, result or options."""
    result_options = {} if result is None else result.options
    # The result has the values of options that were not given.
    options = header.options | {n: v for n, v in result_options.items() if v is not None}
    model = None if snapshot is None else snapshot.measured_model
    figures = snapshot or result
    epoch = None if figures is None else figures.seconds_per_epoch
    price = usd_per_hour_of(header.options, header.machine)
    if price is not None and epoch is not None:
        values["cost_usd_per_epoch"] = price * epoch.value / 3600
    account = getattr(snapshot, "time_breakdown", None) or getattr(result, "account", None) or {}
    values |= {f"{ACCOUNT}{part}": seconds for part, seconds in account.items()}
    if snapshot is not None and (parts := snapshot.step_parts) is not None:
        measured = {name: parts.share(name) for name in (*STEP_PARTS, "rest_us")}
        step_ms = parts.step_us / max(1, parts.steps) / 1000
        values |= {
            f"{STEP_PART}{name.replace('_us', '_ms')}": share * step_ms
            for name, share in measured.items()
            if share is not None
        }
    validity = getattr(snapshot, "validity", None) or result
    valid = getattr(validity, "is_valid", getattr(validity, "valid", None))
    warnings = getattr(validity, "warnings", getattr(validity, "against", None)) or {}
    if snapshot is None and result is not None and result.against is None:
        # An older log only tells whether the machine was busy at the start.
        busy = busy_at_start(header.machine, result.device)
        warnings = {} if busy is None else {Doubt.BUSY_AT_START: busy}
    # The precision and mode of a script without a model are unknown.
    usual = (None, None) if header.is_script and model is None else ("float32", "train")
    settings = model or result
    device = settings.device if settings else None
    data = settings.data if settings else None
    values = {name: value for name, value in values.items() if 0 <= value < math.inf}
    if data == "synthetic":
        # Metrics on random samples are meaningless.
        metrics = ()
    values |= {f"{METRIC}{m.name}": m.final for m in metrics if m.final is not None}
    return RunFigures(
        session=header.id,
        host=header.host,
        wall=header.wall,
        status=status,
        workload=header.workload,
        command=header.command,
        script=script_of(header),
        script_sha256=header.script_sha256,
        options=_options_of(header, model, result),
        versions={**header.versions, **_framework_of(snapshot)},
        machine=header.machine,
        device=device,
        device_name=(settings.device_name if settings else None)
        or (header.machine.cpu_model if device == "cpu" else None),
        backend=model.backend if model else _word(result_options, "backend", None),
        compiles=first_batch_compiled(header) if snapshot is None else snapshot.compiles,
        batch_size=model.batch_size if model else _whole(options.get("batch_size")),
        precision=(model.precision if model else None) or _word(options, "precision", usual[0]),
        mode=(model.mode if model else None) or _word(options, "mode", usual[1]),
        data=data,
        samples=settings.samples_per_epoch if settings else None,
        epochs=model.epochs if model else _whole(options.get("epochs")),
        steps_cap=_whole(options.get("steps")),
        devices=(settings.devices if settings else _whole(options.get("devices"))) or 1,
        batches=figures.batches if figures else None,
        throughput_unit=SAMPLES_PER_S if figures is None else figures.throughput_unit,
        timings=timings_of(figures),
        values=values,
        not_numbers={m.name: m.why for m in metrics if m.final is None and m.why},
        read_once=frozenset(m.name for m in metrics if m.last_epoch is None),
        throughput_error=None if figures is None else throughput_error(figures.samples_per_second),
        is_projected=None if epoch is None else epoch.projected,
        lacking={} if figures is None else figures.why,
        error=None if result is None else result.error,
        valid=valid,
        warnings={str(doubt): sentence for doubt, sentence in warnings.items()},
    )


def _framework_of(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the versions of a script's frameworks, and of its Keras backend."""
    if snapshot is None:
        return {}
    trainers = [rate.trainer for rate in snapshot.trainers]
    versions = {trainer.framework: trainer.framework_version for trainer in trainers}
    model = snapshot.model
    if snapshot.header.is_script and model is not None and model.backend is not None:
        versions[model.backend] = model.backend_version
    return versions


def _options_of(
    header: SessionHeader, model: Model | None, result: Result | None
) -> dict[str, Any]:
    """Return the options of a run; for a script with its backend of Keras and its injections."""
    if not header.is_script:
        return header.options
    backend = model.backend if model is not None else result and result.options.get("backend")
    return header.settings if backend is None else {**header.settings, "backend": backend}


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _word(options: Mapping[str, Any], name: str, usual: str | None) -> str | None:
    value = options.get(name)
    if value is None:
        return usual
    return value if isinstance(value, str) else None
