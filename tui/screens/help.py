"""What every panel and figure of a screen means, and its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

_NAME_WIDTH = 18

Topic = tuple[str, str]
"""A panel, a figure or a key, and a sentence that explains it."""


class HelpScreen(ModalScreen[None]):
    """The keys of a screen, then its panels and figures, a sentence each.

    Args:
        keys: each key with what it does.
        topics: each panel or figure with what it means.
    """

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "close", "Close", key_display="esc"),
        Binding("ctrl+c,ctrl+q", "close", show=False),
    ]

    def __init__(self, keys: Sequence[Topic], topics: Sequence[Topic]) -> None:
        """Take what is to be explained."""
        super().__init__()
        self._keys, self._topics = keys, topics

    def compose(self) -> ComposeResult:
        """Lay out the explanations in a box that scrolls."""
        with VerticalScroll(id="help", classes="panel") as box:
            box.border_title = "Help"
            yield Static(Text("Keys", "bold underline"), classes="heading")
            yield Static(_table(self._keys, apart=0))
            yield Static(Text("On this screen", "bold underline"), classes="heading")
            yield Static(_table(self._topics, apart=1))
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Let the arrow keys scroll at once."""
        self.query_one("#help").focus()

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()


def _table(topics: Sequence[Topic], apart: int) -> Table:
    """Return names beside their sentences, `apart` rows between them.

    One widget draws it: a hundred of them would take a fifth of a second to open.
    """
    table = Table.grid(padding=(0, 2, apart, 0))
    table.add_column(width=_NAME_WIDTH)
    table.add_column(ratio=1)
    for name, sentence in topics:
        table.add_row(Text(name, "bold"), Text(sentence))
    return table
