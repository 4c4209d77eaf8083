"""A form over a screen, whose last line says what its fields amount to."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Label, Static

from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter
from tui.widgets.text_field import TextField

Result = TypeVar("Result")


class Field(NamedTuple):
    """A field: its id, its name, what it says while it is empty, what it begins with."""

    name: str
    title: str
    placeholder: str = ""
    value: str = ""


class FormScreen(Dialog[Result]):
    """Answers with what its fields amount to, or with nothing."""

    SUBMIT: ClassVar[str] = ""
    # Whole, for Textual looks for it beside a subclass.
    CSS_PATH = Path(__file__).with_name("form.tcss")
    AUTO_FOCUS = "TextField"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next field"),
        Binding("escape", "cancel", "Back", priority=True),
        Binding("ctrl+c,ctrl+q", "cancel", show=False, priority=True),
    ]

    def __init_subclass__(cls) -> None:
        """Bind enter, by what it does in this form."""
        cls.BINDINGS = [Binding("enter", "submit", cls.SUBMIT, priority=True)]
        super().__init_subclass__()

    def __init__(self, title: str, fields: tuple[Field, ...]) -> None:
        super().__init__()
        self._title, self._fields = title, fields

    def compose(self) -> ComposeResult:
        with Vertical(id="form", classes="panel") as box:
            box.border_title = Content(self._title)
            for each in self._fields:
                with Horizontal():
                    yield Label(each.title)
                    field = TextField(placeholder=each.placeholder, id=each.name)
                    field.value = each.value
                    yield field
            yield Static(id="summary")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._check()

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[Result | None, str, bool]:
        """Return what the fields amount to, what is said of that, and whether it is wrong.

        What is still being typed is not wrong before it is submitted.
        """
        raise NotImplementedError

    def _check(self, submitted: bool = False) -> Result | None:
        typed = {
            each.name: self.query_one(f"#{each.name}", TextField).value.strip()
            for each in self._fields
        }
        answer, text, wrong = self.read(typed, submitted)
        summary = self.query_one("#summary", Static)
        summary.update(Content(text))
        summary.set_class(wrong, "-wrong")
        return answer

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._check()

    def action_submit(self) -> None:
        """Answer, once what was typed before has arrived: a field takes its keys one by one."""
        (self.focused or self).call_later(self._submit)

    def _submit(self) -> None:
        # Where two keys come at once, the second finds the form answered.
        answer = self._check(submitted=True) if self.is_current else None
        if answer is not None:
            self.dismiss(answer)

    def action_cancel(self) -> None:
        self.dismiss()
