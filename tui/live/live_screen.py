"""The live screen of one session: throughput, hardware and comparison on one time axis."""

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
from dlmon.figures.session.session_list import called
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from tui.drawing.time_axis import WHOLE_RUN, TimeWindow
from tui.live.comparison import ComparisonBars, ComparisonPanel
from tui.live.epochs import EPOCH_ACTIONS, EPOCH_KEYS, EpochLine, EpochTable, EpochZoom
from tui.live.output_pane import OutputPane
from tui.live.session_charts import LossChart, learned_text, machine_view, next_metric
from tui.live.session_lines import AccountLine, LimitLine, ProgressLine, TopLine
from tui.machine.help import GPU_TOPICS, MACHINE
from tui.machine.view import MachineView
from tui.messages import ShowNodes, TellEnd, TrainAgain
from tui.screens.base import HELP, REFRESH_S, SESSIONS, THEME, hidden, topics_of
from tui.screens.chart_screen import AXIS, CURSOR, METRICS, NEXT_VIEW
from tui.screens.export import EXPORT, ExportControls
from tui.screens.panes import ALONE, PANE_KEYS, PanesScreen
from tui.screens.session_controls import AgainScreen, SessionControls

# An end that the first polls find lies in the past: the second one finds that nobody writes.
_POLLS_TO_KNOW = 2
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

SAID = (
    *("stop", "detach", "again", "next_part", "next_metric", "zoom_to_epoch"),
    *("nodes", "ranks", "stacks", "profile", "move_cursor", "next_view", "fit_axis"),
)
"""The actions of which a person is told why they can't be done."""
# Where another action has the same key and can be done, that one is.
LIVE_KEYS += [
    hidden(binding.key, f"tell_why('{name}')")
    for binding in Binding.make_bindings(LIVE_KEYS)
    if (name := binding.action.partition("(")[0]) in SAID
]

STOPS_SCRIPT = "Interrupt the script as Ctrl-C does; asks first"
"""What `s` does to a person's own script."""

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
"""What there is to do in the charts only."""

LOG_ACTIONS = {"close_log", "scroll_log", "page_log"}
"""What there is to do in the log only."""


class Part(StrEnum):
    """What may stand in the row of the epochs."""

    EPOCHS = "epochs"
    LOSS = "loss"
    OUTPUT = "output"


class LiveScreen(PanesScreen, SessionControls, ExportControls, EpochZoom):
    """A session as it happens, or as it was."""

    CSS_PATH = "live.tcss"
    ALLOW_IN_MAXIMIZED_VIEW = "TopLine, ProgressLine, PlaybackLine, KeyFooter, TooSmall"
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
        """Take the session; nothing is read before the screen is mounted.

        Args:
            source: the session.
            repeatable: whether the same can be launched once more.
            read_label: returns what it is called now, and its note.
            references: what each workload is compared with, as it was chosen.
            turn: which of several runs it is, of one that is one of several.
        """
        super().__init__(source)
        # Until it is painted once, its charts are empty frames.
        self.has_content = False
        self._turn = turn
        self._read_label = read_label
        self._comparison = SessionComparison(source, {} if references is None else references)
        self._repeatable = repeatable
        self._second = -1
        self._again_when_stopped = False
        self._polls = 0
        # One of ours that was over before its screen was there ended for the person, too.
        self._was_running = source.running or source.is_ours
        self._catching_up: Worker[None] | None = None
        self._loss, self._output = LossChart(), OutputPane()
        self._part: Part | None = None
        self._metric: str | None = None
        self._arranged: tuple[frozenset[str], ...] = ()

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        """What `?` explains; nothing of GPUs where there is none."""
        has_gpus = bool(self._look_at_machine().gpus)
        topics = topics_of(LIVE, MACHINE)
        return tuple(topic for topic in topics if has_gpus or topic[0] not in GPU_TOPICS)

    @property
    def first_steps(self) -> tuple[tuple[str, str], ...]:
        return topics_of(FIRST_STEPS)

    def name_of_action(self, action: str) -> str:
        """Return what one of the screen's keys does now, where that differs from its name."""
        if action == "next_part" and (part := self._next_part) is not None:
            return part.capitalize()
        return super().name_of_action(action)

    def tooltip_of_action(self, action: str) -> str:
        """Return what one of the screen's keys does, where that differs from its tooltip."""
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
        yield AccountLine()
        yield ProgressLine()

    def on_mount(self) -> None:
        """Start the one timer that reads and paints."""
        self.set_interval(REFRESH_S, self._on_timer)
        self.call_after_refresh(self.paint)

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self.paint)

    def _on_timer(self) -> None:
        """Tick with each new second of the session."""
        second = self._source.second()
        if second != self._second:
            self._second = second
            self.tick()

    def tick(self) -> None:
        """Read what is new, and paint it where it can be seen, be it behind a question."""
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
        # The end may have been read between two ticks, while we caught up.
        was_running, self._was_running = self._was_running, self._source.running
        if was_running and not self._was_running:
            self._session_ended()

    def _catch_up(self) -> None:
        """Read on between the ticks: the log is far ahead, as after a suspension."""
        if self._catching_up is None or self._catching_up.is_finished:
            self._catching_up = self.run_worker(self._read_on)

    async def _read_on(self) -> None:
        await read_to_end(self._source)
        self.tick()

    def _session_ended(self) -> None:
        """Offer no more what is over, and leave if only its end was waited for."""
        if self._source.is_ours or self._polls > _POLLS_TO_KNOW:
            self.post_message(TellEnd(self, _end_text(self._source)))
        self.refresh_bindings()
        if self.is_active:
            self._do_what_waited_for_the_end()
        else:
            self.withdraw_question()

    def _do_what_waited_for_the_end(self) -> None:
        if self._leave_when_stopped:
            self.leave()
        elif self._again_when_stopped:
            self._again_when_stopped = False
            self.action_again()

    def paint(self) -> None:
        """Show the session as it stands."""
        # The first resize may come before there is anything to paint, and a call after a refresh
        # when the screen was taken off.
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
        self._share_row()
        self.paint_charts(snapshot)
        if not self.has_content:
            self.has_content = True
            self.refresh()

    def paint_charts(self, snapshot: Snapshot) -> None:
        """Draw the charts, and say where the time went and what the cursor is on."""
        has_gpus = bool(machine_view(self._source, snapshot).gpus)
        self.query_one("#panels").set_class(not has_gpus, "-no-gpu")
        super().paint_charts(snapshot)
        self.query_one(AccountLine).show(snapshot, self.read_time_ns)
        self._paint_loss(snapshot)

    def _paint_loss(self, snapshot: Snapshot) -> None:
        """Draw the loss on the axis of the other charts; where it is narrower, on one like it."""
        chart, learning = self._loss, self._source.session.learning
        each = epoch_word(snapshot.header)
        # Where the chart has no room, the epochs say how training stands.
        learned = learned_text(learning, self._metric, each)
        self.query_one(EpochTable).show_learned("" if chart.display else learned)
        columns = self.plot_columns or chart.plot_columns
        count = min(columns, chart.plot_columns)
        if count < 1 or not chart.display:
            return
        axis = self.window.axis(self.run, count)
        chart.show_metric(
            learning,
            self._metric,
            axis,
            self.under_line(snapshot, axis),
            is_running=self._source.running,
            cursor_label=self._cursor_label(axis),
            each=each,
            shared=self.window.axis(self.run, columns),
        )

    @property
    def _offered(self) -> list[frozenset[Part]]:
        """What of epochs, loss and output has room together, in the order of the key."""
        if any(map(self.has_class, ("-machine-alone", "-tiny", "-low", "-flat"))):
            return [frozenset()]
        left = [part for part in Part if part not in self.hidden_panes]
        if not self._source.session.has_epochs:
            left = [part for part in left if part != Part.EPOCHS]
        epochs = frozenset(left) & {Part.EPOCHS}
        if self.has_class("-broad"):
            return [frozenset(left)]
        if self.has_class("-narrow") and epochs:
            return [frozenset({part}) for part in left]
        return [epochs | {part} for part in left if part != Part.EPOCHS] or [epochs]

    @property
    def _parts(self) -> frozenset[Part]:
        """What is shown of epochs, loss and output: at first the loss where one is known."""
        offered, wanted = self._offered, self._part
        if wanted is None and offered[0] != {Part.EPOCHS}:
            is_learning = bool(self._source.session.learning.names)
            has_loss = is_learning and self._source.status != Status.FAILED
            wanted = Part.LOSS if has_loss else Part.OUTPUT
        return next((parts for parts in offered if wanted in parts), offered[0])

    @property
    def panes(self) -> tuple[str, ...]:
        """What can be hidden; of a machine that was recorded alone there is nothing else."""
        if self.has_class("-machine-alone"):
            return ("machine",)
        return ("throughput", "comparison", "machine", *Part)

    def arrange_panes(self) -> None:
        self._share_row()
        self.call_after_refresh(self.paint)

    @property
    def _log_is_open(self) -> bool:
        """Whether the output is shown alone."""
        return isinstance(self.maximized, OutputPane)

    def _share_row(self) -> None:
        """Show what is not hidden, and what has room of epochs, loss and output.

        By the few styles that differ: a class on the screen would have every widget's looked up
        again, and a key answered late.
        """
        cell, epochs = self.query_one("#loss-and-output"), self.query_one(EpochTable)
        parts = {Part.EPOCHS: epochs, Part.LOSS: self._loss, Part.OUTPUT: self._output}
        alone = {part for part, widget in parts.items() if widget is self.maximized}
        shown, hidden = self._parts | alone, self.hidden_panes
        if (shown, hidden) == self._arranged:
            return
        self._arranged = shown, hidden
        has_side = bool(shown - {Part.EPOCHS})
        has_epochs = self._source.session.has_epochs and Part.EPOCHS not in hidden
        panels = self.query_one("#panels")
        panels.set_class(not has_side, "-no-side")
        panels.set_class(not has_epochs, "-no-epochs")
        for name, widget in (
            ("throughput", self._throughput),
            ("comparison", self.query_one(ComparisonPanel)),
            ("machine", self._machine),
        ):
            panels.set_class(name in hidden, f"-no-{name}")
            widget.styles.display = "none" if name in hidden else None
        cell.set_class(
            Part.EPOCHS in hidden or not self._source.session.has_epochs, "-without-epochs"
        )
        cell.styles.display = "block" if has_side else "none"
        for part, pane in parts.items():
            pane.styles.display = "block" if part in shown else "none"
        self.refresh_bindings()
        self.call_after_refresh(self.paint)

    @property
    def _next_part(self) -> Part | None:
        """What the key shows next; None where all is shown, or nothing can be."""
        offered, shown = self._offered, self._parts
        after = offered[(offered.index(shown) + 1) % len(offered)]
        return next(iter(after - shown), None)

    def action_next_part(self) -> None:
        """Show the loss, the output, or where there is little room the epochs."""
        self._part = self._next_part
        self._share_row()

    def action_next_metric(self) -> None:
        """Show another metric in place of the loss, and where that is hidden, show it again."""
        if not self._offered[0]:
            self.notify("a larger window has room for the loss", severity="warning")
            return
        self._metric = next_metric(self._source.session.learning, self._metric)
        if Part.LOSS not in self._arranged[0]:
            self._part = Part.LOSS
            self._share_row()
        self._paint_loss(self._source.snapshot())

    @property
    def _is_over(self) -> bool:
        """Whether nothing more comes: whoever leaves stops nothing."""
        return not self._source.running

    @property
    def is_zoomed(self) -> bool:
        """Whether a person chose to see a part of the run alone."""
        part = self.window.shown_part(self.run, self.plot_columns)
        return self.window.view is not None and part != WHOLE_RUN

    def action_escape(self) -> None:
        """Undo the last thing; of a run that is over, where there is nothing to undo, go back."""
        chosen = self.query_one(EpochTable).chosen
        looked = self.window.cursor_ns, self.window.length_ns, chosen
        paused = self.window.is_paused(self.run, self.plot_columns)
        if any(one is not None for one in looked) or paused:
            super().action_escape()
        elif self._is_over and self.is_zoomed:
            self._show_window(TimeWindow())
        elif self._is_over and self.has_way_back:
            self.action_leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what there is to do now."""
        if action == "tell_why":
            return self.why_not(str(parameters[0])) is not None
        if action in ("again", "stop_and_again"):
            if not self._repeatable or self._again_when_stopped:
                return False
            running = self._source.running
            over = not running and self._source.status != Status.UNKNOWN
            return over if action == "again" else running
        if action == "show_alone" and self.focused is self.query_one(EpochTable):
            # Enter shows the epoch that was chosen in it.
            return self.query_one(EpochTable).chosen is None
        if action in EPOCH_ACTIONS and not self.can_choose_epoch():
            return False
        if action == "next_part":
            return self.maximized is None and len(self._offered) > 1
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
        """Launch the same once more."""
        self.post_message(TrainAgain())

    def action_stop_and_again(self) -> None:
        """Ask whether the session is to stop, and the same to be launched then."""
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

        self.app.push_screen(GpusScreen(self._look_at_machine))

    def action_processes(self) -> None:
        from tui.watch.detail_screens import ProcessesScreen

        self.app.push_screen(ProcessesScreen(self._look_at_machine))

    def action_tell_why(self, action: str) -> None:
        """Say why a key does nothing."""
        self.notify(self.why_not(action) or "", severity="warning", markup=False)

    def why_not(self, action: str) -> str | None:
        """Return why an action can't be done now; None where nobody needs to be told."""
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
        """Show every metric, the throughput and the machine in charts."""
        from tui.metrics.metrics_screen import MetricsScreen

        name = called(self._source.session.header.id, self._read_label())
        self.app.push_screen(MetricsScreen([self._source], [name]))

    def action_stacks(self) -> None:
        """Show the stack of every process of the run."""
        from tui.live.answer_screens import StacksScreen

        self.app.push_screen(StacksScreen(partial(self._source.ask, {"ask": "stack"})))

    def action_profile(self) -> None:
        """Have the next steps profiled, and show which operations took the time."""
        from tui.live.answer_screens import ProfileScreen

        request = {"ask": "profile", "steps": PROFILED_STEPS}
        self.app.push_screen(ProfileScreen(partial(self._source.ask, request)))

    def action_compare(self) -> None:
        """Show the comparison over the whole screen, and what is known of its rows."""
        self._show_comparison(None)

    def on_comparison_bars_pointed(self, message: ComparisonBars.Pointed) -> None:
        """Show what is known of the row that was clicked."""
        self._show_comparison(message.row)

    def _show_comparison(self, chosen: ComparisonRow | None) -> None:
        from tui.live.comparison import ComparisonScreen

        comparison = self._comparison.in_full()
        if all(row.kind == "this" for row in comparison.rows):
            self.notify(comparison.alone() or "nothing to compare with", severity="warning")
        else:
            screen = ComparisonScreen(self._comparison.in_full, chosen, self._comparison.refer_to)
            self.app.push_screen(screen)

    def _look_at_machine(self) -> MachineView:
        """Return the machine as it is now, or was at the end, wherever the cursor is."""
        return machine_view(self._source, self._source.snapshot())

    def action_log(self) -> None:
        """Show the output alone, or all again."""
        if self._log_is_open:
            self.minimize()
        else:
            self.maximize(self._output, container=False)

    def action_close_log(self) -> None:
        """Give the room back to the charts."""
        self.action_log()

    def action_scroll_log(self, lines: int) -> None:
        self._output.scroll_lines(lines)

    def action_page_log(self, pages: int) -> None:
        """Scroll the output by whole screens."""
        output = self._output
        output.scroll_lines(pages * max(1, output.size.height - 1))

    def show_entries(self, entries: list[SessionEntry]) -> None:
        """Compare with the sessions that were recorded before."""
        self._comparison.take_entries(entries)
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        """Show what came under another screen, and do what waited for the end."""
        if not self._source.running:
            self._do_what_waited_for_the_end()
        self.call_after_refresh(self.tick)

    @property
    def _status(self) -> str:
        return "stopping" if self.is_stopping else self._source.status


def _end_text(source: SessionSource) -> str:
    timing = timing_of(source.snapshot())
    text = f"{source.session.header.workload} {source.status}"
    return f"{text}: {units.band(timing)}" if timing is not None else text
