"""What logs give for comparing: each session's figures, and two sides of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.comparison.compared_run import (
    Curve,
    RunFigures,
    cpus_of,
    timings_of,
)
from dlmon.comparison.conditions import busy_at_start, compiled_by
from dlmon.comparison.peaks import MEASURED
from dlmon.comparison.price import usd_per_hour_of
from dlmon.comparison.same_script import script_of
from dlmon.comparison.sides import (
    ACCOUNT,
    METRIC,
    THROUGHPUT,
    NotComparable,
    NoThroughput,
    SidesComparison,
    compare_sides,
)
from dlmon.log.directory import SessionEntry, list_sessions, read_entry
from dlmon.log.folder import LogError, log_directory_of
from dlmon.quantities import MEASURED_PEAK_PCT, PRINTED_PEAK_PCT, QUANTITIES, rate_unit, value_of
from dlmon.records import Doubt, Model, Result, SessionHeader, Status
from dlmon.session.follower import SessionFollower
from dlmon.session.learning import MetricFigure, metric_figures
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from dlmon.statistics.ratios import throughput_error

OnRead = Callable[[float], object]
"""Called again and again with how much is read, 0 to 1; what it raises ends the reading."""


def ignore(share: float) -> None:
    """Do nothing with how much is read."""


def compare_logs(
    base: Sequence[Path], new: Sequence[Path], on_read: OnRead = ignore
) -> SidesComparison:
    """Return the sessions of two sides beside each other, by their logs.

    Raises:
        LogError: a log can't be read.
        NotComparable: a session is on both sides, or a side has no throughput.
    """
    logs = [*base, *new]

    def read(number: int) -> RunFigures:
        return read_figures(logs[number], lambda share: on_read((number + share) / len(logs)))

    runs = [read(number) for number in range(len(logs))]
    earlier = earlier_runs(logs)
    try:
        return compare_sides(runs[: len(base)], runs[len(base) :], earlier)
    except NoThroughput as refused:
        usable = _newest_before(refused.run, earlier, runs) if refused.run in runs[:1] else None
        if usable is None:
            raise
        raise NotComparable(
            f"{refused}; the newest run before it that has one is {usable}"
        ) from None


def _newest_before(
    run: RunFigures, earlier: Sequence[RunFigures], compared: Sequence[RunFigures]
) -> str | None:
    """Return the newest run of the same workload before one that has a throughput."""
    sessions = {each.session for each in compared}
    return next(
        (
            each.session
            for each in reversed(earlier)
            if each.wall < run.wall and each.workload == run.workload
            if THROUGHPUT in each.values and each.session not in sessions
        ),
        None,
    )


def earlier_runs(logs: Iterable[Path]) -> list[RunFigures]:
    """Return the sessions in the log directories of these: they say how far runs differ."""
    directories = dict.fromkeys(map(log_directory_of, logs))
    return runs_that_ended(e for directory in directories for e in list_sessions(directory))


def runs_that_ended(entries: Iterable[SessionEntry]) -> list[RunFigures]:
    """Return what those sessions give for comparing that completed or were stopped."""
    ended = (entry for entry in entries if entry.status in (Status.COMPLETED, Status.STOPPED))
    return [figures_of_entry(entry) for entry in ended]


def read_figures(log: Path, on_read: OnRead = ignore) -> RunFigures:
    """Read a log to its end, by its index where it has one, and return what it gives for comparing.

    Raises:
        LogError: it can't be read.
    """
    entry = read_entry(log)
    session = read_session(log, on_read)
    over = entry.status not in (Status.RUNNING, Status.UNKNOWN)
    snapshot, result = session.snapshot(is_over=over), session.result
    values = {} if result is None else _values_of(result)
    values |= _values_of(snapshot) | session.readings.means | session.readings.most
    curve = None
    if session.training_start is not None and session.throughput.end_ns is not None:
        curve = Curve(session.throughput, session.training_start, unit=rate_unit(session))
    metrics = metric_figures(snapshot.epochs, session.learning, session.loops.of)
    figures = _figures(entry.header, entry.status, result, values, snapshot, metrics)
    return _of_entry(replace(figures, curve=curve), entry)


def read_session(log: Path, on_read: OnRead = ignore) -> Session:
    """Read a log to its end as it is now, by its index where it has one.

    Raises:
        LogError: it can't be read.
    """
    with contextlib.closing(SessionFollower(log, by_index=True)) as follower:
        while follower.poll(0.1) or follower.read_share is not None:
            on_read(1.0 if follower.read_share is None else follower.read_share)
        if follower.unreadable is not None:
            raise LogError(f"{log}: {follower.unreadable}")
        on_read(1.0)
        return follower.session


def figures_of_entry(entry: SessionEntry) -> RunFigures:
    """Return what the result of a session gives for comparing, without reading its log."""
    values = {} if entry.result is None else _values_of(entry.result)
    return _of_entry(_figures(entry.header, entry.status, entry.result, values), entry)


def figures_of_snapshot(snapshot: Snapshot, status: Status = Status.RUNNING) -> RunFigures:
    """Return what a session gives for comparing as it stands."""
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
    """Return what is known of a run: as its model says, else its result or what it was asked."""
    options, seen = header.options, {} if result is None else result.options
    # What was not asked for is known once it is over.
    asked = {**options, **{name: value for name, value in seen.items() if value is not None}}
    model = None if snapshot is None else snapshot.measured_model
    figures = snapshot or result
    epoch = None if figures is None else figures.seconds_per_epoch
    price = usd_per_hour_of(options, cpus_of(options, header.machine))
    if price is not None and epoch is not None:
        values["cost_usd_per_epoch"] = price * epoch.value / 3600
    account = getattr(snapshot, "time_breakdown", None) or getattr(result, "account", None) or {}
    values |= {f"{ACCOUNT}{part}": seconds for part, seconds in account.items()}
    validity = getattr(snapshot, "validity", None) or result
    valid = getattr(validity, "is_valid", getattr(validity, "valid", None))
    against = getattr(validity, "warnings", getattr(validity, "against", None)) or {}
    if snapshot is None and result is not None and result.against is None:
        # An older log says it of its beginning alone.
        busy = busy_at_start(header.machine, result.device)
        against = {} if busy is None else {Doubt.BUSY_AT_START: busy}
    # What a script doesn't say is not known of its result.
    usual = (None, None) if header.is_script and model is None else ("float32", "train")
    made_of = model or result
    device = made_of.device if made_of else None
    data = made_of.data if made_of else None
    values = {name: value for name, value in values.items() if 0 <= value < math.inf}
    if data == "synthetic":
        # What is learned of samples that are drawn at random says nothing.
        metrics = ()
    values |= {f"{METRIC}{one.name}": one.final for one in metrics if one.final is not None}
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
        device_name=(made_of.device_name if made_of else None)
        or (header.machine.cpu_model if device == "cpu" else None),
        backend=model.backend if model else _word(seen, "backend", None),
        compiles=compiled_by(header) if snapshot is None else snapshot.compiles,
        batch_size=model.batch_size if model else _whole(asked.get("batch_size")),
        precision=(model.precision if model else None) or _word(asked, "precision", usual[0]),
        mode=(model.mode if model else None) or _word(asked, "mode", usual[1]),
        data=data,
        samples=made_of.samples_per_epoch if made_of else None,
        epochs=model.epochs if model else _whole(asked.get("epochs")),
        steps_cap=_whole(asked.get("steps")),
        devices=(made_of.devices if made_of else _whole(asked.get("devices"))) or 1,
        batches=figures.batches if figures else None,
        counts_steps=bool(figures is not None and figures.counts_steps),
        timings=timings_of(figures),
        values=values,
        not_numbers={one.name: one.why for one in metrics if one.final is None and one.why},
        read_once=frozenset(one.name for one in metrics if one.last_epoch is None),
        throughput_error=None if figures is None else throughput_error(figures.samples_per_second),
        is_projected=None if epoch is None else epoch.projected,
        lacking={} if figures is None else figures.why,
        error=None if result is None else result.error,
        valid=valid,
        against={str(doubt): sentence for doubt, sentence in against.items()},
    )


def _framework_of(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the versions of what counts a script's batches, and of what its Keras runs on."""
    if snapshot is None:
        return {}
    found = {one.trainer.framework: one.trainer.framework_version for one in snapshot.trainers}
    model = snapshot.model
    if snapshot.header.is_script and model is not None and model.backend is not None:
        found[model.backend] = model.backend_version
    return found


def _options_of(
    header: SessionHeader, model: Model | None, result: Result | None
) -> dict[str, Any]:
    """Return what a run was asked for; of a script also what its Keras was seen to run on."""
    if not header.is_script:
        return header.options
    seen = model.backend if model is not None else result and result.options.get("backend")
    return header.options if seen is None else {**header.options, "backend": seen}


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _word(options: Mapping[str, Any], name: str, usual: str | None) -> str | None:
    value = options.get(name)
    if value is None:
        return usual
    return value if isinstance(value, str) else None
