"""Ask what becomes of a session that still runs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Label, Static

from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter

# So wide the names of answers are at the least.
_NAMES = 7

ONCE_MORE = ("Ctrl-C", "once more stops it")

Answer = tuple[str, str, Literal["default", "primary", "error"]]
"""What is answered, the button for it, and how that looks."""


class QuestionScreen(Dialog[str]):
    """Asks a question; one of its answers is `stay`, and changes nothing."""

    fits_any_size = True
    """It is asked in a terminal that has no room for a screen too."""

    QUESTION: ClassVar[str]
    ANSWERS: ClassVar[tuple[Answer, ...]]
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]]
    # Whole, for Textual looks for it beside a subclass.
    CSS_PATH = Path(__file__).with_name("quit.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,q", "answer('stay')", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the question, its answers, and what follows from each."""
        with Vertical(id="question"):
            yield Label(Content(self.question))
            with Horizontal():
                for answer, label, variant in self.ANSWERS:
                    yield Button(self.worded(label), id=answer, variant=variant)
            names = max(_NAMES, *(len(name) + 1 for name, _ in self.consequences))
            lines = [
                Content.assemble((name.ljust(names), "bold"), self.worded(text))
                for name, text in self.consequences
            ]
            yield Static(Content("\n").join(lines), id="consequences")
        # Its own keys over those of the session, which do nothing now.
        yield KeyFooter()

    @property
    def question(self) -> str:
        """What is asked."""
        return self.worded(self.QUESTION)

    @property
    def consequences(self) -> tuple[tuple[str, str], ...]:
        """What follows from each answer."""
        return self.CONSEQUENCES

    def worded(self, text: str) -> str:
        """Return a text as it is to be read here."""
        return text

    def on_mount(self) -> None:
        """Start on the answer that changes nothing."""
        self.query_one("#stay", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Take a click as the answer."""
        self.dismiss(event.button.id or "stay")

    def action_answer(self, answer: str) -> None:
        """Take a key as the answer."""
        self.dismiss(answer)


class QuitScreen(QuestionScreen):
    """Answers `stop`, `leave` or `stay`."""

    QUESTION = "The session is still running."
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("stop", "Stop it (s)", "error"),
        ("leave", "Leave it running (d)", "primary"),
        ("stay", "Stay (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Stop", "after the current batch; its results are kept"),
        ("Leave", "it keeps training; dlmon attach shows it again"),
        ("Stay", "nothing changes"),
        ONCE_MORE,
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "Stop it"),
        Binding("ctrl+c,ctrl+q", "answer('stop')", show=False),
        Binding("d", "answer('leave')", "Leave it running"),
        Binding("escape", "answer('stay')", "Stay"),
    ]


class QuitScriptScreen(QuitScreen):
    """Answers `stop`, `leave` or `stay`, of a script of a person's own."""

    QUESTION = "The script is still running."
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Stop", "interrupted as by Ctrl-C; ended after 5 s more"),
        ("Leave", "the script goes on; dlmon attach shows it again"),
        ("Stay", "nothing changes"),
        ONCE_MORE,
    )
