"""The loss over all of the run in a few cells, for where its chart isn't in view."""

from __future__ import annotations

from dlmon.figures.glyphs import Glyphs
from dlmon.session.learning import Metric
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.small_curve import axis_of_all, small_curve
from tui.drawing.time_axis import TimeAxis

LEAST_READINGS = 3


class LossCurve:
    """Draws a metric as it was while it trained, again only where more of it can be seen."""

    def __init__(self) -> None:
        self._drawn: tuple[Metric | None, TimeAxis | None, Glyphs | None] = (None, None, None)
        self._text = ""

    def text(self, metric: Metric, cells: int, glyphs: Glyphs) -> str:
        """Return the curve; empty where there are too few readings for one."""
        start_ns = metric.series.start_ns
        if metric.readings < LEAST_READINGS or start_ns is None:
            return ""
        # What is no number was read as well: a gap.
        axis = axis_of_all(start_ns, metric.last_ns, COLUMNS_PER_CELL * cells)
        if axis is None:
            return ""
        wanted = (metric, axis, glyphs)
        if wanted != self._drawn:
            self._drawn = wanted
            self._text = small_curve(axis.columns(metric.series), cells, glyphs)
        return self._text
