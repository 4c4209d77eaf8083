"""The throughput of two sides of runs over each other, each from its own first batch on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from dlmon.comparison.run import Curve
from dlmon.figures.units import rate_unit
from dlmon.figures.value_axis import nice_top, short_number
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
from tui.drawing.time_axis import TimeAxis
from tui.widgets.lines import MUTED, Lines
from tui.widgets.rows import Ruler, TextRow, TextRun

BASE: tuple[str, ...] = ("curves-chart--base",)
NEW: tuple[str, ...] = ("curves-chart--new",)

_LABELS_WIDTH = 6
_TITLE = "Throughput"
_TWO_UNITS = "not drawn over each other: some runs count steps, others samples"
# The base is a dotted line, so that the two differ without colours too.
_DOTTED = 3
# Of an axis that doesn't begin at zero: with less, its labels would be alike.
_LEAST_SPAN = 0.1
_SECOND_NS = 1_000_000_000
_BLANK = " \u2800"


class CurvesChart(Lines):
    """Both sides' curves on one axis of time since training began; the base is dotted.

    Steps and samples per second are not drawn over each other.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {*BASE, *NEW}
    DEFAULT_CSS = """
    CurvesChart {
        & > .curves-chart--base { color: $text-warning; }
        & > .curves-chart--new { color: $text-primary; }
    }
    """
    DEFAULT_CLASSES = "panel"

    _sides: tuple[Sequence[Curve], Sequence[Curve]] | None = None

    def show(self, base: Sequence[Curve], new: Sequence[Curve]) -> None:
        """Show the curves of both sides."""
        self._sides = base, new
        self._put_axis()
        self.redraw()

    def on_resize(self, event: object) -> None:
        """Label the time again: another width has room for other times."""
        self._put_axis()

    @property
    def _span_s(self) -> float:
        return max((curve.seconds for side in self._sides or () for curve in side), default=0.0)

    @property
    def _units(self) -> set[str]:
        return {rate_unit(curve.counts_steps) for side in self._sides or () for curve in side}

    def _put_axis(self) -> None:
        columns = COLUMNS_PER_CELL * (self.size.width - _LABELS_WIDTH)
        if self._span_s <= 0 or columns < 1 or len(self._units) > 1:
            self.set_titles(_TITLE)
            return
        axis = TimeAxis(0, max(1, int(self._span_s * _SECOND_NS / columns)), columns, columns)
        times = axis.time_elapsed(0)
        # A tick stands on the border, which begins a cell before the labels.
        marks = tuple(
            (1 + _LABELS_WIDTH + column // COLUMNS_PER_CELL, text) for column, text in times.marks
        )
        (unit,) = self._units
        title, right = f"{_TITLE}, {unit}", "⠒ ⠒ base  ━━ new"
        self.set_titles(title, right=right, ruler=Ruler(marks, "training"))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the picture."""
        plot_width = width - _LABELS_WIDTH
        if self._sides is None or plot_width < 2 or height < 1:
            return []
        if len(self._units) > 1:
            return [((_TWO_UNITS[:width], MUTED),)]
        count = COLUMNS_PER_CELL * plot_width
        sides = [[curve.columns(self._span_s, count) for curve in side] for side in self._sides]
        values = [v for side in sides for columns in side for v in columns if v is not None]
        if not values:
            return [(("no throughput over time was recorded"[:width], MUTED),)]
        ends = axis_ends(min(values), max(values))
        base, new = (_merged(side, plot_width, height, ends) for side in sides)
        base = [_dotted(row) for row in base]
        return [
            ((label, MUTED), *_overlaid(below, above))
            for label, below, above in zip(_labels(ends, height), base, new, strict=True)
        ]


def _merged(
    side: Sequence[Sequence[float | None]],
    width: int,
    height: int,
    ends: tuple[float, float],
) -> list[str]:
    """Draw all curves of a side into one picture."""
    merged = [" " * width] * height
    for columns in side:
        rows = braille_rows(columns, width, height, ends[1], ends[0])
        merged = [
            "".join(map(_both, over, under)) for over, under in zip(rows, merged, strict=True)
        ]
    return merged


def _both(over: str, under: str) -> str:
    """Return a cell that shows what two cells do."""
    if under in _BLANK or over in _BLANK:
        return under if over in _BLANK else over
    return chr(ord(over) | ord(under))


def _dotted(row: str) -> str:
    return "".join(c if x % _DOTTED else " " for x, c in enumerate(row))


def _overlaid(base: str, new: str) -> TextRow:
    """Put the new side's line over the base's: a cell of both has the dots of both."""
    runs: list[TextRun] = []
    for under, over in zip(base, new, strict=True):
        if over in _BLANK:
            text, style = under, BASE
        else:
            text, style = _both(over, under), NEW
        if runs and (runs[-1][1] == style or text == " "):
            runs[-1] = (runs[-1][0] + text, runs[-1][1])
        else:
            runs.append((text, style))
    return tuple(runs)


def axis_ends(least: float, most: float) -> tuple[float, float]:
    """Return the ends of the axis: from zero up, unless all lies in its upper half.

    What is compared may differ by a few percent, which would be a single line from zero up.
    """
    if least < most / 2:
        return 0.0, nice_top(most)
    step = nice_top(max(most - least, most * _LEAST_SPAN) / 2)
    return (math.ceil(least / step) - 1) * step, math.ceil(most / step) * step


def _labels(ends: tuple[float, float], height: int) -> list[str]:
    bottom, top = ends
    values = {0: top, height - 1: bottom}
    if height >= 5 and not bottom:
        values[(height - 1) // 2] = top / 2
    return [
        f"{short_number(values[y]):>{_LABELS_WIDTH - 1}} " if y in values else " " * _LABELS_WIDTH
        for y in range(height)
    ]
