"""How far the epoch and the run have come, and the time left."""

from __future__ import annotations

from dlmon.session import Snapshot
from tui import figures
from tui.widgets.lines import ACCENT, BAD, MUTED, PLAIN, Lines, cut, joined
from tui.widgets.plot import bar
from tui.widgets.rows import Row

_BAR = 24


class ProgressLine(Lines):
    """One row: a sentence that matters now, else the step; at the right the bar."""

    DEFAULT_CSS = "ProgressLine { height: 1; padding: 0 1; }"

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._snapshot: Snapshot | None = None
        self._trouble: str | None = None

    def show(self, snapshot: Snapshot, trouble: str | None) -> None:
        """Show progress, or trouble where there is some."""
        self._snapshot, self._trouble = snapshot, trouble
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the row."""
        snapshot = self._snapshot
        if snapshot is None:
            return []
        if self._trouble:
            return [cut(((self._trouble, BAD),), width)]
        result = snapshot.result
        if result is not None and result.error:
            return [cut(((f"failed: {result.error}", BAD),), width)]
        return [joined(_left(snapshot), self._right(snapshot), width)]

    def _right(self, snapshot: Snapshot) -> Row:
        progress = snapshot.progress
        if progress is None or snapshot.result is not None:
            return ()
        fraction = progress.epoch_fraction
        left = figures.time_left(progress.run_left_s)
        return (
            ("epoch ", MUTED),
            (bar(fraction, _BAR, self.ascii), ACCENT),
            (f" {fraction * 100:3.0f} %  {left}", PLAIN),
        )


def _left(snapshot: Snapshot) -> Row:
    result = snapshot.result
    if result is not None:
        return ((f"{result.status} after {figures.seconds(result.wall_s)}", PLAIN),)
    progress = snapshot.progress
    if progress is None:
        return ((f"{snapshot.phase or 'starting'} …", MUTED),)
    return ((f"step {progress.step:,} of {progress.steps:,}", MUTED),)
