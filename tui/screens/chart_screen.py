"""A screen of charts that share a time axis and a cursor."""

from __future__ import annotations

from textual.binding import Binding

from tui.drawing.time_axis import (
    NOTHING_FINER,
    NOTHING_MORE,
    ZOOM_NOTE_S,
    RunSpan,
    TimeWindow,
)
from tui.screens.base import BaseScreen, hidden
from tui.widgets.chart import Chart

_CURSOR = Binding.Group("Cursor", compact=True)

METRICS = Binding(
    "m", "metrics", "Metrics", tooltip="Every metric, the throughput and the machine in charts"
)
NEXT_VIEW = Binding(
    "z", "next_view", "Zoom", tooltip="From the last 10 s to the whole run, in steps"
)
CURSOR = (
    Binding(
        "left",
        "move_cursor(-1)",
        "Cursor back",
        key_display="←",
        tooltip="Move the cursor back; all charts show their values there",
        group=_CURSOR,
    ),
    Binding(
        "right",
        "move_cursor(1)",
        "Cursor forward",
        key_display="→",
        tooltip="Move the cursor forward; all charts show their values there",
        group=_CURSOR,
    ),
)
AXIS = (
    hidden("shift+left", "move_cursor(-10)", "Cursor 10 back", "Move the cursor 10 samples back"),
    hidden(
        "shift+right",
        "move_cursor(10)",
        "Cursor 10 forward",
        "Move the cursor 10 samples forward",
    ),
    hidden("plus,equals_sign", "zoom_in", "Zoom in", "See less time, in more detail"),
    hidden("minus", "zoom_out", "Zoom out", "See more of the run at once"),
    hidden("comma", "pan(-1)", "Pan back", "Move all charts back by a quarter"),
    hidden("full_stop", "pan(1)", "Pan forward", "Move all charts forward by a quarter"),
    hidden("home", "go_to_start", "Go to start", "Show where the run began"),
    hidden("end", "go_to_end", "Go to end", "Show where the run is now"),
    hidden("f", "follow", "Follow", "Let the charts follow the run again"),
)


class ChartsScreen(BaseScreen):
    """A screen whose charts are panned and zoomed together, and share a cursor."""

    _zoom_note = ""

    def __init__(self) -> None:
        super().__init__()
        self.window = TimeWindow()
        """The visible part of the run, and the cursor."""
        self._grabbed = self.window

    @property
    def run(self) -> RunSpan:
        """The time span of the whole run."""
        raise NotImplementedError

    @property
    def plot_columns(self) -> int:
        """The number of columns that fit all charts."""
        raise NotImplementedError

    def paint_window(self) -> None:
        """Draw the charts again for the current window."""
        raise NotImplementedError

    def _show_window(self, window: TimeWindow) -> None:
        self._zoom_note = ""
        self.window = window
        self.paint_window()

    def action_next_view(self) -> None:
        """Show the next longer part of the run; after the whole, the shortest."""
        self._zoom(self.window.next_view(self.run, self.plot_columns), NOTHING_FINER)

    def action_zoom_in(self) -> None:
        self._zoom(self.window.zoomed_in(self.run, self.plot_columns), NOTHING_FINER)

    def action_zoom_out(self) -> None:
        self._zoom(self.window.zoomed_out(self.run, self.plot_columns), NOTHING_MORE)

    def _zoom(self, window: TimeWindow, why_not: str) -> None:
        """Show a longer or a shorter part of the run, or a note if there is none."""
        unchanged = window is self.window
        self._show_window(window)
        if unchanged:
            self._zoom_note = why_not
            self.paint_window()
            self.set_timer(ZOOM_NOTE_S, self._forget_zoom_note)

    def _forget_zoom_note(self) -> None:
        self._zoom_note = ""
        self.paint_window()

    def action_pan(self, quarters: int) -> None:
        count = self.plot_columns
        self._show_window(self.window.panned(quarters * (count // 4), self.run, count))

    def action_move_cursor(self, samples: int) -> None:
        self._show_window(self.window.with_cursor_moved(samples, self.run, self.plot_columns))

    def action_go_to_start(self) -> None:
        self._show_window(self.window.at_start(self.run, self.plot_columns))

    def action_go_to_end(self) -> None:
        self._show_window(self.window.at_end(self.run, self.plot_columns))

    def action_follow(self) -> None:
        self._show_window(self.window.followed(self.run, self.plot_columns))

    def action_escape(self) -> None:
        """Remove the cursor; without one, follow the run again."""
        if self.window.cursor_ns is not None:
            self._show_window(self.window.without_cursor())
        else:
            self.action_follow()

    def on_chart_plot_resized(self) -> None:
        self.paint_window()

    def on_chart_column_clicked(self, message: Chart.ColumnClicked) -> None:
        self._show_window(self.window.with_cursor_at(message.column, self.run, self.plot_columns))

    def on_chart_grabbed(self) -> None:
        self._grabbed = self.window

    def on_chart_dragged(self, message: Chart.Dragged) -> None:
        self._show_window(self._grabbed.panned(-message.columns, self.run, self.plot_columns))

    def on_chart_scrolled(self, message: Chart.Scrolled) -> None:
        if message.up:
            self.action_zoom_in()
        else:
            self.action_zoom_out()
