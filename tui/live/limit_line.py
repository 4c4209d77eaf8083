"""What limits the run, and the figures that show it."""

from __future__ import annotations

from typing import ClassVar

from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import MUTED, PLAIN, GrowingLines, wrapped
from tui.widgets.rows import TextRow

_HEADINGS = ("What limits it  ", "Limit  ", "")
"""The first one that leaves the sentence in the fewest rows."""

HELP: tuple[tuple[str, str], ...] = (
    (
        "What limits it",
        "What was measured over the last half minute of steady training: the CPU time of this run "
        "apart from that of other programs, held against what the run may use; a GPU that is busy "
        "or slowed down; a container's limit, memory, disk, and what the host of a virtual machine "
        "took. The two strongest are given in full; if there is none, the measured figures.",
    ),
)


class LimitLine(GrowingLines):
    """What limits the run in one row, or in up to three where it needs them.

    It keeps its place while nothing is known, and every row that it once had, so that nothing
    jumps.
    """

    DEFAULT_CSS = "LimitLine { height: auto; padding: 0 2; }"
    MOST_ROWS: ClassVar[int] = 3

    _snapshot: Snapshot | None = None
    _unfinished = True
    _most_at_width = (0, 1)

    def show(self, snapshot: Snapshot, running: bool = True) -> None:
        """Show what limits a session, or why that is not known."""
        self._snapshot, self._unfinished = snapshot, running
        self.redraw()

    def rows_needed(self, width: int) -> int:
        """Return the most rows that were needed at this width so far."""
        before = self._most_at_width[1] if self._most_at_width[0] == width else 1
        self._most_at_width = (width, max(before, super().rows_needed(width)))
        return self._most_at_width[1]

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the sentence after the heading that it has room for."""
        if self._snapshot is None:
            return []
        text, style = _sentence(self._snapshot, self._unfinished)
        for most in range(1, height + 1):
            for heading in _HEADINGS:
                lines = wrapped(heading + text, width, most + 1, self.ellipsis)
                if len(lines) <= most and lines[:1] and lines[0].startswith(heading):
                    first: TextRow = ((heading, MUTED), (lines[0].removeprefix(heading), style))
                    return [first, *(((line, style),) for line in lines[1:])]
        return [((line, style),) for line in wrapped(text, width, height, self.ellipsis)]


def _sentence(snapshot: Snapshot, running: bool) -> tuple[str, tuple[str, ...]]:
    if snapshot.limit is not None:
        return snapshot.limit.text, PLAIN
    if snapshot.samples_per_second is not None:
        return "too few readings of the machine in steady training", MUTED
    if running and snapshot.result is None:
        return "shown once training is steady", MUTED
    return "the run was never steady for long enough", MUTED
