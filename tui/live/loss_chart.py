"""The chart of the loss, or of another metric, on the time axis of the other charts."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.figures.curves import curve_of
from dlmon.figures.tables import newest_text, value_text
from dlmon.session.learning import LEAST_CHANGE, LOSS, Learning, Metric
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
from tui.drawing.time_axis import RunSpan, TimeAxis, TimeWindow, View
from tui.metrics.curve_chart import HUES, CurveChart, picture_of, title_of
from tui.widgets.chart import ChartPicture

NOT_SEEN, NEVER_SEEN = "no loss seen so far", "no loss was seen"
_LOOK = HUES.index("loss")
_LEAST_READINGS = 3
_CURVE_CELLS = 12


class LossChart(CurveChart):
    """The loss over time, with each validation; the screen chooses which metric."""

    def __init__(self) -> None:
        super().__init__(id="loss")

    def show_metric(
        self,
        learning: Learning,
        chosen: str | None,
        axis: TimeAxis,
        below: ChartPicture,
        *,
        is_running: bool,
        cursor_label: str,
        each: str,
        shared: TimeAxis,
    ) -> None:
        """Draw a metric.

        Args:
            learning: what is known of all metrics.
            chosen: which is shown; None for the loss.
            axis: the time that is shown, in columns of this chart's own.
            below: the marks, shades and cursor under and over the line.
            is_running: whether a loss may be seen yet.
            cursor_label: when the cursor stands, if it does.
            each: what an epoch is called.
            shared: the axis of all charts.
        """
        self.axes = shared, axis
        name = shown_metric(learning, chosen)
        metric = None if name is None else learning.metrics[name]
        title = title_of(name or LOSS)
        if metric is None:
            self.set_titles(title, right="")
        else:
            right, trend = newest_text(metric, each)
            if below.cursor is not None:
                right, trend = f"{cursor_label}  {_at(metric, axis, below.cursor)}", ""
            names = learning.names
            others = f"{names.index(name or '') + 1} of {len(names)}, O" if len(names) > 1 else ""
            self.set_titles(title, others, right, (trend,) if trend else ())
        curves, reason = [], NOT_SEEN if is_running else NEVER_SEEN
        if metric is not None:
            curves = [(_LOOK, curve_of(metric, 0))]
            end_ns = metric.series.end_ns
            is_coming = is_running and end_ns is not None and end_ns > axis.end_ns
            reason = "" if is_coming else "no value in this time"
        self.show(picture_of(curves, axis, below, reason))


def learned_text(learning: Learning, chosen: str | None, each: str) -> str:
    """Return what a metric came to, after a small curve of the whole run: loss ⠉⠒⠤⣀ 0.41."""
    name = shown_metric(learning, chosen)
    if name is None:
        return ""
    metric, curve = learning.metrics[name], ""
    start_ns = metric.series.start_ns
    if metric.readings >= _LEAST_READINGS and start_ns is not None:
        # What is no number was read as well: a gap.
        run, count = (
            RunSpan(start_ns, metric.last_ns - 1, False, 1),
            COLUMNS_PER_CELL * _CURVE_CELLS,
        )
        axis = TimeWindow(View.WHOLE).axis(run, count)
        curve = small_curve(axis.columns(metric.series), _CURVE_CELLS)
    texts = (name, curve, *newest_text(metric, each))
    return " ".join(text for text in texts if text)


def small_curve(columns: Sequence[float | None], cells: int) -> str:
    """Draw columns, two a cell, as a line from the lowest of them to the highest.

    Where they differ by no more than noise it is straight; what is unknown is a gap.
    """
    known = [value for value in columns if value is not None]
    bottom, top = min(known, default=0.0), max(known, default=0.0)
    if top - bottom <= LEAST_CHANGE * max(abs(top), abs(bottom)):
        columns, bottom, top = [None if value is None else 0.0 for value in columns], -1.0, 1.0
    return braille_rows(columns, cells, 1, top, bottom)[0]


def shown_metric(learning: Learning, chosen: str | None) -> str | None:
    """Return the metric that is shown: the chosen one, else the loss; None where none is known."""
    names = learning.names
    if chosen in names:
        return chosen
    return names[0] if names else None


def next_metric(learning: Learning, chosen: str | None) -> str | None:
    """Return the metric after the one that is shown; the first after the last."""
    names, shown = learning.names, shown_metric(learning, chosen)
    return None if shown is None else names[(names.index(shown) + 1) % len(names)]


def _at(metric: Metric, axis: TimeAxis, column: int) -> str:
    """Write what a metric was at a column: its mean there, and its extremes where they differ."""
    value = axis.columns(metric.series)[column]
    if value is None:
        return "not read"
    start_ns = axis.start_ns + column * axis.column_ns
    low, high = metric.series.extremes(start_ns, start_ns + axis.column_ns) or (value, value)
    ends = value_text(low, ""), value_text(high, "")
    return value_text(value, "") + (f" ({ends[0]} to {ends[1]})" if ends[0] != ends[1] else "")
