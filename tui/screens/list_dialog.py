"""Choose from a list at the right of the screen, such as themes or columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ScreenResultType
from textual.widgets import OptionList

from tui.textual_internals import Dialog, SteadyOptionList
from tui.widgets.key_footer import KeyFooter

_CURRENT = " (now)"


class ListDialog(Dialog[ScreenResultType]):
    """A list at the right of the screen, and its keys; options are never parsed as markup."""

    DEFAULT_CSS = """
    ListDialog {
        align: right bottom;
        background: $background 0%;

        & > OptionList, & > OptionList:focus {
            width: 40;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            margin: 0 1 1 1;
            padding: 0 1;
            border: round $primary;
            border-title-color: $text-primary;
            background: $surface;
            scrollbar-size-vertical: 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "Keep", priority=True),
        Binding("escape", "cancel", "Back", priority=True),
        Binding("q,ctrl+c,ctrl+q", "cancel", show=False, priority=True),
    ]

    def __init__(
        self, title: str, options: Sequence[str], highlighted: int = 0, below: str = ""
    ) -> None:
        super().__init__()
        self.list = SteadyOptionList(*map(Content, options))
        self.list.border_title, self.list.border_subtitle = title, below
        self.list.highlighted = highlighted

    def compose(self) -> ComposeResult:
        yield self.list
        yield KeyFooter()

    def action_cancel(self) -> None:
        self.dismiss()


class ThemesScreen(ListDialog[str]):
    """Previews the highlighted theme; answers with the chosen one, or None."""

    def __init__(self, names: Sequence[str], current: str) -> None:
        self._names, self._before = list(names), current
        options = [f"{name}{_CURRENT if name == current else ''}" for name in names]
        super().__init__("Theme", options, self._names.index(current))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self.is_current:
            self.app.theme = self._names[event.option_index]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._names[event.option_index])

    def action_keep(self) -> None:
        highlighted = self.list.highlighted
        self.dismiss(None if highlighted is None else self._names[highlighted])

    def action_cancel(self) -> None:
        self.app.theme = self._before
        super().action_cancel()
