"""How far the epoch and the run have come, and the time left."""

from __future__ import annotations

from dlmon.session import Snapshot
from tui import figures
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    cut,
    joined,
    row_width,
)
from tui.widgets.plot import bar
from tui.widgets.rows import Row

_BAR = 24
# Where there is no room for the output, a notice is seen nowhere else.
NOTICE_S = 15.0


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
        if result is not None:
            after = f"{result.status} after {figures.seconds(result.wall_s)}"
            return [cut(((after, PLAIN),), width)]
        left, right = self._left(snapshot), self._right(snapshot)
        if _recent_notice(snapshot) and row_width(left) + APART + row_width(right) > width:
            return [cut(left, width)]
        return [joined(left, right, width)]

    def _left(self, snapshot: Snapshot) -> Row:
        notice = _recent_notice(snapshot)
        if notice:
            return ((("! " if self.ascii else "▲ ") + notice, STRONG),)
        progress = snapshot.progress
        if progress is None:
            return ((f"{snapshot.phase or 'starting'} …", MUTED),)
        return ((f"step {progress.step:,} of {progress.steps:,}", MUTED),)

    def _right(self, snapshot: Snapshot) -> Row:
        progress = snapshot.progress
        if progress is None:
            return ()
        fraction = progress.epoch_fraction
        done = bar(fraction, _BAR, self.ascii).rstrip()
        track = ("." if self.ascii else "─") * (_BAR - len(done))
        left = figures.time_left(progress.run_left_s)
        return (
            ("epoch ", MUTED),
            (done, ACCENT),
            (track, MUTED),
            (f" {fraction * 100:3.0f} %  {left}".rstrip(), PLAIN),
        )


def _recent_notice(snapshot: Snapshot) -> str:
    """Return the newest notice while it is news."""
    if not snapshot.notices:
        return ""
    newest = snapshot.notices[-1]
    age_s = snapshot.elapsed_s - (newest.t - snapshot.header.t) / 1e9
    return newest.text if age_s <= NOTICE_S else ""
