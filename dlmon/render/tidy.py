"""Tables of sessions: a row an observation, units in the names, times from the start.

In CSV, a text that a spreadsheet would take for a formula gets an apostrophe before it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dlmon.figures.epoch_tables import epoch_metrics
from dlmon.figures.redact import Redaction
from dlmon.figures.session_report import records_of
from dlmon.figures.summary import Cell, Outcome, summary_columns, summary_numbers
from dlmon.figures.sweep_report import sweep_report
from dlmon.log.directory import read_entry
from dlmon.log.follower import LogFollower
from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    Machine,
    Model,
    Phase,
    Profile,
    Record,
    SessionHeader,
    Status,
)
from dlmon.records.changes import merge_machine
from dlmon.records.sanitize import clean
from dlmon.render.files import ReportError
from dlmon.session.figures import read_session
from dlmon.session.metric_readings import MetricReadings, Pass
from dlmon.session.session import Session

BATCHES, SAMPLES, EPOCHS, METRICS, MACHINE, OPERATIONS = TABLES = (
    "batches", "samples", "epochs", "metrics", "machine", "operations",
)  # fmt: skip

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_OPTIONS = ("batch_size", "precision", "mode", "backend", "data")
_SECOND_NS = 1_000_000_000
# As the name of a folder, which it is.
_LONGEST_ID = 255

Read = Callable[[], Iterator[Record]]
"""Begins to read a log: its header, and what follows."""


def csv_lines(paths: Sequence[Path], table: str | None = None, full: bool = False) -> Iterator[str]:
    """Yield the lines of a table of sessions, headings first.

    Args:
        paths: their logs.
        table: one of `TABLES`; without one, one row per session.
        full: leave nothing out.

    Raises:
        LogError: a log can't be read.
        ReportError: there is nothing of that kind in them.
    """
    for row in _checked_rows(paths, table, full):
        yield _line(row)


def json_lines(paths: Sequence[Path], table: str, full: bool = False) -> Iterator[str]:
    """Yield the lines of the same table as a list of JSON, an object a row; it raises the same."""
    rows = _checked_rows(paths, table, full)
    headings = next(rows)
    before = "[\n"
    for row in rows:
        values = map(_json_value, row)
        yield before + json.dumps(dict(zip(headings, values, strict=True)), allow_nan=False)
        before = ",\n"
    yield "\n]\n"


def _json_value(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _checked_rows(paths: Sequence[Path], table: str | None, full: bool) -> Iterator[Sequence[Any]]:
    """Yield the rows of a table, headings first; one that would be empty is refused."""
    rows = _rows(paths, table, full)
    headings = next(rows)
    first = next(rows, None)
    if first is None:
        what = "readings of the machine" if table == MACHINE else table
        raise ReportError(f"there are no {what} in what was recorded: the table would be empty")
    yield headings
    yield first
    yield from rows


def _rows(paths: Sequence[Path], table: str | None, full: bool) -> Iterator[Sequence[Cell]]:
    logs = [_reading(path) for path in paths]
    if table is None:
        return _sessions(paths, full)
    makers = {
        BATCHES: _batches,
        SAMPLES: _samples,
        EPOCHS: _epochs,
        METRICS: _metrics,
        MACHINE: _machine,
        OPERATIONS: _operations,
    }
    return makers[table](logs)


def _reading(path: Path) -> Read:
    def read() -> Iterator[Record]:
        with contextlib.closing(LogFollower(path)) as follower:
            yield follower.header
            yield from records_of(follower)

    return read


def _line(cells: Iterable[Cell]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(cell: Cell) -> str:
    """Write a cell: nothing for what isn't known, and no text that could be a formula."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, (int, float)):
        return repr(cell)
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


def _sessions(paths: Sequence[Path], full: bool) -> Iterator[Sequence[Cell]]:
    """Yield one row per session, headings first; it may raise a LogError."""
    yield (
        "session", "name", "wall", "workload", "status", "device", "device_name",
        *_OPTIONS, *summary_columns(),
    )  # fmt: skip
    for path in paths:
        entry = read_entry(path)
        header = entry.header
        redaction = Redaction(full)
        redaction.learn_names(header.host, header.options)
        session = read_session(path)
        snapshot = session.snapshot(ended=entry.status == Status.INTERRUPTED)
        model = snapshot.model
        options = header.options | _settings_seen(session, model)
        cpu = header.machine.cpu_model if model and model.device == "cpu" else None
        cells: tuple[Any, ...] = (
            header.id,
            entry.label.name,
            header.wall,
            header.workload,
            str(entry.status),
            model and model.device,
            (model and model.device_name) or cpu,
            *(options.get(name) for name in _OPTIONS),
            *summary_numbers(Outcome(session, snapshot, entry.status, entry.label)),
        )
        yield [_scalar(redaction.value(cell)) for cell in cells]


def _settings_seen(session: Session, model: Model | None) -> dict[str, Any]:
    """Return what a run was seen to train with: a script's options say nothing of that."""
    names = _OPTIONS if session.header.is_script else ("data",)
    seen = {name: getattr(model, name, None) for name in names}
    trainer = next(iter(session.trainers.known.values()), None)
    if session.header.is_script and trainer is not None and not seen["backend"]:
        seen["backend"] = trainer.backend or trainer.framework
    return {name: value for name, value in seen.items() if value is not None}


def _scalar(value: Any) -> Cell:
    """Return a value of an option as a cell: a log may hold anything there."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _batches(logs: Sequence[Read]) -> Iterator[Sequence[Cell]]:
    yield (
        "session", "epoch", "batch", "batches", "end_s", "samples", "duration_ms", "opening_ms",
        "wait_ms", "trainer",
    )  # fmt: skip
    for read in logs:
        header = _header(records := read())
        for record in records:
            if isinstance(record, Batches):
                yield from _each_batch(header, record)
            elif isinstance(record, BatchSummary):
                yield (
                    header.id,
                    record.epoch + 1,
                    record.first + 1,
                    record.count,
                    _seconds(record.t_last - header.t),
                    record.samples,
                    record.time_us / 1000,
                    _milliseconds(record.opening_us),
                    _milliseconds(record.wait_us),
                    record.trainer or 0,
                )


def _each_batch(header: SessionHeader, record: Batches) -> Iterator[Sequence[Cell]]:
    end_ns = record.t - record.dt_us[0] * 1000
    for index, (dt_us, samples) in enumerate(zip(record.dt_us, _sizes(record), strict=True)):
        end_ns += dt_us * 1000
        yield (
            header.id,
            record.epoch + 1,
            record.first + index + 1,
            1,
            _seconds(end_ns - header.t),
            samples,
            dt_us / 1000,
            _milliseconds(record.opening_us) if index == 0 else None,
            # It is known of those of a record together.
            _milliseconds(record.wait_us) if index == 0 else None,
            record.trainer or 0,
        )


def _samples(logs: Sequence[Read]) -> Iterator[Sequence[Cell]]:
    """Yield the samples of each second of training: of the batches that ended in it.

    Of several processes that train together, batches and their time are those of number 0.
    """
    yield ("session", "second", "batches", "samples", "training_s", "samples_per_second")
    for read in logs:
        header = _header(records := read())
        seconds: dict[int, list[int]] = {}
        unknown: set[int] = set()
        for record in records:
            is_first = not getattr(record, "trainer", None)
            for end_ns, batches, samples, took_us in _ended(record):
                second = (end_ns - header.t) // _SECOND_NS
                counted = seconds.setdefault(second, [0, 0, 0])
                counted[0] += batches if is_first else 0
                counted[1] += samples or 0
                counted[2] += took_us if is_first else 0
                if samples is None:
                    unknown.add(second)
        for second, (batches, total, took_us) in sorted(seconds.items()):
            in_all = None if second in unknown else total
            rate = None if in_all is None or not took_us else in_all / took_us * 1e6
            yield header.id, second, batches, in_all, took_us / 1e6, rate


def _ended(record: Record) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield when batches ended, how many, their samples, and the time that they took in µs."""
    if isinstance(record, BatchSummary):
        yield record.t_last, record.count, record.samples, record.time_us
    elif isinstance(record, Batches):
        end_ns = record.t - record.dt_us[0] * 1000
        for dt_us, samples in zip(record.dt_us, _sizes(record), strict=True):
            end_ns += dt_us * 1000
            yield end_ns, 1, samples, dt_us


def _sizes(record: Batches) -> Sequence[int | None]:
    """Return the samples of each batch, None where they aren't known."""
    return record.counted_in(steps=False) or (None,) * len(record.dt_us)


def _epochs(logs: Sequence[Read]) -> Iterator[Sequence[Cell]]:
    found: list[tuple[SessionHeader, Epoch]] = []
    for read in logs:
        header = _header(records := read())
        found += [(header, epoch) for epoch in _epochs_in(records)]
    metrics = epoch_metrics([epoch for _, epoch in found])
    yield (
        "session", "epoch", "begin_s", "seconds", "training_s", "validation_s", "whole", "samples",
        "trainer",
        *(f"metric_{name}" for name in metrics),
    )  # fmt: skip
    for header, epoch in found:
        validation = epoch.validation
        yield (
            header.id,
            epoch.epoch + 1,
            _seconds(epoch.begin - header.t),
            _seconds(epoch.end - epoch.begin),
            _seconds(epoch.train_end - epoch.begin),
            validation.took_s if validation else None,
            epoch.whole,
            epoch.samples,
            epoch.trainer or 0,
            *(epoch.metrics.get(name) for name in metrics),
        )


def _epochs_in(records: Iterable[Record]) -> list[Epoch]:
    """Return the epochs of a log, each as it was written last.

    That of a script is written again where validation follows it; one that is being validated, or
    was when its run was killed, is not whole.
    """
    newest: dict[tuple[int | None, int, int], Epoch] = {}
    last: dict[int | None, Epoch] = {}
    phase = ""
    for record in records:
        if isinstance(record, Epoch):
            newest[record.trainer, record.epoch, record.begin] = last[record.trainer] = record
        elif isinstance(record, (Batches, BatchSummary)):
            last.pop(record.trainer, None)
        elif isinstance(record, Phase) and not record.trainer:
            phase = record.name
    for epoch in last.values() if phase == "validating" else ():
        if epoch.validation is None:
            newest[epoch.trainer, epoch.epoch, epoch.begin] = replace(epoch, whole=False)
    return list(newest.values())


def _metrics(logs: Sequence[Read]) -> Iterator[Sequence[Cell]]:
    """Yield each value that training reported of itself; what is no number has no row."""
    yield ("session", "metric", "at_s", "epoch", "value", "is_validation", "phase", "trainer")
    for read in logs:
        header = _header(records := read())
        readings = MetricReadings()
        for record in records:
            for one in readings.fold(record):
                if one.value is not None:
                    yield (
                        header.id,
                        one.metric,
                        _seconds(one.t - header.t),
                        None if one.epoch is None else one.epoch + 1,
                        one.value,
                        one.of is Pass.VALIDATION,
                        one.of.value,
                        one.trainer,
                    )


def _machine(logs: Sequence[Read]) -> Iterator[Sequence[Cell]]:
    """Yield each number of each reading; what is unknown has no row."""
    yield ("session", "at_s", "wall", "device", "quantity", "value")
    for read in logs:
        header = _header(records := read())
        latest: Machine | None = None
        for record in records:
            if not isinstance(record, Machine):
                continue
            latest = merge_machine(latest, record)
            at_s = _seconds(record.t - header.t)
            for device, quantity, value in _readings(latest):
                yield header.id, at_s, record.wall, device, quantity, value


def _readings(sample: Machine) -> Iterator[tuple[str, str, float]]:
    for device in ("cpu", "memory", "disk", "network", "pressure", "process"):
        yield from _numbers(device, getattr(sample, device))
    if sample.cpu is not None:
        for number, pct in enumerate(sample.cpu.cores or ()):
            yield f"core:{number}", "pct", pct
    for gpu in sample.gpus or ():
        yield from _numbers(f"gpu:{gpu.index}", gpu)


def _numbers(device: str, readings: Any) -> Iterator[tuple[str, str, float]]:
    for spec in fields(readings) if readings is not None else ():
        value = getattr(readings, spec.name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and spec.name != "index":
            yield device, spec.name, value


def _operations(logs: Sequence[Read]) -> Iterator[Sequence[Cell]]:
    """Yield each operation of each profile, those that took most time first."""
    yield (
        "session", "at_s", "profiler", "steps", "operation", "share", "calls", "host_ms",
        "device_ms", "trainer",
    )  # fmt: skip
    for read in logs:
        header = _header(records := read())
        for record in records:
            if not isinstance(record, Profile):
                continue
            for each in record.operations or ():
                yield (
                    header.id,
                    _seconds((record.begin or record.t) - header.t),
                    record.profiler,
                    record.steps,
                    each.name,
                    each.share,
                    each.calls,
                    each.host_us / 1000,
                    each.device_us / 1000,
                    record.trainer or 0,
                )


def _header(records: Iterator[Record]) -> SessionHeader:
    header = next(records)
    assert isinstance(header, SessionHeader)
    # It stands in every row.
    return replace(header, id=clean(header.id, _LONGEST_ID))


def _seconds(ns: int) -> float:
    return ns / 1e9


def _milliseconds(us: int | None) -> float | None:
    return None if us is None else us / 1000


def sweep_lines(path: Path, full: bool = False) -> Iterator[str]:
    """Yield the lines of a sweep's table: one row per combination.

    Raises:
        LogError: it can't be read.
    """
    found = sweep_report(path, full).as_json["rows"]
    varied = list(dict.fromkeys(key for row in found for key in row["options"]))
    figures = (
        "status", "reason", "metric", "value", "low", "high", "projected", "samples_per_second",
        "cost_usd", "best",
    )  # fmt: skip
    yield _line(("workload", *(f"option_{key}" for key in varied), *figures))
    for row in found:
        options = (_scalar(row["options"].get(key)) for key in varied)
        yield _line((row["workload"], *options, *(_scalar(row[name]) for name in figures)))
