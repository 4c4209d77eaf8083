"""What differed in the epoch that the charts are zoomed to."""

from __future__ import annotations

from typing import ClassVar

from tui.widgets.lines import MUTED, PLAIN, STRONG, GrowingLines, wrapped
from tui.widgets.rows import TextRow

_BACK = "Esc goes back"


class EpochLine(GrowingLines):
    """Takes the place of what limits the run while the charts show one epoch alone."""

    DEFAULT_CSS = "EpochLine { height: auto; padding: 0 2; display: none; }"
    MOST_ROWS: ClassVar[int] = 4

    _heading = ""
    _sentence = ""

    def show(self, heading: str, sentence: str) -> None:
        """Show what is said of an epoch, after its name."""
        self._heading, self._sentence = heading, sentence
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the sentence after the name, and how one comes back where there is room."""
        heading = f"{self._heading}  "
        lines = wrapped(heading + self._sentence, width, height, self.ellipsis)
        if not lines:
            return []
        rows: list[TextRow] = [((line, PLAIN),) for line in lines]
        if lines[0].startswith(heading):
            rows[0] = ((heading, STRONG), (lines[0].removeprefix(heading), PLAIN))
        if len(lines[-1]) + 2 + len(_BACK) <= width:
            rows[-1] = (*rows[-1], (f"  {_BACK}", MUTED))
        return rows
