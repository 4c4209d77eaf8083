"""Names beside sentences, under headings, in a panel that scrolls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

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
