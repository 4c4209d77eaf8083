"""A question over a screen: each answer has a button, a key, and a consequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Label, Static

from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter

# The least width of the names of answers.
_NAMES = 7

STAY = "stay"
ONCE_MORE = ("Ctrl-C", "once more stops it")


class AnswerButton(NamedTuple):
    """An answer with its key, its button and its consequence.

    `name` stands before the consequence, in place of the button's label.
    """

    value: str
    key: str
    label: str
    follows: str
    variant: Literal["default", "primary", "error"] = "default"
    name: str = ""


def stay(label: str, follows: str = "nothing changes", name: str = "") -> AnswerButton:
    """Return the answer that changes nothing."""
    return AnswerButton(STAY, "escape", label, follows, name=name)


class QuestionScreen(Dialog[str]):
    """Asks a question; its last answer is `stay`, and changes nothing.

    Args:
        question: the question, instead of `QUESTION`.
        before: lines above the consequences: a name and a text.
        after: lines below.
        follows: consequences of the first answers, instead of their own.
    """

    fits_any_size = True
    """The question is shown even if the terminal is too small for other screens."""

    QUESTION: ClassVar[str] = ""
    ANSWERS: ClassVar[tuple[AnswerButton, ...]] = ()
    ON_CTRL_C: ClassVar[str] = STAY
    AFTER: ClassVar[tuple[tuple[str, str], ...]] = ()
    # An absolute path: Textual would look for a relative one beside the subclass.
    CSS_PATH = Path(__file__).with_name("question.tcss")
    AUTO_FOCUS = f"#{STAY}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,q", f"answer('{STAY}')", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init_subclass__(cls) -> None:
        """Bind the key of each answer."""
        cls.BINDINGS = [
            *vars(cls).get("BINDINGS", ()),
            Binding("ctrl+c,ctrl+q", f"answer('{cls.ON_CTRL_C}')", show=False),
            *(
                Binding(answer.key, f"answer('{answer.value}')", answer.label)
                for answer in cls.ANSWERS
            ),
        ]
        super().__init_subclass__()

    def __init__(
        self,
        question: str = "",
        before: Sequence[tuple[str, str]] = (),
        after: Sequence[tuple[str, str]] = (),
        follows: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._question = question or self.QUESTION
        texts = [*follows, *(answer.follows for answer in self.ANSWERS[len(follows) :])]
        names = [answer.name or answer.label for answer in self.ANSWERS]
        self._lines = [*before, *zip(names, texts, strict=True), *self.AFTER, *after]

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Label(Content(self._question))
            with Horizontal():
                for answer in self.ANSWERS:
                    key = "esc" if answer.value == STAY else answer.key.split(",")[0]
                    text = f"{answer.label} ({key})"
                    yield Button(text, id=answer.value, variant=answer.variant)
            names = max(_NAMES, *(len(name) + 1 for name, _ in self._lines))
            lines = [
                Content.assemble((name.ljust(names), "bold"), text) for name, text in self._lines
            ]
            yield Static(Content("\n").join(lines), id="consequences")
        # This footer covers the one of the screen below, whose keys do nothing now.
        yield KeyFooter()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id or STAY)

    def action_answer(self, answer: str) -> None:
        self.dismiss(answer)
