"""The live screen of one session: throughput, hardware and comparison on one time axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer

from dlmon.comparison import Row, factor
from dlmon.launch import Launch
from dlmon.log import LogError
from dlmon.session import Snapshot
from dlmon.sessions import SessionEntry, read_entry, stop_session
from dlmon.viewer import Viewer
from tui import figures
from tui.compared import comparison_rows, earlier_sessions
from tui.screens.quit import QuitScreen
from tui.time_axis import TimeAxis, latest_axis, whole_axis
from tui.widgets.bars import BarRow, ComparisonBars
from tui.widgets.chart import Chart, ChartPicture
from tui.widgets.epoch_headline import EpochHeadline
from tui.widgets.epoch_table import EpochTable
from tui.widgets.limit_line import LimitLine
from tui.widgets.machine_charts import MachineCharts, MachineView
from tui.widgets.output_pane import OutputPane
from tui.widgets.plot import bar_fractions, grown_top
from tui.widgets.progress_line import ProgressLine
from tui.widgets.too_small import TooSmall
from tui.widgets.top_line import TopLine

TICK_S = 0.5


class LiveScreen(Screen[None]):
    """A session as it happens, or as it was.

    Args:
        viewer: the session.
        launch: its lifeline, where it is ours.
        entries: all sessions of the log directory, to compare with.
        leave: called when the user wants to leave, with whether the session was interrupted.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop"),
        Binding("d", "detach", "Detach"),
        Binding("l", "output", "Log"),
        Binding("q", "leave", "Quit"),
        Binding("ctrl+c,ctrl+q", "leave", show=False),
    ]

    def __init__(
        self,
        viewer: Viewer,
        launch: Launch | None,
        entries: list[SessionEntry],
        leave: Callable[[bool], None],
        ascii: bool = False,
    ) -> None:
        """Take the session; nothing is read before the screen is mounted."""
        super().__init__()
        self._viewer = viewer
        self._launch = launch
        self._earlier = earlier_sessions(entries, viewer.session.header)
        self._leave = leave
        self._ascii = ascii
        self._top = 0.0
        self._axis: TimeAxis | None = None
        self._stop_asked = False
        self._leave_when_stopped = False
        self._detached = False
        self._left = False
        self._question: QuitScreen | None = None

    def compose(self) -> ComposeResult:
        """Lay out the panels."""
        plain = self._ascii
        yield TopLine(ascii=plain)
        with Vertical(id="panels"):
            with Horizontal(id="speed"):
                yield Chart(ascii=plain, id="throughput", filled=False)
                with Vertical(id="compared"):
                    yield EpochHeadline(ascii=plain)
                    yield ComparisonBars(ascii=plain)
            yield MachineCharts(ascii=plain)
            yield LimitLine(ascii=plain)
            with Horizontal(id="details"):
                yield EpochTable(ascii=plain)
                yield OutputPane(ascii=plain)
        yield ProgressLine(ascii=plain)
        yield Footer(show_command_palette=False)
        yield TooSmall()

    def on_mount(self) -> None:
        """Start the one timer that reads and paints."""
        self._throughput = self.query_one("#throughput", Chart)
        self._machine = self.query_one(MachineCharts)
        self.query_one("#compared").border_title = "Seconds per epoch"
        self.query_one(OutputPane).set_titles("Output")
        self.call_after_refresh(self.tick)
        self.set_interval(TICK_S, self.tick)

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._axis = None
        self.call_after_refresh(self.paint)

    def tick(self) -> None:
        """Read what is new and paint it."""
        if self._left:
            return
        was_running = self._viewer.running
        self._viewer.poll()
        self.paint()
        if was_running and not self._viewer.running:
            self._session_ended()

    def _session_ended(self) -> None:
        """Offer no more what is over, and leave if only its end was waited for."""
        self.refresh_bindings()
        if self._leave_when_stopped:
            self._go(interrupted=True)
        elif self._question is not None and self._question.is_current:
            self._question.dismiss("stay")

    def paint(self) -> None:
        """Show the session as it stands."""
        if self._left:
            return
        snapshot = self._viewer.snapshot()
        self.query_one(TopLine).show(snapshot, self._viewer.status)
        self.query_one(ProgressLine).show(snapshot, self._viewer.trouble)
        self.query_one(LimitLine).show(snapshot)
        self.query_one(EpochTable).show(snapshot.epochs)
        self.query_one(OutputPane).show(snapshot.output, snapshot.notices)
        self._paint_comparison(snapshot)
        self._paint_charts(snapshot)

    def _paint_charts(self, snapshot: Snapshot) -> None:
        session = self._viewer.session
        interval_ns = int(session.machine.interval_s * 1e9)
        count = min(self._throughput.plot_columns, self._machine.plot_columns)
        column_ns = max(interval_ns, 1_000_000_000)
        begin, now = session.header.t, self._viewer.now()
        show = latest_axis if self._viewer.running else whole_axis
        axis = show(begin, now, column_ns, count)
        self._throughput.set_titles("Throughput", right=_speed(snapshot))
        if axis == self._axis and self._viewer.running:
            return
        self._axis = axis
        columns = axis.columns(session.throughput)
        known = [column for column in columns if column is not None]
        if known:
            self._top = grown_top(self._top, max(known))
        self._throughput.show(
            ChartPicture(
                columns=columns,
                top=self._top,
                left_labels=("",) if self._top == 0 else (),
                marks=axis.marks(session.epoch_begins),
                shades=axis.shades(session.stretches),
                reason=f"{snapshot.phase or 'starting'} …" if self._viewer.running else "no batch",
            )
        )
        self._machine.show(self._machine_view(snapshot), axis)

    def _machine_view(self, snapshot: Snapshot) -> MachineView:
        session = self._viewer.session
        return MachineView(
            history=session.machine,
            facts=session.header.machine,
            age_s=snapshot.machine_age_s if self._viewer.running else None,
            interval_s=session.machine.interval_s,
            gpu_index=snapshot.model.gpu_index if snapshot.model else None,
            epoch_begins=tuple(session.epoch_begins),
            stretches=tuple(session.stretches),
        )

    def _paint_comparison(self, snapshot: Snapshot) -> None:
        rows = comparison_rows(snapshot, self._earlier)
        metric = rows[0].metric if rows else "seconds_per_epoch"
        panel = self.query_one("#compared")
        title = "Seconds for the whole run" if metric == "run_seconds" else "Seconds per epoch"
        if panel.border_title != title:
            panel.border_title = title
        self.query_one(EpochHeadline).show(snapshot, _nearest(rows, snapshot))
        self.query_one(ComparisonBars).show(_bars(rows))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop or detach only what runs, and to detach only what is ours."""
        if action == "stop":
            return self._viewer.running and not self._stop_asked
        if action == "detach":
            return self._viewer.running and self._launch is not None and not self._stop_asked
        return True

    def action_stop(self) -> None:
        """Stop the session after the current batch."""
        if self._launch is not None:
            self._launch.say("stop")
        elif not self._stop_by_signal():
            self.notify("this session can't be stopped from here", severity="warning")
            return
        self._stop_asked = True
        self.refresh_bindings()

    def _stop_by_signal(self) -> bool:
        try:
            return stop_session(read_entry(self._viewer.path))
        except (LogError, OSError):  # the log is gone, or the session another user's
            return False

    def action_detach(self) -> None:
        """Leave the session running without us."""
        if self._launch is not None:
            self._launch.say("detach")
        self._detached = True
        self._go(interrupted=False)

    def action_output(self) -> None:
        """Give the output all the room of the panels, or take it back."""
        self.query_one("#panels").toggle_class("-output")

    def action_leave(self) -> None:
        """Leave; ask first when the session is ours and still runs.

        One that is being stopped is waited for, unless asked to leave again.
        """
        ours_runs = self._viewer.running and self._launch is not None
        if self._leave_when_stopped or not ours_runs:
            self._go(interrupted=self._stop_asked)
        elif self._stop_asked:
            self._leave_when_stopped = True
        else:
            self._question = QuitScreen()
            self.app.push_screen(self._question, self._take_answer)

    def _take_answer(self, answer: str | None) -> None:
        self._question = None
        if not self._viewer.running:
            # It ended while we asked: leave as from any session that is over, or stay to see it.
            if answer in ("stop", "leave"):
                self._go(interrupted=False)
        elif answer == "leave":
            self.action_detach()
        elif answer == "stop":
            self.action_stop()
            self._leave_when_stopped = True

    def _go(self, interrupted: bool) -> None:
        """Leave, once."""
        if not self._left:
            self._left = True
            self._leave(interrupted)

    @property
    def detached(self) -> bool:
        """Whether the session was left running here."""
        return self._detached


def _speed(snapshot: Snapshot) -> str:
    if snapshot.samples_per_second is not None:
        return figures.throughput(snapshot.samples_per_second)
    if snapshot.samples_per_second_now is not None:
        return f"{figures.rate(snapshot.samples_per_second_now)} samples/s"
    return ""


def _nearest(rows: tuple[Row, ...], snapshot: Snapshot) -> str:
    """Return this run against the published number that is nearest to it, or why there is none."""
    this = next((row for row in rows if row.kind == "this"), None)
    if this is None:
        return ""
    steady = snapshot.samples_per_second is not None
    others = [row for row in rows if row.kind == "published"]
    if others and not any(row.comparable for row in others):
        return f"not like with like: {others[0].badges[0]}"
    factors = [(other, factor(this, other, steady)) for other in others]
    known = [(other, value) for other, value in factors if value is not None]
    if not known:
        return ""
    other, value = min(known, key=lambda pair: max(pair[1], 1 / pair[1]))
    return f"{figures.factor(value)} as {figures.device(other.label)}"


def _bars(rows: tuple[Row, ...]) -> tuple[BarRow, ...]:
    fractions = bar_fractions([row.value for row in rows])
    return tuple(
        BarRow(
            label=figures.device(row.label),
            fraction=fraction,
            value=("~" if row.projected else "") + figures.seconds(row.value),
            detail=str(row.year or ""),
            style=row.kind,  # type: ignore[arg-type]
            # The mark before the value says that it is projected.
            badge=next((b for b in row.badges if not b.startswith("projected")), ""),
        )
        for row, fraction in zip(rows, fractions, strict=True)
    )
