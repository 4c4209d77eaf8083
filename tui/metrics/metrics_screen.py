"""The screen of every metric of a run, or of several over each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dlmon.comparison.compared_run import Curve
from dlmon.figures import units
from dlmon.figures.report.curves import curves_of, metric_in_words
from dlmon.figures.session.phases import reading_text
from dlmon.session.learning import LOSS
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from dlmon.statistics.series import Series
from tui.drawing.time_axis import RunSpan, TimeWindow, ViewLength
from tui.machine.machine import grid_columns
from tui.metrics.curve_chart import HUES, SIGNS, CurveChart
from tui.screens.base import HELP, PALETTE, QUIT, THEME, TickingScreen, hidden
from tui.screens.chart_screen import AXIS, CURSOR, NEXT_VIEW, ChartsScreen
from tui.screens.filtered import CLEAR_FILTER, FILTER, FilteredScreen
from tui.screens.panes import ALONE, PanesScreen
from tui.widgets.chart import ChartPicture

_LEAST_WIDTH, _LEAST_HEIGHT = 38, 7
_NOTHING_YET = "no metric yet: each that the training reports has a chart"
# Stands for a run that doesn't report a quantity, so that each run's value keeps its place.
_NO_CURVE = Curve(Series(), 0)
_NO_MATCH = "no metric has such a name"
_APART, _LEAST_NAME = "   ", 8
_INTERVAL_NS = 1_000_000_000


class ChartGrid(VerticalScroll, can_focus=False, inherit_bindings=False):
    """Charts that scroll with the chosen one; the screen handles the arrow keys."""


class MetricsScreen(PanesScreen, ChartsScreen, TickingScreen, FilteredScreen):
    """A chart for each metric of one or several runs, the newest values in its border.

    Args:
        sources: the runs.
        names: the runs' names, which may be any text.
        reads: whether this screen has to read the logs, because no other does.
    """

    CSS_PATH = "metrics.tcss"
    ALLOW_IN_MAXIMIZED_VIEW = "#runs, KeyFooter, TooSmall"
    HELP_PAGES = (Path(__file__).with_name("metrics.md"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        replace(ALONE, tooltip="Show the chosen chart alone, or all again"),
        FILTER,
        # Before "Back", which has the same key while there is no filter.
        CLEAR_FILTER,
        NEXT_VIEW,
        *CURSOR,
        HELP,
        Binding("q", "leave", "Back", tooltip="Go back"),
        THEME,
        hidden("escape", "escape", "Back to all", "Remove the cursor, then see the whole run"),
        hidden("m", "leave", "Back"),
        hidden("up", "choose(-1)", "Chart above", "Choose the chart above"),
        hidden("down", "choose(1)", "Chart below", "Choose the chart below"),
        hidden("tab", "choose_pane(1)", "Next chart", "Choose the next chart"),
        hidden("shift+tab", "choose_pane(-1)", "Previous chart", "Choose the chart before"),
        *AXIS,
        PALETTE,
        QUIT,
    ]

    def __init__(
        self, sources: Sequence[SessionSource], names: Sequence[str], *, reads: bool = False
    ) -> None:
        super().__init__()
        self._sources, self._names, self._reads = sources, names, reads
        self._charts: dict[str, CurveChart] = {}
        self._typed = ""
        self._runs_text = Content("")
        self.window = TimeWindow(ViewLength.WHOLE)

    def compose_parts(self) -> ComposeResult:
        yield Static(id="runs")
        yield self.filter_field
        yield Static(_NO_MATCH, id="nothing")
        yield ChartGrid(id="charts")

    def on_mount(self) -> None:
        if self._reads:
            self.run_worker(self._read)

    async def _read(self) -> None:
        for source in self._sources:
            source.poll()
            await read_to_end(source, lambda share: self._show_runs(reading_text(share)))
        self.tick()

    def tick(self) -> None:
        """Read new records, and paint."""
        if self._reads:
            for source in self._sources:
                source.poll(SLICE_S)
        super().tick()

    # ---- the time that is shown ----

    def _start_ns(self, source: SessionSource) -> int:
        """Return the start of a run's time: the session's, or with several runs the training's."""
        session = source.session
        if len(self._sources) == 1 or session.training_start is None:
            return session.header.t
        return session.training_start

    @property
    def run(self) -> RunSpan:
        """The time from the start to the end of the longest run."""
        lengths = [source.now() - self._start_ns(source) for source in self._sources]
        running = any(source.running for source in self._sources)
        return RunSpan(0, max(1, *lengths), running, _INTERVAL_NS)

    @property
    def _visible_charts(self) -> list[CurveChart]:
        if isinstance(self.maximized, CurveChart):
            return [self.maximized]
        return [chart for chart in self._charts.values() if chart.display]

    @property
    def plot_columns(self) -> int:
        return min((chart.plot_columns for chart in self._visible_charts), default=0)

    # ---- what is painted ----

    def paint(self) -> None:
        """Draw the visible charts and the legend of the runs."""
        if not self.has_parts:
            return
        of_runs = [curves_of(source.session, self._start_ns(source)) for source in self._sources]
        curves = {
            name: [(number, of_run.get(name, _NO_CURVE)) for number, of_run in enumerate(of_runs)]
            for name in dict.fromkeys(name for of_run in of_runs for name in of_run)
        }
        if not any(source.session.learning.names for source in self._sources):
            curves = {LOSS: [], **curves}
        self._lay_out(curves)
        columns = self.plot_columns
        if columns < 1:
            return
        axis = self.window.axis(self.run, columns)
        cursor = self.window.cursor_column(axis)
        below = ChartPicture(cursor=cursor, times=axis.time_elapsed(0).unlabelled)
        for name, chart in self._charts.items():
            if chart in self._visible_charts and chart.is_on_screen:
                chart.axes = axis, axis
                reason = "no value in this time" if curves[name] else _NOTHING_YET
                chart.show_curves(name, curves[name], axis, below, reason)
        self._show_runs(self._window_text())

    def paint_window(self) -> None:
        self.paint()

    @property
    def panes(self) -> tuple[str, ...]:
        """No pane can be hidden, other than by the filter."""
        return ()

    def arrange_panes(self) -> None:
        self.call_after_refresh(self.tick)

    def _lay_out(self, names: Collection[str]) -> None:
        """Show a chart for each name that matches the filter; the grid scrolls if it must."""
        grid, words = self.query_one(ChartGrid), self._typed.casefold().split()
        new = [name for name in names if name not in self._charts]
        for name in new:
            self._charts[name] = CurveChart()
            self._charts[name].can_focus = True
        for name, chart in self._charts.items():
            metric = metric_in_words(name).casefold()
            chart.display = name in names and all(word in metric for word in words)
        count = len([chart for chart in self._charts.values() if chart.display])
        self.query_one("#nothing").display = not count
        columns, most = grid_columns(count, *grid.size), max(1, grid.size.width // _LEAST_WIDTH)
        has_room = 0 < columns <= most
        grid.styles.grid_size_columns = columns if has_room else most
        grid.styles.grid_rows = "1fr" if has_room else str(_LEAST_HEIGHT)
        if new:
            grid.mount_all([self._charts[name] for name in new])
            self.call_after_refresh(self._mounted)

    def _mounted(self) -> None:
        """Focus the first chart if none is focused, and draw the charts in their new sizes."""
        if self.focused is None and self._visible_charts:
            self.set_focus(self._visible_charts[0])
        self.paint()

    def _window_text(self) -> str:
        """Say which time is shown, or where the cursor is."""
        run, columns = self.run, self.plot_columns
        axis = self.window.axis(run, columns)
        if (read_ns := self.window.read_ns(axis)) is not None:
            return f"at {units.clock(read_ns / 1e9)}"
        if self.window.is_paused(run, columns):
            start, end = (units.clock(t / 1e9) for t in (axis.start_ns, axis.end_ns))
            return f"{start} – {end}, f follows"
        text = self.window.shown_part(run, columns)
        return f"{text}, {self._zoom_note}" if self._zoom_note else text

    def _show_runs(self, text: str) -> None:
        """Write the legend of the runs, and a text after it."""
        count = len(self._names)
        room = self.size.width - cell_len(text) - (count + 1) * cell_len(_APART)
        parts = []
        for number, name in enumerate(self._names):
            sign = SIGNS[number % len(SIGNS)]
            line = Content.styled(sign, f"$chart-{HUES[number % len(HUES)]}")
            cells = max(_LEAST_NAME, room // count - cell_len(sign) - 1)
            parts.append(Content.assemble(line, " ", Content(name).truncate(cells, ellipsis=True)))
        runs_text = Content(_APART).join([*parts, Content.styled(text, "$text-muted 60%")])
        if runs_text != self._runs_text:
            self._runs_text = runs_text
            self.query_one("#runs", Static).update(runs_text)

    # ---- what keys do ----

    def action_choose(self, rows: int) -> None:
        """Focus the chart this many rows below; negative rows go up."""
        charts = self._visible_charts
        if self.focused in charts:
            columns = self.query_one("#charts").styles.grid_size_columns
            index = charts.index(self.focused) + rows * columns
            if 0 <= index < len(charts):
                self.set_focus(charts[index])
        elif charts:
            self.set_focus(charts[0])

    def on_descendant_focus(self) -> None:
        """Draw the charts that scrolled into view."""
        self.call_after_refresh(self.paint)

    def filter(self, typed: str) -> None:
        self._typed = typed
        self.paint()
        self.call_after_refresh(self.paint)

    @property
    def focused_without_filter(self) -> CurveChart | None:
        return next(iter(self._visible_charts), None)

    def action_escape(self) -> None:
        """Remove the cursor, or else show the whole run, or else go back."""
        if self.window.cursor_ns is not None:
            super().action_escape()
        elif self.window != (whole := TimeWindow(ViewLength.WHOLE)):
            self._show_window(whole)
        else:
            self.action_leave()
