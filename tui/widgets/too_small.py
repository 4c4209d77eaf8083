"""What a terminal shows that has no room for the screen."""

from __future__ import annotations

from typing import Any

from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from dlmon.figures import units

LEAST_WIDTH, LEAST_HEIGHT = 60, 16


def is_too_small(size: Size) -> bool:
    """Return whether a terminal has no room for any screen."""
    return size.width < LEAST_WIDTH or size.height < LEAST_HEIGHT


class TooSmall(Static):
    """Says what size dlmon needs; `dlmon.tcss` shows it in place of all else.

    The app lets no key do anything meanwhile but leave: what it would change can't be seen.
    """

    def render(self) -> Content:
        """Say the size there is, the one that is needed, and the way out."""
        width, height = self.app.size
        columns, rows = units.counted(width, "column"), units.counted(height, "row")
        return Content(
            f"This window is too small: {columns} × {rows}.\n"
            f"dlmon needs at least {LEAST_WIDTH} × {LEAST_HEIGHT}.\n"
            "Make it larger, or press Ctrl+Q to quit."
        )


def cover_without_room(screen: Screen[Any], size: Size) -> None:
    """Have a screen say that there is no room for it, in a terminal of a size that has none."""
    if is_too_small(size) and not screen.query(TooSmall):
        screen.mount(TooSmall())
