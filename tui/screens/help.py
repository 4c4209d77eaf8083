"""The help: the meaning of every panel and figure of a screen, and its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from tui.screens.base import BaseScreen

Topic = tuple[str, str]
"""A panel, a figure or a key, and a sentence that explains it."""

_NAME_WIDTH = 18


def _section(heading: str, topics: Sequence[Topic], apart: int) -> Group:
    """Return a heading, and below it each name beside its sentence."""
    rows = Table.grid(padding=(0, 2, apart, 0), collapse_padding=False, expand=True)
    rows.add_column(width=_NAME_WIDTH, style="bold")
    rows.add_column(ratio=1)
    for name, sentence in topics:
        rows.add_row(Text(name), Text(sentence))
    return Group(Text(heading, style="bold underline"), "", rows, *[""] * (1 - apart))


class HelpScreen(BaseScreen):
    """The keys of a screen, then its panels and figures, a sentence each.

    The topics of `first` stand at the top. The help covers the other screen, so that it need not be
    drawn behind it.
    """

    CSS_PATH = "help.tcss"
    AUTO_FOCUS = ""
    USES_SENSORS_BELOW = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "close", "Close", key_display="esc"),
        Binding("ctrl+c,ctrl+q", "close", show=False),
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓"),
        Binding("down,j", "scroll(1)", "Scroll down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "page(-1000)", "Go to start", show=False),
        Binding("end", "page(1000)", "Go to end", show=False),
    ]

    def __init__(
        self, keys: Sequence[Topic], topics: Sequence[Topic], first: Sequence[Topic] = ()
    ) -> None:
        super().__init__()
        in_short = [_section("In short", first, 0)] if first else []
        sections = Group(
            *in_short, _section("Keys", keys, 0), _section("On this screen", topics, 1)
        )
        self._box = VerticalScroll(Static(sections), id="help", classes="panel")
        self._box.border_title = "Help"

    def compose_parts(self) -> ComposeResult:
        yield self._box

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_bindings)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to scroll only if there is more than fits."""
        return action not in ("scroll", "page") or self._box.max_scroll_y > 0

    def action_scroll(self, lines: int) -> None:
        self._box.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages, which overlap by a row; up is negative."""
        self.action_scroll(pages * max(1, self._box.size.height - 1))

    def action_close(self) -> None:
        self.dismiss()
