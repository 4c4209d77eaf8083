"""Ask what becomes of a session that still runs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Label


class QuitScreen(ModalScreen[str]):
    """Answers `stop`, `leave` or `stay`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,ctrl+c,ctrl+q", "answer('stop')", "Stop it"),
        Binding("l,d", "answer('leave')", "Leave it running"),
        Binding("escape,n,q", "answer('stay')", "Stay"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Vertical(id="question"):
            yield Label("The session is still running.")
            with Horizontal():
                yield Button("[u]S[/u]top it", id="stop", variant="error")
                yield Button("[u]L[/u]eave it running", id="leave", variant="primary")
                yield Button("Stay (esc)", id="stay")

    def on_mount(self) -> None:
        """Start on the answer that changes nothing."""
        self.query_one("#stay", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Take a click as the answer."""
        self.dismiss(event.button.id or "stay")

    def action_answer(self, answer: str) -> None:
        """Take a key as the answer."""
        self.dismiss(answer)
