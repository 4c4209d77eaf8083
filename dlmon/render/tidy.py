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
from itertools import chain
from pathlib import Path
from typing import Any

from dlmon.comparison.published import is_formula
from dlmon.figures.report.redact import Redaction
from dlmon.figures.report.session_report import records_of
from dlmon.figures.session.summary import Cell, SessionOutcome, summary_numbers
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
from dlmon.session.session import Session

_OPTIONS = ("batch_size", "precision", "mode", "backend", "data")
# As the name of a folder, which it is.
_LONGEST_ID = 255

Row = dict[str, Any]
"""The cells of a row by the headings of their columns: the same ones in each row of a table."""


def csv_lines(paths: Sequence[Path], table: str | None = None, full: bool = False) -> Iterator[str]:
    """Yield the lines of one of `TABLES`, headings first; without one, a row per session.

    Raises:
        LogError: a log can't be read.
        ReportError: there is nothing of that kind in them.
    """
    return _csv(_rows(paths, table, full))


def json_lines(paths: Sequence[Path], table: str, full: bool = False) -> Iterator[str]:
    """Yield the lines of the same table as a list of JSON, an object a row; it raises the same."""
    before = "[\n"
    for row in _rows(paths, table, full):
        known = {
            name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
            for name, cell in row.items()
        }
        yield before + json.dumps(known, allow_nan=False)
        before = ",\n"
    yield "\n]\n"


def sweep_lines(path: Path, full: bool = False) -> Iterator[str]:
    """Yield the lines of a sweep's table: one row per combination.

    Raises:
        LogError: it can't be read.
    """
    found = sweep_report(path, full).as_json["rows"]
    varied = dict.fromkeys(key for row in found for key in row["options"])
    figures = (
        "status", "reason", "metric", "value", "low", "high", "projected", "samples_per_second",
        "tokens_per_second", "cost_usd", "best",
    )  # fmt: skip
    return _csv(
        {
            "workload": row["workload"],
            **{f"option_{key}": _scalar(row["options"].get(key)) for key in varied},
            **{name: _scalar(row[name]) for name in figures},
        }
        for row in found
    )


def _csv(rows: Iterable[Row]) -> Iterator[str]:
    for number, row in enumerate(rows):
        if number == 0:
            yield _line(row)
        yield _line(row.values())


def _rows(paths: Sequence[Path], table: str | None, full: bool) -> Iterator[Row]:
    """Yield the rows of a table; one that would be empty is refused."""
    rows = _sessions(paths, full) if table is None else _of_logs(paths, TABLES[table])
    if table == EPOCHS:
        # Some have metrics that others lack.
        known = list(rows)
        names = dict.fromkeys(chain.from_iterable(known))
        rows = ({name: row.get(name) for name in names} for row in known)
    first = next(rows, None)
    if first is None:
        what = "readings of the machine" if table == MACHINE else table
        raise ReportError(f"there are no {what} in what was recorded: the table would be empty")
    yield first
    yield from rows


def _of_logs(
    paths: Sequence[Path], rows_of: Callable[[SessionHeader, Iterator[Record]], Iterator[Row]]
) -> Iterator[Row]:
    for path in paths:
        with contextlib.closing(LogFollower(path)) as follower:
            id = clean(follower.header.id, _LONGEST_ID)
            for row in rows_of(follower.header, records_of(follower)):
                yield {"session": id, **row}


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
    return f"'{cell}" if is_formula(cell) else cell


def _sessions(paths: Sequence[Path], full: bool) -> Iterator[Row]:
    """Yield one row per session; it may raise a LogError."""
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


def _batches(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each batch, or several that are known together; the first of a record has its waits."""
    for record in records:
        known: list[tuple[int, int, int | None, int]] = []
        if isinstance(record, Batches):
            end_ns = record.begin
            sizes = record.counted_in(steps=False) or (None,) * len(record.dt_us)
            for dt_us, samples in zip(record.dt_us, sizes, strict=True):
                end_ns += dt_us * 1000
                known.append((1, end_ns, samples, dt_us))
        elif isinstance(record, BatchSummary):
            known.append((record.count, record.t_last, record.samples, record.time_us))
        tokens = getattr(record, "tokens", None)
        for at, (batches, end_ns, samples, took_us) in enumerate(known):
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
    """Yield the samples of each second of training: of the batches that ended in it.

    Where several processes train together, batches and their time are those of number 0.
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


def _metrics(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each value that training reported of itself; what is no number has no row."""
    readings = MetricReadings()
    for one in chain.from_iterable(map(readings.add, records)):
        if one.value is not None:
            yield {
                "metric": one.metric,
                "at_s": (one.t - header.t) / 1e9,
                "epoch": None if one.epoch is None else one.epoch + 1,
                "value": one.value,
                "is_validation": one.of is Pass.VALIDATION,
                "phase": one.of.value,
                "trainer": one.trainer,
            }


def _machine(header: SessionHeader, records: Iterator[Record]) -> Iterator[Row]:
    """Yield each number of each reading; what is unknown has no row."""
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
    """Yield each operation of each profile, those that took most time first."""
    profiles = (record for record in records if isinstance(record, Profile))
    for profile in profiles:
        for each in profile.operations or ():
            yield {
                "at_s": ((profile.begin or profile.t) - header.t) / 1e9,
                "profiler": profile.profiler,
                "steps": profile.steps,
                "operation": each.name,
                "share": each.share,
                "calls": each.calls,
                "host_ms": each.host_us / 1000,
                "device_ms": each.device_us / 1000,
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
"""What yields the rows of each table."""
