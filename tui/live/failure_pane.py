"""The pane of a run that failed: its traceback, or its last output, with the end in view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from dlmon.session.learning import Learning
from dlmon.session.snapshot import Snapshot
from tui.live.output_pane import split_line
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, TextRow, cut
from tui.widgets.tables import MARGIN, FollowingLines

if TYPE_CHECKING:
    from dlmon.figures.session.tracebacks import TraceRow

_FRAME = 2
LEAST_CHARTS = 6
"""The charts stay if the pane leaves them this many rows."""
_MOST_ROWS_OF_ERROR = 6
_STYLES = {"frame": STRONG, "source": PLAIN, "library": MUTED, "joint": MUTED, "error": BAD}


class FailurePane(FollowingLines):
    """The rows that tell of a failure; the last ones are in view unless one scrolls back."""

    DEFAULT_CSS = "FailurePane { padding: 0 1; display: none; }"
    DEFAULT_CLASSES = "panel -bad"

    replaces_charts = False
    """There is no room for charts below."""
    _trace: tuple[TraceRow, ...] = ()
    _shown_for: object = None

    def show(self, snapshot: Snapshot, learning: Learning, charts: Widget) -> bool:
        """Show why a run failed; return whether that changed.

        The `charts` below give way if there is no room for both.
        """
        assert isinstance(self.parent, Widget)
        is_alone, room = self.screen.maximized is self, self.parent.size
        shown_for = snapshot.result, len(snapshot.output), room, is_alone
        if shown_for == self._shown_for or (snapshot.result is None and not self.display):
            return False
        # Few runs fail: the first paint of the others doesn't wait for this.
        from dlmon.figures.session.failure import failure_rows

        self._shown_for = shown_for
        heading, self._trace = failure_rows(snapshot, learning)
        self.display = bool(self._trace)
        self.set_titles(heading)
        height = len(self._all_rows(room.width - 2 * _FRAME)) + _FRAME
        has_room = not self._trace or (room.height - height >= LEAST_CHARTS and not is_alone)
        self.replaces_charts = not has_room
        charts.display = has_room
        self.styles.height = height if has_room else "1fr"
        self.redraw()
        return True

    def draw(self, width: int, height: int) -> list[TextRow]:
        rows = self._all_rows(width) if width > 0 else []
        return self.scrolled(rows, width, height)

    def _all_rows(self, width: int) -> list[TextRow]:
        return [drawn for row in self._trace for drawn in _rows_of(row, width - MARGIN)]


def _rows_of(row: TraceRow, width: int) -> list[TextRow]:
    """Return a row of a traceback, cut; an error and its message take several."""
    indent, style = "  " * min(row.depth, width // 8), _STYLES.get(row.kind, PLAIN)
    if row.kind not in ("error", "message", "joint"):
        return [cut(((f"{indent}{row.text}", style),), width)]
    parts = split_line(row.text, max(1, width - len(indent)))[:_MOST_ROWS_OF_ERROR]
    return [((f"{indent}{part}", style),) for part in parts]
