"""The answer of a screen in capitals, with the sentences that explain it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len

from tui.widgets.lines import APART, PLAIN, STRONG, GrowingLines, TextRow, fit, shows, wrapped

_MARK, _ADVICE = "▌ ", "→ "


class Headline(GrowingLines):
    """The answer in a few capitals, then the sentences that explain it."""

    MOST_ROWS: ClassVar[int] = 6

    def rows(
        self, width: int, height: int, word: str, sentences: Sequence[str], style: str = STRONG
    ) -> list[TextRow]:
        indent = cell_len(word) + APART
        room = max(1, width - indent - len(_MARK))
        lines = []
        for text in sentences:
            # Advice ends with a command, which is copied: it begins further left if it is long.
            is_long = text.startswith(_ADVICE) and cell_len(text) > room
            start, cells = (0, width - len(_MARK)) if is_long else (indent, room)
            lines += [(" " * start, line) for line in wrapped(text, cells, height)]
        if len(lines) > height:
            more = f"… {len(lines) - height + 1} more in dlmon report"
            lines[height - 1 :] = [(" " * indent, more)]
        lines[:1] = [(fit(word, indent), line) for _, line in lines[:1]]
        return [((_MARK, style), (start, style), (line, PLAIN)) for start, line in lines]

    show = shows(rows)
