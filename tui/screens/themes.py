"""Choose other colours: each theme is seen on the screen below as it is gone to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter

_CURRENT = " (now)"


class ThemesScreen(Dialog[str]):
    """A list of themes that opens on the current one; answers with the chosen one, or nothing.

    Args:
        names: those that can be chosen.
        current: the one that stays unless another is chosen.
    """

    DEFAULT_CSS = """
    ThemesScreen {
        align: right bottom;
        background: $background 0%;

        & > OptionList, & > OptionList:focus {
            width: 34;
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

    def __init__(self, names: Sequence[str], current: str) -> None:
        super().__init__()
        self._names, self._before = list(names), current

    def compose(self) -> ComposeResult:
        """Lay out the list over the right of what is shown, and its keys."""
        options = [
            Option(Content(f"{name}{_CURRENT if name == self._before else ''}"), id=name)
            for name in self._names
        ]
        themes = OptionList(*options)
        themes.border_title = "Theme"
        themes.highlighted = self._names.index(self._before)
        yield themes
        yield KeyFooter()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show what is gone to."""
        event.stop()
        if self.is_current and event.option_id is not None:
            self.app.theme = event.option_id

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Keep what was clicked."""
        event.stop()
        self.dismiss(event.option_id)

    def action_keep(self) -> None:
        """Answer with the theme that is highlighted."""
        highlighted = self.query_one(OptionList).highlighted
        self.dismiss(None if highlighted is None else self._names[highlighted])

    def action_cancel(self) -> None:
        """Show what was before, and answer with nothing."""
        self.app.theme = self._before
        self.dismiss()
