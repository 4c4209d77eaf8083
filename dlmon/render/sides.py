"""Print two sides of runs beside each other."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from dlmon.comparison.sides import SidesComparison
from dlmon.figures.sides import (
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
from dlmon.records.sanitize import clean
from dlmon.render.console import table_console
from dlmon.render.tables import print_line, unwrapped

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
