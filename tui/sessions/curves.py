"""The throughput of two sides of runs over each other, each from its own first batch on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events

from dlmon.comparison.run import Curve
from dlmon.figures.units import rate_unit
from dlmon.figures.value_axis import short_number, value_range
from tui.drawing.time_axis import TimeAxis
from tui.widgets.chart import Chart
from tui.widgets.chart_picture import ChartPicture

BASE, NEW = "curves-chart--base", "curves-chart--new"

_TITLE = "Throughput"
_TWO_UNITS = "not drawn over each other: some runs count steps, others samples"
# The base is a dotted line, so that the two differ without colours too: of so many columns, the
# last two are left out.
_DOTTED = 6


class CurvesChart(Chart):
    """Both sides' curves on one axis of time since training began; the base is dotted.

    Steps and samples per second are not drawn over each other.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {BASE, NEW}
    DEFAULT_CSS = """
    CurvesChart {
        & > .curves-chart--base { color: $text-warning; }
        & > .curves-chart--new { color: $text-primary; }
    }
    """
    DEFAULT_CLASSES = "panel"

    _sides: tuple[Sequence[Curve], Sequence[Curve]] = ((), ())

    def show_sides(self, base: Sequence[Curve], new: Sequence[Curve]) -> None:
        """Show the curves of both sides."""
        self._sides = base, new
        self._show_again()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for another width."""
        self._show_again()

    def _show_again(self) -> None:
        curves = [curve for side in self._sides for curve in side]
        span_s = max((curve.seconds for curve in curves), default=0.0)
        units = {rate_unit(curve.counts_steps) for curve in curves}
        count = self.plot_columns
        lines = [
            (tone, curve.columns(span_s, count))
            for tone, side in zip((BASE, NEW), self._sides, strict=True)
            for curve in side
        ]
        values = [value for _, columns in lines for value in columns if value is not None]
        if not values or len(units) > 1 or span_s <= 0 or count < 1:
            nothing = "no throughput over time was recorded" if curves else ""
            reason = _TWO_UNITS if len(units) > 1 else nothing
            self.set_titles(_TITLE)
            self.show(ChartPicture(left_labels=("",), reason=reason))
            return
        axis = TimeAxis(0, max(1, int(span_s * 1e9 / count)), count, count)
        times = axis.time_elapsed(0)
        # A span of a tenth at least: noise of one part in a thousand is no difference.
        bottom, top = value_range(min(values), max(max(values), 1.1 * min(values)))
        drawn = tuple((tone, dotted(each) if tone == BASE else tuple(each)) for tone, each in lines)
        labels = short_number(top), short_number(bottom)
        self.show(ChartPicture(lines=drawn, top=top, bottom=bottom, left_labels=labels))
        ruler = self.ruler_of(times, "training")
        title = f"{_TITLE}, {units.pop()}"
        self.set_titles(title, right="⠒ ⠒ base  ━━ new", ruler=ruler)


def dotted(columns: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return a line with gaps."""
    return tuple(v if x % _DOTTED < _DOTTED - 2 else None for x, v in enumerate(columns))
