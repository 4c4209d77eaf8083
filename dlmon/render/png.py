"""Draw the pictures of a report as PNG with matplotlib, an extra of dlmon."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dlmon.render.plot import Plot

_SIZE_INCHES, _DOTS_PER_INCH = (9, 3.2), 160
# The colours of the SVG pictures.
_COLOURS = ("#0072b2", "#d55e00", "#00704f", "#b0307a", "#9a5a00", "#4a8fc0")
_INK, _FAINT, _GRID = "#1d2329", "#5a6570", "#d9dde2"


def png_of(plot: Plot) -> bytes:
    """Return a picture as PNG."""
    figure, axes = _axes(plot.title, plot.unit)
    for number, line in enumerate(plot.lines):
        colour = _COLOURS[plot.colour(number)]
        low, values, high = map(_numbers, (line.low, line.mean, line.high))
        axes.fill_between(line.xs, low, high, color=colour, alpha=0.18, linewidth=0)
        marker, style = (
            "o" if len(line.xs) <= plot.most_dots else None,
            "--" if line.is_validation else "-",
        )
        axes.plot(line.xs, values, style, color=colour, linewidth=1.4, marker=marker, markersize=3)
    for at in plot.marks:
        axes.axvline(at, color=_FAINT, linewidth=0.6, linestyle=(0, (2, 4)), alpha=0.6)
    for ticks, axis in ((plot.x_ticks, axes.xaxis), (plot.y_ticks, axes.yaxis)):
        axis.set_ticks([place for place, _ in ticks], [label for _, label in ticks])
    axes.set_xlim(plot.start, plot.end)
    axes.set_ylim(plot.bottom, plot.top)
    return _png(figure, axes, [line.label for line in plot.lines])


def _numbers(values: Sequence[float | None]) -> list[float]:
    """Return values with NaN for unknown ones."""
    return [math.nan if value is None else value for value in values]


def _axes(title: str, unit: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_INK)
    axes.set_ylabel(unit, fontsize=9, color=_FAINT)
    axes.grid(color=_GRID, linewidth=0.6)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=8, labelcolor=_FAINT)
    return figure, axes


def _png(figure: Figure, axes: Axes, labels: Sequence[str]) -> bytes:
    """Return the picture with a legend below it."""
    lines = axes.get_lines()[: len(labels)]
    # matplotlib leaves out labels that begin with "_".
    named = [f" {label}" for label in labels]
    legend = figure.legend(
        lines, named, loc="outside lower left", ncols=5, fontsize=8, frameon=False
    )
    # Text from a log must not be read as a formula.
    texts = (axes.title, axes.yaxis.label, *axes.get_xticklabels(), *legend.get_texts())
    for text in texts:
        text.set_parse_math(False)
    out = io.BytesIO()
    with warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes, without a warning.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(out, format="png")
    return out.getvalue()
