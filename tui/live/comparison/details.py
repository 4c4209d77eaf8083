"""What is known of the row of the comparison that is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures.comparison_row import Detail
from tui.widgets.lines import MUTED, PLAIN, Lines, cut, wrapped
from tui.widgets.rows import TextRow

_APART = 2

HELP: tuple[tuple[str, str], ...] = (
    (
        "this run",
        "How many times as fast this run is as what is chosen, with its 95 % interval; c begins "
        "with what it is compared with, else with the newest run that it can be compared with.",
    ),
    (
        "differs",
        "What was different when this number was measured: a factor would compare other work.",
    ),
    (
        "of its peak",
        "The operations of the network over the time, as a share of the most float32 operations "
        "that the device does at its boost clock. They are counted as direct convolutions do "
        "them: faster ones (Winograd, FFT) do fewer, and so come nearer to the peak, or over it.",
    ),
    (
        "device",
        "What its maker states, and what the article of its numbers prints where that is not the "
        "same. What is not known, or differs between cards of one name, is left out.",
    ),
)


class ComparisonDetails(Lines):
    """Names and texts of one row, each text wrapped beside its name."""

    DEFAULT_CLASSES = "panel"

    _details: Sequence[Detail] = ()

    def show(self, title: str, details: Sequence[Detail]) -> None:
        """Show what is known of a row, under its name."""
        self._details = details
        self.set_titles(title)
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the texts; the last ones give way where there is no room."""
        indent = max((cell_len(name) for name, _ in self._details), default=0) + _APART
        rows: list[TextRow] = []
        for name, text in self._details:
            lines = wrapped(text, width - indent, max(1, height - len(rows)), self.ellipsis)
            for number, line in enumerate(lines):
                label = name if number == 0 else ""
                rows.append(((label.ljust(indent), MUTED), (line, PLAIN)))
        return [cut(row, width, self.ellipsis) for row in rows[:height]]
