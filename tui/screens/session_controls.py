"""Stop, detach and leave the session that a screen shows."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from dlmon.notification import NewAlerts
from dlmon.records import SessionHeader
from dlmon.records.sanitize import clean
from dlmon.session.source import SessionSource
from tui.messages import GoBack, NotifyAlert
from tui.screens.base import BaseScreen
from tui.screens.question import ONCE_MORE, AnswerButton, QuestionScreen, stay


class _Wording(NamedTuple):
    """The sentences of the questions about a session, and the consequences of each answer."""

    still_runs: str
    stop: str
    if_stopped: str
    if_detached: str
    if_repeated: str = ""


_RUN = _Wording(
    "{} is still training.",
    "Stop this run?",
    "after the current batch; its results are kept",
    "it keeps training; dlmon attach shows it again",
    "a new run starts with the same options",
)
_SCRIPT = _Wording(
    "{} is still running.",
    "Stop this script?",
    "it may save if it handles SIGTERM; else as by Ctrl-C",
    "the script goes on; dlmon attach shows it again",
    "the same command starts again, in the same directory",
)
_RECORDING = _Wording(
    "The machine is still being recorded.",
    "Stop this recording?",
    "what is recorded is kept",
    "it goes on; dlmon attach shows it again",
)
_LONGEST_NAME = 30
_STOP = AnswerButton("stop", "s", "Stop it", "", "error", "Stop")


def _wording_of(header: SessionHeader) -> _Wording:
    if header.is_machine_recording:
        return _RECORDING
    words = _SCRIPT if header.is_script else _RUN
    name = clean(header.workload, _LONGEST_NAME)
    return words._replace(still_runs=words.still_runs.format(name))


class QuitScreen(QuestionScreen):
    """Answers `stop`, `leave` or `stay`."""

    ANSWERS = (
        _STOP,
        AnswerButton("leave", "d", "Leave it running", "", "primary", "Leave"),
        stay("Stay"),
    )
    ON_CTRL_C = "stop"
    AFTER = (ONCE_MORE,)

    def __init__(self, header: SessionHeader) -> None:
        words = _wording_of(header)
        super().__init__(words.still_runs, follows=(words.if_stopped, words.if_detached))


class StopScreen(QuestionScreen):
    """Answers `stop` or `stay`."""

    ANSWERS = (_STOP, stay("Go on"))
    ON_CTRL_C = "stop"

    def __init__(self, header: SessionHeader) -> None:
        words = _wording_of(header)
        super().__init__(words.stop, follows=(words.if_stopped,))


class OutOfQueueScreen(QuestionScreen):
    """Answers `stop` or `stay`."""

    QUESTION = "Take this job out of Slurm's queue?"
    ANSWERS = (
        AnswerButton("stop", "s", "Take it out", "it is cancelled; nothing of it has run", "error"),
        stay("Let it wait"),
    )


class AgainScreen(QuestionScreen):
    """Answers `again` or `stay`."""

    ANSWERS = (
        AnswerButton("again", "a", "Stop it and run again", "", "error", "Again"),
        stay("Go on"),
    )

    def __init__(self, header: SessionHeader) -> None:
        words = _wording_of(header)
        after = [("Then", words.if_repeated)]
        super().__init__(words.still_runs, after=after, follows=(words.if_stopped,))


class SessionControls(BaseScreen):
    """A screen of a session that can be stopped, or left running."""

    stop_requested = False
    """The user asked this screen to stop the session."""
    detached = False
    """The user left the session running."""
    _leave_when_stopped = False
    _has_left = False

    @property
    def shown_session(self) -> SessionSource:
        raise NotImplementedError

    @property
    def is_stopping(self) -> bool:
        """Return whether this screen asked the session to stop and it still runs."""
        return self.stop_requested and self.shown_session.running

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop or detach only a session that runs and is not being stopped."""
        if action in ("stop", "detach"):
            return self.shown_session.running and not self.stop_requested
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str | None:
        if action in ("stop", "detach"):
            return "it is stopping already" if self.shown_session.running else "the run is over"
        return super().why_not(action)

    def action_stop(self) -> None:
        self.ask(StopScreen(self.shown_session.session.header), self._take_stop_answer)

    def _take_stop_answer(self, answer: str) -> None:
        if answer == "stop" and self.shown_session.running:
            self.stop()

    def stop(self) -> bool:
        if self.stop_requested:
            return True
        if not self.shown_session.stop():
            self.notify("this session can't be stopped from here", severity="warning")
            return False
        self.stop_requested = True
        self.refresh_bindings()
        return True

    @cached_property
    def _new_alerts(self) -> NewAlerts:
        return NewAlerts()

    def take_alert(self) -> None:
        """Notify of the newest alert, unless it is older than this screen."""
        alert = self._new_alerts.take(self.shown_session)
        if alert is not None:
            self.post_message(NotifyAlert(alert.text))

    def take_refusal(self) -> None:
        """If the stop was refused, say why, and offer to stop again."""
        reason = self.shown_session.why_not_stopped
        if self.is_stopping and reason is not None:
            self.notify(clean(reason), severity="warning", markup=False)
            self.forget_stop()
            self.refresh_bindings()

    def forget_stop(self) -> None:
        """Forget that the session was asked to stop, and don't wait for its end."""
        self.stop_requested = self._leave_when_stopped = False

    def action_detach(self) -> None:
        self.shown_session.detach()
        self.detached = True
        self.leave()

    def action_leave(self) -> None:
        """Leave; ask first if the session is ours and still runs.

        If it is being stopped, leave when it has ended, or at once when asked a second time.
        """
        ours_runs = self.shown_session.running and self.shown_session.is_ours
        if self._leave_when_stopped or not ours_runs:
            self.leave()
        elif self.stop_requested:
            self._leave_when_stopped = True
        else:
            self.ask(QuitScreen(self.shown_session.session.header), self._take_leave_answer)

    def _take_leave_answer(self, answer: str) -> None:
        if not self.shown_session.running:
            # It ended during the question.
            if answer in ("stop", "leave"):
                self.leave()
        elif answer == "leave":
            self.action_detach()
        elif answer == "stop":
            self._leave_when_stopped = self.stop()

    def leave(self) -> None:
        """Leave without a question, once."""
        if not self._has_left:
            self._has_left = True
            self.post_message(GoBack(self))
