"""A form over a screen; below its fields stands what the typed text means."""

from __future__ import annotations

from collections.abc import Mapping
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


REPEAT_HINT = "three or more runs show how much runs differ"


class Field(NamedTuple):
    """A field of a form, with its initial value, and a hint to be shown while it has the focus."""

    name: str
    title: str
    placeholder: str = ""
    value: str = ""
    hint: str = ""


class FormScreen(Dialog[Result]):
    """A form whose `read` turns its fields into a result; answers None if cancelled."""

    SUBMIT: ClassVar[str] = ""
    # An absolute path: Textual would look for a relative one beside the subclass.
    CSS_PATH = Path(__file__).with_name("form.tcss")
    AUTO_FOCUS = "TextField"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next field"),
        Binding("escape", "cancel", "Back", priority=True),
        Binding("ctrl+c,ctrl+q", "cancel", show=False, priority=True),
    ]

    def __init_subclass__(cls) -> None:
        """Bind enter under the name that it has in this form."""
        enter = Binding("enter", "submit", cls.SUBMIT, priority=True)
        to_wrong = Binding("enter", "to_wrong_field", "Go to what is wrong", priority=True)
        cls.BINDINGS = [enter, to_wrong, *vars(cls).get("BINDINGS", ())]
        super().__init_subclass__()

    def __init__(self, title: str, fields: tuple[Field, ...]) -> None:
        super().__init__()
        self._title, self._fields = title, fields

    def compose(self) -> ComposeResult:
        with Vertical(id="form", classes="panel") as box:
            box.border_title = Content(self._title)
            for field in self._fields:
                with Horizontal():
                    yield Label(field.title)
                    text_field = TextField(placeholder=field.placeholder, id=field.name)
                    text_field.value = field.value
                    # What is typed is added to it.
                    text_field.select_on_focus = False
                    yield text_field
                yield Static(id=f"{field.name}-problem", classes="problem")
            yield Static(id="summary")
            if any(field.hint for field in self._fields):
                yield Static(id="hint")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._check()

    def on_descendant_focus(self) -> None:
        """Show the hint of the field that has the focus."""
        hints = {field.name: f"{field.title}: {field.hint}" for field in self._fields if field.hint}
        for line in self.query("#hint").results(Static):
            line.update(Content(hints.get(getattr(self.focused, "id", "") or "", "")))

    def read(
        self, typed: dict[str, str], submitted: bool
    ) -> tuple[Result | None, str, Mapping[str, str]]:
        """Return the result of the fields, a sentence about it, and what is wrong in which field.

        A field that is still being typed is not wrong before it is submitted.
        """
        raise NotImplementedError

    def _check(self, submitted: bool = False) -> Result | None:
        typed = {
            field.name: self.query_one(f"#{field.name}", TextField).value.strip()
            for field in self._fields
        }
        answer, text, problems = self.read(typed, submitted)
        self.query_one("#summary", Static).update(Content(text))
        for field in self._fields:
            problem = problems.get(field.name, "")
            self.query_one(f"#{field.name}").set_class(bool(problem), "-wrong")
            line = self.query_one(f"#{field.name}-problem", Static)
            line.display = bool(problem)
            line.update(Content(f"! {problem}"))
        self.refresh_bindings()
        return answer

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._check()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to submit while nothing is wrong, else to go to what is."""
        if action not in ("submit", "to_wrong_field"):
            return True
        return bool(self.query(".-wrong")) == (action == "to_wrong_field")

    def action_submit(self) -> None:
        """Submit once the field has taken the keys that were typed before, one by one."""
        (self.focused or self).call_later(self._submit)

    action_to_wrong_field = action_submit

    def _submit(self) -> None:
        # If Enter was pressed twice, the form may be closed already.
        answer = self._check(submitted=True) if self.is_current else None
        if answer is not None:
            self.dismiss(answer)
        elif wrong := self.query(".-wrong"):
            wrong.first().focus()

    def action_cancel(self) -> None:
        self.dismiss()
