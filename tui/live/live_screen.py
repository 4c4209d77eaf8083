"""The live screen of one session: throughput, machine and comparison on one time axis."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.worker import Worker

from dlmon.comparison.references import ComparisonRow, Reference
from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import epoch_word, timing_of
from dlmon.figures.comparison.run_rows import SessionComparison
from dlmon.figures.session.phases import reading_text
from dlmon.figures.session.ranks import why_no_ranks
from dlmon.figures.session.session_list import id_with_name
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from tui.drawing.time_axis import WHOLE_RUN, TimeWindow
from tui.live.comparison import ComparisonBars, ComparisonPanel
from tui.live.epochs import EPOCH_ACTIONS, EPOCH_KEYS, EpochLine, EpochTable, EpochZoom
from tui.live.output_pane import OutputPane
from tui.live.session_charts import LossChart, machine_view, newest_metric_text, next_metric
from tui.live.session_lines import BreakdownLine, LimitLine, ProgressLine, TopLine
from tui.machine.help import GPU_TOPICS, MACHINE
from tui.machine.view import MachineView
from tui.messages import NotifyEnd, ShowNodes, TrainAgain
from tui.screens.base import HELP, REFRESH_S, SESSIONS, THEME, hidden, topics_of
from tui.screens.chart_screen import AXIS, CURSOR, METRICS, NEXT_VIEW
from tui.screens.export import EXPORT, ExportControls
from tui.screens.panes import ALONE, PANE_KEYS, PanesScreen
from tui.screens.session_controls import AgainScreen, SessionControls

# An end found within the first two polls is an old one: only the second poll notices that no
# process writes the log.
_POLLS_OF_OLD_END = 2
PROFILED_STEPS = 5


LIVE = Path(__file__).with_name("live.md")
FIRST_STEPS = Path(__file__).with_name("first_steps.md")


LIVE_KEYS: list[BindingType] = [
    Binding("s", "stop", "Stop", tooltip="Stop the training after the current batch; asks first"),
    Binding("d", "detach", "Detach", tooltip="Leave it running without you"),
    Binding("a", "again", "Again", tooltip="Run it again with the same options"),
    Binding("l", "log", "Log", tooltip="All output and notices, over the whole screen"),
    Binding("l,escape", "close_log", "Back", tooltip="Back from the log to the charts"),
    HELP,
    Binding("q", "leave", "Quit", tooltip="Leave it; asks first where the run would stop"),
    NEXT_VIEW,
    Binding("g,f4", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
    Binding("p,f5", "processes", "Processes", tooltip="Show what runs on the machine"),
    Binding("M", "nodes", "Machines", tooltip="Show the machines of the run, a card each"),
    Binding("W", "ranks", "Ranks", tooltip="Show the processes that train together, a row each"),
    *CURSOR,
    ALONE,
    *EPOCH_KEYS,
    Binding("o", "next_part", "Loss", tooltip="Show the loss, or the output in its place"),
    Binding("c", "compare", "Compare", tooltip="Choose what to compare with, and see its details"),
    METRICS,
    EXPORT,
    SESSIONS,
    THEME,
    hidden("a", "stop_and_again", "Again", "Stop, and run it again; asks first"),
    *AXIS,
    *PANE_KEYS,
    hidden("S", "stacks", "Stacks", "Show the line of code that each process is at, now"),
    hidden("P", "profile", "Profile", "Have the framework's own profiler watch the next 5 steps"),
    hidden("y", "fit_axis", "Fit throughput", "Begin its axis above 0, or at 0 again"),
    hidden("O", "next_metric", "Next metric", "Show another metric in place of the loss"),
    hidden(
        "escape",
        "escape",
        "Back to now",
        "Remove the cursor, then follow; go back from a run that is over",
    ),
    hidden("up", "scroll_log(-1)", "Scroll up", "Older output"),
    hidden("down", "scroll_log(1)", "Scroll down", "Newer output"),
    hidden("pageup", "page_log(-1)", "Page up", "Much older output"),
    hidden("pagedown", "page_log(1)", "Page down", "Much newer output"),
    hidden("home", "page_log(-1000)", "Go to start of log", "The oldest output that was kept"),
    hidden("end", "page_log(1000)", "Go to end of log", "Follow the output again"),
    hidden("ctrl+p", "app.command_palette"),
    hidden("ctrl+c,ctrl+q", "leave"),
]

EXPLAINED_ACTIONS = (
    *("stop", "detach", "again", "next_part", "next_metric", "zoom_to_epoch"),
    *("nodes", "ranks", "stacks", "profile", "move_cursor", "next_view", "fit_axis"),
)
"""The actions whose keys, when they can't be done, tell why."""
# The last bindings of these keys: another action with the same key comes first if it can be done.
LIVE_KEYS += [
    hidden(binding.key, f"tell_why('{name}')")
    for binding in Binding.make_bindings(LIVE_KEYS)
    if (name := binding.action.partition("(")[0]) in EXPLAINED_ACTIONS
]

STOPS_SCRIPT = "Interrupt the script as Ctrl-C does; asks first"
"""The tooltip of `s` for a script."""

CHART_ACTIONS = {
    "next_view",
    "zoom_in",
    "zoom_out",
    "pan",
    "move_cursor",
    "go_to_start",
    "go_to_end",
    "follow",
    "fit_axis",
    "escape",
    *EPOCH_ACTIONS,
}
"""The actions of the charts, which the maximized log hides."""

LOG_ACTIONS = {"close_log", "scroll_log", "page_log"}
"""The actions of the maximized log."""


class LowerPane(StrEnum):
    """The panes in the row of the epochs."""

    EPOCHS = "epochs"
    LOSS = "loss"
    OUTPUT = "output"


class LiveScreen(PanesScreen, SessionControls, ExportControls, EpochZoom):
    """A session, live or recorded.

    Args:
        source: the session.
        repeatable: whether the same run can be launched again.
        read_label: returns the present name and note of the session.
        references: the chosen references of workloads.
        turn: the session's number, if it is one of several runs.
    """

    CSS_PATH = "live.tcss"
    ALLOW_IN_MAXIMIZED_VIEW = "TopLine, ProgressLine, PlaybackLine, KeyFooter, TooSmall"
    # The app's breakpoints, and two more for layouts of this screen.
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
        (48, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = LIVE_KEYS

    def __init__(
        self,
        source: SessionSource,
        repeatable: bool = False,
        read_label: Callable[[], Label] = Label,
        references: MutableMapping[str, Reference] | None = None,
        turn: str = "",
    ) -> None:
        super().__init__(source)
        # Before the first painting, the charts are empty frames.
        self.has_content = False
        self._turn = turn
        self._read_label = read_label
        self._comparison = SessionComparison(source, {} if references is None else references)
        self._repeatable = repeatable
        self._second = -1
        self._again_when_stopped = False
        self._polls = 0
        # If a run of ours ended before its screen opened, its end is still news.
        self._was_running = source.running or source.is_ours
        self._catching_up: Worker[None] | None = None
        self._loss, self._output = LossChart(), OutputPane()
        self._chosen_pane: LowerPane | None = None
        self._metric: str | None = None
        self._arranged: tuple[frozenset[str], ...] = ()

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        """The help topics, without those of GPUs if there is none."""
        has_gpus = bool(self._machine_view().gpus)
        topics = topics_of(LIVE, MACHINE)
        return tuple(topic for topic in topics if has_gpus or topic[0] not in GPU_TOPICS)

    @property
    def first_steps(self) -> tuple[tuple[str, str], ...]:
        return topics_of(FIRST_STEPS)

    def name_of_action(self, action: str) -> str:
        if action == "next_part" and (pane := self._next_pane) is not None:
            return pane.capitalize()
        return super().name_of_action(action)

    def tooltip_of_action(self, action: str) -> str:
        if action == "stop" and self._is_script:
            return STOPS_SCRIPT
        return super().tooltip_of_action(action)

    @property
    def _is_script(self) -> bool:
        return self._source.session.header.is_script

    @property
    def shown_session(self) -> SessionSource:
        return self._source

    @property
    def exported_logs(self) -> Sequence[Path]:
        return (self._source.path,)

    def compose_parts(self) -> ComposeResult:
        yield TopLine()
        yield LimitLine()
        yield EpochLine()
        with Container(id="panels"):
            yield self._throughput
            yield ComparisonPanel()
            yield self._machine
            yield EpochTable()
            with Horizontal(id="loss-and-output"):
                yield self._loss
                yield self._output
        yield BreakdownLine()
        yield ProgressLine()

    def on_mount(self) -> None:
        self.set_interval(REFRESH_S, self._on_timer)
        self.call_after_refresh(self.paint)

    def on_resize(self) -> None:
        self.call_after_refresh(self.paint)

    def _on_timer(self) -> None:
        """Tick once a second of the session, which a replay may speed up."""
        second = self._source.second()
        if second != self._second:
            self._second = second
            self.tick()

    def tick(self) -> None:
        """Read new records, and paint if the screen is visible, even below a question."""
        if self._has_left:
            return
        self._source.poll(SLICE_S)
        if self._source.read_share is not None:
            self._catch_up()
        else:
            self._polls += 1
        self.take_refusal()
        self.take_alert()
        if self.is_showing:
            self.paint()
        # The end may have been read between two ticks, while catching up.
        was_running, self._was_running = self._was_running, self._source.running
        if was_running and not self._was_running:
            self._session_ended()

    def _catch_up(self) -> None:
        """Read between ticks, because the log is far ahead, for example after a suspension."""
        if self._catching_up is None or self._catching_up.is_finished:
            self._catching_up = self.run_worker(self._read_on)

    async def _read_on(self) -> None:
        await read_to_end(self._source)
        self.tick()

    def _session_ended(self) -> None:
        """Tell the end, withdraw what can't be done any more, and do what waited for the end."""
        if self._source.is_ours or self._polls > _POLLS_OF_OLD_END:
            self.post_message(NotifyEnd(self, _end_text(self._source)))
        self.refresh_bindings()
        if self.is_active:
            self._leave_or_repeat_if_asked()
        else:
            self.withdraw_question()

    def _leave_or_repeat_if_asked(self) -> None:
        if self._leave_when_stopped:
            self.leave()
        elif self._again_when_stopped:
            self._again_when_stopped = False
            self.action_again()

    def paint(self) -> None:
        """Show the present state of the session."""
        # A resize may come before the parts are mounted, a call after a refresh when we have left.
        if self._has_left or not self.has_parts:
            return
        snapshot = self._source.snapshot()
        reading = reading_text(self._source.read_share)
        self.query_one(TopLine).show(
            snapshot, self._status, reading, self._read_label(), self._source.host, self._turn
        )
        running, problem = self._source.running, self._source.problem
        self.query_one(ProgressLine).show(snapshot, problem, self.is_stopping, reading)
        self.query_one(LimitLine).show(snapshot, running)
        self.paint_epochs(snapshot)
        start = self._source.session.training_start
        self._output.show(snapshot.output, snapshot.notices, running, start, not self._log_is_open)
        status = Status.RUNNING if running else self._source.status
        self.query_one(ComparisonPanel).show(snapshot, self._comparison, status)
        self._show_panes()
        self.paint_charts(snapshot)
        if not self.has_content:
            self.has_content = True
            self.refresh()

    def paint_charts(self, snapshot: Snapshot) -> None:
        has_gpus = bool(machine_view(self._source, snapshot).gpus)
        self.query_one("#panels").set_class(not has_gpus, "-no-gpu")
        super().paint_charts(snapshot)
        self.query_one(BreakdownLine).show(snapshot, self.read_time_ns)
        self._paint_loss(snapshot)

    def _paint_loss(self, snapshot: Snapshot) -> None:
        """Draw the loss on the axis of the other charts, coarser if its chart is narrower."""
        chart, learning = self._loss, self._source.session.learning
        epoch_noun = epoch_word(snapshot.header)
        # Without the chart, the table of epochs shows the metric.
        text = "" if chart.display else newest_metric_text(learning, self._metric, epoch_noun)
        self.query_one(EpochTable).show_newest_metric(text)
        columns = self.plot_columns or chart.plot_columns
        count = min(columns, chart.plot_columns)
        if count < 1 or not chart.display:
            return
        axis = self.window.axis(self.run, count)
        chart.show_metric(
            learning,
            self._metric,
            axis,
            self.empty_picture(snapshot, axis),
            is_running=self._source.running,
            cursor_label=self._cursor_label(axis),
            epoch_noun=epoch_noun,
            shared=self.window.axis(self.run, columns),
        )

    @property
    def _pane_choices(self) -> list[frozenset[LowerPane]]:
        """The sets of lower panes that fit together, in the order in which the key shows them."""
        if any(map(self.has_class, ("-machine-alone", "-tiny", "-low", "-flat"))):
            return [frozenset()]
        panes = [pane for pane in LowerPane if pane not in self.hidden_panes]
        if not self._source.session.has_epochs:
            panes = [pane for pane in panes if pane != LowerPane.EPOCHS]
        epochs = frozenset(panes) & {LowerPane.EPOCHS}
        if self.has_class("-broad"):
            return [frozenset(panes)]
        if self.has_class("-narrow") and epochs:
            return [frozenset({pane}) for pane in panes]
        return [epochs | {pane} for pane in panes if pane != LowerPane.EPOCHS] or [epochs]

    @property
    def _lower_panes(self) -> frozenset[LowerPane]:
        """The lower panes to show, with the chosen one; at first, with the loss if there is one."""
        choices, pane = self._pane_choices, self._chosen_pane
        if pane is None and choices[0] != {LowerPane.EPOCHS}:
            is_learning = bool(self._source.session.learning.names)
            has_loss = is_learning and self._source.status != Status.FAILED
            pane = LowerPane.LOSS if has_loss else LowerPane.OUTPUT
        return next((panes for panes in choices if pane in panes), choices[0])

    @property
    def panes(self) -> tuple[str, ...]:
        if self.has_class("-machine-alone"):
            return ("machine",)
        return ("throughput", "comparison", "machine", *LowerPane)

    def arrange_panes(self) -> None:
        self._show_panes()
        self.call_after_refresh(self.paint)

    @property
    def _log_is_open(self) -> bool:
        return isinstance(self.maximized, OutputPane)

    def _show_panes(self) -> None:
        """Show the panes that are not hidden and fit.

        Set only the styles that differ: a class on the screen would update the styles of every
        widget, and delay the answer to a key.
        """
        cell, epochs = self.query_one("#loss-and-output"), self.query_one(EpochTable)
        widgets = {
            LowerPane.EPOCHS: epochs,
            LowerPane.LOSS: self._loss,
            LowerPane.OUTPUT: self._output,
        }
        maximized = {pane for pane, widget in widgets.items() if widget is self.maximized}
        lower, hidden = self._lower_panes | maximized, self.hidden_panes
        if (lower, hidden) == self._arranged:
            return
        self._arranged = lower, hidden
        has_side = bool(lower - {LowerPane.EPOCHS})
        has_epochs = self._source.session.has_epochs and LowerPane.EPOCHS not in hidden
        panels = self.query_one("#panels")
        panels.set_class(not has_side, "-no-side")
        panels.set_class(not has_epochs, "-no-epochs")
        for name, panel in (
            ("throughput", self._throughput),
            ("comparison", self.query_one(ComparisonPanel)),
            ("machine", self._machine),
        ):
            panels.set_class(name in hidden, f"-no-{name}")
            panel.styles.display = "none" if name in hidden else None
        cell.set_class(not has_epochs, "-without-epochs")
        cell.styles.display = "block" if has_side else "none"
        for pane, widget in widgets.items():
            widget.styles.display = "block" if pane in lower else "none"
        self.refresh_bindings()
        self.call_after_refresh(self.paint)

    @property
    def _next_pane(self) -> LowerPane | None:
        """The pane that the key shows next; None if all are shown, or none fits."""
        choices, panes = self._pane_choices, self._lower_panes
        next_panes = choices[(choices.index(panes) + 1) % len(choices)]
        return next(iter(next_panes - panes), None)

    def action_next_part(self) -> None:
        """Show the next of the lower panes."""
        self._chosen_pane = self._next_pane
        self._show_panes()

    def action_next_metric(self) -> None:
        """Show the next metric in the chart of the loss, and the chart if it was not shown."""
        if not self._pane_choices[0]:
            self.notify("a larger window has room for the loss", severity="warning")
            return
        self._metric = next_metric(self._source.session.learning, self._metric)
        if LowerPane.LOSS not in self._arranged[0]:
            self._chosen_pane = LowerPane.LOSS
            self._show_panes()
        self._paint_loss(self._source.snapshot())

    @property
    def _is_over(self) -> bool:
        return not self._source.running

    @property
    def is_zoomed(self) -> bool:
        """True if a person zoomed to a part of the run."""
        part = self.window.shown_part(self.run, self.plot_columns)
        return self.window.view is not None and part != WHOLE_RUN

    def action_escape(self) -> None:
        """Undo the last choice; if there is none and the run is over, go back."""
        chosen = self.query_one(EpochTable).chosen
        choices = self.window.cursor_ns, self.window.length_ns, chosen
        paused = self.window.is_paused(self.run, self.plot_columns)
        if any(choice is not None for choice in choices) or paused:
            super().action_escape()
        elif self._is_over and self.is_zoomed:
            self._show_window(TimeWindow())
        elif self._is_over and self.has_way_back:
            self.action_leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the actions that can be done now."""
        if action == "tell_why":
            return self.why_not(str(parameters[0])) is not None
        if action in ("again", "stop_and_again"):
            if not self._repeatable or self._again_when_stopped:
                return False
            running = self._source.running
            over = not running and self._source.status != Status.UNKNOWN
            return over if action == "again" else running
        if action == "show_alone" and self.focused is self.query_one(EpochTable):
            # Enter zooms to the chosen epoch.
            return self.query_one(EpochTable).chosen is None
        if action in EPOCH_ACTIONS and not self.can_choose_epoch():
            return False
        if action == "next_part":
            return self.maximized is None and len(self._pane_choices) > 1
        if action == "next_metric":
            return not self._log_is_open and len(self._source.session.learning.names) > 1
        if action == "nodes":
            return bool(self._source.session.nodes)
        if action == "ranks":
            return len(self._source.session.trainers.known) > 1
        if action == "stacks":
            return not self._is_over or bool(self._source.session.stacks.of_processes)
        if action == "profile":
            return not self._is_over or bool(self._source.session.profiles)
        if action == "log" or action in CHART_ACTIONS:
            return not self._log_is_open
        if action in LOG_ACTIONS:
            return self._log_is_open
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Launch the same run again."""
        self.post_message(TrainAgain())

    def action_stop_and_again(self) -> None:
        """Ask whether to stop the session and launch the same run again."""
        header = self.shown_session.session.header
        self.ask(AgainScreen(header, ends_series=bool(self._turn)), self._take_again_answer)

    def _take_again_answer(self, answer: str) -> None:
        if answer != "again":
            return
        if not self._source.running:
            self.action_again()
        elif self.stop():
            self._again_when_stopped = True
            self.refresh_bindings()

    def forget_stop(self) -> None:
        super().forget_stop()
        self._again_when_stopped = False

    def action_gpus(self) -> None:
        from tui.watch.detail_screens import GpusScreen

        self.app.push_screen(GpusScreen(self._machine_view))

    def action_processes(self) -> None:
        from tui.watch.detail_screens import ProcessesScreen

        self.app.push_screen(ProcessesScreen(self._machine_view))

    def action_tell_why(self, action: str) -> None:
        self.notify(self.why_not(action) or "", severity="warning", markup=False)

    def why_not(self, action: str) -> str | None:
        """Return the reason why an action can't be done now, if a person needs it."""
        running, session = self._source.running, self._source.session
        of_charts = {*(CHART_ACTIONS - EPOCH_ACTIONS), "next_part", "next_metric"}
        if self._log_is_open and action in of_charts:
            return "the log has the whole screen: l shows the charts again"
        match action:
            case "nodes":
                return "the run is on one machine: only one on several has machines to show"
            case "ranks":
                return why_no_ranks(session, running)
            case "stacks" | "profile":
                word = "profile" if action == "profile" else "stack"
                return f"the run is over, and no {word} was recorded while it ran"
            case "stop" | "detach":
                return "it is stopping already" if running else "the run is over"
            case "again" if self._again_when_stopped:
                return "it runs again once it has stopped"
            case "again":
                return "it can't be run again from here: type its command again"
            case "next_part":
                return "there is nothing else to show here, or all of it is shown"
            case "next_metric":
                return "no other metric is known"
            case "zoom_to_epoch":
                return "nothing is chosen: Tab chooses a pane"
        return None

    def action_nodes(self) -> None:
        self.post_message(ShowNodes(self._source))

    def action_ranks(self) -> None:
        from tui.live.ranks_screen import RanksScreen

        self.app.push_screen(RanksScreen(self._source))

    def action_metrics(self) -> None:
        from tui.metrics.metrics_screen import MetricsScreen

        name = id_with_name(self._source.session.header.id, self._read_label())
        self.app.push_screen(MetricsScreen([self._source], [name]))

    def action_stacks(self) -> None:
        from tui.live.answer_screens import StacksScreen

        self.app.push_screen(StacksScreen(partial(self._source.ask, {"ask": "stack"})))

    def action_profile(self) -> None:
        """Profile the next steps, and show the result."""
        from tui.live.answer_screens import ProfileScreen

        request = {"ask": "profile", "steps": PROFILED_STEPS}
        self.app.push_screen(ProfileScreen(partial(self._source.ask, request)))

    def action_compare(self) -> None:
        """Show the comparison and the details of its rows on a screen."""
        self._show_comparison(None)

    def on_comparison_bars_row_clicked(self, message: ComparisonBars.RowClicked) -> None:
        """Show the details of the clicked row."""
        self._show_comparison(message.row)

    def _show_comparison(self, chosen: ComparisonRow | None) -> None:
        from tui.live.comparison import ComparisonScreen

        comparison = self._comparison.in_full()
        if all(row.kind == "this" for row in comparison.rows):
            self.notify(comparison.alone() or "nothing to compare with", severity="warning")
        else:
            screen = ComparisonScreen(self._comparison.in_full, chosen, self._comparison.refer_to)
            self.app.push_screen(screen)

    def _machine_view(self) -> MachineView:
        """Return the readings of the machine now or at the end, without a cursor."""
        return machine_view(self._source, self._source.snapshot())

    def action_log(self) -> None:
        """Maximize the output, or show all panes again."""
        if self._log_is_open:
            self.minimize()
        else:
            self.maximize(self._output, container=False)

    def action_close_log(self) -> None:
        self.action_log()

    def action_scroll_log(self, lines: int) -> None:
        self._output.scroll_lines(lines)

    def action_page_log(self, pages: int) -> None:
        """Scroll the output by whole screens."""
        output = self._output
        output.scroll_lines(pages * max(1, output.size.height - 1))

    def show_entries(self, entries: list[SessionEntry]) -> None:
        """Compare with earlier sessions."""
        self._comparison.take_entries(entries)
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        """Show what is new, and do what waited for the end."""
        if not self._source.running:
            self._leave_or_repeat_if_asked()
        self.call_after_refresh(self.tick)

    @property
    def _status(self) -> str:
        return "stopping" if self.is_stopping else self._source.status


def _end_text(source: SessionSource) -> str:
    timing = timing_of(source.snapshot())
    text = f"{source.session.header.workload} {source.status}"
    return f"{text}: {units.band(timing)}" if timing is not None else text
