"""Draw what a sweep found: points joined along an axis, or a bar for each combination. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

from rich.cells import cell_len

from dlmon.figures.sections import Bar, Chart, Line
from dlmon.figures.value_axis import bar_lengths, is_doubling, nice_top, short_number
from tui.drawing.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, cut
from tui.widgets.rows import TextRow, fit

SERIES = tuple((f"sweep-chart--series-{number}",) for number in range(6))
"""The component classes of the series; what comes after the last one is not drawn."""
GRID = ("sweep-chart--grid",)

_LEVELS = 4
"""How many heights of a line one cell can show."""
_LABELS_WIDTH = 6
_MARGIN = 2
"""Cells between an end of the axis and the outermost points, so that their labels have room."""
_GAP = 2
_LABEL_SHARE = 0.5
_LEAST_WITH_MIDDLE = 5
_SHORTEST_BAR = 6


def plot_rows(chart: Chart, width: int, height: int) -> list[TextRow]:
    """Draw the points of each line, and what joins them.

    The vertical axis begins at zero. A point without a figure leaves a gap; where
    memory ran out, a cross stands at the top. With several lines the first row
    is the legend.
    """
    names, drawn = [line.label for line in chart.lines], chart.lines[: len(SERIES)]
    legend = _legend(names, width) if len(names) > 1 else ()
    labels_width = _LABELS_WIDTH if width >= 4 * _LABELS_WIDTH else 0
    plot_width = width - labels_width
    plot_height = height - 1 - bool(legend)
    xs = [x for line in drawn for x in line.xs]
    if plot_width < 2 * _MARGIN + 2 or plot_height < 1 or not xs:
        return []
    values = [value for line in drawn for value in (*line.mean, *line.high) if value is not None]
    top = nice_top(max(values, default=0.0))
    place = _Places(xs, plot_width)
    cells = _Cells(plot_width, plot_height, _LEVELS)
    for number, one in enumerate(drawn):
        _draw_series(cells, one, place, top, number)
    labels = _vertical_labels(top, plot_height, labels_width)
    cells.put_grid({place.column(x) // COLUMNS_PER_CELL for x in xs})
    rows = [(*_label(text), *cells.row(y)) for y, text in enumerate(labels)]
    under = _horizontal_labels(chart.x_labels, place, plot_width)
    rows.append((*_label(" " * labels_width), (under, MUTED)))
    return [legend, *rows] if legend else rows


def bar_rows(bars: Sequence[Bar], width: int, height: int) -> list[TextRow]:
    """Draw a bar for each combination, as many as have room, then how many there are more."""
    if not bars or width < 1 or height < 1:
        return []
    shown = bars if len(bars) <= height else bars[: height - 1]
    fractions, _ = bar_lengths([one.value for one in bars])
    text_width = max((cell_len(one.text) for one in shown if one.value), default=0)
    longest = max((cell_len(one.label) for one in shown), default=0)
    room = width - text_width - 2 * _GAP - 2
    label_width = max(1, min(longest, int(width * _LABEL_SHARE), room - _SHORTEST_BAR))
    bar_width = room - label_width
    rows: list[TextRow] = []
    for one, fraction in zip(shown, fractions, strict=False):
        is_best = one.kind == "this"
        marker = ("▶" if is_best else " ") + " "
        style = STRONG if is_best else PLAIN
        label = fit(one.label, label_width) + " " * _GAP
        if not one.value:
            row: TextRow = ((marker + label, style), (one.text, MUTED))
        else:
            drawn = bar(fraction, bar_width)
            row = ((marker + label, style), (drawn, SERIES[0]), (" " * _GAP + one.text, style))
        rows.append(cut(row, width))
    if len(shown) < len(bars):
        rows.append(cut(((f"  … {len(bars) - len(shown)} more", MUTED),), width))
    return rows


class _Places:
    """Where a value of the axis lies: linear, or log2 where the values double."""

    def __init__(self, xs: Sequence[float], width: int) -> None:
        self._scaled = math.log2 if is_doubling(xs) else float
        scaled = [self._scaled(x) for x in xs]
        self._least, self._most = min(scaled), max(scaled)
        self._width = width

    def column(self, x: float) -> int:
        """Return the column of a value, two in a cell."""
        span = self._most - self._least
        share = (self._scaled(x) - self._least) / span if span else 0.5
        cells = self._width - 1 - 2 * _MARGIN
        return COLUMNS_PER_CELL * (_MARGIN + round(share * cells))


class _Cells:
    """Characters with the component classes that style them, and how many levels a cell shows."""

    def __init__(self, width: int, height: int, levels: int) -> None:
        self.width, self.height, self.levels = width, height, levels
        self._cells = [[(" ", PLAIN)] * width for _ in range(height)]

    def put(self, x: int, y: int, character: str, style: tuple[str, ...]) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            self._cells[y][x] = (character, style)

    def put_grid(self, columns: Collection[int]) -> None:
        """Draw the grid where nothing else is: at the values, and at the labelled middle."""
        level, up, both = tuple("┈┊┼")
        middle = _middle_row(self.height)
        for y, row in enumerate(self._cells):
            for x in range(self.width) if y == middle else sorted(columns):
                if row[x][0] == " ":
                    self.put(x, y, level if x not in columns else both if y == middle else up, GRID)

    def row(self, y: int) -> TextRow:
        """Return a row, cells of one style together."""
        runs: list[tuple[str, tuple[str, ...]]] = []
        for character, style in self._cells[y]:
            if runs and runs[-1][1] == style:
                runs[-1] = (runs[-1][0] + character, style)
            else:
                runs.append((character, style))
        return tuple(runs)


def _draw_series(cells: _Cells, line: Line, place: _Places, top: float, number: int) -> None:
    rows = braille_rows(_columns(line, place, cells.width), cells.width, cells.height, top)
    for y, row in enumerate(rows):
        for x, character in enumerate(row):
            if character != " ":
                cells.put(x, y, character, SERIES[number])
    for at in line.out_of_memory:
        cells.put(place.column(at) // COLUMNS_PER_CELL, 0, "✗", BAD)
    for at, value, low, high in zip(line.xs, line.mean, line.low, line.high, strict=True):
        x = place.column(at) // COLUMNS_PER_CELL
        if value is None:
            continue
        if low is not None and high is not None:
            for y in range(_row(high, top, cells), _row(low, top, cells) + 1):
                cells.put(x, y, "│", SERIES[number])
        cells.put(x, _row(value, top, cells), "●◆■▲▼★"[number], SERIES[number])


def _columns(line: Line, place: _Places, width: int) -> list[float | None]:
    """Return the heights of the line that joins neighbours; one without a figure parts it."""
    columns: list[float | None] = [None] * (COLUMNS_PER_CELL * width)
    for (left_x, left), (right_x, right) in pairwise(zip(line.xs, line.mean, strict=True)):
        if left is None or right is None:
            continue
        start, end = place.column(left_x), place.column(right_x)
        for column in range(start, end + 1):
            share = (column - start) / (end - start) if end > start else 0.0
            columns[column] = left + share * (right - left)
    return columns


def _row(value: float, top: float, cells: _Cells) -> int:
    """Return the row in which a line is drawn that passes through a value."""
    share = min(1.0, max(0.0, value / top))
    return cells.height - 1 - round(share * (cells.levels * cells.height - 1)) // cells.levels


def _vertical_labels(top: float, height: int, width: int) -> list[str]:
    if not width:
        return [""] * height
    values = {0: top, height - 1: 0.0}
    middle = _middle_row(height)
    if middle is not None:
        values[middle] = top / 2
    if height == 1:
        values = {0: top}
    return [
        f"{short_number(values[y]):>{width - 1}} " if y in values else " " * width
        for y in range(height)
    ]


def _middle_row(height: int) -> int | None:
    """Return the row of half of the axis, where there is room to label it."""
    return (height - 1) // 2 if height >= _LEAST_WITH_MIDDLE else None


def _label(text: str) -> TextRow:
    return ((text, MUTED),) if text else ()


def _horizontal_labels(labels: Sequence[tuple[float, str]], place: _Places, width: int) -> str:
    """Write the values under their points; one without room is left out, the last one last."""
    row = [" "] * width
    taken = [False] * width
    # The ends first: they say what the axis spans.
    for x, label in [labels[-1], *labels[:-1]]:
        start = place.column(x) // COLUMNS_PER_CELL - (len(label) - 1) // 2
        start = max(0, min(start, width - len(label)))
        end = start + len(label)
        if len(label) <= width and not any(taken[max(0, start - 1) : end + 1]):
            row[start:end] = label
            taken[start:end] = [True] * len(label)
    return "".join(row)


def _legend(names: Sequence[str], width: int) -> TextRow:
    """Return each line's marker and name; those that aren't drawn are counted."""
    markers = "●◆■▲▼★"
    runs: list[tuple[str, tuple[str, ...]]] = []
    for number, name in enumerate(names[: len(SERIES)]):
        runs.append((f"{markers[number]} ", SERIES[number]))
        runs.append((f"{name}{' ' * _GAP}", PLAIN))
    if len(names) > len(SERIES):
        runs.append((f"and {len(names) - len(SERIES)} not drawn", MUTED))
    return cut(tuple(runs), width)
