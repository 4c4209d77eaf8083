"""The live screen of one session: throughput, hardware and comparison on one time axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.worker import Worker

from dlmon.comparison.compare import ComparisonRow
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from tui.drawing.time_window import TimeWindow, View
from tui.formatting import units
from tui.formatting.comparison import (
    EARLIER_SESSIONS,
    MOST_EARLIER,
    Reference,
    busy_said_once,
    comparison_rows,
    earlier_sessions,
    epoch_word,
    factor_of_nearest,
    factor_of_reference,
    factor_of_run_before,
    how_to_match,
    metric_of,
    row_of,
    run_names,
    timing_of,
)
from tui.formatting.glyphs import glyphs_in_use
from tui.formatting.learning import newest_texts
from tui.formatting.reading import reading_text
from tui.formatting.validity import in_doubt
from tui.live import (
    account_line,
    epoch_headline,
    epoch_table,
    limit_line,
    loss_chart,
    output_pane,
    progress_line,
    time_charts,
    top_line,
)
from tui.live import comparison_bars as bars
from tui.live.account_line import AccountLine
from tui.live.comparison_bars import ComparisonBars, bar_rows, is_logarithmic
from tui.live.epoch_headline import EpochHeadline
from tui.live.epoch_line import EpochLine
from tui.live.epoch_table import EpochTable
from tui.live.epoch_zoom import EPOCH_ACTIONS, EPOCH_KEYS, EpochZoom
from tui.live.limit_line import LimitLine
from tui.live.loss_chart import next_metric, shown_metric
from tui.live.output_pane import OutputPane
from tui.live.progress_line import ProgressLine
from tui.live.side_cell import Part, Room, SideCell, part_after, parts_shown
from tui.live.time_charts import machine_view
from tui.live.top_line import TopLine
from tui.machine.charts import MACHINE_HELP, OF_GPUS
from tui.machine.view import MachineView
from tui.screens.base import HELP, REFRESH_S, SESSIONS, THEME, BaseScreen, hidden
from tui.screens.export import EXPORT, ExportControls
from tui.screens.session_controls import SessionControls
from tui.screens.stop import AgainScreen

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
    "fit_axis",
    "escape",
    *EPOCH_ACTIONS,
}
_IN_LOG = {"close_log", "scroll_log", "page_log"}


# An end that the first polls find lies in the past: the second one finds that nobody writes.
_POLLS_TO_KNOW = 2


class LiveScreen(SessionControls, ExportControls, EpochZoom):
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
        *EPOCH_KEYS,
        Binding("o", "next_part", "Loss", tooltip="Show the loss, or the output in its place"),
        Binding(
            "c", "compare", "Compare", tooltip="Choose what to compare with, and see its details"
        ),
        EXPORT,
        SESSIONS,
        THEME,
        hidden("a", "stop_and_again", "Again", "Stop, and run it again; asks first"),
        hidden(
            "shift+left", "move_cursor(-10)", "Cursor 10 back", "Move the cursor 10 samples back"
        ),
        hidden(
            "shift+right",
            "move_cursor(10)",
            "Cursor 10 forward",
            "Move the cursor 10 samples forward",
        ),
        hidden("plus,equals_sign", "zoom_in", "Zoom in", "See less time, in more detail"),
        hidden("minus", "zoom_out", "Zoom out", "See more of the run at once"),
        hidden("y", "fit_axis", "Fit throughput", "Begin its axis above 0, or at 0 again"),
        hidden("comma", "pan(-1)", "Pan back", "Move all charts back by a quarter"),
        hidden("full_stop", "pan(1)", "Pan forward", "Move all charts forward by a quarter"),
        hidden("O", "next_metric", "Next metric", "Show another metric in place of the loss"),
        hidden("home", "go_to_start", "Go to start", "Show where the run began"),
        hidden("end", "go_to_end", "Go to end", "Show where the run is now"),
        hidden("f", "follow", "Follow", "Let the charts follow the run again"),
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
    FIRST_STEPS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Throughput", "Training samples per second; higher is better."),
        ("What limits it", "What the training waits for most, and the readings that show it."),
        ("Stalls", "Batches that took over ten times as long as usual."),
        ("In doubt", "Something speaks against the figures, so don't compare by them yet."),
        ("s", "Stops the training after the current batch; it asks first."),
        ("q", "Leaves this screen; it asks first where the run would stop."),
    )
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        *top_line.HELP,
        *limit_line.HELP,
        *time_charts.HELP,
        *MACHINE_HELP,
        ("mem", "The share of a GPU's memory in use, where that has no chart of its own."),
        *epoch_headline.HELP,
        *bars.HELP,
        *account_line.HELP,
        *epoch_table.HELP,
        *loss_chart.HELP,
        *output_pane.HELP,
        *progress_line.HELP,
    )

    @dataclass
    class Ended(Message):
        """The session is over; `text` says how, and how fast it was."""

        text: str

    class Left(BaseScreen.Left):
        """The person wants to leave; a run that would stop was asked about."""

    class AgainRequested(Message):
        """The same is to be launched once more, in place of this session."""

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
        self._turn = turn
        self._read_label = read_label
        self._references = {} if references is None else references
        self._all_earlier: list[SessionEntry] = []
        self._repeatable = repeatable
        self._second = -1
        self._again_when_stopped = False
        self._polls = 0
        self._was_running = source.running
        self._catching_up: Worker[None] | None = None
        self._part: Part | None = None
        self._metric: str | None = None
        self._shown_parts: frozenset[Part] | None = None

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        """What `?` explains; nothing of GPUs where there is none."""
        if self._look_at_machine().gpus:
            return self.TOPICS
        return tuple(topic for topic in self.TOPICS if topic[0] not in OF_GPUS)

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
            with Vertical(id="compared", classes="panel"):
                yield EpochHeadline()
                yield ComparisonBars()
            yield self._machine
            yield EpochTable()
            yield SideCell()
        yield AccountLine()
        yield ProgressLine()

    def on_mount(self) -> None:
        """Start the one timer that reads and paints."""
        self.query_one("#compared").border_title = "Seconds per epoch"
        self.set_interval(REFRESH_S, self._on_timer)
        self.call_after_refresh(self._paint_all)

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self._paint_all)

    def _paint_all(self) -> None:
        # The charts as well, changed or not.
        self._drawn = ()
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
        self._source.poll(SLICE_S)
        if self._source.read_share is not None:
            self._catch_up()
        else:
            self._polls += 1
        if self.is_showing:
            self.paint()
        # The end may have been read between two ticks, while we caught up.
        was_running, self._was_running = self._was_running, self._source.running
        if was_running and not self._was_running:
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
        # The first resize may come before there is anything to paint.
        if self._left or not self.is_mounted:
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
        self.query_one(OutputPane).show(
            snapshot.output, snapshot.notices, running, start, not self._log_is_open
        )
        self._paint_comparison(snapshot)
        self._share_row()
        self.paint_charts(snapshot)

    def paint_charts(self, snapshot: Snapshot) -> None:
        """Draw the charts, and say where the time went and what the cursor is on."""
        has_gpus = bool(machine_view(self._source, snapshot).gpus)
        self.query_one("#panels").set_class(not has_gpus, "-no-gpu")
        super().paint_charts(snapshot)
        self.query_one(AccountLine).show(snapshot, self.read_time_ns)
        self._paint_loss(snapshot)

    def _paint_loss(self, snapshot: Snapshot) -> None:
        """Draw the loss on the axis of the other charts; where it is narrower, on one like it."""
        chart = self.query_one(SideCell).loss
        self._show_newest(snapshot, shown_by_chart=chart.display)
        columns = self.plot_columns
        count = min(columns, chart.plot_columns)
        if count < 1 or not chart.display:
            return
        axis = self.window.axis(self.run, count)
        chart.show_metric(
            self._source.session.learning,
            self._metric,
            axis,
            self.under_line(snapshot, axis),
            is_running=self._source.running,
            cursor_label=self._cursor_label(axis),
            each=epoch_word(snapshot.header),
            columns=columns,
        )

    def _show_newest(self, snapshot: Snapshot, *, shown_by_chart: bool) -> None:
        """Have the epochs say how training stands where the loss has no room."""
        learning = self._source.session.learning
        name = shown_metric(learning, self._metric)
        texts: tuple[str, ...] = ()
        if name is not None and not shown_by_chart:
            newest = newest_texts(
                learning.metrics[name], glyphs_in_use(), epoch_word(snapshot.header)
            )
            texts = tuple(f"{name} {text}" for text in newest)
        self.query_one(EpochTable).show_newest(texts)

    @property
    def _room(self) -> Room:
        """How much of epochs, loss and output has room."""
        if any(map(self.has_class, ("-machine-alone", "-tiny", "-low", "-flat"))):
            return Room.NONE
        if self.has_class("-broad"):
            return Room.ALL
        return Room.ONE if self.has_class("-narrow") else Room.TWO

    @property
    def _first_part(self) -> Part:
        """What stands beside the epochs until somebody chooses."""
        known = bool(self._source.session.learning.names)
        return Part.LOSS if known and self._source.status != Status.FAILED else Part.OUTPUT

    def _share_row(self) -> None:
        """Show what has room of epochs, loss and output; lay out again only where that changed."""
        shown = parts_shown(self._room, self._part, self._first_part)
        if self._log_is_open or shown == self._shown_parts:
            return
        self._shown_parts = shown
        cell = self.query_one(SideCell)
        for widget, parts in (
            (self.query_one(EpochTable), {Part.EPOCHS}),
            (cell, {Part.LOSS, Part.OUTPUT}),
            (cell.loss, {Part.LOSS}),
            (cell.output, {Part.OUTPUT}),
        ):
            widget.styles.display = "block" if shown & parts else "none"
        self.refresh_bindings()
        self.call_after_refresh(self._paint_all)

    def action_next_part(self) -> None:
        """Show the loss, the output, or where there is little room the epochs."""
        self._part = part_after(self._room, self._part, self._first_part)
        self._share_row()

    def action_next_metric(self) -> None:
        """Show another metric in place of the loss, and where that is hidden, show it again."""
        if self._room is Room.NONE:
            self.notify("a larger window has room for the loss", severity="warning")
            return
        self._metric = next_metric(self._source.session.learning, self._metric)
        if Part.LOSS not in (self._shown_parts or ()):
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
        return self.window.view is not None and part != View.WHOLE

    def action_escape(self) -> None:
        """Undo the last thing; of a run that is over, where there is nothing to undo, go back."""
        chosen = self.query_one(EpochTable).chosen
        looked = self.window.cursor_ns, self.window.span_ns, chosen
        paused = self.window.is_paused(self.run, self.plot_columns)
        if any(one is not None for one in looked) or paused:
            super().action_escape()
        elif self._is_over and self.is_zoomed:
            self._look(TimeWindow())
        elif self._is_over and self.has_way_back:
            self.action_leave()

    @property
    def _reference(self) -> Reference | None:
        """What this run is compared with, as it was chosen for its workload."""
        return self._references.get(self._source.session.header.workload)

    @property
    def _earlier(self) -> list[SessionEntry]:
        """The newest earlier sessions, and the one that was chosen."""
        chosen = self._reference.session if self._reference is not None else None
        first_of_newest = len(self._all_earlier) - EARLIER_SESSIONS
        return [
            entry
            for number, entry in enumerate(self._all_earlier)
            if number >= first_of_newest or entry.header.id == chosen
        ]

    def _against_reference(
        self, rows: Sequence[ComparisonRow], names: Mapping[str, str], steady: bool
    ) -> str:
        """Say the factor to what was chosen, else to the run before."""
        chosen = row_of(rows, self._reference)
        if chosen is None:
            header = self._source.session.header
            return factor_of_run_before(rows, self._earlier, names, steady, header)
        name = names.get(chosen.session or "", units.device(chosen.label))
        every = comparison_rows(self._source.snapshot(), self._all_earlier)
        return factor_of_reference(every, chosen, name, steady)

    def _paint_comparison(self, snapshot: Snapshot) -> None:
        rows = comparison_rows(snapshot, self._earlier)
        panel = self.query_one("#compared")
        title = _TITLES[metric_of(snapshot)]
        if panel.border_title != title:
            panel.border_title = title
        doubts = in_doubt(snapshot.validity.against if snapshot.validity is not None else ())
        if panel.border_subtitle != doubts:
            panel.border_subtitle = doubts
        steady = snapshot.samples_per_second is not None
        names = run_names(snapshot, self._earlier)
        headline = self.query_one(EpochHeadline)
        nearest = how_to_match(snapshot, headline.size.width) or factor_of_nearest(rows, steady)
        headline.show(
            snapshot,
            nearest,
            self._against_reference(rows, names, steady),
            status=Status.RUNNING if self._source.running else self._source.status,
            chosen=row_of(rows, self._reference) is not None,
        )
        bars_shown = bar_rows(rows, names, self._reference)
        self.query_one(ComparisonBars).show(
            bars_shown, is_logarithmic(rows), nearest, busy_said_once(rows)[1]
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what there is to do now."""
        if action in ("again", "stop_and_again"):
            if not self._repeatable or self._again_when_stopped:
                return False
            running = self._source.running
            over = not running and self._source.status != Status.UNKNOWN
            return over if action == "again" else running
        if action in EPOCH_ACTIONS and not self.can_choose_epoch():
            return False
        if action == "next_part":
            return not self._log_is_open and self._room in (Room.ONE, Room.TWO)
        if action == "next_metric":
            return not self._log_is_open and len(self._source.session.learning.names) > 1
        if action == "log" or action in _IN_CHARTS:
            return not self._log_is_open
        if action in _IN_LOG:
            return self._log_is_open
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Launch the same once more."""
        self.post_message(self.AgainRequested())

    def action_stop_and_again(self) -> None:
        """Ask whether the session is to stop, and the same to be launched then."""
        self.ask(AgainScreen(), self._take_again_answer)

    def _take_again_answer(self, answer: str) -> None:
        if answer != "again":
            return
        if not self._source.running:
            self.action_again()
        elif self.stop():
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

        if all(row.kind == "this" for row in self._look_at_comparison().rows):
            alone = "there is nothing to compare with: no earlier run of this is known"
            self.notify(alone, severity="warning")
        else:
            screen = ComparisonScreen(self._look_at_comparison, chosen, self._refer_to)
            self.app.push_screen(screen)

    def _refer_to(self, row: ComparisonRow | None) -> None:
        """Compare runs of this workload with a row from now on; None is the run before each."""
        workload = self._source.session.header.workload
        if row is None:
            self._references.pop(workload, None)
        else:
            self._references[workload] = Reference.of(row)

    def _look_at_comparison(self) -> Comparison:
        """Return the comparison as it stands."""
        from tui.live.comparison_screen import Comparison

        snapshot, earlier = self._source.snapshot(), self._all_earlier
        results = [entry.result for entry in earlier] + [snapshot.result]
        rows = comparison_rows(snapshot, earlier)
        alike = {row.session: row for row in rows if row.kind == "earlier" and row.comparable}
        newest_first = (entry.header.id for entry in reversed(earlier))
        before = next((alike[session] for session in newest_first if session in alike), None)
        return Comparison(
            title=_TITLES[metric_of(snapshot)],
            rows=rows,
            names=run_names(snapshot, earlier),
            results={result.session: result for result in results if result is not None},
            reference=self._reference,
            before=None if before is None else Reference.of(before),
            steady=snapshot.samples_per_second is not None,
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
        looked up again, and a key answered late.
        """
        alone = self._log_is_open
        panels, cell = self.query_one("#panels"), self.query_one(SideCell)
        panels.styles.layout = "vertical" if alone else None
        cell.styles.height = "1fr" if alone else None
        lines = (*self.query(LimitLine), *self.query(EpochLine), *self.query(AccountLine))
        for widget in (*panels.children, *lines):
            widget.styles.display = ("block" if widget is cell else "none") if alone else None
        cell.loss.styles.display = "none" if alone else None
        cell.output.styles.display = "block" if alone else None
        self._shown_parts = None

    def action_close_log(self) -> None:
        """Give the room back to the charts."""
        self.action_log()

    def action_scroll_log(self, lines: int) -> None:
        self.query_one(OutputPane).scroll_lines(lines)

    def action_page_log(self, pages: int) -> None:
        """Scroll the output by whole screens."""
        output = self.query_one(OutputPane)
        output.scroll_lines(pages * max(1, output.size.height - 1))

    def show_entries(self, entries: list[SessionEntry]) -> None:
        """Compare with the sessions that were recorded before."""
        header = self._source.session.header
        self._all_earlier = earlier_sessions(entries, header, MOST_EARLIER)
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        """Show what came under another screen, and do what waited for the end."""
        if not self._source.running:
            self._do_what_waited_for_the_end()
        self.call_after_refresh(self.tick)

    @property
    def _status(self) -> str:
        return "stopping" if self.is_stopping else self._source.status


_TITLES = {
    "seconds_per_epoch": "Seconds per epoch",
    "run_seconds": "Seconds for the whole run",
    "step_ms": "Milliseconds per batch",
}


def _end_text(source: SessionSource) -> str:
    timing = timing_of(source.snapshot())
    text = f"{source.session.header.workload} {source.status}"
    return f"{text}: {units.band(timing)}" if timing is not None else text
