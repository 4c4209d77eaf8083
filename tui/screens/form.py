"""A form over a screen, whose last line says what its fields amount to."""

from __future__ import annotations

from typing import TypeVar

from textual.binding import Binding
from textual.widgets import Input

from tui.textual_internals import Dialog

Answer = TypeVar("Answer")

FORM_KEYS = (
    Binding("tab", "app.focus_next", "Next field"),
    Binding("escape", "cancel", "Back", priority=True),
    Binding("ctrl+c,ctrl+q", "cancel", show=False, priority=True),
)
"""What every form has beside enter, which is the action `start`."""


class FormScreen(Dialog[Answer]):
    """Answers with what its fields amount to, or with nothing."""

    def check(self, submitted: bool = False) -> Answer | None:
        """Show what the fields amount to, or what is wrong with them; return it if it can be."""
        raise NotImplementedError

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what the fields amount to now."""
        event.stop()
        self.check()

    def action_start(self) -> None:
        """Answer, once what was typed before has arrived: a field takes its keys one by one."""
        (self.focused or self).call_later(self._start)

    def _start(self) -> None:
        # Of two keys that come at once, the second finds it answered.
        if not self.is_current:
            return
        answer = self.check(submitted=True)
        if answer is not None:
            self.dismiss(answer)

    def action_cancel(self) -> None:
        """Answer with nothing."""
        self.dismiss()
