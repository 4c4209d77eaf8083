"""What the list of sessions asks: before it deletes or resumes, for a name, and for its columns."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from dlmon.log import label
from dlmon.records.sanitize import clean
from tui.screens.form import Field, FormScreen
from tui.screens.list_dialog import ListDialog
from tui.screens.question import Answer, QuestionScreen, stay
from tui.sessions.arrangement import COLUMNS, TIME


class DeleteScreen(QuestionScreen):
    """Answers `delete` or `stay`."""

    ANSWERS = (
        Answer("delete", "y", "Delete", "permanently: this cannot be undone", "error"),
        stay("Keep"),
    )


class ResumeScreen(QuestionScreen):
    """Answers `resume` or `stay`."""

    ANSWERS = (
        Answer("resume", "y", "Resume", "they are trained now", "primary"),
        stay("Back"),
    )


class ColumnsScreen(ListDialog[frozenset[str]]):
    """All columns, a ● at those that are wanted; answers with those that are not, or nothing.

    Args:
        hidden: those that are not wanted as it opens.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_or_hide", "Show, hide"),
    ]

    def __init__(self, hidden: frozenset[str]) -> None:
        self._names = [name for name in COLUMNS if name != TIME]
        self._hidden = set(hidden)
        # The stock list of selections tells what is selected by its colour alone.
        options = list(map(self._prompt, self._names))
        super().__init__("Columns", options, below="those that have room are shown")

    def _prompt(self, name: str) -> str:
        return f"{' ' if name in self._hidden else '●'} {COLUMNS[name].heading}"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show or hide what was clicked."""
        event.stop()
        self._show_or_hide(event.option_index)

    def action_show_or_hide(self) -> None:
        if self.list.highlighted is not None:
            self._show_or_hide(self.list.highlighted)

    def _show_or_hide(self, index: int) -> None:
        name = self._names[index]
        self._hidden ^= {name}
        self.list.replace_option_prompt_at_index(index, Content(self._prompt(name)))

    def action_keep(self) -> None:
        """Answer with the columns that are not wanted."""
        self.dismiss(frozenset(self._hidden))


HINT = "Every command finds it by its name. An empty field takes it away."


class LabelForm(FormScreen[label.Label]):
    """Two fields; answers with what they amount to, or with nothing.

    Args:
        recording: the id of the session, or of the sweep.
        before: what it is called.
    """

    SUBMIT = "Rename"

    def __init__(self, recording: str, before: label.Label) -> None:
        name = Field("name", "Name", value=before.name or "")
        note = Field("note", "Note", value=before.note or "")
        super().__init__(clean(recording, label.LONGEST_NAME), (name, note))

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[label.Label | None, str, bool]:
        """Read the name and the note, or say what is wrong with them."""
        name, note = typed["name"], typed["note"]
        problem = label.refuse_name(name) if name else None
        problem = problem or label.refuse_note(note)
        if problem is not None:
            return None, clean(problem), True
        return label.Label(name or None, note or None), HINT, False
