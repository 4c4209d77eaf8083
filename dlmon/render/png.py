"""Pictures of a report as PNG, drawn by matplotlib, which is an extra of dlmon."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, ScalarFormatter

from dlmon.figures import units
from dlmon.figures.curves import Chart, Mark
from dlmon.figures.metric_curves import MetricChart
from dlmon.figures.sections import Curves
from dlmon.figures.value_axis import short_number
from dlmon.statistics.envelope import Columns

_SIZE_INCHES, _DOTS_PER_INCH = (9, 3.2), 160
# Those of the pictures as SVG.
_COLOURS = ("#0072b2", "#d55e00", "#00704f", "#b0307a", "#9a5a00", "#4a8fc0")
_INK, _FAINT, _GRID = "#1d2329", "#5a6570", "#d9dde2"


def png_of_chart(chart: Chart, marks: Sequence[Mark] = ()) -> bytes:
    """Draw lines over time, with the band from the least to the greatest behind each."""
    figure, axes = _axes(chart.title, chart.unit)
    for number, line in enumerate(chart.lines):
        colour = _COLOURS[number % len(_COLOURS)]
        at_s = [(index + 0.5) * chart.width_s for index in range(len(line.columns.mean))]
        low, mean, high = _numbers(line.columns)
        axes.fill_between(at_s, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(at_s, mean, color=colour, linewidth=1.4)
    span_s = max(len(line.columns.mean) for line in chart.lines) * chart.width_s
    _show_time(axes, span_s, marks)
    axes.set_ylim(0, chart.top)
    return _png(figure, axes, [line.label for line in chart.lines])


def png_of_metric(chart: MetricChart, marks: Sequence[Mark] = ()) -> bytes:
    """Draw a metric over time: its values at their times, joined."""
    figure, axes = _axes(chart.title)
    is_alone = len({line.number for line in chart.lines}) == 1
    for number, line in enumerate(chart.lines):
        colour = _COLOURS[(number if is_alone else line.number) % len(_COLOURS)]
        at_s = [point.t for point in line.points]
        low, means, high = _numbers(line.columns)
        axes.fill_between(at_s, low, high, color=colour, alpha=0.18, linewidth=0)
        marker = "o" if line.has_dots else None
        style = "--" if line.is_validation else "-"
        axes.plot(at_s, means, style, color=colour, linewidth=1.4, marker=marker, markersize=3)
    _show_time(axes, chart.end_s or 1.0, marks)
    axes.set_ylim(chart.bottom, chart.top)
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    return _png(figure, axes, [line.label for line in chart.lines])


def _numbers(columns: Columns) -> list[list[float]]:
    """Return the least, the mean and the greatest; NaN for what is unknown."""
    return [
        [math.nan if value is None else value for value in values]
        for values in (columns.low, columns.mean, columns.high)
    ]


def _show_time(axes: Axes, span_s: float, marks: Sequence[Mark]) -> None:
    for mark in marks:
        if 0 < mark.at_s < span_s:
            axes.axvline(mark.at_s, color=_FAINT, linewidth=0.6, linestyle=(0, (2, 4)), alpha=0.6)
    axes.set_xlim(0, span_s)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 3, 6, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: units.clock(max(0.0, at))))


def png_of_sweep(curves: Curves) -> bytes:
    """Draw what combinations took along the axis of what was varied."""
    figure, axes = _axes(curves.title)
    for number, points in enumerate(curves.lines.values()):
        values = [math.nan if point.y is None else point.y for point in points]
        places = [point.x for point in points]
        axes.plot(places, values, color=_COLOURS[number % len(_COLOURS)], marker="o", markersize=4)
    labels = {point.x: point.label for line in curves.lines.values() for point in line}
    places = sorted(labels)
    if len(places) > 1 and places[0] > 0:
        axes.set_xscale("log", base=2)
    axes.set_xticks(places)
    axes.set_xticklabels([labels[place] for place in places])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    return _png(figure, axes, list(curves.lines))


def _axes(title: str, unit: str = "") -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_INK)
    axes.set_ylabel(unit, fontsize=9, color=_FAINT)
    axes.grid(color=_GRID, linewidth=0.6)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=8, labelcolor=_FAINT)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    return figure, axes


def _png(figure: Figure, axes: Axes, labels: Sequence[str]) -> bytes:
    """Return the picture with the names of its lines below it."""
    lines = axes.get_lines()[: len(labels)]
    # A label that begins with "_" would be left out.
    named = [f" {label}" for label in labels]
    legend = figure.legend(
        lines, named, loc="outside lower left", ncols=5, fontsize=8, frameon=False
    )
    # What comes from a log is no formula.
    texts = (axes.title, axes.yaxis.label, *axes.get_xticklabels(), *legend.get_texts())
    for text in texts:
        text.set_parse_math(False)
    out = io.BytesIO()
    with warnings.catch_warnings():
        # A character that the font lacks is drawn as a box.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(out, format="png")
    return out.getvalue()
