"""What limits the run, in one sentence."""

from __future__ import annotations

from dlmon.session import Snapshot
from tui.widgets.lines import MUTED, PLAIN, Lines, cut
from tui.widgets.rows import Row


class LimitLine(Lines):
    """One row; it keeps its place while nothing is known, so that nothing jumps."""

    DEFAULT_CSS = "LimitLine { height: 1; padding: 0 2; }"

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._snapshot: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Show what limits a session, or that it can't be told yet."""
        self._snapshot = snapshot
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the row."""
        if self._snapshot is None:
            return []
        limit, result = self._snapshot.limit, self._snapshot.result
        if limit is not None:
            said: Row = ((limit.text, PLAIN),)
        elif result is None:
            said = (("can be told once training is steady", MUTED),)
        else:
            said = (("the run was never steady for long enough to tell", MUTED),)
        return [cut((("What limits it  ", MUTED), *said), width, "..." if self.ascii else "…")]
