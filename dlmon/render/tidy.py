"""Write tables of sessions: one row per observation, units in the names, times from the start.

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
from itertools import chain
from pathlib import Path
from typing import Any

from dlmon.comparison.published import is_formula
from dlmon.figures.redact import Redaction
from dlmon.figures.report.session_report import records_of
from dlmon.figures.report.summary import Cell, SessionOutcome, summary_numbers
from dlmon.figures.sweeps import sweep_report
from dlmon.log.directory import read_entry
from dlmon.log.log_follower import LogFollower
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
from dlmon.records.changes import merge
from dlmon.records.sanitize import clean
from dlmon.render.files import ReportError
from dlmon.session.learning import MetricReadings, Pass
from dlmon.session.run_figures import read_session
from dlmon.session.running_time import RunningTime
from dlmon.session.session import Session

_OPTIONS = ("batch_size", "precision", "mode", "backend", "data")
# An id is also the name of a folder.
_LONGEST_ID = 255

Row = dict[str, Any]
"""The cells of a row by their columns; all rows of a table have the same columns."""


def csv_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table as CSV, with its headings."""
    for number, row in enumerate(rows):
        if number == 0:
            yield _line(row)
        yield _line(row.values())


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table as a JSON list of objects."""
    before = "[\n"
    for row in rows:
        yield before + json_of(row)
        before = ",\n"
    yield "\n]\n"


def json_of(row: Row) -> str:
    """Return a row as a JSON object; what is no finite number is null."""
    finite = {
        name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
        for name, cell in row.items()
    }
    return json.dumps(finite, allow_nan=False)


def sweep_rows(path: Path, full: bool = False) -> Iterator[Row]:
    """Yield the rows of a sweep's table: one per combination.

    Raises:
        LogError: it can't be read.
    """
    rows = sweep_report(path, full).as_json["rows"]
    varied = dict.fromkeys(key for row in rows for key in row["options"])
    figures = (
        "status", "reason", "metric", "value", "low", "high", "projected", "samples_per_second",
        "tokens_per_second", "cost_usd", "best",
    )  # fmt: skip
    for row in rows:
        yield {
            "workload": row["workload"],
            **{f"option_{key}": _scalar(row["options"].get(key)) for key in varied},
            **{name: _scalar(row[name]) for name in figures},
        }


def rows_of(paths: Sequence[Path], table: str | None = None, full: bool = False) -> Iterator[Row]:
    """Yield the rows of one of `TABLES`, as values; by default, one row per session.

    Raises:
        LogError: a log can't be read.
        ReportError: the table would be empty.
    """
    rows = _sessions(paths, full) if table is None else _of_logs(paths, TABLES[table])
    if table == EPOCHS:
        # Sessions may have different metrics.
        listed = list(rows)
        names = dict.fromkeys(chain.from_iterable(listed))
        rows = ({name: row.get(name) for name in names} for row in listed)
    first = next(rows, None)
    if first is None:
        content = "readings of the machine" if table == MACHINE else table
        raise ReportError(f"there are no {content} in what was recorded: the table would be empty")
    yield first
    yield from rows


def _of_logs(
    paths: Sequence[Path], rows_of: Callable[[SessionHeader, Iterator[Record]], Iterator[Row]]
) -> Iterator[Row]:
    for path in paths:
        with contextlib.closing(LogFollower(path)) as follower:
            id = clean(follower.header.id, _LONGEST_ID)
            for row in rows_of(follower.header, RunningTime().of_all(records_of(follower))):
                yield {"session": id, **row}


def _line(cells: Iterable[Cell]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(cell: Cell) -> str:
    """Write a cell: empty if unknown, and never a formula."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, (int, float)):
        return repr(cell)
    return f"'{cell}" if is_formula(cell) else cell


def _sessions(paths: Sequence[Path], full: bool) -> Iterator[Row]:
    """Yield one row per session; raise LogError if one can't be read."""
    for path in paths:
        entry = read_entry(path)
        header = entry.header
        redaction = Redaction(full)
        redaction.learn_names(header.host, header.options)
        session = read_session(path)
        snapshot = session.snapshot(is_over=entry.status == Status.INTERRUPTED)
        model = snapshot.model
        options = header.options | _settings_seen(session, model)
        cpu = header.machine.cpu_model if model and model.device == "cpu" else None
        numbers = summary_numbers(SessionOutcome(session, snapshot, entry.status, entry.label))
        cells: dict[str, Any] = {
            "session": header.id,
            "name": entry.label.name,
            "wall": header.wall,
            "workload": header.workload,
            "status": str(entry.status),
            "device": model and model.device,
            "device_name": (model and model.device_name) or cpu,
            **{name: options.get(name) for name in _OPTIONS},
            **numbers,
        }
        yield {name: _scalar(redaction.value(cell)) for name, cell in cells.items()}


def _settings_seen(session: Session, model: Model | None) -> dict[str, Any]:
    """Return the settings that were observed in a run; a script's options don't have them."""
    names = _OPTIONS if session.header.is_script else ("data",)
    settings = {name: getattr(model, name, None) for name in names}
    trainer = next(iter(session.trainers.known.values()), None)
    if session.header.is_script and trainer is not None and not settings["backend"]:
        settings["backend"] = trainer.backend or trainer.framework
    return {name: value for name, value in settings.items() if value is not None}


def _scalar(value: Any) -> Cell:
    """Return an option's value as a cell; a log may hold any type."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _batches(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each batch, or several summed in one record; the first of a record has its waits."""
    for record in records:
        batches_of_record: list[tuple[int, int, int | None, int]] = []
        if isinstance(record, Batches):
            end_ns = record.begin
            sizes = record.counted_in(steps=False) or (None,) * len(record.dt_us)
            for dt_us, samples in zip(record.dt_us, sizes, strict=True):
                end_ns += dt_us * 1000
                batches_of_record.append((1, end_ns, samples, dt_us))
        elif isinstance(record, BatchSummary):
            batches_of_record.append((record.count, record.t_last, record.samples, record.time_us))
        tokens = getattr(record, "tokens", None)
        for at, (batches, end_ns, samples, took_us) in enumerate(batches_of_record):
            assert isinstance(record, (Batches, BatchSummary))
            yield {
                "epoch": record.epoch + 1,
                "batch": record.first + at + 1,
                "batches": batches,
                "end_s": (end_ns - header.t) / 1e9,
                "samples": samples,
                "duration_ms": took_us / 1000,
                "opening_ms": None if at else _milliseconds(record.opening_us),
                "wait_ms": None if at else _milliseconds(record.wait_us),
                "trainer": record.trainer or 0,
                "tokens": tokens[at] if isinstance(tokens, tuple) else tokens,
            }


def _samples(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield the samples of all batches that ended in each second of training.

    With several ranks, the number of batches and their time are those of rank 0.
    """
    seconds: dict[int, tuple[int, int | None, float]] = {}
    for row in _batches(header, records):
        second = int(row["end_s"] // 1)
        batches, samples, took_ms = seconds.get(second, (0, 0, 0.0))
        unknown = samples is None or row["samples"] is None
        samples = None if unknown else samples + row["samples"]
        if not row["trainer"]:
            batches, took_ms = batches + row["batches"], took_ms + row["duration_ms"]
        seconds[second] = batches, samples, took_ms
    for second, (batches, samples, took_ms) in sorted(seconds.items()):
        yield {
            "second": second,
            "batches": batches,
            "samples": samples,
            "training_s": took_ms / 1000,
            "samples_per_second": None
            if samples is None or not took_ms
            else samples / took_ms * 1000,
        }


def _epochs(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    for epoch in _epochs_in(records):
        yield {
            "epoch": epoch.epoch + 1,
            "begin_s": (epoch.begin - header.t) / 1e9,
            "seconds": (epoch.end - epoch.begin) / 1e9,
            "training_s": (epoch.train_end - epoch.begin) / 1e9,
            "validation_s": epoch.validation.took_s if epoch.validation else None,
            "whole": epoch.whole,
            "samples": epoch.samples,
            "trainer": epoch.trainer or 0,
            "tokens": epoch.tokens,
            **{f"metric_{name}": value for name, value in epoch.metrics.items()},
        }


def _epochs_in(records: Iterable[Record]) -> list[Epoch]:
    """Return the epochs of a log, each in its last version.

    An epoch of a script is written again after its validation; one whose validation has not ended,
    perhaps as the run was killed, is not whole.
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


def _metrics(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each value of each metric; a value that is no number has no row."""
    readings = MetricReadings()
    for reading in chain.from_iterable(map(readings.add, records)):
        if reading.value is not None:
            yield {
                "metric": reading.metric,
                "at_s": (reading.t - header.t) / 1e9,
                "epoch": None if reading.epoch is None else reading.epoch + 1,
                "value": reading.value,
                "is_validation": reading.of is Pass.VALIDATION,
                "phase": reading.of.value,
                "trainer": reading.trainer,
            }


def _machine(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each known reading of each sample."""
    latest: Machine | None = None
    for record in records:
        if isinstance(record, Machine):
            latest = merge(latest, record)
            for device, quantity, value in _readings(latest):
                yield {
                    "at_s": (record.t - header.t) / 1e9,
                    "wall": record.wall,
                    "device": device,
                    "quantity": quantity,
                    "value": value,
                }


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


def _operations(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each operation of each profile, the slowest first."""
    profiles = (record for record in records if isinstance(record, Profile))
    for profile in profiles:
        for operation in profile.operations or ():
            yield {
                "at_s": ((profile.begin or profile.t) - header.t) / 1e9,
                "profiler": profile.profiler,
                "steps": profile.steps,
                "operation": operation.name,
                "share": operation.share,
                "calls": operation.calls,
                "host_ms": operation.host_us / 1000,
                "device_ms": operation.device_us / 1000,
                "trainer": profile.trainer or 0,
            }


def _milliseconds(us: int | None) -> float | None:
    return None if us is None else us / 1000


EPOCHS, MACHINE, OPERATIONS = "epochs", "machine", "operations"
TABLES = {
    "batches": _batches,
    "samples": _samples,
    EPOCHS: _epochs,
    "metrics": _metrics,
    MACHINE: _machine,
    OPERATIONS: _operations,
}
"""The functions that yield the rows of each table."""
