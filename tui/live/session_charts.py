"""The charts of a session on one time axis: throughput, machine, and loss or another metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.report.curves import curve_of, metric_in_words
from dlmon.figures.session.framework_memory import memory_text
from dlmon.figures.session.phases import doing_text
from dlmon.figures.session.progress import throughput_texts
from dlmon.figures.session.tables import newest_text, value_text
from dlmon.figures.value_axis import fitted_bottom, grown_top, short_number
from dlmon.records import Alert, FailureKind
from dlmon.session.gaps import GapKind
from dlmon.session.learning import LEAST_CHANGE, LOSS, Learning, Metric
from dlmon.session.session import Session
from dlmon.session.snapshot import PhaseSpan, Snapshot, is_stalled
from dlmon.session.source import SessionSource
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
from tui.drawing.time_axis import (
    BETWEEN_STEPS,
    RunSpan,
    TimeAxis,
    TimeLabels,
    TimeWindow,
    ViewLength,
)
from tui.machine.machine import MachineCharts
from tui.machine.view import MachineView, gpus_that_train
from tui.metrics.curve_chart import HUES, CurveChart, picture_of, title_of
from tui.screens.chart_screen import ChartsScreen
from tui.widgets.chart import Chart, ChartPicture

NEED_MEMORY = (FailureKind.OUT_OF_MEMORY, FailureKind.KILLED)
"""The failures that memory may have caused."""
_BUCKET_NS = 1_000_000_000
_THROUGHPUT = "Throughput"


class _ThroughputChart(Chart):
    tall_shades = True
    hue = "$chart-throughput"
    more_goes_below = True


class TimeChartsScreen(ChartsScreen):
    """A screen with the throughput above the machine, with one time window and one cursor.

    A subclass lays out `_throughput` and `_machine`.
    """

    def __init__(self, source: SessionSource) -> None:
        super().__init__()
        self._source = source
        self._throughput = _ThroughputChart(id="throughput")
        self._machine = MachineCharts(below=True, id="machine")
        self._top, self._bottom = 0.0, 0.0
        self._fits_axis = False
        self._stalled_ns = 0

    def paint_charts(self, snapshot: Snapshot) -> None:
        stands = self._source.running and is_stalled(snapshot.overdue_s, snapshot.regular_steps)
        self._stalled_ns = int((snapshot.overdue_s or 0.0) * 1e9) if stands else 0
        axis = self.window.axis(self.run, self.plot_columns)
        cursor = self.window.cursor_column(axis)
        view = self.charted_view(snapshot)
        self._throughput.show(self._throughput_picture(snapshot, axis))
        self._machine.show(view, axis, self._times)
        # Last, because it names the bottom of the axis, which the picture sets.
        self._title_throughput(snapshot, axis, cursor)

    def charted_view(self, snapshot: Snapshot) -> MachineView:
        """Return the readings of the machine along the axis of the charts, or at its cursor."""
        session, axis = self._source.session, self.window.axis(self.run, self.plot_columns)
        return replace(
            machine_view(self._source, snapshot),
            epoch_starts=_epoch_starts(session),
            phase_spans=_shaded_spans(session, snapshot),
            cursor_ns=self.window.read_ns(axis),
            cursor_label=self._cursor_label(axis),
            axis=lambda count: self.window.axis(self.run, count),
            times=self._times,
        )

    @property
    def run(self) -> RunSpan:
        session = self._source.session
        interval_ns = int(session.machine.interval_s * 1e9)
        span = session.header.t, self._source.now(), self._source.running, interval_ns
        return RunSpan(*span, self._stalled_ns)

    @property
    def read_time_ns(self) -> tuple[int, int] | None:
        """The start and the end of the cursor's column; None without a cursor."""
        axis = self.window.axis(self.run, self.plot_columns)
        column = self.window.cursor_column(axis)
        if column is None:
            return None
        start_ns = axis.start_ns + column * axis.column_ns
        return start_ns, start_ns + axis.column_ns

    @property
    def plot_columns(self) -> int:
        """The columns of the narrowest chart, not counting those much narrower than the widest."""
        if isinstance(self.maximized, Chart):
            return self.maximized.plot_columns
        charts = (self._throughput, self._machine)
        counts = [chart.plot_columns for chart in charts if chart.display]
        return min((count for count in counts if 10 * count > 9 * max(counts)), default=0)

    def _throughput_picture(self, snapshot: Snapshot, axis: TimeAxis) -> ChartPicture:
        series = self._source.session.throughput
        columns = axis.columns(series)
        lows, highs = axis.extremes(series) if axis.column_ns > _BUCKET_NS else ((), ())
        values = [value for value in (*columns, *lows, *highs) if value is not None]
        if values:
            self._top = grown_top(self._top, max(values))
        least = min(values, default=0.0) if self._fits_axis else 0.0
        self._bottom = fitted_bottom(self._bottom, self._top, least)
        labels: tuple[str, ...] = ("",) if self._top == 0 else ()
        if self._bottom > 0:
            labels = short_number(self._top), short_number(self._bottom)
        picture = self.curve(
            columns,
            axis,
            snapshot,
            top=self._top,
            bottom=self._bottom,
            reason=f"{doing_text(snapshot)} …" if self._source.running else "no batch",
            format_value=units.rate,
        )
        # A filled area is honest only from 0.
        is_from_zero = self._bottom == 0
        return replace(picture, left_labels=labels, area=is_from_zero, lows=lows, highs=highs)

    def curve(
        self,
        columns: tuple[float | None, ...],
        axis: TimeAxis,
        snapshot: Snapshot,
        *,
        top: float,
        bottom: float = 0.0,
        reason: str = "",
        format_value: Callable[[float], str] = short_number,
    ) -> ChartPicture:
        """Return a curve on the axis of all charts, with its grid, marks and cursor.

        `reason` tells why there are no values; `format_value` writes the value at the cursor.
        """
        session, cursor = self._source.session, self.window.cursor_column(axis)
        value = None if cursor is None or cursor >= len(columns) else columns[cursor]
        return ChartPicture(
            columns=columns,
            top=top,
            bottom=bottom,
            marks=axis.marks(_epoch_starts(session)),
            shades=axis.shades(_shaded_spans(session, snapshot)),
            reason=reason,
            cursor=cursor,
            times=self._times(axis).unlabelled,
            value="" if value is None else format_value(value),
        )

    def empty_picture(self, snapshot: Snapshot, axis: TimeAxis) -> ChartPicture:
        """Return the picture of a chart without its line: grid, epochs, shades and cursor."""
        return self.curve((), axis, snapshot, top=1.0)

    def _times(self, axis: TimeAxis) -> TimeLabels:
        return axis.time_elapsed(self._source.session.header.t)

    def _title_throughput(self, snapshot: Snapshot, axis: TimeAxis, cursor: int | None) -> None:
        """Set the chart's titles: the throughput now or at the cursor, and the time shown."""
        if cursor is None:
            figure, *more = self._throughput_now(snapshot)
        else:
            figure, *more = self._throughput_at(axis, cursor)
            figure = f"{self._cursor_label(axis)}  {figure}"
        below = self._shown_part_text(axis)
        if snapshot.machine is None and snapshot.batches:
            more.append("machine not read")
        if self._fits_axis and self._top > 0:
            why = ", not 0" if self._bottom else ": not all in the upper half"
            below = f"{below}, y from {short_number(self._bottom)}{why}"
        self._throughput.set_titles(_THROUGHPUT, below, figure, tuple(more))

    def _throughput_now(self, snapshot: Snapshot) -> tuple[str, ...]:
        return throughput_texts(snapshot, self._throughput.room_beside(_THROUGHPUT))

    def _throughput_at(self, axis: TimeAxis, column: int) -> tuple[str, ...]:
        """Write the throughput of a column, and its extremes if they differ."""
        values = _values_in(self._source.session.throughput, axis, column)
        if values is None:
            return ("no batch",)
        value, (low, high) = values[0], map(units.rate, values[1:])
        text = f"{units.rate(value)} {self._source.session.throughput_unit}"
        return (text, f"({low} to {high})") if low != high else (text,)

    def _shown_part_text(self, axis: TimeAxis) -> str:
        run, count = self.run, self.plot_columns
        if self.window.is_paused(run, count):
            start, end = map(self._clock, (axis.start_ns, axis.end_ns))
            return f"paused at {start} – {end}, f follows"
        part = self.window.shown_part(run, count)
        return f"{part}, {self._zoom_note}" if self._zoom_note else part

    def _cursor_label(self, axis: TimeAxis) -> str:
        read_ns = self.window.read_ns(axis)
        return "" if read_ns is None else f"at {self._clock(read_ns)}"

    def _clock(self, t_ns: int) -> str:
        """Write an instant as the time since the session began."""
        return units.clock((t_ns - self._source.session.header.t) / 1e9)

    def paint_window(self) -> None:
        self.paint_charts(self._source.snapshot())

    def action_fit_axis(self) -> None:
        """Toggle whether the throughput's axis may begin above 0."""
        self._fits_axis = not self._fits_axis
        self.paint_charts(self._source.snapshot())


def _epoch_starts(session: Session) -> tuple[tuple[int, int], ...]:
    return tuple(session.epoch_starts) if session.has_epochs else ()


def _shaded_spans(session: Session, snapshot: Snapshot) -> tuple[PhaseSpan, ...]:
    """Return the spans of phases, of long gaps between steps, and the starts of alerts."""
    names = {GapKind.STALL: "stalled", GapKind.BETWEEN_STEPS: BETWEEN_STEPS}
    gaps = [gap for gap in snapshot.gaps if gap.kind in names]
    return (
        *session.phase_spans,
        *(PhaseSpan(names[gap.kind], gap.start, gap.end) for gap in gaps),
        *(PhaseSpan("alerted", n.since, n.since) for n in snapshot.notices if isinstance(n, Alert)),
    )


_SETTLING_NS = 5_000_000_000
_FLAT_PCT, _FLAT_SHARE = 20.0, 0.2
"""The range of a utilisation, and of the throughput as a share, that leaves a chart flat."""


def flat_charts(session: Session) -> frozenset[str]:
    """Return the ids of the charts that hardly moved since shortly after training began."""
    machine, flat = session.machine, set[str]()
    if session.training_start is None:
        return frozenset()
    time_ns = session.training_start + _SETTLING_NS, session.last_t
    of_machine = (machine.cpu_pct, *machine.gpu_utilization_pct.values())
    ranges = [series.extremes(*time_ns) or (0.0, 0.0) for series in of_machine]
    if all(high - low < _FLAT_PCT for low, high in ranges):
        flat.add("machine")
    low, high = session.throughput.extremes(*time_ns) or (0.0, 0.0)
    if high - low < _FLAT_SHARE * high:
        flat.add("throughput")
    return frozenset(flat)


def machine_view(source: SessionSource, snapshot: Snapshot) -> MachineView:
    """Return the readings of a session's machine now, or at its end."""
    session = source.session
    return MachineView(
        history=session.machine,
        facts=session.facts,
        age_s=snapshot.machine_age_s if source.running else None,
        interval_s=session.machine.interval_s,
        training=gpus_that_train(session.header, snapshot),
        host=source.host,
        memory=memory_text(snapshot),
        goes_on=source.running,
        is_here=source.is_here and source.running,
        ranks=session.trainers.ranks,
        needs_memory=snapshot.result is not None and snapshot.result.failure in NEED_MEMORY,
    )


NOT_SEEN, NEVER_SEEN = "no loss seen so far", "no loss was seen"
_LEAST_READINGS = 3
_CURVE_CELLS = 12


class LossChart(CurveChart):
    """The loss, or the metric that the screen chooses, over time with each validation."""

    def __init__(self, id: str = "loss", hue: str = "loss") -> None:
        super().__init__(id=id)
        self._hue = HUES.index(hue)

    def show_metric(
        self,
        learning: Learning,
        chosen: str | None,
        axis: TimeAxis,
        below: ChartPicture,
        *,
        is_running: bool,
        cursor_label: str,
        epoch_noun: str,
        shared: TimeAxis,
        times: TimeLabels,
        beside: str | None = None,
    ) -> None:
        """Draw a metric, with another one `beside` it.

        `axis` has the columns of this chart, `shared` those of all charts; the labels of its
        `times` stand in the border. The marks, shades and cursor come from the picture `below`.
        """
        self.axes = shared, axis
        name = shown_metric(learning, chosen)
        metric = None if name is None else learning.metrics[name]
        title, ruler = title_of(name or LOSS), self.ruler_of(times)
        if metric is None:
            self.set_titles(title, right="", ruler=ruler)
        else:
            right, trend = newest_text(metric, epoch_noun)
            if below.cursor is not None:
                right, trend = f"{cursor_label}  {_text_at(metric, axis, below.cursor)}", ""
            following = next_metric(learning, name)
            if following not in (None, name, beside):
                hinting = f"{title}  O shows {metric_in_words(following)}"
                has_room = cell_len(f"{right}  {trend}") <= self.room_beside(hinting)
                title = hinting if has_room else title
            self.set_titles(title, right=right, more=(trend,) if trend else (), ruler=ruler)
        curves, reason = [], NOT_SEEN if is_running else NEVER_SEEN
        if metric is not None:
            curves = [(self._hue, curve_of(metric, 0))]
            end_ns = metric.series.end_ns
            is_coming = is_running and end_ns is not None and end_ns > axis.end_ns
            reason = "" if is_coming else "no value in this time"
        picture = picture_of(curves, axis, below, reason)
        self.show(picture)


def newest_metric(learning: Learning, chosen: str | None, epoch_noun: str) -> tuple[str, ...]:
    """Return a metric's newest value in words, and a small curve of the whole run: ⠉⠒⠤⣀."""
    name = shown_metric(learning, chosen)
    if name is None:
        return ()
    metric, curve = learning.metrics[name], ""
    start_ns = metric.series.start_ns
    if metric.readings >= _LEAST_READINGS and start_ns is not None:
        # Up to the last reading, even if it was no number: that is a gap.
        run = RunSpan(start_ns, metric.last_ns - 1, False, 1)
        axis = TimeWindow(ViewLength.WHOLE).axis(run, COLUMNS_PER_CELL * _CURVE_CELLS)
        curve = small_curve(axis.columns(metric.series), _CURVE_CELLS)
    value, trend = newest_text(metric, epoch_noun)
    return tuple(filter(None, (f"{metric_in_words(name)} {value}", curve, trend)))


def small_curve(columns: Sequence[float | None], cells: int) -> str:
    """Draw columns, two to a cell, as a line between their lowest and their highest value.

    Differences within the noise are drawn as a straight line, unknown values as gaps.
    """
    values = [value for value in columns if value is not None]
    bottom, top = min(values, default=0.0), max(values, default=0.0)
    if top - bottom <= LEAST_CHANGE * max(abs(top), abs(bottom)):
        columns, bottom, top = [None if value is None else 0.0 for value in columns], -1.0, 1.0
    return braille_rows(columns, cells, 1, top, bottom)[0]


def shown_metric(learning: Learning, chosen: str | None) -> str | None:
    """Return the chosen metric if it was read, or else the first one, if any."""
    names = learning.names
    if chosen in names:
        return chosen
    return names[0] if names else None


def next_metric(learning: Learning, chosen: str | None) -> str | None:
    """Return the metric after the shown one, or the first one after the last."""
    names, name = learning.names, shown_metric(learning, chosen)
    return None if name is None else names[(names.index(name) + 1) % len(names)]


def _text_at(metric: Metric, axis: TimeAxis, column: int) -> str:
    """Write a metric's mean in a column, and its extremes if they differ."""
    values = _values_in(metric.series, axis, column)
    if values is None:
        return "not read"
    value, low, high = (value_text(value, "") for value in values)
    return f"{value} ({low} to {high})" if low != high else value


def _values_in(series: Series, axis: TimeAxis, column: int) -> tuple[float, float, float] | None:
    """Return the mean, the least and the greatest value in a column; None if it has none."""
    value, start_ns = axis.columns(series)[column], axis.start_ns + column * axis.column_ns
    if value is None:
        return None
    low, high = series.extremes(start_ns, start_ns + axis.column_ns) or (value, value)
    return value, low, high
