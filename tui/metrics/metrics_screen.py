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
# Of a run that doesn't report a quantity: the values of the others stay in their places.
_NO_CURVE = Curve(Series(), 0)
_NO_MATCH = "no metric has such a name"
_APART, _LEAST_NAME = "   ", 8
_INTERVAL_NS = 1_000_000_000


class ChartGrid(VerticalScroll, can_focus=False, inherit_bindings=False):
    """Charts that scroll with the chosen one; the arrows are the screen's."""


class MetricsScreen(PanesScreen, ChartsScreen, TickingScreen, FilteredScreen):
    """A chart of everything that runs reported, the newest values in its border.

    Args:
        sources: the runs.
        names: what each of them is called; foreign.
        reads: whether nobody else reads their logs.
    """

    CSS_PATH = "metrics.tcss"
    ALLOW_IN_MAXIMIZED_VIEW = "#runs, KeyFooter, TooSmall"
    HELP_PAGES = (Path(__file__).with_name("metrics.md"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        replace(ALONE, tooltip="Show the chosen chart alone, or all again"),
        FILTER,
        # Before the way back, which has the same key where there is no filter.
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
        """Draw nothing before the screen is shown."""
        super().__init__()
        self._sources, self._names, self._reads = sources, names, reads
        self._charts: dict[str, CurveChart] = {}
        self._typed = ""
        self._said = Content("")
        self.window = TimeWindow(ViewLength.WHOLE)

    def compose_parts(self) -> ComposeResult:
        """Lay out what is shown above the grid of charts."""
        yield Static(id="runs")
        yield self.filter_field
        yield Static(_NO_MATCH, id="nothing")
        yield ChartGrid(id="charts")

    def on_mount(self) -> None:
        """Read what nobody else reads."""
        if self._reads:
            self.run_worker(self._read)

    async def _read(self) -> None:
        for source in self._sources:
            source.poll()
            await read_to_end(source, lambda share: self._say(reading_text(share)))
        self.tick()

    def tick(self) -> None:
        """Read what is new, and paint it."""
        if self._reads:
            for source in self._sources:
                source.poll(SLICE_S)
        super().tick()

    # ---- the time that is shown ----

    def _start_ns(self, source: SessionSource) -> int:
        """Return when a run's own time begins; of several, each with its own first batch."""
        session = source.session
        if len(self._sources) == 1 or session.training_start is None:
            return session.header.t
        return session.training_start

    @property
    def run(self) -> RunSpan:
        """From the start to where the longest run has come."""
        lengths = [source.now() - self._start_ns(source) for source in self._sources]
        running = any(source.running for source in self._sources)
        return RunSpan(0, max(1, *lengths), running, _INTERVAL_NS)

    @property
    def _seen(self) -> list[CurveChart]:
        if isinstance(self.maximized, CurveChart):
            return [self.maximized]
        return [chart for chart in self._charts.values() if chart.display]

    @property
    def plot_columns(self) -> int:
        return min((chart.plot_columns for chart in self._seen), default=0)

    # ---- what is painted ----

    def paint(self) -> None:
        """Draw the charts that are seen, and say which runs they are of."""
        if not self.has_parts:
            return
        found: dict[str, list[tuple[int, Curve]]] = {}
        known = [curves_of(one.session, self._start_ns(one)) for one in self._sources]
        for name in dict.fromkeys(name for curves in known for name in curves):
            found[name] = [(n, curves.get(name, _NO_CURVE)) for n, curves in enumerate(known)]
        if not any(source.session.learning.names for source in self._sources):
            found = {LOSS: [], **found}
        self._lay_out(found)
        columns = self.plot_columns
        if columns < 1:
            return
        axis = self.window.axis(self.run, columns)
        cursor = self.window.cursor_column(axis)
        below = ChartPicture(cursor=cursor, times=axis.time_elapsed(0).unlabelled)
        for name, chart in self._charts.items():
            if chart in self._seen and chart.is_on_screen:
                chart.axes = axis, axis
                reason = "no value in this time" if found[name] else _NOTHING_YET
                chart.show_curves(name, found[name], axis, below, reason)
        self._say(self._part_text())

    def paint_window(self) -> None:
        self.paint()

    @property
    def panes(self) -> tuple[str, ...]:
        """None can be hidden but by the filter."""
        return ()

    def arrange_panes(self) -> None:
        self.call_after_refresh(self.tick)

    def _lay_out(self, names: Collection[str]) -> None:
        """Have a chart of each name that matches what is typed; the grid scrolls if it must."""
        grid, words = self.query_one(ChartGrid), self._typed.casefold().split()
        new = [name for name in names if name not in self._charts]
        for name in new:
            self._charts[name] = CurveChart()
            self._charts[name].can_focus = True
        for name, chart in self._charts.items():
            shown = metric_in_words(name).casefold()
            chart.display = name in names and all(word in shown for word in words)
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
        """Choose the first chart where none is, and draw what has a size now."""
        if self.focused is None and self._seen:
            self.set_focus(self._seen[0])
        self.paint()

    def _part_text(self) -> str:
        """Say what part of the time is seen, and where it is read."""
        run, columns = self.run, self.plot_columns
        axis = self.window.axis(run, columns)
        if (read_ns := self.window.read_ns(axis)) is not None:
            return f"at {units.clock(read_ns / 1e9)}"
        if self.window.is_paused(run, columns):
            start, end = (units.clock(t / 1e9) for t in (axis.start_ns, axis.end_ns))
            return f"{start} – {end}, f follows"
        seen = self.window.shown_part(run, columns)
        return f"{seen}, {self._zoom_note}" if self._zoom_note else seen

    def _say(self, text: str) -> None:
        """Write the runs with their lines' looks, and a text after them."""
        count = len(self._names)
        room = self.size.width - cell_len(text) - (count + 1) * cell_len(_APART)
        parts = []
        for number, name in enumerate(self._names):
            sign = SIGNS[number % len(SIGNS)]
            line = Content.styled(sign, f"$chart-{HUES[number % len(HUES)]}")
            each = max(_LEAST_NAME, room // count - cell_len(sign) - 1)
            parts.append(Content.assemble(line, " ", Content(name).truncate(each, ellipsis=True)))
        shown = Content(_APART).join([*parts, Content.styled(text, "$text-muted 60%")])
        if shown != self._said:
            self._said = shown
            self.query_one("#runs", Static).update(shown)

    # ---- what keys do ----

    def action_choose(self, rows: int) -> None:
        """Choose the chart so many rows below; up is negative."""
        seen = self._seen
        if self.focused in seen:
            columns = self.query_one("#charts").styles.grid_size_columns
            at = seen.index(self.focused) + rows * columns
            if 0 <= at < len(seen):
                self.set_focus(seen[at])
        elif seen:
            self.set_focus(seen[0])

    def on_descendant_focus(self) -> None:
        """Draw what scrolls into view."""
        self.call_after_refresh(self.paint)

    def filter(self, typed: str) -> None:
        self._typed = typed
        self.paint()
        self.call_after_refresh(self.paint)

    @property
    def focused_without_filter(self) -> CurveChart | None:
        return next(iter(self._seen), None)

    def action_escape(self) -> None:
        """Undo the last thing; where there is nothing to undo, go back."""
        if self.window.cursor_ns is not None:
            super().action_escape()
        elif self.window != (whole := TimeWindow(ViewLength.WHOLE)):
            self._look(whole)
        else:
            self.action_leave()
