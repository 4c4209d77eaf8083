"""A row for each GPU: its history and its figures; side by side where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from dlmon.records import Gpu
from dlmon.series import Series
from tui import figures
from tui.machine_figures import BUSY_PCT, Figure, gpu_figures
from tui.machine_view import MachineView
from tui.time_axis import TimeAxis
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, Lines, cut, row_width
from tui.widgets.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.widgets.rows import Row, fit

HISTORY: tuple[str, ...] = ("gpus--history",)
HIGH: tuple[str, ...] = ("gpus--high",)
TRACK: tuple[str, ...] = ("gpus--track",)

# The cells that a GPU needs with its whole name, and with its number alone.
_NAMED, _SHORT = 24, 11
# A history in fewer cells tells nothing: a bar of the reading takes its place, and needs less.
_LEAST_HISTORY, _LONGEST_HISTORY, _LEAST_BAR = 6, 40, 5
_GAP = 2


class GpuRows(Lines):
    """Every GPU in even rows."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"gpus--history", "gpus--high", "gpus--track"}

    DEFAULT_CSS = """
    GpuRows {
        & > .gpus--history { color: $primary; }
        & > .gpus--high { color: $text-warning; }
        & > .gpus--track { color: $surface-lighten-2; }
    }
    """

    def __init__(self, *, ascii: bool = False, id: str | None = None, classes: str | None = None):
        """Start empty."""
        super().__init__(ascii=ascii, id=id, classes=classes)
        self._view: MachineView | None = None
        self._axis = TimeAxis(0, 1, 0, 0)
        self._mark = False

    def show(self, view: MachineView, axis: TimeAxis, *, mark: bool = False) -> None:
        """Show the GPUs of `view`, with their histories along `axis`; `mark` the one that trains.

        Where a history has no room there is a bar of the reading.
        """
        self._view, self._axis = view, axis
        self._mark = mark and view.gpu_index is not None
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the GPUs in rows from left to right, and how many have no room."""
        view = self._view
        gpus = view.gpus if view is not None else ()
        if view is None or not gpus or height < 1 or width < 1:
            return []
        in_a_row = gpus_in_a_row(len(gpus), width, height)
        each = (width - _GAP * (in_a_row - 1)) // in_a_row
        room = height * in_a_row
        digits = max(len(str(gpu.index)) for gpu in gpus)
        cells = [self._gpu_cell(view, gpu, digits, each) for gpu in gpus[:room]]
        if len(gpus) > room:
            cells[-1] = ((fit(f"{self.ellipsis} {len(gpus) - room + 1} more", each), MUTED),)
        gap: Row = ((" " * _GAP, PLAIN),)
        rows = []
        for start in range(0, len(cells), in_a_row):
            first, *more = cells[start : start + in_a_row]
            row = (*first, *(run for cell in more for run in (*gap, *cell)))
            rows.append(cut(row, width))
        return rows

    def _gpu_cell(self, view: MachineView, gpu: Gpu, digits: int, width: int) -> Row:
        """Return a GPU in exactly `width` cells."""
        name = f"{'GPU ' if width >= _NAMED else ''}{gpu.index:<{digits}} "
        trains = gpu.index == view.gpu_index
        if self._mark:
            pointer = ">" if self.ascii else "▸"
            name = f"{pointer if trains else ' '}{name}"
        told: Row = ((name, STRONG if trains else MUTED),)
        gpu = view.gpu_at_cursor(gpu, self._axis)
        if view.stale:
            return (*told, (fit(view.stale, width - len(name)), MUTED))
        if gpu.utilization_pct is None:
            reason = gpu.why.get("utilization_pct", "no reading yet")
            return (*told, (fit(reason, width - len(name)), BAD))
        facts = view.facts_of(gpu)
        percent = f"{figures.percent(gpu.utilization_pct):>5}"
        room = width - len(name) - len(percent) - _GAP
        more = self._figures_with_room(
            gpu_figures(gpu, facts.memory_mib if facts else None), room - _LEAST_BAR
        )
        cells = min(room - row_width(more), _LONGEST_HISTORY)
        drawn: Row
        if cells >= _LEAST_HISTORY:
            drawn = (self._history(view, gpu.index, cells), HISTORY), (" ", PLAIN)
        else:
            drawn = self._bar(gpu.utilization_pct, max(0, cells + 1))
        style = HIGH if gpu.utilization_pct >= BUSY_PCT else PLAIN
        row: Row = (*told, *drawn, (f" {percent}", style), *more)
        return (*row, (" " * (width - row_width(row)), PLAIN))

    def _figures_with_room(self, told: list[Figure], room: int) -> Row:
        """Return as many figures as have room, each in a column of its own."""
        by_label = {figure.label: figure for figure in told}
        row: Row = ()
        for label, cells in _COLUMNS:
            figure = by_label.get(label)
            if cells > room:
                break
            room -= cells
            text = figure.marked if figure is not None and figure.known else ""
            level = figure.level if figure is not None else ""
            style = {"": PLAIN, "high": HIGH, "bad": BAD}[level]
            row = (*row, (f"  {fit(text, cells - _GAP):>{cells - _GAP}}", style))
        return row

    def _bar(self, pct: float, cells: int) -> Row:
        """Draw a bar of the utilisation in so many cells."""
        drawn = bar(pct / 100, cells, self.ascii).rstrip()
        return (drawn, HISTORY), (("." if self.ascii else "─") * (cells - len(drawn)), TRACK)

    def _history(self, view: MachineView, index: int, cells: int) -> str:
        """Draw the utilisation over the whole axis in one row of so many cells."""
        axis = coarser(self._axis, COLUMNS_PER_CELL * cells)
        series = view.history.gpu_utilization_pct.get(index, Series())
        columns = axis.columns(series)
        if self.ascii:
            return _ramp(columns, cells)
        return braille_rows(columns, cells, 1, 100.0, 0.0, True)[0]


def _ramp(columns: Sequence[float | None], cells: int) -> str:
    """Draw percentages in plain characters of one row, two columns a cell."""
    pairs = (columns[at : at + COLUMNS_PER_CELL] for at in range(0, COLUMNS_PER_CELL * cells, 2))
    known = ([value for value in pair if value is not None] for pair in pairs)
    last = len(_RAMP) - 1
    return "".join(
        _RAMP[round(max(0.0, min(100.0, sum(some) / len(some))) / 100 * last)] if some else " "
        for some in known
    )


_RAMP = "_.-=+*#"

# What follows the utilisation, the most important first, and the cells for it with its gap.
_COLUMNS = (("temp", 9), ("power", 14), ("memory", 19), ("clock", 10), ("held by", 22))


def gpus_in_a_row(count: int, width: int, height: int) -> int:
    """Return how many GPUs to put in a row: two where there are many, more where rows are few."""
    wanted = max(1 if count <= 4 or count <= height // 2 else 2, -(-count // max(1, height)))
    most = max(1, (width + _GAP) // (_SHORT + _GAP))
    in_a_row = min(wanted, most)
    return -(-count // -(-count // in_a_row))


def gpu_rows_wanted(count: int, width: int) -> tuple[int, int]:
    """Return in how many rows GPUs look well, and how many they need at least."""
    most = max(1, (width + _GAP) // (_SHORT + _GAP))
    in_a_row = min(most, 1 if count <= 4 else 2)
    return -(-count // in_a_row), -(-count // most)


def coarser(axis: TimeAxis, count: int) -> TimeAxis:
    """Return `axis` in at most `count` columns, each of as many whole ones.

    The columns lie at multiples of their width, and come by the cell: so the
    picture of a moving axis changes but once in a while.
    """
    cells = count // COLUMNS_PER_CELL
    factor = max(1, -(-axis.count // max(1, COLUMNS_PER_CELL * cells)))
    width_ns = axis.column_ns * factor
    cell_ns = width_ns * COLUMNS_PER_CELL
    first, end = axis.begin_ns // cell_ns, axis.end_ns // cell_ns
    if axis.known == axis.count:
        # A full axis ends at the right, and may reach back a little further.
        first = end - cells
    known = max(0, min(count, COLUMNS_PER_CELL * (end - first)))
    return replace(axis, begin_ns=first * cell_ns, column_ns=width_ns, count=count, known=known)
