"""Sections of figures, as everywhere else, in a panel that scrolls."""

from __future__ import annotations

from dlmon.figures.sections import Section
from dlmon.render.lines import lines_of
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import BAD, GOOD, HIGH, MUTED, PLAIN, STRONG, cut, shows
from tui.widgets.rows import TextRow

_STYLES = {
    "": PLAIN, "dim": MUTED, "strong": STRONG, "good": GOOD, "bad": BAD, "high": HIGH,
}  # fmt: skip


class SectionLines(ScrollingLines):
    """Sections below each other; `show` takes them."""

    def rows(self, width: int, height: int, *sections: Section) -> list[TextRow]:
        """Return the rows that are in view."""
        lines = lines_of(sections, width - 1)
        rows = [tuple((text, _STYLES[style]) for text, style in line) for line in lines]
        return self.scrolled([cut(row, width - 1) for row in rows], width, height)

    show = shows(rows)
