"""What logs give for comparing: each session's figures, and two sides of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from dlmon.comparison.compare import cpus_of
from dlmon.comparison.price import usd_per_hour_of
from dlmon.comparison.same_script import script_of
from dlmon.comparison.sides import (
    ACCOUNT,
    METRIC,
    THROUGHPUT,
    Curve,
    RunFigures,
    SidesComparison,
    compare_sides,
)
from dlmon.log.directory import SessionEntry, list_sessions, read_entry
from dlmon.log.folder import LogError, log_directory_of
from dlmon.records import Model, Result, SessionHeader, Status
from dlmon.session.follower import SessionFollower
from dlmon.session.metric_figures import MetricFigure, metric_figures
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot

_READABLE = (Status.COMPLETED, Status.STOPPED)


OnRead = Callable[[float], object]
"""Called again and again with how much is read, 0 to 1; what it raises ends the reading."""

_READING_S = 0.1


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
    return compare_sides(runs[: len(base)], runs[len(base) :], earlier_runs(logs))


def earlier_runs(logs: Iterable[Path]) -> list[RunFigures]:
    """Return the sessions in the log directories of these: they say how far runs differ."""
    directories = dict.fromkeys(map(log_directory_of, logs))
    return [
        figures_of_entry(entry)
        for directory in directories
        for entry in list_sessions(directory)
        if entry.status in _READABLE
    ]


def read_figures(log: Path, on_read: OnRead = ignore) -> RunFigures:
    """Read a log to its end, by its index where it has one, and return what it gives for comparing.

    Raises:
        LogError: it can't be read.
    """
    entry = read_entry(log)
    session = read_session(log, on_read)
    over = entry.status not in (Status.RUNNING, Status.UNKNOWN)
    snapshot, result = session.snapshot(ended=over), session.result
    values = {} if result is None else _values_of_result(result)
    values |= _values_of(snapshot) | session.readings.means | session.readings.most
    start, end = session.training_start, session.throughput.end_ns
    curve = None
    if start is not None and end is not None:
        curve = Curve(session.throughput, start, end, session.counts_steps)
    metrics = metric_figures(snapshot.epochs, session.learning)
    return _figures(entry, result, values, snapshot, session.steady_windows, curve, metrics)


def read_session(log: Path, on_read: OnRead = ignore) -> Session:
    """Read a log to its end as it is now, by its index where it has one.

    Raises:
        LogError: it can't be read.
    """
    with contextlib.closing(SessionFollower(log, by_index=True)) as follower:
        path, goes_on = log, True
        while goes_on:
            records = follower.poll(_READING_S)
            if follower.unreadable is not None:
                raise LogError(f"{log}: {follower.unreadable}")
            on_read(1.0 if follower.read_share is None else follower.read_share)
            goes_on = bool(records) or follower.read_share is not None or follower.path != path
            path = follower.path
        return follower.session


def figures_of_entry(entry: SessionEntry) -> RunFigures:
    """Return what the result of a session gives for comparing, without reading its log."""
    values = {} if entry.result is None else _values_of_result(entry.result)
    return _figures(entry, entry.result, values)


def _values_of(figures: Snapshot | Result) -> dict[str, float]:
    values: dict[str, float | None] = {"compile_s": figures.compile_s}
    if figures.samples_per_second is not None:
        values[THROUGHPUT] = figures.samples_per_second.mean
    if figures.seconds_per_epoch is not None:
        values["seconds_per_epoch"] = figures.seconds_per_epoch.value
    if figures.step_ms is not None:
        values["step_ms.median"] = figures.step_ms.median
        values["step_ms.p95"] = figures.step_ms.p95
    return {name: value for name, value in values.items() if value is not None}


def _values_of_result(result: Result) -> dict[str, float]:
    values = _values_of(result)
    for device, joules in (result.energy_j_per_epoch or {}).items():
        values[f"energy_j_per_epoch.{device}"] = joules
    if result.cost_usd is not None:
        values["cost_usd"] = result.cost_usd
    return values


def _figures(
    entry: SessionEntry,
    result: Result | None,
    values: dict[str, float],
    snapshot: Snapshot | None = None,
    windows: Sequence[tuple[int, int]] = (),
    curve: Curve | None = None,
    metrics: Sequence[MetricFigure] = (),
) -> RunFigures:
    """Return what is known of a run: as its model says, else its result or what it was asked."""
    header, options = entry.header, entry.header.options
    model = None if snapshot is None else snapshot.measured_model
    figures = snapshot or result
    epoch = None if figures is None else figures.seconds_per_epoch
    price = usd_per_hour_of(options, cpus_of(options, header.machine))
    if price is not None and epoch is not None:
        values["cost_usd_per_epoch"] = price * epoch.value / 3600
    account = getattr(snapshot, "account", None) or getattr(result, "account", None) or {}
    values |= {f"{ACCOUNT}{part}": seconds for part, seconds in account.items()}
    validity = getattr(snapshot, "validity", None) or result
    valid = getattr(validity, "is_valid", getattr(validity, "valid", None))
    against = getattr(validity, "against", None) or {}
    precision = (model.precision if model else None) or _word(options.get("precision"), "float32")
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
        name=getattr(getattr(entry, "label", None), "name", None),
        log=str(entry.path),
        host=header.host,
        wall=header.wall,
        status=entry.status,
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
        batch_size=model.batch_size if model else _whole(options.get("batch_size")),
        precision=precision,
        mode=(model.mode if model else None) or _word(options.get("mode"), "train"),
        data=data,
        samples=made_of.samples_per_epoch if made_of else None,
        batches=figures.batches if figures else None,
        counts_steps=bool(figures is not None and figures.counts_steps),
        values=values,
        not_numbers={one.name: one.why for one in metrics if one.final is None and one.why},
        read_once=frozenset(one.name for one in metrics if one.last_epoch is None),
        windows=windows,
        curve=curve,
        is_projected=None if epoch is None else epoch.projected,
        why=None if snapshot is None else snapshot.why.get("samples_per_second"),
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


def _word(value: object, usual: str) -> str | None:
    if value is None:
        return usual
    return value if isinstance(value, str) else None
