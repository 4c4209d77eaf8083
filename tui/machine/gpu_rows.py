"""A row for each GPU: its history, its utilisation and its figures; side by side where needed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.machine.readings import BUSY_PCT, Figure, has_no_readings, no_utilization, worst
from dlmon.records import Gpu
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.drawing.time_axis import TimeAxis
from tui.machine.meters import LEVEL_STYLES
from tui.machine.tile import coarser
from tui.machine.view import MachineView, at_the_end
from tui.widgets.lines import (
    BAD,
    BAR,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    TextRun,
    cut,
    fit,
    row_width,
)

GAP = 2
_PERCENT, _MEMORY = 6, 8
# A history in fewer cells is unreadable: a bar of the reading takes its place.
_LEAST_HISTORY, _LONGEST_HISTORY, _LEAST_BAR = 4, 40, 2
# The cells that a GPU takes at least: "63 ━━ 100 %".
_SHORT, _ROOM_FOR_WORD = 11, 16
# What follows the memory, the most important first, and the cells for it with its gap.
_COLUMNS = (("temp", 9), ("power", 14), ("clock", 10), ("held by", 24))


class GpuRows(Lines):
    """Every GPU in even rows, side by side where there are more of them than rows."""

    _view: MachineView | None = None
    _axis = TimeAxis(0, 1, 0, 0)

    def show(self, view: MachineView, axis: TimeAxis) -> None:
        """Show the GPUs of `view`, with their histories along `axis`."""
        self._view, self._axis = view, axis
        trains = next((gpu for gpu in view.gpus if gpu.index in view.training), None)
        figures: list[Figure] = []
        if trains is not None and not view.stale:
            figures = view.figures_of(view.gpu_at(trains, axis))
        briefs = [one.brief for one in figures if one.known and one.label != "memory"]
        first = f"▸{trains.index}" if trains is not None and briefs else ""
        self.set_titles(f"GPUs{at_the_end(view)}", right=first, more=tuple(briefs))
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the GPUs from left to right."""
        view = self._view
        if view is None or not view.gpus or width < 1 or height < 1:
            return []
        gpus = view.gpus
        most = max(1, (width + GAP) // (_SHORT + GAP))
        in_a_row = min(most, -(-len(gpus) // height))
        in_a_row = -(-len(gpus) // -(-len(gpus) // in_a_row))
        each = (width - GAP * (in_a_row - 1)) // in_a_row
        digits = max(len(str(gpu.index)) for gpu in gpus)
        word = "GPU " if each >= _ROOM_FOR_WORD and not self.has_class("panel") else ""
        cells = [
            gpu_row(view, gpu, self._axis, f"{word}{gpu.index:<{digits}}", each)
            for gpu in gpus[: height * in_a_row]
        ]
        if len(gpus) > len(cells):
            cells[-1] = ((fit(f"… {len(gpus) - len(cells) + 1} more", each), MUTED),)
        gap: TextRow = ((" " * GAP, PLAIN),)
        rows: list[TextRow] = []
        for start in range(0, len(cells), in_a_row):
            first, *others = cells[start : start + in_a_row]
            rows.append((*first, *(run for cell in others for run in (*gap, *cell))))
        return rows


def gpu_row(
    view: MachineView,
    gpu: Gpu,
    axis: TimeAxis,
    name: str,
    width: int,
    last: tuple[TextRun, int] | None = None,
) -> TextRow:
    """Return a GPU in exactly `width` cells: as many of its figures as have room.

    `last`, in so many cells, takes the place of the less important ones; then rows of several
    machines stand in the same columns.
    """
    trains, then = gpu.index in view.training, view.gpu_at(gpu, axis)
    figures = {figure.label: figure for figure in view.figures_of(then)}
    mark = "▸" if trains else " "
    # What is bad of it may have no column.
    label: TextRun = (f"{mark}{name} ", STRONG if trains else MUTED)
    if worst(figures.values()) == "bad":
        label = (f"{mark}{name}!", BAD)
    room = width - row_width((label,))
    if view.stale:
        return (label, (fit(view.stale, room), MUTED))
    if has_no_readings(then):
        return (label, (fit(no_utilization(then, view.no_reading), room), BAD))
    columns = [(figure_column(figures.get(name), cells), cells) for name, cells in _COLUMNS]
    if last is not None:
        power = "" if then.power_w is None else f"{then.power_w:.0f} W"
        columns[1:] = [((power, PLAIN), 8), last]
    if then.utilization_pct is None:
        parts = (no_utilization(then, view.no_reading), *(text for (text, _), _ in columns))
        return (label, (fit("  ".join(filter(None, parts)), room), MUTED))
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    columns.insert(0, memory_column(figures.get("memory"), then.memory_used_mib, total_mib))
    series = view.history.gpu_utilization_pct.get(gpu.index, Series())
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
        columns_of = coarser(axis, COLUMNS_PER_CELL * cells).columns(series)
        drawn = (braille_rows(columns_of, cells, 1, 100.0, 0.0, True)[0], BAR)
    elif cells >= _LEAST_BAR and pct is not None:
        drawn = (bar(pct / 100, cells), BAR)
    is_high = pct is not None and pct >= BUSY_PCT
    percent = (f"{units.percent(pct):>{_PERCENT}}", HIGH if is_high else PLAIN)
    row = (drawn, percent, *shown)
    return cut((*row, (" " * (width - row_width(row)), PLAIN)), width)


def figure_column(figure: Figure | None, cells: int) -> TextRun:
    """Return a figure for its column; blank where it isn't known. Words begin at the left."""
    if figure is None or not figure.known:
        return ("", PLAIN)
    text = fit(figure.marked, cells - GAP) if figure.label == "held by" else figure.marked
    return (text, LEVEL_STYLES[figure.level])


def memory_column(
    figure: Figure | None, used_mib: float | None, total_mib: float | None
) -> tuple[TextRun, int]:
    """Return the memory in use in few cells, and how many: as many as all of it in use takes."""
    if not total_mib or used_mib is None or figure is None:
        text, style = figure_column(figure, 0)
        return (text, style), GAP + max(_MEMORY, cell_len(text))
    text = units.short_memory_in_use(used_mib, total_mib)
    widest = units.short_memory_in_use(total_mib, total_mib)
    return (text, LEVEL_STYLES[figure.level]), GAP + max(_MEMORY, cell_len(widest))
