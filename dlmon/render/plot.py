"""Lay out the pictures of a report: axes, lines and marks, without a format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from dlmon.figures import units
from dlmon.figures.report.curves import TimeMark
from dlmon.figures.sections import Line, LineChart
from dlmon.figures.value_axis import is_doubling, nice_step, nice_top

COLOURS = 6
# In short runs, each value of a metric gets a dot.
MOST_DOTS = 60

WIDTH, HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 884, 34, 262
_MOST_TICKS, _MOST_DECIMALS = 6, 6
_MOST_TIMES = 8
_SPANS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
# This share of a sweep's axis is left free at each end.
_FREE = 0.04


@dataclass(frozen=True)
class Plot:
    """A picture in the units of its values, to be drawn as SVG or PNG.

    Attributes:
        start, end: the range of the x axis, whose labels are `x_ticks`.
        marks: moments on the x axis.
        most_dots: a line with at most this many values gets a dot for each.
    """

    title: str
    unit: str
    start: float
    end: float
    x_ticks: tuple[tuple[float, str], ...]
    bottom: float
    top: float
    lines: tuple[Line, ...]
    marks: tuple[float, ...] = ()
    most_dots: int = 0

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        return ticks(self.bottom, self.top)

    def colour(self, number: int) -> int:
        """Return the colour of a line; lines of one session share it if there are several."""
        is_alone = len({line.session for line in self.lines}) == 1
        return (number if is_alone else self.lines[number].session) % COLOURS

    def x(self, value: float) -> float:
        """Return the SVG coordinate of a value on the x axis."""
        share = (value - self.start) / (self.end - self.start)
        return round(LEFT + (RIGHT - LEFT) * share, 1)

    def y(self, value: float) -> float:
        """Return the SVG coordinate of a value on the y axis, limited to the scale."""
        share = min(1.0, max(0.0, (value - self.bottom) / (self.top - self.bottom)))
        return round(BOTTOM - (BOTTOM - TOP) * share, 1)


def draw_chart(chart: LineChart, marks: Sequence[TimeMark] = ()) -> Plot:
    """Lay out lines over time, each with a band of its extremes."""
    highest = [value for line in chart.lines for value in line.high if is_drawn(value)]
    span_s = chart.end_s or 1.0
    days = math.ceil(span_s / 86_400 / _MOST_TIMES)
    step_s = next((span for span in _SPANS_S if span_s / span <= _MOST_TIMES), 86_400 * days)
    return Plot(
        title=chart.title,
        unit=chart.unit,
        start=0.0,
        end=span_s,
        x_ticks=tuple((float(at), units.clock(at)) for at in range(0, int(span_s) + 1, step_s)),
        bottom=chart.bottom,
        top=nice_top(max(highest, default=0.0)) if chart.top is None else chart.top,
        lines=chart.lines,
        marks=tuple(mark.at_s for mark in marks if 0 < mark.at_s < span_s),
        most_dots=MOST_DOTS if chart.metric else 0,
    )


def draw_sweep(chart: LineChart) -> Plot:
    """Lay out the results of a sweep over the varied option."""
    xs = [x for x, _ in chart.x_labels]
    scale = math.log2 if is_doubling(xs) else float
    place = {x: scale(x) for x in xs}
    free = _FREE * (place[xs[-1]] - place[xs[0]]) or 0.5
    values = [
        value for line in chart.lines for value in (*line.mean, *line.high) if is_drawn(value)
    ]
    return Plot(
        title=chart.title,
        unit="",
        start=place[xs[0]] - free,
        end=place[xs[-1]] + free,
        x_ticks=tuple((place[x], label) for x, label in chart.x_labels),
        bottom=0.0,
        top=nice_top(max(values, default=0.0)),
        lines=tuple(replace(line, xs=tuple(place[x] for x in line.xs)) for line in chart.lines),
        most_dots=len(xs),
    )


def ticks(bottom: float, top: float) -> list[tuple[float, str]]:
    """Return round values of an axis, with the digits that they need."""
    step = nice_step((top - bottom) / _MOST_TICKS)
    first, last = math.ceil(bottom / step - 1e-6), math.floor(top / step + 1e-6)
    values = [number * step for number in range(first, last + 1)]
    decimals = max(0, -math.floor(math.log10(step)))
    is_plain = decimals < _MOST_DECIMALS and max(map(abs, values)) < 1e6
    return [(v, f"{v:,.{decimals}f}" if is_plain else f"{v:.6g}") for v in values]


def is_drawn(value: float | None) -> TypeGuard[float]:
    """Return whether a value is known and finite."""
    return value is not None and math.isfinite(value)
