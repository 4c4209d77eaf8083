"""The headline of the comparison: seconds per epoch, or per run, with its band."""

from __future__ import annotations

from dlmon.session import Snapshot
from tui import figures
from tui.compared import timing_of
from tui.widgets.lines import ACCENT, MUTED, PLAIN, Lines, cut
from tui.widgets.rows import Row


class EpochHeadline(Lines):
    """Two rows: the figure that is compared, and what it rests on."""

    DEFAULT_CSS = "EpochHeadline { height: 2; }"

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._snapshot: Snapshot | None = None
        self._factor = ""

    def show(self, snapshot: Snapshot, factor: str) -> None:
        """Show a session's figures; `factor` compares it with the nearest published row."""
        self._snapshot, self._factor = snapshot, factor
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return both rows."""
        snapshot = self._snapshot
        if snapshot is None:
            return []
        ellipsis = "..." if self.ascii else "…"
        return [
            cut(row, width, ellipsis)
            for row in (_headline(snapshot), ((_basis(snapshot, self._factor), MUTED),))
        ]


def _headline(snapshot: Snapshot) -> Row:
    timing = timing_of(snapshot)
    if timing is None:
        reason = snapshot.why.get("seconds_per_epoch") or snapshot.why.get("run_seconds", "")
        return (("–  ", ACCENT), (reason, MUTED))
    row: Row = ((figures.band(timing), ACCENT),)
    per_epoch = snapshot.seconds_per_epoch
    if timing is snapshot.run_seconds and per_epoch is not None:
        return (*row, (f"   {figures.band(per_epoch)} an epoch", PLAIN))
    return row


def _basis(snapshot: Snapshot, factor: str) -> str:
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    parts = []
    if timing is not None and timing.projected:
        left_out = "validation" in snapshot.why or (
            timing is snapshot.run_seconds and "evaluation" in snapshot.why
        )
        missing = "evaluation" if timing is snapshot.run_seconds else "validation"
        parts.append(f"projected, {missing} not measured yet" if left_out else "projected")
    elif per_epoch is not None and timing is per_epoch:
        parts.append("1 epoch" if per_epoch.epochs == 1 else f"{per_epoch.epochs} epochs")
    elif timing is not None:
        parts.append("measured")
    if snapshot.compile_s is not None:
        parts.append(f"compile {figures.seconds(snapshot.compile_s)}")
    if factor:
        parts.append(factor)
    return "   ".join(parts)
