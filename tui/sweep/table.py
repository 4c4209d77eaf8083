"""The table of a sweep: a row for each combination, one of them highlighted."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.figures.sections import Table
from dlmon.render.lines import lines_of
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG
from tui.widgets.row_list import RowList
from tui.widgets.rows import TextRow

_STYLES = {"dim": MUTED, "strong": STRONG, "bad": BAD}


class SweepTable(RowList):
    """The combinations of a sweep, as wide as their cells need them."""

    _lines: Sequence[TextRow] = ()
    notes: Sequence[str] = ()
    """Why each combination has no figure, or what speaks against it."""

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return len(self.notes)

    def show(self, table: Table) -> None:
        """Show rows, as many as ever; the highlight stays."""
        self._lines = [
            ((" ", PLAIN), *((text, _STYLES.get(style, PLAIN)) for text, style in line))
            for line in lines_of([table])
        ]
        self.notes = [row[-1] for row in table.rows]
        self.redraw()

    def heading(self, width: int) -> TextRow:
        return self._lines[0]

    def row_of(self, index: int, width: int) -> TextRow:
        return self._lines[index + 1]

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Return nothing: a sweep has combinations."""
        return []
