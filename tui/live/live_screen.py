"""The live screen of one session: throughput, machine and comparison on one time axis."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from dlmon.comparison.references import ComparisonRow, Reference
from dlmon.figures.comparison.run_rows import SessionComparison
from dlmon.figures.lists.session_list import call_text
from dlmon.figures.session.compared_figure import timing_of
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.headline import Headline, headline_of
from dlmon.figures.session.phases import reading_text
from dlmon.figures.session.progress import end_text, failure_text
from dlmon.figures.session.ranks import why_no_ranks
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import FailureKind, Output, Status
from dlmon.session.limits.evidence import NOT_CLEAR, LimitKind, Tone
from dlmon.session.snapshot import Snapshot, is_stalled
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from tui.drawing.time_axis import NO_LABELS, WHOLE_RUN, TimeWindow
from tui.live.comparison import ComparisonBars, ComparisonPanel
from tui.live.epochs import EPOCH_ACTIONS, EPOCH_KEYS, EpochLine, EpochTable, EpochZoom
from tui.live.failure_pane import FailurePane
from tui.live.layout import BROAD, LOWER_PANELS, Panel, Panels, RunContent
from tui.live.log_search import SEARCH_KEYS, LogSearch
from tui.live.output_pane import OutputPane
from tui.live.session_charts import (
    NEED_MEMORY,
    LossChart,
    flat_charts,
    machine_view,
    newest_metric,
    next_metric,
    shown_metric,
)
from tui.live.session_lines import (
    LEAST_VERDICT,
    BreakdownLine,
    LimitLine,
    ProgressLine,
    TopLine,
)
from tui.live.stall_panel import StallPanel
from tui.live.step_panel import StepPanel
from tui.machine.help import GPU_TOPICS, MACHINE
from tui.machine.view import MachineView
from tui.messages import NotifyEnd, ShowNodes, TrainAgain
from tui.screens.base import HELP, PALETTE, REFRESH_S, SESSIONS, THEME, hidden, topics_of
from tui.screens.chart_screen import AXIS, CURSOR, METRICS, NEXT_VIEW
from tui.screens.export import EXPORT
from tui.screens.panes import ALONE, PANE_KEYS, PanesScreen
from tui.screens.session_controls import AgainScreen, SessionControls
from tui.widgets.tables import FollowingLines

# Imported once there is room for it.
if TYPE_CHECKING:
    from tui.machine.process_list import ProcessList

# An end found within the first two polls is an old one: only the second poll notices that no
# process writes the log.
_POLLS_OF_OLD_END = 2
_MANY_EPOCHS = 1_000
_PROFILED_STEPS = 5
_MEND = "mend it, then run it again (a)"
_TYPING_S = 3.0
"""What is typed within this time of an end may still be meant for the script."""
LIVE = Path(__file__).with_name("live.md")

LIVE_KEYS: list[BindingType] = [
    Binding("s", "stop", "Stop", tooltip="Stop the training after the current batch; asks first"),
    Binding("d", "detach", "Detach", tooltip="Leave it running without you"),
    Binding("a", "again", "Again", tooltip="Run it again with the same options"),
    Binding("l", "log", "Log", tooltip="All output and notices, over the whole screen"),
    *SEARCH_KEYS,
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
    Binding("o", "next_part", "Loss", tooltip="Show it in place of another panel"),
    Binding("c", "compare", "Compare", tooltip="Compare it with earlier and published runs"),
    METRICS,
    EXPORT,
    SESSIONS,
    THEME,
    hidden("a", "stop_and_again", "Again", "Stop, and run it again; asks first"),
    *AXIS,
    *PANE_KEYS,
    hidden("S", "stacks", "Stacks", "Show the line that each process is at, now"),
    hidden(
        "P", "profile", "Profile", "Profile the next 5 steps, with the framework's own profiler"
    ),
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
    PALETTE,
    hidden("ctrl+c,ctrl+q", "leave"),
]

STOPS_SCRIPT = "End the script: by SIGTERM if it handles that, else as Ctrl-C does; asks first"
"""The tooltip of `s` for a script."""

CHART_ACTIONS = {
    "fit_axis",
    *EPOCH_ACTIONS,
    *(binding.action.partition("(")[0] for binding in (NEXT_VIEW, *CURSOR, *AXIS)),
}
"""The actions of the charts, which the maximized log or a traceback hides."""

LOG_ACTIONS = {"close_log", "scroll_log", "page_log"}
"""The actions of the maximized log, and those that scroll a traceback."""


class LiveScreen(PanesScreen, SessionControls, LogSearch, EpochZoom):
    """A session, live or recorded; `repeatable` says whether the run can be launched again."""

    CSS_PATH = "live.tcss"
    ALLOW_IN_MAXIMIZED_VIEW = (
        "TopLine, LimitLine, FilterField, ProgressLine, PlaybackLine, KeyFooter, TooSmall"
    )
    # The app's breakpoints, and one more for a low screen.
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-low"),
        (20, "-short"),
        (32, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = LIVE_KEYS
    IS_REPLAY: ClassVar[bool] = False
    """What it shows is past."""

    def __init__(
        self,
        source: SessionSource,
        repeatable: bool = False,
        read_label: Callable[[], Label] = Label,
        references: MutableMapping[str, Reference] | None = None,
    ) -> None:
        super().__init__(source)
        # Until the panels are laid out, nothing is painted.
        self.has_content = False
        self._read_label = read_label
        self._comparison = SessionComparison(source, {} if references is None else references)
        self._repeatable = repeatable
        self._second = -1
        self._ended_at = -_TYPING_S
        self._again_when_stopped = False
        self._polls = 0
        # If a run of ours ended before its screen opened, its end is still news.
        self._was_running = source.running or source.is_ours
        self._loss, self._output = LossChart(), OutputPane(id=Panel.OUTPUT)
        self._second_metric = LossChart(Panel.METRIC, "memory")
        self._failure = FailurePane()
        self._processes: ProcessList | None = None
        self._chosen_panel: Panel | None = None
        self._metric: str | None = None

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        """The help topics, without those of GPUs if there is none."""
        has_gpus = bool(self._machine_view().gpus)
        topics = topics_of(LIVE, MACHINE)
        return tuple(topic for topic in topics if has_gpus or topic[0] not in GPU_TOPICS)

    @property
    def first_steps(self) -> tuple[tuple[str, str], ...]:
        return topics_of(Path(__file__).with_name("first_steps.md"))

    def name_of_action(self, action: str) -> str:
        if action == "next_part" and (panel := self._next_panel) is not None:
            return panel.capitalize()
        return super().name_of_action(action)

    def tooltip_of_action(self, action: str) -> str:
        if action == "stop" and self._source.session.header.is_script:
            return STOPS_SCRIPT
        return super().tooltip_of_action(action)

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
        yield StallPanel()
        with Vertical():
            yield self._failure
            with Panels(id="panels"):
                yield self._throughput
                yield ComparisonPanel()
                yield StepPanel(id=Panel.STEP)
                yield self._machine
                yield EpochTable(id=Panel.EPOCHS)
                yield self._loss
                yield self._second_metric
                yield self._output
        yield BreakdownLine()
        yield self.filter_field
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
            # The log is far ahead, for example after a suspension: read between ticks, too.
            self.run_worker(self._read_on, group="reading", exclusive=True)
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

    async def _read_on(self) -> None:
        await read_to_end(self._source)
        self.tick()

    def _session_ended(self) -> None:
        """Tell the end, withdraw what can't be done any more, and do what waited for the end."""
        is_failed_script = (
            self._source.session.header.is_script and self._source.status == Status.FAILED
        )
        if self._polls > _POLLS_OF_OLD_END and is_failed_script:
            self._ended_at = time.monotonic()
        if self._source.is_ours or self._polls > _POLLS_OF_OLD_END:
            self.post_message(
                NotifyEnd(self, end_text(self._source.snapshot(), self._source.status))
            )
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
            self._run_again()

    def paint(self) -> None:
        # A resize may come before the parts are mounted, a call after a refresh when we have left.
        if self._has_left or not self.has_parts:
            return
        snapshot = self._source.snapshot()
        reading = reading_text(self._source.read_share)
        status = "stopping" if self.is_stopping else self._source.status
        running, problem = self._source.running, self._source.problem
        headline = self._headline(snapshot, problem)
        of_run = self._read_label(), self._source.host, headline, self.IS_REPLAY
        self.query_one(TopLine).show(snapshot, status, reading, *of_run)
        self.query_one(ProgressLine).show(snapshot, problem, reading, headline, self.IS_REPLAY)
        limit, verdict = self.query_one(LimitLine), self._verdict(snapshot, headline)
        limit.show(headline, verdict)
        self.query_one(StallPanel).show(snapshot, headline)
        self.paint_epochs(snapshot)
        start = self._source.session.training_start
        self._output.begin_ns = self._source.session.header.t if self._log_is_open else None
        printed = self._printed(snapshot)
        self._output.show(printed, snapshot.notices, running, start, not self._log_is_open)
        status = Status.RUNNING if running else self._source.status
        # A verdict compares already.
        is_said = bool(verdict) and limit.size.height > LEAST_VERDICT
        self.query_one(ComparisonPanel).show(snapshot, self._comparison, status, is_said)
        steady = self._source.session.loops.longest.steady
        self.query_one(StepPanel).show(snapshot, steady, self._comparison.account_before)
        self._arrange(snapshot)
        self.paint_charts(snapshot)

    def _headline(self, snapshot: Snapshot, problem: str | None) -> Headline | None:
        """Return the headline, with how far a run is behind its device and the key of a next one.

        The first is said if no limit is clear.
        """
        running, status = self._source.running, self._source.status
        headline = headline_of(snapshot, running, status, problem)
        result = snapshot.result
        if headline is None:
            return None
        if result is not None and result.failure == FailureKind.EXCEPTION and self._repeatable:
            return replace(headline, advice=headline.advice or _MEND)
        if headline.rule != NOT_CLEAR:
            return headline
        first, *more = headline.reasons
        slower = self._comparison.in_short(snapshot).far_slower()
        return replace(headline, reasons=(first, *filter(None, [slower]), *more))

    def _verdict(self, snapshot: Snapshot, headline: Headline | None) -> tuple[str, ...]:
        """Return the status of a run that ended well, its figure, and how that compares."""
        if self._source.running or headline is None or headline.tone is Tone.BAD:
            return ()
        texts = self._comparison.in_short(snapshot).verdict()
        if not texts:
            return ()
        learning, epoch_noun = self._source.session.learning, epoch_word(snapshot.header)
        metric = newest_metric(learning, None, epoch_noun)[:1]
        return (self._source.status.upper(), *texts, *metric)

    def _on_panels_laid_out(self) -> None:
        """Paint the panels in their new sizes, and from the first time on, show them."""
        self.paint()
        if not self.has_content:
            self.has_content = True
            self.refresh()

    def paint_charts(self, snapshot: Snapshot) -> None:
        super().paint_charts(snapshot)
        # Below the maximized log, which hides this line too, no panel is shown.
        with_step = Panel.STEP not in self._panels.shown and not self._log_is_open
        self.query_one(BreakdownLine).show(snapshot, self.read_time_ns, with_step)
        self._paint_loss(snapshot)

    def _paint_loss(self, snapshot: Snapshot) -> None:
        """Draw the loss on the axis of the other charts, coarser if its chart is narrower."""
        chart, learning = self._loss, self._source.session.learning
        epoch_noun = epoch_word(snapshot.header)
        # Without the chart, the table of epochs shows the metric.
        texts = () if chart.display else newest_metric(learning, self._metric, epoch_noun)
        self.query_one(EpochTable).show_newest_metric(texts)
        columns = self.plot_columns or chart.plot_columns
        first, second = shown_metric(learning, self._metric), next_metric(learning, self._metric)
        second = second if self._second_metric.display else None
        for shown, name, beside in (chart, first, second), (self._second_metric, second, first):
            count = min(columns, shown.plot_columns)
            if count < 1 or not shown.display:
                continue
            shared = self.window.axis(self.run, columns)
            axis = shared if count == columns else shared.in_columns(count)
            # In the column of the other charts, the lowest one has them.
            has_times = shown is not chart or not self._loss_is_below_charts
            shown.show_metric(
                learning,
                name,
                axis,
                self.empty_picture(snapshot, axis),
                is_running=self._source.running,
                cursor_label=self._cursor_label(axis),
                epoch_noun=epoch_noun,
                shared=shared,
                times=self._times(axis) if has_times else NO_LABELS,
                beside=beside,
            )

    @property
    def _loss_is_below_charts(self) -> bool:
        regions = [self._panels.shown.get(panel) for panel in (Panel.LOSS, Panel.MACHINE)]
        return all(regions) and len({region and region.x for region in regions}) == 1

    @property
    def panes(self) -> tuple[str, ...]:
        if self.has_class("-machine-alone"):
            return ("machine",)
        without = {Panel.PROCESSES} if self._processes is None else set()
        if self.size.width < BROAD or len(self._source.session.learning.names) < 2:
            without.add(Panel.METRIC)
        return tuple(panel for panel in Panel if panel not in without)

    def arrange_panes(self) -> None:
        self._arrange(self._source.snapshot())

    @property
    def _has_charts(self) -> bool:
        """True unless the log or the traceback of a failure has all of the room."""
        return not self._log_is_open and not self._failure.replaces_charts

    @property
    def _scrolled_pane(self) -> FollowingLines:
        return self._output if self._log_is_open else self._failure

    @property
    def _log_is_open(self) -> bool:
        return isinstance(self.maximized, OutputPane)

    def _printed(self, snapshot: Snapshot) -> tuple[Output, ...]:
        """Return the output to show, which needn't repeat what is shown of a failure."""
        if self._log_is_open or snapshot.result is None:
            return snapshot.output
        # Most runs don't fail, so this would only delay their first paint.
        from dlmon.figures.session.failure import printed_besides

        return printed_besides(snapshot)

    def _arrange(self, snapshot: Snapshot) -> None:
        session, running = self._source.session, self._source.running
        if self._failure.show(snapshot, session.learning, self._panels):
            self.call_after_refresh(self.paint)
        progress, epochs = snapshot.progress, len(snapshot.epochs) * session.has_epochs
        if running and epochs and progress is not None:
            # The table grows ahead of the epochs, and not with each.
            epochs = max(epochs, min(progress.epochs or _MANY_EPOCHS, 2 << epochs.bit_length()))
        is_recording = self.has_class("-machine-alone")
        lines = len(self._printed(snapshot)) + len(snapshot.notices)
        if running and lines:
            # The panel grows ahead of the lines, too.
            lines = 1 << lines.bit_length()
        machine = machine_view(self._source, snapshot)
        failed, result = failure_text(snapshot) is not None, snapshot.result
        # How steps were doesn't matter where none ends, or where they are of no use.
        has_stalled = running and is_stalled(snapshot.overdue_s, snapshot.regular_steps)
        is_useless = snapshot.limit is not None and snapshot.limit.kind is LimitKind.LOSS
        content = RunContent(
            trains=not is_recording and (running or snapshot.batches > 0),
            gpus=sum(not machine.is_unread(gpu) for gpu in machine.gpus),
            bars=self.query_one(ComparisonPanel).bars,
            step_rows=0 if has_stalled or is_useless else self.query_one(StepPanel).count,
            has_loss=bool(session.learning.names),
            has_metric=len(session.learning.names) > 1,
            epochs=epochs,
            output_lines=0 if is_recording else lines,
            is_running=running,
            has_begun=snapshot.batches > 0 or not running,
            has_figure=running or timing_of(snapshot) is not None,
            has_processes=self._show_processes(snapshot),
            has_machine=snapshot.machine is not None or (running and not snapshot.batches),
            has_failed=failed,
            needs_memory=failed and result is not None and result.failure in NEED_MEMORY,
            has_stalled=has_stalled,
            flat=flat_charts(session),
            hidden=self.hidden_panes,
            first=self._chosen_panel,
        )
        if self._panels.show(content, self.maximized):
            self.refresh_bindings()
            self.call_after_refresh(self._on_panels_laid_out)

    def _show_processes(self, snapshot: Snapshot) -> bool:
        """Show the processes that were read while a run goes on; return whether there are any."""
        has_any = self._source.running and bool(snapshot.machine and snapshot.machine.processes)
        if has_any and self._processes is None:
            from tui.machine.process_list import ProcessList

            self._processes = ProcessList(id=Panel.PROCESSES)
            self._panels.mount(self._processes)
        if has_any and self._processes is not None and self._processes.is_attached:
            self._processes.show(machine_view(self._source, snapshot))
        return has_any

    @property
    def _panels(self) -> Panels:
        return self.query_one(Panels)

    @property
    def _next_panel(self) -> Panel | None:
        """The panel without room that the key shows next; None if all are shown."""
        left_out = [panel for panel in LOWER_PANELS if panel in self._panels.left_out]
        chosen = self._chosen_panel
        after = LOWER_PANELS.index(chosen) if chosen is not None else 0
        later = (panel for panel in left_out if LOWER_PANELS.index(panel) > after)
        return next(later, left_out[0] if left_out else None)

    def action_next_part(self) -> None:
        self._chosen_panel = self._next_panel
        self.arrange_panes()

    def action_next_metric(self) -> None:
        """Show the next metric in the chart of the loss, and the chart if it was not shown."""
        self._metric = next_metric(self._source.session.learning, self._metric)
        if Panel.LOSS in self._panels.left_out:
            self._chosen_panel = Panel.LOSS
            self.arrange_panes()
        self._paint_loss(self._source.snapshot())

    @property
    def _is_over(self) -> bool:
        return not self._source.running

    def action_escape(self) -> None:
        """Undo the last choice; if there is none and the run is over, go back."""
        chosen = self.query_one(EpochTable).chosen
        choices = self.window.cursor_ns, self.window.length_ns, chosen
        of_charts = self.run, self.plot_columns
        is_zoomed = self.window.view and self.window.shown_part(*of_charts) != WHOLE_RUN
        if any(choice is not None for choice in choices) or self.window.is_paused(*of_charts):
            super().action_escape()
        elif self._is_over and is_zoomed:
            self._show_window(TimeWindow())
        elif self._is_over and self.has_way_back:
            self.action_leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
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
            return self.maximized is None and self._has_charts and self._next_panel is not None
        if action == "next_metric":
            return self._has_charts and len(self._source.session.learning.names) > 1
        if action == "nodes":
            return bool(self._source.session.nodes)
        if action == "ranks":
            return len(self._source.session.trainers.known) > 1
        if action == "stacks":
            return not self._is_over or bool(self._source.session.stacks.of_processes)
        if action == "profile":
            return not self._is_over or bool(self._source.session.profiles)
        if action == "log":
            return not self._log_is_open
        if action in CHART_ACTIONS:
            return self._has_charts
        if action in LOG_ACTIONS:
            return self._log_is_open or (action != "close_log" and self._scrolled_pane.scrolls)
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Run it again, unless it ended under the fingers of somebody who types for the script."""
        if time.monotonic() - self._ended_at < _TYPING_S:
            self.notify("it has just ended: press a once more in a few seconds to run it again")
        else:
            self._run_again()

    def _run_again(self) -> None:
        self.post_message(TrainAgain())

    def action_stop_and_again(self) -> None:
        """Ask whether to stop the session and launch the same run again."""
        header = self.shown_session.session.header
        self.ask(AgainScreen(header), self._take_again_answer)

    def _take_again_answer(self, answer: str) -> None:
        if answer != "again":
            return
        if not self._source.running:
            self._run_again()
        elif self.stop():
            self._again_when_stopped = True
            self.refresh_bindings()

    def forget_stop(self) -> None:
        super().forget_stop()
        self._again_when_stopped = False

    def action_gpus(self) -> None:
        from tui.watch.detail_screens import GpusScreen

        self.app.push_screen(GpusScreen(lambda: self.charted_view(self._source.snapshot())))

    def action_processes(self) -> None:
        from tui.watch.processes_screen import ProcessesScreen

        self.app.push_screen(ProcessesScreen(self._machine_view))

    def why_not(self, action: str) -> str | None:
        running, session = self._source.running, self._source.session
        of_charts = {*(CHART_ACTIONS - EPOCH_ACTIONS), "next_part", "next_metric"}
        if self._log_is_open and action in of_charts:
            return "the log has the whole screen: l shows the charts again"
        if not self._has_charts and action in of_charts:
            return "a larger window has room for the charts"
        match action:
            case "nodes":
                return "this run is on one machine"
            case "ranks":
                return why_no_ranks(session, running)
            case "stacks" | "profile":
                word = "profile" if action == "profile" else "stack"
                return f"the run is over, and no {word} was recorded while it ran"
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
        return super().why_not(action)

    def action_nodes(self) -> None:
        self.post_message(ShowNodes(self._source))

    def action_ranks(self) -> None:
        from tui.live.ranks_screen import RanksScreen

        self.app.push_screen(RanksScreen(self._source))

    def action_metrics(self) -> None:
        from tui.metrics.metrics_screen import MetricsScreen

        name = self._read_label().name or call_text(self._source.session.header)
        self.app.push_screen(MetricsScreen([self._source], [name]))

    def action_stacks(self) -> None:
        from tui.live.answer_screens import StacksScreen

        self.app.push_screen(StacksScreen(self._source))

    def action_profile(self) -> None:
        from tui.live.answer_screens import ProfileScreen

        request = {"ask": "profile", "steps": _PROFILED_STEPS}
        self.app.push_screen(ProfileScreen(self._source, request))

    def action_compare(self) -> None:
        """Show the comparison and the details of its rows on a screen."""
        self._show_comparison(None)

    def on_comparison_bars_row_clicked(self, message: ComparisonBars.RowClicked) -> None:
        self._show_comparison(message.row)

    def _show_comparison(self, chosen: ComparisonRow | None) -> None:
        from tui.live.comparison_screen import ComparisonScreen

        comparison = self._comparison.in_full()
        if all(row.kind == "this" for row in comparison.rows):
            self.notify(comparison.alone() or "nothing to compare with", severity="warning")
        else:
            get_comparison, refer_to = self._comparison.in_full, self._comparison.refer_to
            screen = ComparisonScreen(get_comparison, self._source.path, chosen, refer_to)
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
        self.end_search()
        self.action_log()

    def action_search(self) -> None:
        if not self._log_is_open:
            self.action_log()
        super().action_search()

    def action_scroll_log(self, lines: int) -> None:
        self._scrolled_pane.scroll_lines(lines)

    def action_page_log(self, pages: int) -> None:
        """Scroll the output, or the traceback, by whole screens."""
        self._scrolled_pane.scroll_pages(pages)

    def show_entries(self, entries: list[SessionEntry]) -> None:
        self._comparison.take_entries(entries)
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        """Show what is new, and do what waited for the end."""
        if not self._source.running:
            self._leave_or_repeat_if_asked()
        self.call_after_refresh(self.tick)
