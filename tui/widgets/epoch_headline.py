"""The headline of the comparison: seconds per epoch, or per run, with its band."""

from __future__ import annotations

from textwrap import wrap

from dlmon.session import Snapshot
from tui import figures
from tui.compared import timing_of
from tui.widgets.lines import ACCENT, MUTED, PLAIN, Lines, cut, row_width
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
        """Show a session's figures; `factor` compares it with the nearest published number."""
        self._snapshot, self._factor = snapshot, factor
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return both rows."""
        snapshot = self._snapshot
        if snapshot is None:
            return []
        ellipsis = "..." if self.ascii else "…"
        if timing_of(snapshot) is None:
            reason = snapshot.why.get("seconds_per_epoch") or snapshot.why.get("run_seconds", "")
            first, rest = _broken(reason, width - 3)
            rows: list[Row] = [(("–  ", ACCENT), (first, MUTED)), ((f"   {rest}", MUTED),)]
        else:
            rows = [_headline(snapshot, width), ((self._factor, MUTED),)]
        return [cut(row, width, ellipsis) for row in rows]


def _headline(snapshot: Snapshot, width: int) -> Row:
    """Return the figure, and of what it rests on as much as has room."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    assert timing is not None
    row: Row = ((figures.band(timing), ACCENT),)
    parts = [(_basis(snapshot), MUTED)]
    if timing is snapshot.run_seconds and per_epoch is not None:
        parts.insert(0, (f"{figures.band(per_epoch)} an epoch", PLAIN))
    if snapshot.compile_s is not None:
        parts.append((f"compile {figures.seconds(snapshot.compile_s)}", MUTED))
    for text, style in parts:
        longer: Row = (*row, (f"   {text}", style))
        if row_width(longer) > width:
            break
        row = longer
    return row


def _basis(snapshot: Snapshot) -> str:
    """Say whether the figure was measured or projected, and from what."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    whole_run = timing is snapshot.run_seconds
    if timing is not None and timing.projected:
        missing = "evaluation" if whole_run else "validation"
        left_out = "validation" in snapshot.why or (whole_run and "evaluation" in snapshot.why)
        return f"projected without {missing}" if left_out else "projected"
    if per_epoch is not None and not whole_run:
        return "1 epoch" if per_epoch.epochs == 1 else f"{per_epoch.epochs} epochs"
    return "measured"


def _broken(text: str, width: int) -> tuple[str, str]:
    """Break a sentence in two between words, the first part no longer than `width` cells."""
    first, *rest = wrap(text, max(1, width)) or [""]
    return first, " ".join(rest)
