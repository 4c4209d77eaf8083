"""The chart of the loss, or of another metric, on the time axis of the other charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len

from dlmon.figures.tables import newest_text, value_text
from dlmon.figures.value_axis import value_range
from dlmon.session.learning import LEAST_CHANGE, Learning, Metric, drawable
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
from tui.drawing.time_axis import TimeAxis
from tui.drawing.time_window import RunSpan, TimeWindow, View
from tui.widgets.chart import Chart, ChartPicture
from tui.widgets.chart_picture import Dot
from tui.widgets.rows import fit

NOT_SEEN, NEVER_SEEN = "no loss seen so far", "no loss was seen"
_LONGEST_TITLE = 20
# Points that are closer would hide the line.
_POINT_COLUMNS = 12
_LEAST_READINGS = 3
_CURVE_CELLS = 12


class LossChart(Chart):
    """The loss over time, with each validation; the screen chooses which metric."""

    def __init__(self) -> None:
        super().__init__(hue="loss", id="loss", classes="panel")

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
        title = "Loss" if name is None else _as_title(name)
        if metric is None:
            self.set_titles(title, right="")
        else:
            right, trend = newest_text(metric, each)
            if below.cursor is not None:
                right, trend = f"{cursor_label}  {_at(metric, axis, below.cursor)}", ""
            names = learning.names
            others = f"{names.index(name or '') + 1} of {len(names)}, O" if len(names) > 1 else ""
            self.set_titles(title, others, right, (trend,) if trend else ())
        self.show(_picture(metric, axis, below, is_running))


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


def _as_title(name: str) -> str:
    title = name[:1].upper() + name[1:]
    return fit(title, _LONGEST_TITLE) if cell_len(title) > _LONGEST_TITLE else title


def _picture(
    metric: Metric | None, axis: TimeAxis, below: ChartPicture, is_running: bool
) -> ChartPicture:
    if metric is None:
        reason = NOT_SEEN if is_running else NEVER_SEEN
        return replace(below, columns=(None,) * axis.count, reason=reason, left_labels=("",))
    columns = tuple(map(drawable, axis.columns(metric.series)))
    dots = _validations(metric, axis)
    values = [value for value in columns if value is not None] + [dot.value for dot in dots]
    if not values:
        end_ns = metric.series.end_ns
        is_coming = is_running and end_ns is not None and end_ns > axis.end_ns
        reason = metric.why or ("" if is_coming else "no value in this time")
        return replace(below, columns=columns, reason=reason, left_labels=("",))
    bottom, top = value_range(min(values), max(values))
    return replace(below, columns=columns, dots=dots, top=top, bottom=bottom)


def _validations(metric: Metric, axis: TimeAxis) -> tuple[Dot, ...]:
    """Return where validations ended, and their values; of many that are close, the last."""
    dots = [
        Dot(column, drawn)
        for t, value in metric.validations
        if (drawn := drawable(value)) is not None
        and 0 <= (column := axis.column_of(t)) < axis.count
    ]
    if len(dots) * _POINT_COLUMNS <= axis.count:
        return tuple(dots)
    # By whole columns from the clock's start, so that they stay where they are as the axis moves.
    first = axis.start_ns // axis.column_ns
    groups = {(first + dot.column) // _POINT_COLUMNS: dot for dot in dots}
    return tuple(groups.values())


def _at(metric: Metric, axis: TimeAxis, column: int) -> str:
    """Write what a metric was at a column: its mean there, and its extremes where they differ."""
    value = axis.columns(metric.series)[column]
    if value is None:
        return "not read"
    start_ns = axis.start_ns + column * axis.column_ns
    low, high = metric.series.extremes(start_ns, start_ns + axis.column_ns) or (value, value)
    ends = value_text(low, ""), value_text(high, "")
    return value_text(value, "") + (f" ({ends[0]} to {ends[1]})" if ends[0] != ends[1] else "")
