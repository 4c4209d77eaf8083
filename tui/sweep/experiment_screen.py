"""The base of the screens of experiments: the screen makes the runs, and asks before they stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.exit_codes import INTERRUPTED_BY_USER
from dlmon.records import Event
from dlmon.sweep.hosts import CurrentRun
from dlmon.sweep.runner import SweepRun
from dlmon.sweep.tries import TryRun
from tui.messages import GoBack, NotifyEnd, ShowSweptSession
from tui.screens.base import HELP, PALETTE, SESSIONS, THEME, TickingScreen, hidden
from tui.screens.filtered import ROW_KEYS
from tui.screens.question import ONCE_MORE, AnswerButton, QuestionScreen, stay
from tui.widgets.tables import RowList

_NOW = AnswerButton("stop", "s", "Stop now", "the current run counts as not run", "error", "Now")
_LATER = "the current run is completed, and no other starts"


class SweepStopScreen(QuestionScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "Stop this sweep?"
    ANSWERS = (
        _NOW,
        AnswerButton("after", "e", "Finish, then stop", _LATER, "primary", "Finish"),
        stay("Go on"),
    )
    ON_CTRL_C = "stop"


class SweepLeaveScreen(QuestionScreen):
    """Answers `stop` or `stay`; the jobs are Slurm's, and go on either way."""

    QUESTION = "Leave this sweep to Slurm?"
    ANSWERS = (
        AnswerButton(
            "stop", "s", "Leave it", "its jobs go on, or stay in the queue", "primary", "Leave"
        ),
        stay("Go on"),
    )
    ON_CTRL_C = "stop"


class SweepGoOnScreen(QuestionScreen):
    """Asks while the sweep is about to stop; answers `stop`, `go_on` or `stay`."""

    QUESTION = "The sweep stops after the current run."
    ANSWERS = (
        _NOW,
        AnswerButton("go_on", "m", "Finish the sweep", "the sweep goes on", "primary", "Finish"),
        stay("No change", _LATER, "As is"),
    )


class ExperimentScreen(TickingScreen):
    """An experiment, whose runs this screen starts; `rest` says how those left can be made."""

    STOP: ClassVar[type[QuestionScreen]] = SweepStopScreen
    RUNS: ClassVar[str] = "The sweep is still running."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show", "Show", tooltip="Show the highlighted combination's session"),
        Binding("s", "stop", "Stop", tooltip="Stop now, or after this run; asks first"),
        SESSIONS,
        HELP,
        Binding("q", "leave", "Quit", tooltip="Leave; asks first while the sweep runs"),
        THEME,
        *ROW_KEYS,
        hidden("f", "follow", "Follow the current run"),
        PALETTE,
        hidden("ctrl+c,ctrl+q", "leave"),
    ]

    run: SweepRun | TryRun
    _table: RowList

    def __init__(self, run: SweepRun | TryRun, rest: str, clock: Callable[[], float]) -> None:
        super().__init__()
        self.run = run
        self._rest = (("", rest),) if rest else ()
        self._clock = clock
        self._begun_at = clock()
        self._ended_at: float | None = None
        self._changed = self._follows = True
        self._leave_when_ended = False
        self._has_left = False
        run.on_event = self._take_event

    @property
    def elapsed_s(self) -> float:
        return (self._ended_at or self._clock()) - self._begun_at

    @property
    def end_text(self) -> str:
        """What a notification of the end says."""
        raise NotImplementedError

    def prepare_parts(self) -> None:
        """Set what stays as it is while the experiment runs, and the table."""
        raise NotImplementedError

    def paint_highlighted(self) -> None:
        """Paint what depends on the highlighted row."""
        raise NotImplementedError

    def action_show(self) -> None:
        """Show the session of the highlighted row."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.prepare_parts()
        self.run_worker(self._make_runs, exclusive=True)

    async def _make_runs(self) -> None:
        await self.run.run()
        self._ended_at = self._clock()
        self._changed = True
        self.tick()
        self.refresh_bindings()
        self.post_message(NotifyEnd(self, self.end_text))
        if self._leave_when_ended:
            self._go(interrupted=True)
        else:
            self.withdraw_question()

    def timer_fired(self) -> None:
        """Paint what goes on; after the end, nothing does."""
        if not self.run.ended:
            super().timer_fired()

    def _take_event(self, event: Event) -> None:
        self._changed = True

    def on_screen_resume(self) -> None:
        """Leave if the user waited for the end."""
        if self._leave_when_ended and self.run.ended:
            self._go(interrupted=True)

    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "stop": "it is over, or stops already",
    }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop only a sweep that goes on."""
        return action != "stop" or not (self.run.ended or self.run.stopping)

    def action_stop(self) -> None:
        """Ask whether and when to stop the sweep, or whether to go on after all."""
        question: QuestionScreen = self.STOP(after=self._rest)
        if self.run.leaves_jobs:
            question = SweepLeaveScreen(after=self._rest)
        elif self.run.stops_after_run:
            question = SweepGoOnScreen()
        self.ask(question, partial(self._take_answer, False))

    def action_leave(self) -> None:
        """Leave; ask first while the sweep runs. While it stops, leave at once."""
        if self.run.ended:
            self._go(interrupted=self.run.stopping)
        elif self._leave_when_ended:
            self._go(interrupted=True)
        elif self.run.leaves_jobs:
            self.ask(SweepLeaveScreen(after=self._rest), partial(self._take_answer, True))
        else:
            question = self.STOP(self.RUNS, after=(ONCE_MORE, *self._rest))
            self.ask(question, partial(self._take_answer, True))

    def _take_answer(self, leaves: bool, answer: str) -> None:
        """Stop now, after the current run, or not at all; `leaves` waits for the end and leaves."""
        if self.run.ended:
            if leaves and answer == "stop":
                self._go(interrupted=False)
        elif answer == "stop":
            self.run.stop()
            self._leave_when_ended = leaves
        elif answer in ("after", "go_on"):
            self.run.stops_after_run = answer == "after"
        self.refresh_bindings()
        self.tick()

    def _go(self, interrupted: bool) -> None:
        if not self._has_left:
            self._has_left = True
            self.exit_code = INTERRUPTED_BY_USER if interrupted else self.run.exit_code
            self.post_message(GoBack(self))

    def on_row_list_highlighted(self) -> None:
        self.paint_highlighted()

    def on_row_list_row_chosen(self) -> None:
        self._follows = False
        self.action_show()

    def show_current(self, current: CurrentRun | None) -> bool:
        """Show a run that is under way; return whether there is one with a session."""
        if current is None or current.follower is None:
            return False
        follower = current.follower
        session = follower.session.header.id
        self.post_message(ShowSweptSession(follower.path, current.host, session, True))
        return True

    def action_move(self, steps: int) -> None:
        """Move the highlight, and don't follow the current run."""
        self._follows = False
        self._table.move(steps)

    def action_move_page(self, direction: int) -> None:
        self._follows = False
        self._table.move_page(direction)

    def action_follow(self) -> None:
        """Keep the highlight on the current run."""
        self._follows = True
        self._changed = True
        self.tick()
