"""Stop, detach and leave the session that a screen shows."""

from __future__ import annotations

from functools import cached_property

from dlmon.notification import NewAlerts
from dlmon.records.sanitize import clean
from dlmon.session.source import SessionSource
from tui.requests import GoBack, TellAlert
from tui.screens.base import BaseScreen
from tui.screens.stop import QuitScreen, StopScreen


class SessionControls(BaseScreen):
    """A screen of a session that can be stopped, or left running."""

    stop_requested = False
    """Whether the session was stopped from here."""
    detached = False
    """Whether the session was left running here."""
    _leave_when_stopped = False
    _left = False

    @property
    def shown_session(self) -> SessionSource:
        """The session."""
        raise NotImplementedError

    @property
    def is_stopping(self) -> bool:
        """Whether it was stopped from here, and is not over yet."""
        return self.stop_requested and self.shown_session.running

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop or detach only what runs; who only looks on detaches by leaving."""
        if action in ("stop", "detach"):
            return self.shown_session.running and not self.stop_requested
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        """Ask whether the session is to stop."""
        self.ask(StopScreen(self.shown_session.session.header), self._take_stop_answer)

    def _take_stop_answer(self, answer: str) -> None:
        if answer == "stop" and self.shown_session.running:
            self.stop()

    def stop(self) -> bool:
        """Stop the session after what it is at; return whether it can be."""
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
        """Tell the newest alert, unless it is from before the session was shown."""
        alert = self._new_alerts.take(self.shown_session)
        if alert is not None:
            self.post_message(TellAlert(alert.text))

    def take_refusal(self) -> None:
        """Say why the session was not stopped after all, and offer to stop it again."""
        reason = self.shown_session.why_not_stopped
        if self.is_stopping and reason is not None:
            self.notify(clean(reason), severity="warning", markup=False)
            self.forget_stop()
            self.refresh_bindings()

    def forget_stop(self) -> None:
        """Be as before the session was stopped, and wait for its end no more."""
        self.stop_requested = self._leave_when_stopped = False

    def action_detach(self) -> None:
        """Leave the session running without us."""
        self.shown_session.detach()
        self.detached = True
        self.leave()

    def action_leave(self) -> None:
        """Leave; ask first when the session is ours and still runs.

        One that is being stopped is waited for, unless asked to leave again.
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
            # It ended while we asked: leave as from any session that is over, or stay to see it.
            if answer in ("stop", "leave"):
                self.leave()
        elif answer == "leave":
            self.action_detach()
        elif answer == "stop":
            self._leave_when_stopped = self.stop()

    def leave(self) -> None:
        """Leave without a question, once."""
        if not self._left:
            self._left = True
            self.post_message(GoBack(self))
