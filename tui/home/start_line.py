"""What dlmon can show, in the first row of the home screen: each with the key that begins it."""

from __future__ import annotations

from typing import NamedTuple

from textual import events

from tui.widgets.lines import ACCENT, PLAIN, STRONG, Lines, row_width
from tui.widgets.rows import TextRow

_NAME = " dlmon "
_APART = "  "


class _Start(NamedTuple):
    """A way to begin: its key, what a person calls that, and what it opens, long and short."""

    key: str
    shown_key: str
    name: str
    short: str


STARTS = (
    _Start("enter", "⏎", "Workload", "Workload"),
    _Start("f8", "f8", "Your own script", "Script"),
    _Start("f7", "f7", "Remote machine", "Remote"),
    _Start("ctrl+r", "^r", "Recorded sessions", "Recorded"),
)


class StartLine(Lines):
    """One row; a click presses the key of what lies under the mouse."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    StartLine {
        height: 1;
        background: $panel;
        & > .lines--accent { color: $footer-key-foreground; background: $panel; }
        & > .lines--strong { color: $text-accent; background: $panel; }
    }
    """

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the ways to begin; in a narrow terminal, a word for each."""
        row = self._row(short=False)
        return [row if row_width(row) <= width else self._row(short=True)]

    def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse."""
        column = event.x
        row = self.draw(self.size.width, 1)[0]
        for number, (text, _) in enumerate(row):
            column -= len(text)
            if column < 0:
                if number > 0:
                    self.app.simulate_key(STARTS[(number - 1) // 2].key)
                return

    def _row(self, short: bool) -> TextRow:
        row: TextRow = ((_NAME, STRONG),)
        for start in STARTS:
            key = start.shown_key
            if key == "⏎" and self.app.has_class("-ascii"):
                key = "enter"
            name = start.short if short else start.name
            row = (*row, (f"{_APART}{key}", ACCENT), (f" {name}", PLAIN))
        return row
