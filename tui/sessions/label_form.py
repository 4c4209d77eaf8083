"""The form that asks what a recorded session is called, and what is to be noted of it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Label, Static

from dlmon.log import label
from dlmon.records.sanitize import clean
from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter
from tui.widgets.text_field import TextField

HINT = "Every command finds it by its name. An empty field takes it away."


class LabelForm(Dialog[label.Label]):
    """Two fields; answers with what they amount to, or with nothing.

    Args:
        recording: the id of the session, or of the sweep.
        before: what it is called.
    """

    CSS_PATH = "label_form.tcss"
    AUTO_FOCUS = "#name"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "Rename", priority=True),
        Binding("tab", "app.focus_next", "Next field"),
        Binding("escape", "cancel", "Back", priority=True),
        Binding("ctrl+c,ctrl+q", "cancel", show=False, priority=True),
    ]

    def __init__(self, recording: str, before: label.Label) -> None:
        """Take what it is called; nothing is changed yet."""
        super().__init__()
        self._recording = recording
        self._before = before

    def compose(self) -> ComposeResult:
        """Lay out the fields, and below them what is wrong with them."""
        with Vertical(id="label-form", classes="panel") as box:
            box.border_title = Content(clean(self._recording, label.LONGEST_NAME))
            for name, title, value in (
                ("name", "Name", self._before.name),
                ("note", "Note", self._before.note),
            ):
                with Horizontal():
                    yield Label(title)
                    field = TextField(id=name)
                    field.value = value or ""
                    yield field
            yield Static(Content(HINT), id="hint")
        yield KeyFooter()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._check()

    def action_keep(self) -> None:
        """Answer, once what was typed before has arrived: a field takes its keys one by one."""
        (self.focused or self).call_later(self._keep)

    def _keep(self) -> None:
        """Answer with what is typed, if it can be; of two keys at once, to the first."""
        if self.is_current and self._check():
            name, note = self._typed
            self.dismiss(label.Label(name or None, note or None))

    def action_cancel(self) -> None:
        self.dismiss()

    @property
    def _typed(self) -> tuple[str, str]:
        name, note = (self.query_one(f"#{name}", TextField).value for name in ("name", "note"))
        return name.strip(), note.strip()

    def _check(self) -> bool:
        """Show what is wrong, and return whether nothing is."""
        name, note = self._typed
        problem = label.refuse_name(name) if name else None
        problem = problem or label.refuse_note(note)
        hint = self.query_one("#hint", Static)
        hint.update(Content(clean(problem or HINT)))
        hint.set_class(problem is not None, "-wrong")
        return problem is None
