"""Print two sides of runs beside each other, or return them as JSON."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from dlmon.comparison.sides import Difference, RunFigures, SidesComparison, SidesFigure
from dlmon.records.sanitize import clean
from tui.formatting.sides import (
    COLUMNS,
    GAP,
    differences,
    doubts,
    figure_rows,
    legends,
    notes,
    shown_columns,
    side_name,
    verdict,
)
from tui.plain.console import table_console
from tui.plain.tables import print_line, unwrapped

_STYLES = {True: "green", False: "red", None: ""}


def print_sides(comparison: SidesComparison) -> None:
    """Print what may be said, the table, what differs, and what one should know of it."""
    console = table_console()
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        print_line(console, Text.assemble((f"{name:<5}", "dim"), clean(side_name(side))))
    console.print()
    print_line(console, Text(clean(verdict(comparison)), style="bold"))
    for doubt in doubts(comparison):
        print_line(console, Text(clean(doubt), style="yellow"))
    console.print()
    rows = figure_rows(comparison)
    shown = shown_columns(rows, console.width)
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim")
    for index, _ in shown:
        table.add_column(COLUMNS[index], justify="right" if index else "left")
    for row in rows:
        cells = [Text(row.cells[index]) for index, _ in shown]
        table.add_row(*cells, style=_STYLES[row.is_better])
    for line in unwrapped(console, table):
        line.rstrip()
        print_line(console, line)
    console.print()
    for said in legends(rows):
        print_line(console, Text(said, style="dim"))
    for title, texts in differences(comparison):
        for number, each in enumerate(texts):
            lead = "" if number else title
            print_line(console, Text.assemble((f"{lead:<23}", "dim"), clean(each)))
    for note in notes(comparison):
        print_line(console, Text(clean(note), style="dim"))


def sides_json(comparison: SidesComparison) -> dict[str, Any]:
    """Return a comparison as `compare --json` prints it."""
    return {
        "verdict": str(comparison.claim),
        "unlike": list(comparison.unlike),
        "base": [_run_json(run) for run in comparison.base],
        "new": [_run_json(run) for run in comparison.new],
        "figures": {figure.name: _figure_json(figure) for figure in comparison.figures},
        "arguments": _differences_json(comparison.arguments),
        "options": _differences_json(comparison.options),
        "environment": _differences_json(comparison.environment),
        "doubts": doubts(comparison),
        "notes": notes(comparison),
    }


def _figure_json(figure: SidesFigure) -> dict[str, Any]:
    ratio = figure.ratio
    return {
        "base": figure.base,
        "new": figure.new,
        "change_pct": None if ratio is None else _change_pct(ratio.value),
        "low_pct": None if ratio is None else _change_pct(ratio.low),
        "high_pct": None if ratio is None else _change_pct(ratio.high),
        "p": None if ratio is None else ratio.p,
        "basis": None if ratio is None else ratio.basis,
        "significant": ratio is not None and ratio.is_significant,
        "runs": list(figure.runs),
        "why": figure.why,
    }


def _change_pct(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * (ratio - 1)


def _run_json(run: RunFigures) -> dict[str, Any]:
    return {
        "session": run.session,
        "name": run.name,
        "log": run.log,
        "workload": run.workload,
        "status": run.status,
        "wall": run.wall,
        "figures": dict(run.values),
        "counts_steps": run.counts_steps,
        "valid": run.valid,
        "against": dict(run.against),
    }


def _differences_json(found: tuple[Difference, ...]) -> dict[str, Any]:
    return {each.name: {"base": each.base, "new": each.new} for each in found}
