"""The charts of a session on one time axis: what part of the run they show, and how it is read."""

from __future__ import annotations

from dataclasses import replace

from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource
from tui.drawing.plot import grown_top
from tui.drawing.time_axis import NOTHING_MORE, RunSpan, TimeAxis, TimeWindow
from tui.formatting import units
from tui.formatting.glyphs import Glyphs, glyphs_in_use
from tui.machine.charts import MachineCharts
from tui.machine.view import MachineView, gpu_that_trains
from tui.widgets.chart import Chart, ChartPicture


class TimeCharts:
    """The throughput above the hardware: panned, zoomed and read together.

    Args:
        source: the session.
        throughput: its chart.
        machine: the charts of the machine that it runs on.
    """

    def __init__(self, source: SessionSource, throughput: Chart, machine: MachineCharts) -> None:
        """Follow the run."""
        self._source = source
        self._throughput = throughput
        self._machine = machine
        self.window = TimeWindow()
        """The part of the run that is shown."""
        self._top = 0.0
        self._zoom_note = ""
        self._grabbed = self.window
        self._drawn: tuple[object, ...] = ()

    def forget_drawn(self) -> None:
        """Draw everything the next time, changed or not."""
        self._drawn = ()

    def paint(self, snapshot: Snapshot) -> None:
        """Draw the charts, if anything in them changed."""
        run, count = self.run, self.plot_columns
        axis = self.window.axis(run, count)
        cursor = self.window.cursor_column(axis)
        self._title_throughput(snapshot, axis, cursor)
        session = self._source.session
        view = replace(
            machine_view(self._source, snapshot),
            epoch_starts=tuple(session.epoch_starts),
            phase_spans=tuple(session.phase_spans),
            cursor=cursor,
            cursor_label=self._cursor_label(axis),
        )
        # A line above or below that wraps leaves the charts fewer rows.
        rows = self._machine.size.height
        running = self._source.running
        drawn = (axis, cursor, rows, snapshot.machine, view.stale, running, snapshot.phase)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._throughput.show(self._throughput_picture(snapshot, axis, cursor))
        self._machine.show(view, axis, axis.time_elapsed(self._source.session.header.t))

    @property
    def run(self) -> RunSpan:
        """The run as far as it has come."""
        session = self._source.session
        interval_ns = int(session.machine.interval_s * 1e9)
        return RunSpan(session.header.t, self._source.now(), self._source.running, interval_ns)

    @property
    def plot_columns(self) -> int:
        """How many columns the narrower of the charts has room for."""
        return min(self._throughput.plot_columns, self._machine.plot_columns)

    def _throughput_picture(
        self, snapshot: Snapshot, axis: TimeAxis, cursor: int | None
    ) -> ChartPicture:
        session = self._source.session
        columns = axis.columns(session.throughput)
        known = [column for column in columns if column is not None]
        if known:
            self._top = grown_top(self._top, max(known))
        return ChartPicture(
            columns=columns,
            top=self._top,
            left_labels=("",) if self._top == 0 else (),
            marks=axis.marks(session.epoch_starts),
            shades=axis.shades(session.phase_spans),
            reason=f"{snapshot.phase or 'starting'} …" if self._source.running else "no batch",
            cursor=cursor,
        )

    def _title_throughput(self, snapshot: Snapshot, axis: TimeAxis, cursor: int | None) -> None:
        """Set the chart's titles: the throughput now or at the cursor, and the part shown."""
        right = _speed(snapshot, glyphs_in_use())
        if cursor is not None:
            value = axis.columns(self._source.session.throughput)[cursor]
            text = "no batch" if value is None else f"{units.rate(value)} samples/s"
            right = f"{self._cursor_label(axis)}  {text}"
        elif snapshot.stalls:
            right = f"{right}  {units.stalls(snapshot.stalls)}"
        title, right = _fitting_title(right, self._throughput.outer_size.width - 6)
        self._throughput.set_titles(title, self._shown_part_text(axis), right=right)

    def _shown_part_text(self, axis: TimeAxis) -> str:
        """Name the part of the run that is on the charts."""
        run, count = self.run, self.plot_columns
        if self.window.is_paused(run, count):
            start, end = map(self._clock, (axis.start_ns, axis.end_ns))
            return f"paused at {start} – {end}, f follows"
        seen = self.window.shown_part(run, count)
        return f"{seen}, {self._zoom_note}" if self._zoom_note else seen

    def _cursor_label(self, axis: TimeAxis) -> str:
        read_ns = self.window.read_ns(axis)
        return "" if read_ns is None else f"at {self._clock(read_ns)}"

    def _clock(self, t_ns: int) -> str:
        """Write an instant as the time since the session began."""
        return units.clock((t_ns - self._source.session.header.t) / 1e9)

    def _look(self, window: TimeWindow) -> None:
        """Show another part of the run, or read another instant, at once."""
        self._zoom_note = ""
        self.window = window
        self.paint(self._source.snapshot())

    def next_view(self) -> None:
        """Show the next larger part of the run; after the whole, the smallest."""
        run, count = self.run, self.plot_columns
        self._zoom(self.window.next_view(run, count), self.window.why_no_nearer(run, count))

    def zoom_in(self) -> None:
        run, count = self.run, self.plot_columns
        self._zoom(self.window.zoomed_in(run, count), self.window.why_no_nearer(run, count))

    def zoom_out(self) -> None:
        self._zoom(self.window.zoomed_out(self.run, self.plot_columns), NOTHING_MORE)

    def _zoom(self, window: TimeWindow, why_not: str) -> None:
        """Show a larger or a smaller part of the run; say why where that changes nothing."""
        unchanged = window is self.window
        self._look(window)
        if unchanged:
            self._zoom_note = why_not
            self.paint(self._source.snapshot())

    def pan(self, quarters: int) -> None:
        """Move all charts by quarters of what is seen."""
        count = self.plot_columns
        self._look(self.window.panned(quarters * (count // 4), self.run, count))

    def move_cursor(self, samples: int) -> None:
        self._look(self.window.with_cursor_moved(samples, self.run, self.plot_columns))

    def go_to_start(self) -> None:
        """Show, or read, where the run began."""
        self._look(self.window.at_start(self.run, self.plot_columns))

    def go_to_end(self) -> None:
        """Show, or read, where the run is now."""
        self._look(self.window.at_end(self.run, self.plot_columns))

    def follow(self) -> None:
        self._look(self.window.followed(self.run, self.plot_columns))

    def escape(self) -> None:
        """Take the cursor away, else follow the run again."""
        if self.window.cursor_ns is not None:
            self._look(self.window.without_cursor())
        else:
            self.follow()

    def point_at(self, column: int) -> None:
        """Read the charts at a column."""
        self._look(self.window.with_cursor_at(column, self.run, self.plot_columns))

    def grab(self) -> None:
        """Keep what is seen when a drag begins."""
        self._grabbed = self.window

    def drag(self, columns: int) -> None:
        """Move all charts to where they are dragged, from where they were grabbed."""
        self._look(self._grabbed.panned(-columns, self.run, self.plot_columns))


def machine_view(source: SessionSource, snapshot: Snapshot) -> MachineView:
    """Return the machine of a session as it is now, or was at the end."""
    session = source.session
    return MachineView(
        history=session.machine,
        facts=session.facts,
        age_s=snapshot.machine_age_s if source.running else None,
        interval_s=session.machine.interval_s,
        gpu_index=gpu_that_trains(session.header, snapshot.model),
    )


def _speed(snapshot: Snapshot, glyphs: Glyphs) -> str:
    if snapshot.samples_per_second is not None:
        return units.throughput(snapshot.samples_per_second, glyphs)
    if snapshot.samples_per_second_now is not None:
        return f"{units.rate(snapshot.samples_per_second_now)} samples/s"
    return ""


def _fitting_title(right: str, room: int) -> tuple[str, str]:
    """Return name and figure as they have room: the unit is shortened, then the name goes."""
    short = right.replace(" samples/s", " /s")
    for figure in (right, short):
        if len("Throughput") + len(figure) + 3 <= room:
            return "Throughput", figure
    return "", right if len(right) <= room else short
