"""What a report says of one sweep: its plan, its table, what it found, and its curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlmon.figures import units
from dlmon.figures.parts import Bar, Table
from dlmon.figures.redact import Redaction
from dlmon.figures.session_report import as_sentence
from dlmon.figures.sweeps import (
    SweepTableRow,
    findings,
    heading_of,
    plan_text,
    sweep_json,
    table_of,
    time_text,
)
from dlmon.log.label import read_label
from dlmon.records import RunStatus
from dlmon.sweep.log import read_sweep
from dlmon.sweep.plan import Plan
from dlmon.sweep.results import (
    CombinationRow,
    axis_of,
    best_rows,
    key_text,
    label,
    of_workload,
    ranking_rows,
)


@dataclass(frozen=True)
class Point:
    """One combination on the axis of a curve; `y` is None where it has no figure."""

    x: float
    label: str
    y: float | None


@dataclass(frozen=True)
class SweepCurves:
    """What one workload's combinations took, along what was varied.

    Attributes:
        title: the quantity, and what it is drawn against.
        lines: points from left to right, by the names of the lines.
    """

    title: str
    lines: Mapping[str, tuple[Point, ...]]


@dataclass(frozen=True)
class SweepReport:
    """One sweep; `curves` where something numeric was varied, else `bars`, for each workload."""

    id: str
    title: str
    began: str
    plan: str
    options: str
    table: Table
    findings: tuple[str, ...]
    curves: tuple[SweepCurves, ...]
    bars: tuple[tuple[str, tuple[Bar, ...]], ...]
    as_json: Mapping[str, Any]


def sweep_report(path: Path, full: bool = False) -> SweepReport:
    """Read the log of a sweep, and return what a report says of it.

    Raises:
        LogError: it can't be read.
    """
    header, sweep = read_sweep(path)
    redaction = Redaction(full)
    redaction.learn_hosts([host for host in sweep.plan.hosts if host is not None])
    redaction.learn_names(header.host, header.options)
    text, plan = redaction.text, sweep.plan
    columns, rows = table_of(sweep)
    table = Table(
        (*(text(column.heading) for column in columns), "note"),
        tuple((*(text(cell) for cell in row.cells), text(_note(row))) for row in rows),
        (*(column.numeric for column in columns), False),
    )
    ranked, axis = ranking_rows(sweep), axis_of(plan.variations)
    best = {row.combination.index for row in best_rows(sweep).values()}
    pictured = [(name, of_workload(ranked, name)) for name in plan.workloads]
    given = {key: value for key, value in plan.options.items() if value is not None}
    name = read_label(path).name
    as_json = sweep_json(header, sweep, str(path), name)
    if not full:
        del as_json["log"]
        _leave_out_paths(as_json)
    return SweepReport(
        id=text(header.id),
        title=text(name or header.id),
        began=units.day_and_time(header.wall),
        plan=text(plan_text(plan)),
        options=text(", ".join(f"{key_text(key)} {value}" for key, value in given.items())),
        table=table,
        findings=tuple(as_sentence(text(found)) for found in findings(sweep)),
        curves=tuple(
            _curves(name, plan, rows, axis, text) for name, rows in pictured if axis is not None
        ),
        bars=tuple(
            (text(name), tuple(_bar(row, best, text) for row in rows))
            for name, rows in pictured
            if axis is None
        ),
        as_json=redaction.value(as_json),
    )


def _note(row: SweepTableRow) -> str:
    """Say whether a row is the best, and what speaks against it."""
    return "; ".join(note for note in ("best" if row.best else "", row.note) if note)


def _curves(
    workload: str, plan: Plan, rows: Sequence[CombinationRow], axis: str, text: Callable[[str], str]
) -> SweepCurves:
    others = [key for key in plan.varied if key != axis]
    lines: dict[str, list[Point]] = {}
    for row in rows:
        if row.status == RunStatus.IMPOSSIBLE:
            continue
        value = row.combination.varied[axis]
        name = text(label(row.combination, others)) if others else text(workload)
        lines.setdefault(name, []).append(Point(float(value), f"{value}", row.value))
    return SweepCurves(
        title=text(f"{workload}: {heading_of(rows[0].metric)} against {key_text(axis)}"),
        lines={
            name: tuple(sorted(points, key=lambda point: point.x)) for name, points in lines.items()
        },
    )


def _bar(row: CombinationRow, best: set[int], text: Callable[[str], str]) -> Bar:
    said = row.reason or str(row.status)
    if row.value is not None:
        said = time_text(row)
    kind = "this" if row.combination.index in best else ""
    return Bar(text(label(row.combination)), row.value or 0.0, text(said), kind)


def _leave_out_paths(found: dict[str, Any]) -> None:
    """Take the paths of logs out of the results of a sweep's runs."""
    for row in found["rows"]:
        for run in (row, *row["runs"]):
            if run["result"]:
                run["result"].pop("log", None)
