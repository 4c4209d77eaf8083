"""The chart of a sweep: the throughput by a varied option."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from textual import events

from dlmon.comparison.compared_run import Curve
from dlmon.figures import sections
from dlmon.figures.report.curves import curve_of, value_texts
from dlmon.figures.sections import Line
from dlmon.figures.value_axis import is_doubling, value_range
from dlmon.render.wrap import shortened
from dlmon.session.learning import LOSS
from dlmon.session.session import Session
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import RunSpan, TimeLabels, TimeWindow, ViewLength
from tui.metrics.curve_chart import CurveChart, CurveStyle, columns_of
from tui.widgets.chart import Chart, ChartPicture, Dot
from tui.widgets.lines import BAD, MUTED, PLAIN, TextRow, TextRun, cut

SERIES = (
    *("$text-primary", "$text-warning", "$text-success"),
    *("$text-accent", "$text-error", "$text-secondary"),
)
"""The styles of the lines; further lines are not drawn."""
_MARKERS = "●◆■▲▼★"
_MARGIN = 2
"""Cells between the ends of the axis and the outermost points."""
_GAP, _LABEL_CELLS = 2, 6
THROUGHPUT = "throughput"
_WIDE_RANGE = 30
_WHOLE = TimeWindow(ViewLength.WHOLE)


class SweepChart(Chart):
    """The chart of a sweep's results."""

    _results: sections.LineChart | None = None

    def show_results(self, results: sections.LineChart | None) -> None:
        """Show the results of a sweep; None, if no varied option is a number, hides the chart."""
        if results != self._results:
            self._results = results
            self._show_again()
        self.display = results is not None

    def on_resize(self, event: events.Resize) -> None:
        self._show_again()

    def _show_again(self) -> None:
        results = self._results
        if results is None:
            return
        picture = picture_of(results, self.plot_columns // COLUMNS_PER_CELL)
        self.show(picture)
        first, *more = [""] if picture.reason else _notes(results)
        ruler = self.ruler_of(picture.times)
        self.set_titles(results.title, right=first, more=tuple(more), ruler=ruler)

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the lines, and a legend if there are several."""
        names = [line.label for line in self._results.lines] if self._results is not None else []
        if len(names) < 2 or height < 2:
            return super().draw(width, height)
        return [legend(names, width), *super().draw(width, height - 1)]


class RunCurves(CurveChart):
    """The losses of a sweep's runs over time, the chosen one before the others."""

    def __init__(self) -> None:
        super().__init__(id="curves")
        self._curves: dict[int, Mapping[str, Curve]] = {}

    def take(self, number: int, session: Session) -> None:
        """Take the curves of a run, which stay once it is over."""
        start_ns = session.training_start or session.header.t
        curves = {THROUGHPUT: Curve(session.throughput, start_ns, unit=session.throughput_unit)}
        if (loss := session.learning.metrics.get(LOSS)) is not None:
            curves[LOSS] = curve_of(loss, start_ns)
        known = {name: curve for name, curve in curves.items() if curve.series.end_ns is not None}
        if known:
            self._curves[number] = known

    def forget(self) -> None:
        """Forget all runs, because others follow."""
        self._curves.clear()

    @property
    def has_curves(self) -> bool:
        return bool(self._curves)

    def show_runs(self, chosen: int, name: str) -> None:
        """Draw the losses of all runs, or their throughputs where none reports a loss.

        The border has the value of the chosen run after its name.
        """
        quantity = LOSS if any(LOSS in of_run for of_run in self._curves.values()) else THROUGHPUT
        curves = {n: run[quantity] for n, run in self._curves.items() if quantity in run}
        ends = [(curve.series.end_ns or 0) - curve.start_ns for curve in curves.values()]
        if not curves or self.plot_columns < 1:
            return
        axis = _WHOLE.axis(RunSpan(0, max(1, *ends), False), self.plot_columns)
        right = ""
        if chosen in curves:
            right = " ".join(
                (
                    shortened(name, self.size.width // 2),
                    *value_texts(LOSS, [curves[chosen]], None),
                    curves[chosen].unit,
                )
            )
        values = [value for c in curves.values() for value in columns_of(c, axis) if value]
        # One run that diverges would flatten all others.
        is_log = quantity == LOSS and bool(values) and 0 < _WIDE_RANGE * min(values) < max(values)
        style = CurveStyle(is_log, chosen=chosen)
        self.show_curves(quantity, [*curves.items()], axis, right=right.strip(), style=style)


def _notes(chart: sections.LineChart) -> list[str]:
    """Explain the crosses and a logarithmic axis, if the chart has them."""
    notes = ["✗ memory ran out"] * any(line.out_of_memory for line in chart.lines)
    notes += ["lower is better"]
    notes += ["log x"] * is_doubling([x for x, _ in chart.x_labels])
    return notes


def picture_of(chart: sections.LineChart, cells: int) -> ChartPicture:
    """Return the points of each line, joined, for a plot of a width in cells.

    The vertical axis begins at zero unless all points lie far above it. A point without a figure is
    a gap; one that ran out of memory is a cross at the top.
    """
    lines = chart.lines[: len(SERIES)]
    xs = [x for line in lines for x in (*line.xs, *line.out_of_memory)]
    if not any(line.out_of_memory or any(line.mean) for line in lines):
        return ChartPicture(reason="no combination has a throughput yet", left_labels=("",))
    values = {
        value
        for line in lines
        for value in (*line.low, *line.mean, *line.high)
        if value is not None
    }
    # A single value has nothing to stand above.
    least = min(values) if len(values) > 1 else 0.0
    bottom, top = value_range(least, max(values, default=0.0))
    scale = math.log2 if is_doubling(xs) else float
    least, most = scale(min(xs)), scale(max(xs))
    # The label of the last point is at its right.
    after = max(_MARGIN, *(len(label) for x, label in chart.x_labels if x == max(xs)), 0)
    room = max(1, cells - 1 - _MARGIN - after)

    def column(x: float) -> int:
        share = (scale(x) - least) / (most - least) if most > least else 0.5
        return COLUMNS_PER_CELL * (_MARGIN + round(share * room))

    dots = [Dot(column(x), top, "✗", BAD) for line in lines for x in line.out_of_memory]
    for line, marker, tone in zip(lines, _MARKERS, SERIES, strict=False):
        for x, value, low, high in zip(line.xs, line.mean, line.low, line.high, strict=True):
            if value is not None:
                dots.append(Dot(column(x), value, marker, tone, low, high))
    # Each label has a line of the grid, and more than fit would hide the points.
    labels = chart.x_labels[:: 1 + len(chart.x_labels) * _LABEL_CELLS // max(1, cells)]
    return ChartPicture(
        top=top,
        bottom=bottom,
        lines=tuple(
            (tone, _joined(line, [*map(column, line.xs)], COLUMNS_PER_CELL * cells))
            for line, tone in zip(lines, SERIES, strict=False)
        ),
        dots=tuple(dots),
        times=TimeLabels(tuple((column(x), label) for x, label in labels)),
    )


def _joined(line: Line, at: Sequence[int], count: int) -> tuple[float | None, ...]:
    """Return the heights of a line between its points; a point without a figure is a gap."""
    columns: list[float | None] = [None] * count
    for (before, start), (after, end) in pairwise(zip(line.mean, at, strict=True)):
        if before is None or after is None:
            continue
        for column in range(max(0, start), min(end + 1, count)):
            share = (column - start) / (end - start) if end > start else 0.0
            columns[column] = before + share * (after - before)
    return tuple(columns)


def legend(names: Sequence[str], width: int) -> TextRow:
    """Return each line's marker and name, and the number of lines that are not drawn."""
    runs: list[TextRun] = []
    for name, marker, series in zip(names, _MARKERS, SERIES, strict=False):
        runs += [(f"{marker} ", series), (f"{name}{' ' * _GAP}", PLAIN)]
    if len(names) > len(SERIES):
        runs.append((f"and {len(names) - len(SERIES)} not drawn", MUTED))
    return cut(tuple(runs), width)
