"""One of a few values, in one row; the arrow keys and the mouse go through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.lines import PLAIN, Lines
from tui.widgets.rows import TextRow, fit

_ARROW_WIDTH = 2
_ARROWS: tuple[str, ...] = ("choice--arrows",)


class Choice(Lines, can_focus=True):
    """Shows the chosen one of its values, between arrows.

    Args:
        values: what can be chosen, each with what to show for it.
        chosen: one of them, or one more.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"choice--arrows"}
    DEFAULT_CSS = """
    Choice {
        height: 1;
        background: $surface;
        pointer: pointer;
        &:focus { background-tint: $foreground 5%; }
        & > .choice--arrows { color: $text-muted; }
        &:focus > .choice--arrows { color: $text-accent; text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "go(1)", "Next value", show=False),
        Binding("left", "go(-1)", "Previous value", show=False),
    ]

    class Changed(Message):
        """Another value was chosen."""

    def __init__(
        self,
        values: Sequence[tuple[str, str]],
        chosen: str,
        *,
        id: str | None = None,
        tooltip: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.tooltip = tooltip
        self.value = chosen
        self._values: list[tuple[str, str]] = []
        self.offer(values)

    def offer(self, values: Sequence[tuple[str, str]]) -> None:
        """Take other values; what was chosen stays, also where it is none of them."""
        there = any(value == self.value for value, _ in values)
        self._values = [*values, *(() if there else ((self.value, self.value),))]
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the chosen value between arrows."""
        left, right = self.glyphs.to_left, self.glyphs.to_right
        shown = dict(self._values)[self.value]
        room = width - 2 * _ARROW_WIDTH
        text = fit(shown, room, self.ellipsis) if cell_len(shown) > room else shown
        return [((f"{left} ", _ARROWS), (text, PLAIN), (f" {right}", _ARROWS))]

    def choose(self, value: str) -> None:
        """Choose one of the values."""
        if value != self.value and value in dict(self._values):
            self.value = value
            self.redraw()
            self.post_message(self.Changed())

    def action_go(self, steps: int) -> None:
        """Choose the value that is `steps` further on."""
        values = [value for value, _ in self._values]
        self.choose(values[(values.index(self.value) + steps) % len(values)])

    def on_click(self, event: events.Click) -> None:
        """Go back on the left arrow, on everywhere else."""
        self.action_go(-1 if event.x < _ARROW_WIDTH else 1)
