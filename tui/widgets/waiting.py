"""A sentence in the middle of a screen that has nothing else to show yet."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Waiting(Static):
    """Says what is waited for; never read as markup."""

    DEFAULT_CSS = "Waiting { height: 1fr; content-align: center middle; color: $text-muted; }"

    def __init__(self, text: str) -> None:
        super().__init__(Content(text))

    def show_text(self, text: str) -> None:
        self.update(Content(text), layout=False)
