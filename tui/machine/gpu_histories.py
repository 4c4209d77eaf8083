"""A row of small histories for each GPU, one of which is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.style import Style

from dlmon.figures.machine.readings import (
    GPU_CURVES,
    OF_SYSTEM,
    Figure,
    gpu_figures,
    has_no_readings,
    no_utilization,
    worst,
)
from dlmon.records import Gpu
from tui.drawing.plot import COLUMNS_PER_CELL, LEVELS, braille_rows, mark_row
from tui.machine.meters import LEVEL_STYLES
from tui.machine.tile import coarser, gpu_axis, gpu_figure_in_short, gpu_hue
from tui.machine.view import MachineView
from tui.widgets.lines import ACCENT, BAD, MUTED, STRONG, TextRow, TextRun, cut, fit, joined, shows
from tui.widgets.tables import MARGIN, ScrollingLines

_NAME, _VALUE, _GAP = 6, 9, 1
_LEAST_HISTORY, _LEAST_BELOW_VALUE = 6, 13
# From this height on, the values stand in a row above the histories instead of beside them.
_TALL = 4
# The shares of a colour from the bottom of a history to its top, in %.
_LOW, _HIGH = 50, 100


class GpuHistories(ScrollingLines):
    """Histories of each GPU side by side: one quantity below the other, GPU by GPU."""

    @dataclass
    class GpuClicked(Message):
        """The user clicked a GPU; `opens` is set after a second click."""

        number: int
        opens: bool

    _tall = 1

    def rows(
        self, width: int, height: int, view: MachineView, labels: tuple[str, ...], chosen: int
    ) -> list[TextRow]:
        """Return the GPUs that fit, with the chosen one among them.

        The most important of the `labels`, which name quantities, come first.
        """
        gpus, room = view.gpus, width - _NAME - MARGIN
        labels = labels_in(width, height, len(gpus), labels)
        cells = room // max(1, len(labels))
        tall, spare = divmod(height - 1, max(1, len(gpus)))
        # The last row has the times, unless low histories need it.
        has_times = tall > _TALL or (tall > 0 and spare > 0)
        height -= 1 + has_times
        self._tall = max(1, height // max(1, len(gpus)))
        fit_in = max(1, height // self._tall)
        self.bring_into_view(chosen, fit_in)
        names = "".join(fit(label, cells - _GAP) + " " * _GAP for label in labels)
        rows: list[TextRow] = []
        for number in self.in_view(len(gpus), fit_in):
            rows += self._gpu_rows(view, gpus[number], labels, cells, number == chosen)
        rows = self.with_thumb([cut(row, width - MARGIN) for row in rows], len(gpus), width)
        heading: TextRow = ((f"{'GPU':<{_NAME}}{names}", MUTED),)
        times = [self._times_row(view, len(labels), cells)] if has_times else []
        return [joined(heading, ((view.cursor_label, STRONG),), width), *rows, *times]

    show = shows(rows)

    def _history_cells(self, cells: int) -> int:
        return cells - _GAP - (0 if self._tall >= _TALL else 1 + _VALUE)

    def _times_row(self, view: MachineView, count: int, cells: int) -> TextRow:
        """Return the labels of the time below each history."""
        history = self._history_cells(cells)
        axis = coarser(view.axis(COLUMNS_PER_CELL * history), COLUMNS_PER_CELL * history)
        times = view.times(axis)
        room = history - len(times.last)
        labels = mark_row([mark for mark in times.marks if mark[1]], (), room) + times.last
        return ((" " * _NAME + fit(labels, cells) * count, MUTED),)

    def _gpu_rows(
        self, view: MachineView, gpu: Gpu, labels: tuple[str, ...], cells: int, is_chosen: bool
    ) -> list[TextRow]:
        above = int(self._tall >= _TALL)
        tall = self._tall - above
        history = self._history_cells(cells)
        axis = coarser(view.axis(COLUMNS_PER_CELL * history), COLUMNS_PER_CELL * history)
        reading, facts = view.gpu_at(gpu, axis), view.facts_of(gpu)
        figures = {
            figure.label: figure
            for figure in gpu_figures(reading, facts, in_depth=True)
            if figure.is_known
        }
        mark = "▸" if is_chosen else " "
        is_bad = worst(figures.values()) == "bad"
        style = BAD if is_bad else ACCENT if is_chosen else STRONG
        name = f"{mark} {gpu.index}{'!' if is_bad else ''}"
        rows: list[list[TextRun]] = [
            [(fit("" if y else name, _NAME), style)] for y in range(self._tall)
        ]
        if has_no_readings(gpu) and view.cursor_ns is None:
            rows[0].append((no_utilization(gpu, view.no_reading), BAD))
            return [tuple(row) for row in rows]
        for label in labels:
            columns = axis.columns(view.history.gpu_series(GPU_CURVES[label], gpu.index))
            highest = max((value for value in columns if value is not None), default=1.0)
            top, _ = gpu_axis(label, gpu, facts, highest)
            # The topmost dots stay free, so that GPUs at their limit don't touch.
            top *= LEVELS * tall / (LEVELS * tall - 1)
            drawn = braille_rows(columns, history, tall, top, 0.0, True)
            figure, is_stale = figures.get(label), bool(view.stale)
            if above:
                text = "–" if figure is None else figure.marked
                if figure is not None and cell_len(text) >= cells:
                    text = gpu_figure_in_short(figure, reading, facts)
                rows[0].append((fit(text, cells), _style(figure, is_stale)))
            for y, (row, text) in enumerate(zip(rows[above:], drawn, strict=True)):
                share = _HIGH - (_HIGH - _LOW) * y // max(1, tall - 1)
                row.append((f"{text} ", f"{gpu_hue(label)} {share}%"))
                if not above:
                    row.append(_value(figure, y, is_stale))
        return [tuple(row) for row in rows]

    def style_of(self, style: str, y: int) -> Style:
        """Return the style of a run; ANSI colours have no opacity."""
        is_ansi = style.startswith("$chart") and self.app.native_ansi_color
        return super().style_of(style.partition(" ")[0] if is_ansi else style, y)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y > 0 and (at.y - 1) // self._tall < len(self._in_view):
            number = self._in_view[(at.y - 1) // self._tall]
            self.post_message(self.GpuClicked(number, event.chain > 1))


def labels_in(width: int, height: int, gpus: int, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels of the quantities that have a history at this size."""
    is_tall = (height - 2) // max(1, gpus) >= _TALL
    least = _GAP + (_LEAST_BELOW_VALUE if is_tall else _LEAST_HISTORY + _VALUE)
    return labels[: max(1, (width - _NAME - MARGIN) // least)]


def _value(figure: Figure | None, y: int, is_stale: bool) -> TextRun:
    """Return a value in the first row, and its limit in the second."""
    value, style = "" if y else "–", MUTED
    if figure is not None and y < 2:
        value, _, limit = figure.value.removesuffix(OF_SYSTEM).partition(" of ")
        number, _, unit = limit.rpartition(" ")
        if y:
            value = f"of {number}" if limit else ""
        else:
            value = f"{value} {unit}".rstrip() + figure.mark
            style = _style(figure, is_stale)
    return (fit(value, _VALUE + _GAP), style)


def _style(figure: Figure | None, is_stale: bool) -> str:
    return MUTED if figure is None or is_stale else LEVEL_STYLES[figure.level] or STRONG
