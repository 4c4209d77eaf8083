"""Choose the columns of the list of sessions."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from tui.sessions.arrangement import COLUMNS, TIME
from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter


class ColumnsScreen(Dialog[frozenset[str]]):
    """All columns, a ● at those that are wanted; answers with those that are not, or nothing.

    Args:
        hidden: those that are not wanted as it opens.
    """

    CSS_PATH = "columns_screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "Keep", priority=True),
        Binding("space", "show_or_hide", "Show, hide"),
        Binding("escape", "cancel", "Back", priority=True),
        Binding("q,ctrl+c,ctrl+q", "cancel", show=False, priority=True),
    ]

    def __init__(self, hidden: frozenset[str]) -> None:
        super().__init__()
        self._names = [name for name in COLUMNS if name != TIME]
        self._hidden = set(hidden)
        # The stock list of selections tells what is selected by its colour alone.
        self._columns = OptionList(*map(self._prompt, self._names))
        self._columns.border_title = "Columns"
        self._columns.border_subtitle = "those that have room are shown"

    def _prompt(self, name: str) -> str:
        return f"{' ' if name in self._hidden else '●'} {COLUMNS[name].heading}"

    def compose(self) -> ComposeResult:
        """Lay out the list over the right of what is shown, and its keys."""
        yield self._columns
        yield KeyFooter()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show or hide what was clicked."""
        event.stop()
        self._show_or_hide(event.option_index)

    def action_show_or_hide(self) -> None:
        if self._columns.highlighted is not None:
            self._show_or_hide(self._columns.highlighted)

    def _show_or_hide(self, index: int) -> None:
        name = self._names[index]
        self._hidden ^= {name}
        self._columns.replace_option_prompt_at_index(index, self._prompt(name))

    def action_keep(self) -> None:
        """Answer with the columns that are not wanted."""
        self.dismiss(frozenset(self._hidden))

    def action_cancel(self) -> None:
        self.dismiss()
