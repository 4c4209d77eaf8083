"""The answer of a screen in capitals, with the sentences that explain it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len

from tui.widgets.lines import APART, PLAIN, STRONG, GrowingLines, TextRow, shows, wrapped

_MARK = "▌ "


class Headline(GrowingLines):
    """The answer in a few capitals, then the sentences that explain it."""

    DEFAULT_CSS = "Headline { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 6

    def rows(
        self, width: int, height: int, word: str, sentences: Sequence[str], style: str = STRONG
    ) -> list[TextRow]:
        room = max(1, width - cell_len(word) - len(_MARK) - APART)
        lines = [line for text in sentences for line in wrapped(text, room, height)]
        if len(lines) > height:
            lines[height - 1 :] = [f"… {len(lines) - height + 1} more in dlmon report"]
        first: TextRow = ((_MARK, style), (word, style), (" " * APART, PLAIN))
        indent: TextRow = ((_MARK, style), (" " * (cell_len(word) + APART), PLAIN))
        return [
            (*(indent if number else first), (line, PLAIN)) for number, line in enumerate(lines)
        ]

    show = shows(rows)
