"""What a report says of one sweep: its plan, its table, what it found, and its curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.figures import units
from dlmon.figures.redact import Redaction
from dlmon.figures.sections import (
    Bar,
    Bars,
    Chart,
    Heading,
    Line,
    Note,
    Section,
    as_sentence,
    with_texts,
)
from dlmon.figures.sweeps import (
    findings,
    heading_of,
    label,
    plan_text,
    sweep_json,
    sweep_table,
    with_band,
)
from dlmon.log.label import read_label
from dlmon.options.run import in_words, option_name
from dlmon.records import RunStatus
from dlmon.records.record import record
from dlmon.sweep.log import read_sweep
from dlmon.sweep.plan import Plan
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import (
    CombinationRow,
    axis_of,
    best_rows,
    of_workload,
    ranking_rows,
)


@record(frozen=True)
class SweepReport:
    """One sweep: what a report says of it, and as numbers and words."""

    title: str
    sections: tuple[Section, ...]
    as_json: Mapping[str, Any]

    @property
    def charts(self) -> list[Chart]:
        """What is drawn of it."""
        return [section for section in self.sections if isinstance(section, Chart)]


def sweep_report(path: Path, full: bool = False) -> SweepReport:
    """Read the log of a sweep, and return what a report says of it.

    Raises:
        LogError: it can't be read.
    """
    header, sweep = read_sweep(path)
    redaction = Redaction(full)
    redaction.learn_hosts([host for host in sweep.plan.hosts if host is not None])
    redaction.learn_names(header.host, header.options)
    plan = sweep.plan
    given = {key: value for key, value in plan.options.items() if value is not None}
    name = read_label(path).name
    title = name or header.id
    sections: list[Section] = [
        Heading(f"Sweep {title}", (f"{units.day_and_time(header.wall)} · {plan_text(plan)}",)),
        Note(tuple(map(as_sentence, findings(sweep))), "verdict"),
    ]
    for workload in plan.workloads:
        chart = picture_of(sweep, workload)
        if chart is not None:
            sections.append(replace(chart, title=f"{workload}: {chart.title}"))
        else:
            sections.append(_bars(sweep, workload))
    sections.append(replace(sweep_table(sweep), heading="All combinations"))
    if given:
        said = in_words(given)
        sections.append(Note((f"All with {said}.",)))
    as_json = sweep_json(header, sweep, str(path), name)
    if not full:
        del as_json["log"]
        _leave_out_paths(as_json)
    return SweepReport(
        title=redaction.text(title),
        sections=with_texts(tuple(sections), redaction.text),
        as_json=redaction.value(as_json),
    )


def picture_of(sweep: Sweep, workload: str) -> Chart | None:
    """Return what a workload's combinations took; None where nothing that is varied is a number."""
    rows, axis = of_workload(ranking_rows(sweep), workload), axis_of(sweep.plan.variations)
    if axis is None or all(row.status == RunStatus.IMPOSSIBLE for row in rows):
        return None
    return _chart(workload, sweep.plan, rows, axis)


def _chart(workload: str, plan: Plan, rows: Sequence[CombinationRow], axis: str) -> Chart:
    others = [key for key in plan.varied if key != axis]
    found: dict[str, list[CombinationRow]] = {}
    for row in rows:
        if row.status != RunStatus.IMPOSSIBLE:
            name = label(row.combination, others) if others else workload
            found.setdefault(name, []).append(row)

    def place(row: CombinationRow) -> float:
        return float(row.combination.varied[axis])

    lines = []
    for name, points in found.items():
        points.sort(key=place)
        means, lows, highs = zip(*((row.value, row.low, row.high) for row in points), strict=True)
        out = tuple(place(row) for row in points if row.status == RunStatus.OUT_OF_MEMORY)
        xs = tuple(map(place, points))
        lines.append(Line(name, xs, means, lows, highs, out_of_memory=out))
    shown = {place(row): f"{row.combination.varied[axis]}" for of in found.values() for row in of}
    title = f"{heading_of(rows[0].metric)} against {option_name(axis)}"
    return Chart(title, "", tuple(lines), x_labels=tuple(sorted(shown.items())))


def _bars(sweep: Sweep, workload: str) -> Bars:
    best = {row.combination.index for row in best_rows(sweep).values()}
    bars = []
    for row in of_workload(ranking_rows(sweep), workload):
        said = with_band(row).text() if row.value is not None else row.reason or str(row.status)
        kind = "this" if row.combination.index in best else ""
        bars.append(Bar(label(row.combination), row.value or 0.0, said, kind))
    return Bars(workload, tuple(bars))


def _leave_out_paths(found: dict[str, Any]) -> None:
    """Take the paths of logs out of the results of a sweep's runs."""
    for row in found["rows"]:
        for run in (row, *row["runs"]):
            if run["result"]:
                run["result"].pop("log", None)
