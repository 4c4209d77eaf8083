"""The live screen of one session: throughput, hardware and comparison on one time axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.worker import Worker

from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from tui.formatting import units
from tui.formatting.comparison import (
    comparison_rows,
    earlier_sessions,
    factor_of_nearest,
    factor_of_run_before,
    how_to_match,
    metric_of,
    run_names,
    timing_of,
)
from tui.formatting.reading import reading_text
from tui.live import comparison_bars as bars
from tui.live import epoch_headline, epoch_table, limit_line, output_pane, progress_line, top_line
from tui.live.comparison_bars import ComparisonBars, bar_rows, is_logarithmic
from tui.live.epoch_headline import EpochHeadline
from tui.live.epoch_table import EpochTable
from tui.live.limit_line import LimitLine
from tui.live.output_pane import OutputPane
from tui.live.progress_line import ProgressLine
from tui.live.time_charts import TimeCharts, machine_view
from tui.live.top_line import TopLine
from tui.machine.charts import MACHINE_HELP, MachineCharts
from tui.machine.view import MachineView
from tui.screens.base import HELP, REFRESH_S, SESSIONS, THEME, BaseScreen
from tui.screens.quit import QuitScreen
from tui.screens.stop import AgainScreen, StopScreen
from tui.widgets.chart import Chart

if TYPE_CHECKING:
    from tui.live.comparison_screen import Comparison

_CURSOR = Binding.Group("Cursor", compact=True)

# What there is to do in the charts only, and in the log only.
_IN_CHARTS = {
    "next_view",
    "zoom_in",
    "zoom_out",
    "pan",
    "move_cursor",
    "go_to_start",
    "go_to_end",
    "follow",
    "escape",
}
_IN_LOG = {"close_log", "scroll_log", "page_log"}


def _hidden(key: str, action: str, description: str, tooltip: str) -> Binding:
    """Return a binding that the footer has no room for."""
    return Binding(key, action, description, show=False, tooltip=tooltip)


# An end that the first polls find lies in the past: the second one finds that nobody writes.
_POLLS_TO_KNOW = 2


class LiveScreen(BaseScreen):
    """A session as it happens, or as it was.

    Args:
        source: the session.
        repeatable: whether the same can be launched once more.
    """

    CSS_PATH = "live.tcss"
    # The app's own, and two more that only this screen has a layout for.
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it on the instance
        (0, "-tiny"),
        (60, "-narrow"),
        (100, "-wide"),
        (160, "-broad"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-low"),
        (20, "-short"),
        (32, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "s", "stop", "Stop", tooltip="Stop the training after the current batch; asks first"
        ),
        Binding("d", "detach", "Detach", tooltip="Leave dlmon; the training continues"),
        Binding("a", "again", "Again", tooltip="Run it again with the same options"),
        Binding("l", "log", "Log", tooltip="All output and notices, over the whole screen"),
        Binding("l,escape", "close_log", "Back", tooltip="Back from the log to the charts"),
        HELP,
        Binding("q", "leave", "Quit", tooltip="Leave this session; asks first while it runs"),
        Binding("z", "next_view", "Zoom", tooltip="From the last 10 s to the whole run, in steps"),
        Binding("g,f4", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
        Binding("p,f5", "processes", "Processes", tooltip="Show what runs on the machine"),
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
        Binding("c", "compare", "Compare", tooltip="Show the details of each comparison row"),
        SESSIONS,
        THEME,
        _hidden("a", "stop_and_again", "Again", "Stop, and run it again; asks first"),
        _hidden(
            "shift+left", "move_cursor(-10)", "Cursor 10 back", "Move the cursor 10 samples back"
        ),
        _hidden(
            "shift+right",
            "move_cursor(10)",
            "Cursor 10 forward",
            "Move the cursor 10 samples forward",
        ),
        _hidden("plus,equals_sign", "zoom_in", "Zoom in", "See less time, in more detail"),
        _hidden("minus", "zoom_out", "Zoom out", "See more of the run at once"),
        _hidden("comma", "pan(-1)", "Pan back", "Move all charts back by a quarter"),
        _hidden("full_stop", "pan(1)", "Pan forward", "Move all charts forward by a quarter"),
        _hidden("home", "go_to_start", "Go to start", "Show where the run began"),
        _hidden("end", "go_to_end", "Go to end", "Show where the run is now"),
        _hidden("f", "follow", "Follow", "Let the charts follow the run again"),
        _hidden("escape", "escape", "Back to now", "Remove the cursor, then follow"),
        _hidden("up", "scroll_log(-1)", "Scroll up", "Older output"),
        _hidden("down", "scroll_log(1)", "Scroll down", "Newer output"),
        _hidden("pageup", "page_log(-1)", "Page up", "Much older output"),
        _hidden("pagedown", "page_log(1)", "Page down", "Much newer output"),
        _hidden("home", "page_log(-1000)", "Go to start of log", "The oldest output that was kept"),
        _hidden("end", "page_log(1000)", "Go to end of log", "Follow the output again"),
        _hidden("ctrl+p", "app.command_palette", "", ""),
        _hidden("ctrl+c,ctrl+q", "leave", "", ""),
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        *top_line.HELP,
        (
            "Throughput",
            "How many training samples go through the network each second: the line is the mean "
            "of each column's time, the figure that of all steady training so far; the true one "
            "lies within ± with 95 % confidence. Time in which no batch ended is a gap.",
        ),
        (
            "Time axis",
            "All charts show the same time, and are panned and zoomed together: the last 10 or 30 "
            "seconds, the last minute, ten minutes or the whole run, as far as those differ. What "
            "is seen stands under the throughput; the times under the lowest charts are those "
            "since the run was started. The mouse drags the charts, and its wheel zooms.",
        ),
        (
            "┊2, ╌c╌, ╌v╌, ╌p╌",
            "Under the charts, ┊2 marks where epoch 2 began; where a number has no room its mark "
            "stands alone, and of many short epochs only round ones are marked. The times in "
            "which the network was compiled (╌c╌ where there is little room) or validated (╌v╌) "
            "are shaded, and the pauses (╌p╌) in which Keras opens an epoch or closes one.",
        ),
        (
            "Cursor",
            "A vertical line at one instant; while it stands, the titles of all charts show their "
            "values at that instant instead of those of now. A click sets it too.",
        ),
        *MACHINE_HELP,
        *epoch_headline.HELP,
        *bars.HELP,
        *limit_line.HELP,
        *epoch_table.HELP,
        *output_pane.HELP,
        *progress_line.HELP,
    )

    class Ended(Message):
        """The session is over; `text` says how, and how fast it was."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(BaseScreen.Left):
        """The person wants to leave; a run that would stop was asked about."""

    class AgainRequested(Message):
        """The same is to be launched once more, in place of this session."""

    def __init__(self, source: SessionSource, repeatable: bool = False) -> None:
        """Take the session; nothing is read before the screen is mounted."""
        super().__init__()
        self._source = source
        self._earlier: list[SessionEntry] = []
        self._repeatable = repeatable
        self._second = -1
        self._stop_requested = False
        self._log_is_open = False
        self._leave_when_stopped = False
        self._again_when_stopped = False
        self._detached = False
        self._left = False
        self._polls = 0
        self._question: QuitScreen | None = None
        self._catching_up: Worker[None] | None = None

    def compose_parts(self) -> ComposeResult:
        yield TopLine()
        with Container(id="panels"):
            yield Chart(tall_shades=True, id="throughput", classes="panel")
            with Vertical(id="compared", classes="panel"):
                yield EpochHeadline()
                yield ComparisonBars()
            yield MachineCharts()
            yield EpochTable()
            yield OutputPane()
        yield LimitLine()
        yield ProgressLine()

    def on_mount(self) -> None:
        """Start the one timer that reads and paints."""
        throughput, machine = self.query_one("#throughput", Chart), self.query_one(MachineCharts)
        self._charts = TimeCharts(self._source, throughput, machine)
        self.query_one("#compared").border_title = "Seconds per epoch"
        self.set_interval(REFRESH_S, self._on_timer)
        self.call_after_refresh(self._paint_all)

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self._paint_all)

    def _paint_all(self) -> None:
        if self.is_mounted:
            self._charts.forget_drawn()
        self.paint()

    def _on_timer(self) -> None:
        """Tick with each new second of the session."""
        second = self._source.second()
        if second != self._second:
            self._second = second
            self.tick()

    def tick(self) -> None:
        """Read what is new, and paint it where it can be seen, be it behind a question."""
        if self._left:
            return
        was_running = self._source.running
        self._source.poll(SLICE_S)
        if self._source.read_share is not None:
            self._catch_up()
        else:
            self._polls += 1
        if self.is_showing:
            self.paint()
        if was_running and not self._source.running:
            self._session_ended()

    def _catch_up(self) -> None:
        """Read on between the ticks: the log is far ahead, as after a suspension."""
        if self._catching_up is None or self._catching_up.is_finished:
            self._catching_up = self.run_worker(self._read_on())

    async def _read_on(self) -> None:
        await read_to_end(self._source)
        self.tick()

    def _session_ended(self) -> None:
        """Offer no more what is over, and leave if only its end was waited for."""
        if self._source.is_ours or self._polls > _POLLS_TO_KNOW:
            self.post_message(self.Ended(_end_text(self._source)))
        self.refresh_bindings()
        if self.is_active:
            self._do_what_waited_for_the_end()
        elif self._question is not None and self._question.is_current:
            self._question.dismiss("stay")

    def _do_what_waited_for_the_end(self) -> None:
        if self._leave_when_stopped:
            self._go()
        elif self._again_when_stopped:
            self._again_when_stopped = False
            self.action_again()

    def paint(self) -> None:
        """Show the session as it stands."""
        # The first resize may come before there is anything to paint.
        if self._left or not self.is_mounted:
            return
        snapshot = self._source.snapshot()
        reading = reading_text(self._source.read_share)
        self.query_one(TopLine).show(snapshot, self._status, reading)
        running, problem = self._source.running, self._source.problem
        stopping = self._stop_requested and running
        self.query_one(ProgressLine).show(snapshot, problem, stopping, reading)
        self.query_one(LimitLine).show(snapshot, running)
        self.query_one(EpochTable).show(snapshot.epochs, running)
        self.query_one(OutputPane).show(snapshot.output, snapshot.notices, running)
        self._paint_comparison(snapshot)
        self._charts.paint(snapshot)

    def _paint_comparison(self, snapshot: Snapshot) -> None:
        rows = comparison_rows(snapshot, self._earlier)
        panel = self.query_one("#compared")
        title = _TITLES[metric_of(snapshot)]
        if panel.border_title != title:
            panel.border_title = title
        steady = snapshot.samples_per_second is not None
        names = run_names(snapshot, self._earlier)
        headline = self.query_one(EpochHeadline)
        nearest = how_to_match(snapshot, headline.size.width) or factor_of_nearest(rows, steady)
        headline.show(
            snapshot,
            nearest,
            factor_of_run_before(rows, self._earlier, names, steady),
            status=Status.RUNNING if self._source.running else self._source.status,
        )
        self.query_one(ComparisonBars).show(bar_rows(rows, names), is_logarithmic(rows), nearest)

    # ---- the part of the run that is seen ----

    def action_next_view(self) -> None:
        """Show the next larger part of the run; after the whole, the smallest."""
        self._charts.next_view()

    def action_zoom_in(self) -> None:
        self._charts.zoom_in()

    def action_zoom_out(self) -> None:
        self._charts.zoom_out()

    def action_pan(self, quarters: int) -> None:
        """Move all charts by quarters of what is seen."""
        self._charts.pan(quarters)

    def action_move_cursor(self, samples: int) -> None:
        self._charts.move_cursor(samples)

    def action_go_to_start(self) -> None:
        """Show, or read, where the run began."""
        self._charts.go_to_start()

    def action_go_to_end(self) -> None:
        """Show, or read, where the run is now."""
        self._charts.go_to_end()

    def action_follow(self) -> None:
        self._charts.follow()

    def action_escape(self) -> None:
        """Take the cursor away, else follow the run again."""
        self._charts.escape()

    def on_chart_pointed(self, message: Chart.Pointed) -> None:
        """Read the charts where one was clicked."""
        self._charts.point_at(message.column)

    def on_chart_grabbed(self) -> None:
        """Keep what is seen when a drag begins."""
        self._charts.grab()

    def on_chart_dragged(self, message: Chart.Dragged) -> None:
        """Move all charts with the mouse."""
        self._charts.drag(message.columns)

    def on_chart_scrolled(self, message: Chart.Scrolled) -> None:
        zoom = self._charts.zoom_in if message.up else self._charts.zoom_out
        zoom()

    # ---- what can be done with the session ----

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop or detach only what runs, and to detach only what is ours."""
        if action == "stop":
            return self._source.running and not self._stop_requested
        if action == "detach":
            return self._source.running and self._source.is_ours and not self._stop_requested
        if action in ("again", "stop_and_again"):
            if not self._repeatable or self._again_when_stopped:
                return False
            running = self._source.running
            over = not running and self._source.status != Status.UNKNOWN
            return over if action == "again" else running
        if action == "log" or action in _IN_CHARTS:
            return not self._log_is_open
        if action in _IN_LOG:
            return self._log_is_open
        return True

    def action_stop(self) -> None:
        """Ask whether the session is to stop."""
        self._ask(StopScreen(), self._take_stop_answer)

    def _take_stop_answer(self, answer: str | None) -> None:
        self._question = None
        if answer == "stop" and self._source.running:
            self._stop()

    def _ask(self, question: QuitScreen, take: Callable[[str | None], None]) -> None:
        self._question = question
        self.app.push_screen(question, take)

    def _stop(self) -> bool:
        """Stop the session after the current batch; return whether it can be."""
        if self._stop_requested:
            return True
        if not self._source.stop():
            self.notify("this session can't be stopped from here", severity="warning")
            return False
        self._stop_requested = True
        self.refresh_bindings()
        return True

    def action_detach(self) -> None:
        """Leave the session running without us."""
        self._source.detach()
        self._detached = True
        self._go()

    def action_again(self) -> None:
        """Launch the same once more."""
        self.post_message(self.AgainRequested())

    def action_stop_and_again(self) -> None:
        """Ask whether the session is to stop, and the same to be launched then."""
        self._ask(AgainScreen(), self._take_again_answer)

    def _take_again_answer(self, answer: str | None) -> None:
        self._question = None
        if answer != "again":
            return
        if not self._source.running:
            self.action_again()
        elif self._stop():
            self._again_when_stopped = True
            self.refresh_bindings()

    def action_gpus(self) -> None:
        from tui.watch.detail_screens import GpusScreen

        self.app.push_screen(GpusScreen(self._look_at_machine))

    def action_processes(self) -> None:
        from tui.watch.detail_screens import ProcessesScreen

        self.app.push_screen(ProcessesScreen(self._look_at_machine))

    def action_compare(self) -> None:
        """Show the comparison over the whole screen, and what is known of its rows."""
        self._show_comparison(None)

    def on_comparison_bars_pointed(self, message: ComparisonBars.Pointed) -> None:
        """Show what is known of the row that was clicked."""
        self._show_comparison(message.index)

    def _show_comparison(self, chosen: int | None) -> None:
        from tui.live.comparison_screen import ComparisonScreen

        if self._look_at_comparison().rows:
            self.app.push_screen(ComparisonScreen(self._look_at_comparison, chosen))
        else:
            self.notify("there is nothing to compare with", severity="warning")

    def _look_at_comparison(self) -> Comparison:
        """Return the comparison as it stands."""
        from tui.live.comparison_screen import Comparison

        snapshot = self._source.snapshot()
        results = [entry.result for entry in self._earlier] + [snapshot.result]
        return Comparison(
            title=_TITLES[metric_of(snapshot)],
            rows=comparison_rows(snapshot, self._earlier),
            names=run_names(snapshot, self._earlier),
            results={result.session: result for result in results if result is not None},
        )

    def _look_at_machine(self) -> MachineView:
        """Return the machine as it is now, or was at the end, wherever the cursor is."""
        return machine_view(self._source, self._source.snapshot())

    def action_log(self) -> None:
        """Give the output all the room of the panels, or take it back."""
        self._log_is_open = not self._log_is_open
        self._give_room()
        self.refresh_bindings()
        self.call_after_refresh(self._paint_all)

    def _give_room(self) -> None:
        """Show the output alone, or what the style sheet shows.

        By the few styles that differ: a class on the screen would have every widget's
        looked up anew, and a key answered late.
        """
        alone = self._log_is_open
        panels, output = self.query_one("#panels"), self.query_one(OutputPane)
        panels.styles.layout = "vertical" if alone else None
        output.styles.height = "1fr" if alone else None
        for widget in (*panels.children, self.query_one(LimitLine)):
            widget.styles.display = ("block" if widget is output else "none") if alone else None

    def action_close_log(self) -> None:
        """Give the room back to the charts."""
        self.action_log()

    def action_scroll_log(self, lines: int) -> None:
        self.query_one(OutputPane).scroll_lines(lines)

    def action_page_log(self, pages: int) -> None:
        """Scroll the output by whole screens."""
        output = self.query_one(OutputPane)
        output.scroll_lines(pages * max(1, output.size.height - 1))

    def action_leave(self) -> None:
        """Leave; ask first when the session is ours and still runs.

        One that is being stopped is waited for, unless asked to leave again.
        """
        ours_runs = self._source.running and self._source.is_ours
        if self._leave_when_stopped or not ours_runs:
            self._go()
        elif self._stop_requested:
            self._leave_when_stopped = True
        else:
            self._ask(QuitScreen(), self._take_answer)

    def _take_answer(self, answer: str | None) -> None:
        self._question = None
        if not self._source.running:
            # It ended while we asked: leave as from any session that is over, or stay to see it.
            if answer in ("stop", "leave"):
                self._go()
        elif answer == "leave":
            self.action_detach()
        elif answer == "stop":
            self._leave_when_stopped = self._stop()

    def _go(self) -> None:
        if not self._left:
            self._left = True
            self.post_message(self.Left(self))

    def show_entries(self, entries: list[SessionEntry]) -> None:
        """Compare with the sessions that were recorded before."""
        self._earlier = earlier_sessions(entries, self._source.session.header)
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        """Show what came under another screen, and do what waited for the end."""
        if not self._source.running:
            self._do_what_waited_for_the_end()
        self.call_after_refresh(self.tick)

    @property
    def _status(self) -> str:
        return "stopping" if self._stop_requested and self._source.running else self._source.status

    @property
    def stop_requested(self) -> bool:
        """Whether the session was stopped from here."""
        return self._stop_requested

    @property
    def detached(self) -> bool:
        """Whether the session was left running here."""
        return self._detached


_TITLES = {
    "seconds_per_epoch": "Seconds per epoch",
    "run_seconds": "Seconds for the whole run",
    "step_ms": "Milliseconds per batch",
}


def _end_text(source: SessionSource) -> str:
    timing = timing_of(source.snapshot())
    text = f"{source.session.header.workload} {source.status}"
    return f"{text}: {units.band(timing)}" if timing is not None else text
