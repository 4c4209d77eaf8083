"""Choose the columns of the list of sessions."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from tui.screens.list_dialog import ListDialog
from tui.sessions.arrangement import COLUMNS, TIME


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
