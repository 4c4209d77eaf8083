"""Ask what becomes of a session that still runs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Footer, Label, Static

_CONSEQUENCES = (
    ("Stop", "after the current batch; its results are kept"),
    ("Leave", "it trains on; dlmon attach shows it again"),
    ("Stay", "nothing changes"),
)


class QuitScreen(ModalScreen[str]):
    """Answers `stop`, `leave` or `stay`."""

    CSS_PATH = "quit.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "Stop it"),
        Binding("ctrl+c,ctrl+q", "answer('stop')", show=False),
        Binding("d", "answer('leave')", "Leave it running"),
        Binding("l", "answer('leave')", show=False),
        Binding("escape", "answer('stay')", "Stay"),
        Binding("n,q", "answer('stay')", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the question, its three answers, and what follows from each."""
        with Vertical(id="question"):
            yield Label("The session is still running.")
            with Horizontal():
                yield Button("Stop it (s)", id="stop", variant="error")
                yield Button("Leave it running (d)", id="leave", variant="primary")
                yield Button("Stay (esc)", id="stay")
            lines = [
                Content.assemble((f"{answer:<7}", "bold"), told) for answer, told in _CONSEQUENCES
            ]
            yield Static(Content("\n").join(lines), id="consequences")
        # Its own keys over those of the session, which do nothing now.
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start on the answer that changes nothing."""
        self.query_one("#stay", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Take a click as the answer."""
        self.dismiss(event.button.id or "stay")

    def action_answer(self, answer: str) -> None:
        """Take a key as the answer."""
        self.dismiss(answer)
