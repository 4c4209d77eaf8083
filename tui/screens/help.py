"""What every panel and figure of a screen means, and its keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.screens.base import BaseScreen
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import PLAIN, STRONG, UNDERLINED, wrapped
from tui.widgets.rows import TextRow, fit

Topic = tuple[str, str]
"""A panel, a figure or a key, and a sentence that explains it."""

_NAME_WIDTH = 18
_APART = 2
_MOST_ROWS = 100


class Explanations(ScrollingLines):
    """Sections of topics. One widget draws it all: a widget for each would open slowly.

    Args:
        sections: each heading with its topics, and how many blank rows stand between them.
    """

    def __init__(
        self, sections: Sequence[tuple[str, Sequence[Topic], int]], *, id: str | None = None
    ) -> None:
        super().__init__(id=id, classes="panel")
        self._sections = sections
        self._drawn_width = -1
        self._drawn: list[TextRow] = []

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the visible rows, and a thumb where there are more."""
        return self.scrolled(self._all_rows(width), width, height)

    def _all_rows(self, width: int) -> list[TextRow]:
        if width != self._drawn_width:
            self._drawn_width, self._drawn = width, self._draw_all(width)
        return self._drawn

    def _draw_all(self, width: int) -> list[TextRow]:
        rows: list[TextRow] = []
        for heading, topics, apart in self._sections:
            rows += [(), ((fit(heading, min(len(heading), width), self.ellipsis), UNDERLINED),), ()]
            for name, sentence in topics:
                rows += [*_topic_rows(name, sentence, width, self.ellipsis), *[()] * apart]
        return rows[1:]


def _topic_rows(name: str, sentence: str, width: int, ellipsis: str) -> list[TextRow]:
    """Return a name beside its sentence, each wrapped in its own column."""
    names = wrapped(name, _NAME_WIDTH, _MOST_ROWS, ellipsis)
    # The last column is the thumb's.
    room = width - _NAME_WIDTH - 2 * _APART
    sentences = wrapped(sentence, room, _MOST_ROWS, ellipsis)
    return [
        ((fit(left, _NAME_WIDTH, ellipsis), STRONG), (" " * _APART, PLAIN), (right, PLAIN))
        for left, right in zip_longest(names, sentences, fillvalue="")
    ]


class HelpScreen(BaseScreen):
    """The keys of a screen, then its panels and figures, a sentence each.

    It covers the other screen, which would have to be drawn again behind it otherwise.

    Args:
        keys: each key with what it does.
        topics: each panel or figure with what it means.
        first: what to know before all else.
    """

    CSS_PATH = "help.tcss"
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
        in_short = [("In short", first, 0)] if first else []
        self._explanations = Explanations(
            (*in_short, ("Keys", keys, 0), ("On this screen", topics, 1)), id="help"
        )

    def compose_parts(self) -> ComposeResult:
        """Lay out the explanations in a box that scrolls."""
        self._explanations.set_titles("Help")
        yield self._explanations

    def on_resize(self) -> None:
        """Offer to scroll where there is more than fits, once that is known."""
        self.call_after_refresh(self.refresh_bindings)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to scroll only where there is more than fits."""
        return action not in ("scroll", "page") or self._explanations.scrolls

    def action_scroll(self, lines: int) -> None:
        self._explanations.scroll_lines(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by a page; up is negative."""
        self._explanations.scroll_pages(pages)

    def action_close(self) -> None:
        self.dismiss()
