"""A row for each GPU: its history, its utilisation and its figures; side by side where needed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.machine import BUSY_PCT, Figure, has_no_readings, no_utilization, worst
from dlmon.records import Gpu
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.drawing.time_axis import TimeAxis
from tui.machine.meters import LEVEL_STYLES
from tui.machine.readings import peak_and_own
from tui.machine.tile import coarser
from tui.machine.view import MachineView
from tui.widgets.lines import BAD, BAR, HIGH, MUTED, PLAIN, STRONG, GrowingLines, cut, row_width
from tui.widgets.rows import TextRow, TextRun, fit

GAP = 2
_PERCENT = 6
# A history in fewer cells is unreadable: a bar of the reading takes its place.
_LEAST_HISTORY, _LONGEST_HISTORY, _LEAST_BAR = 4, 40, 2
# The cells that a GPU takes at least: "63 ━━ 100 %".
_SHORT = 11
_ROOM_FOR_WORD, _ROOM_FOR_ALL = 16, 90
# What follows the memory, the most important first, and the cells for it with its gap.
_COLUMNS = (("temp", 9), ("power", 14), ("clock", 10), ("held by", 24))


class GpuRows(GrowingLines):
    """Every GPU in even rows."""

    _view: MachineView | None = None
    _axis = TimeAxis(0, 1, 0, 0)
    _without: int | None = None
    _word = ""

    def set_framed(self, framed: bool) -> None:
        """Have a frame whose title says what the rows are of, or have each say it.

        The styles are to be updated after it.
        """
        self.set_class(framed, "panel", update=False)
        self._word = "" if framed else "GPU "

    def show(self, view: MachineView, axis: TimeAxis, *, without: int | None = None) -> None:
        """Show the GPUs of `view`, with their histories along `axis`, `without` that of a chart."""
        self._view, self._axis, self._without = view, axis, without
        self.redraw()

    def rows_needed(self, width: int) -> int:
        """Return in how many rows GPUs look well."""
        count = len(self._view.gpus) - (self._without is not None) if self._view is not None else 0
        side_by_side = 2 if count > 4 and width < _ROOM_FOR_ALL else 1
        return max(1, -(-count // side_by_side))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the GPUs from left to right; in rows to spare, more of the one that trains."""
        view = self._view
        gpus = [gpu for gpu in view.gpus if gpu.index != self._without] if view is not None else []
        if view is None or not gpus or width < 1 or height < 1:
            return []
        in_a_row = gpus_in_a_row(len(gpus), width, height)
        each = (width - GAP * (in_a_row - 1)) // in_a_row
        digits = max(len(str(gpu.index)) for gpu in gpus)
        shown = gpus[: height * in_a_row]
        word = self._word if each >= _ROOM_FOR_WORD else ""
        cells = [
            gpu_row(view, gpu, self._axis, f"{word}{gpu.index:<{digits}}", each) for gpu in shown
        ]
        if len(gpus) > len(cells):
            more = f"… {len(gpus) - len(cells) + 1} more"
            cells[-1] = ((fit(more, each), MUTED),)
        gap: TextRow = ((" " * GAP, PLAIN),)
        rows: list[TextRow] = []
        for start in range(0, len(cells), in_a_row):
            first, *others = cells[start : start + in_a_row]
            rows.append((*first, *(run for cell in others for run in (*gap, *cell))))
        trains = next((gpu for gpu in gpus if gpu.index == view.gpu_index), None)
        if trains is not None and not view.stale:
            rows += _in_words(view, view.gpu_at(trains, self._axis), width)[: height - len(rows)]
        return rows


def gpus_in_a_row(count: int, width: int, height: int) -> int:
    """Return how many GPUs to put in a row: as few as there are rows for."""
    most = max(1, (width + GAP) // (_SHORT + GAP))
    in_a_row = min(most, -(-count // max(1, height)))
    return -(-count // -(-count // in_a_row))


def gpu_row(
    view: MachineView,
    gpu: Gpu,
    axis: TimeAxis,
    name: str,
    width: int,
    last: TextRun | None = None,
) -> TextRow:
    """Return a GPU in exactly `width` cells: as many of its figures as have room.

    `last` takes the place of the less important ones.
    """
    trains, then = gpu.index == view.gpu_index, view.gpu_at(gpu, axis)
    figures = {figure.label: figure for figure in view.figures_of(then)}
    mark = "▸" if trains else " "
    # What is bad of it may have no column.
    label: TextRun = (f"{mark}{name} ", STRONG if trains else MUTED)
    if worst(figures.values()) == "bad":
        label = (f"{mark}{name}!", BAD)
    room = width - row_width((label,))
    if view.stale:
        return (label, (fit(view.stale, room), MUTED))
    if then.utilization_pct is None:
        reason, style = no_utilization(then, view.no_reading), MUTED
        if has_no_readings(then):
            return (label, (fit(reason, room), BAD))
        known = (figures[name].marked for name, _ in _COLUMNS if name in figures)
        return (label, (fit("  ".join((reason, *known)), room), style))
    series = view.history.gpu_utilization_pct.get(gpu.index, Series())
    columns = [(_figure(figures.get(name), cells), cells) for name, cells in _COLUMNS]
    if last is not None:
        columns = [*columns[:2], (last, cell_len(last[0]))]
    columns.insert(0, _memory(figures.get("memory"), then, view))
    return (label, *figure_row(then.utilization_pct, series, axis, columns, room))


def figure_row(
    pct: float | None,
    series: Series,
    axis: TimeAxis,
    columns: Sequence[tuple[TextRun, int]],
    width: int,
) -> TextRow:
    """Return percentages over time and now in `width` cells, and the columns that have room.

    Each column has its cells, with the gap before it. Where a history has no room there is a bar.
    """
    room = width - _PERCENT
    shown: TextRow = ()
    for number, ((text, style), cells) in enumerate(columns):
        # What comes first is worth more than the history.
        if room - cells < (_LEAST_HISTORY if number else 0):
            break
        room -= cells
        text = fit(text, min(cell_len(text), cells - GAP))
        shown = (*shown, (" " * (cells - cell_len(text)) + text, style))
    cells = min(room, _LONGEST_HISTORY)
    drawn = (" " * max(0, cells), BAR)
    if cells >= _LEAST_HISTORY:
        drawn = (history(series, axis, cells), BAR)
    elif cells >= _LEAST_BAR and pct is not None:
        drawn = (bar(pct / 100, cells), BAR)
    is_high = pct is not None and pct >= BUSY_PCT
    percent = (f"{units.percent(pct):>{_PERCENT}}", HIGH if is_high else PLAIN)
    row = (drawn, percent, *shown)
    return cut((*row, (" " * (width - row_width(row)), PLAIN)), width)


def history(series: Series, axis: TimeAxis, cells: int) -> str:
    """Draw percentages over the whole of an axis in one row of so many cells."""
    columns = coarser(axis, COLUMNS_PER_CELL * cells).columns(series)
    return braille_rows(columns, cells, 1, 100.0, 0.0, True)[0]


def _figure(figure: Figure | None, cells: int) -> TextRun:
    """Return a figure for its column; blank where it isn't known. Words begin at the left."""
    if figure is None or not figure.known:
        return ("", PLAIN)
    text = fit(figure.marked, cells - GAP) if figure.label == "held by" else figure.marked
    return (text, LEVEL_STYLES[figure.level])


def _memory(figure: Figure | None, gpu: Gpu, view: MachineView) -> tuple[TextRun, int]:
    """Return the memory in use in few cells, and how many: as many as all of it in use takes."""
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    if not total_mib or gpu.memory_used_mib is None or figure is None:
        run = _figure(figure, 0)
        return run, GAP + cell_len(run[0])
    text = units.short_memory_in_use(gpu.memory_used_mib, total_mib)
    widest = units.short_memory_in_use(total_mib, total_mib)
    return (text, LEVEL_STYLES[figure.level]), GAP + cell_len(widest)


def _in_words(view: MachineView, gpu: Gpu, width: int) -> list[TextRow]:
    """Return the figures of a GPU in rows, each as long as has room."""
    known = [figure for figure in view.figures_of(gpu) if figure.known]
    parts: list[TextRun] = [(figure.brief, LEVEL_STYLES[figure.level]) for figure in known]
    parts += ((text, PLAIN) for text in peak_and_own(gpu, view))
    rows: list[TextRow] = [()]
    for text, style in parts:
        run = (f"  {text}", style)
        if rows[-1] and row_width((*rows[-1], run)) > width:
            rows.append(())
        rows[-1] = (*rows[-1], run)
    return [cut(row, width) for row in rows if row]
