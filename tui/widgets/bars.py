"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len

from tui.widgets.plot import bar
from tui.widgets.rows import Row, RowWidget, fit

BarStyle = Literal["published", "earlier", "this"]

_LABEL_SHARE = 0.5
_SHORTEST_BAR = 6
_SHORTEST_BADGE, _LEGIBLE_BADGE = 4, 8
_MARKER_WIDTH = 2
_GAP = 2

_MARKERS: dict[BarStyle, str] = {"published": " ", "earlier": "·", "this": "▶"}
_ASCII_MARKERS: dict[BarStyle, str] = {"published": " ", "earlier": ".", "this": ">"}


@dataclass(frozen=True)
class BarRow:
    """One row. `fraction` is of the longest bar, None where there is no number to draw.

    `detail` is dropped first where the row is narrow; `badge` says what differs
    from like with like, and stays.
    """

    label: str
    fraction: float | None
    value: str
    detail: str = ""
    style: BarStyle = "published"
    badge: str = ""


class _Widths(NamedTuple):
    label: int
    bar: int
    whole: int
    value: int
    detail: int
    badge: int


class ComparisonBars(RowWidget):
    """Rows of label, bar, value and notes; the row of this run is always in view."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "comparison-bars--published",
        "comparison-bars--earlier",
        "comparison-bars--this",
        "comparison-bars--bar-published",
        "comparison-bars--bar-earlier",
        "comparison-bars--bar-this",
        "comparison-bars--note",
        "comparison-bars--badge",
        "comparison-bars--more",
    }

    DEFAULT_CSS = """
    ComparisonBars {
        & > .comparison-bars--this { text-style: bold; }
        & > .comparison-bars--bar-published { color: $text-muted; }
        & > .comparison-bars--bar-earlier { color: $text-primary; }
        & > .comparison-bars--bar-this { color: $text-accent; text-style: bold; }
        & > .comparison-bars--note { color: $text-muted; }
        & > .comparison-bars--badge { color: $text-warning; text-style: italic; }
        & > .comparison-bars--more { color: $text-muted; }
    }
    """

    def __init__(self, *, ascii: bool = False, id: str | None = None, classes: str | None = None):
        """Draw with plain characters when `ascii` is set."""
        super().__init__(ascii=ascii, id=id, classes=classes)
        self._bars: tuple[BarRow, ...] = ()
        self._first = 0

    def show(self, bars: tuple[BarRow, ...]) -> None:
        """Show `bars` from top to bottom, repainting only the rows that changed."""
        if bars != self._bars:
            self._bars = bars
            self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the rows in view, and a last one that tells how many are not."""
        if width < 1 or height < 1 or not self._bars:
            return []
        shown = height if len(self._bars) <= height else max(1, height - 1)
        self._first = first_in_view(self._this_run(), self._first, shown, len(self._bars))
        widths = self._widths(width)
        rows = [self._row(row, widths) for row in self._bars[self._first : self._first + shown]]
        below = len(self._bars) - self._first - shown
        if shown < height and self._first + below:
            ellipsis = "..." if self.ascii else "…"
            text = f"  {ellipsis} {hidden_text(self._first, below)}"
            rows.append(((text, ("comparison-bars--more",)),))
        return rows

    def _this_run(self) -> int | None:
        return next((i for i, row in enumerate(self._bars) if row.style == "this"), None)

    def _widths(self, width: int) -> _Widths:
        """Share out the width: the value comes first, then label, bar, badge and detail."""
        bars = self._bars
        room = max(0, width - _MARKER_WIDTH - 1 - _GAP)
        whole = max(cell_len(_whole_part(row.value)) for row in bars)
        value = max(whole + cell_len(row.value) - cell_len(_whole_part(row.value)) for row in bars)
        value = min(value, room)
        label = min(max(cell_len(row.label) for row in bars), int(width * _LABEL_SHARE))
        label = min(label, room - value)
        detail = max(cell_len(row.detail) for row in bars)
        longest = max(cell_len(row.badge) for row in bars)
        free = room - value - label
        if free - _column(detail) - _column(min(longest, _LEGIBLE_BADGE)) < _SHORTEST_BAR:
            detail = 0
        badge = min(longest, free - _column(detail) - _SHORTEST_BAR - _GAP)
        if badge < min(longest, _SHORTEST_BADGE):
            badge = 0
        bar_width = max(0, free - _column(detail) - _column(badge))
        return _Widths(label, bar_width, whole, value, detail, badge)

    def _row(self, row: BarRow, widths: _Widths) -> Row:
        marker = (_ASCII_MARKERS if self.ascii else _MARKERS)[row.style]
        ellipsis = "~" if self.ascii else "…"
        # The decimal points stand under each other.
        indent = " " * (widths.whole - cell_len(_whole_part(row.value)))
        text, bar_text = f"comparison-bars--{row.style}", f"comparison-bars--bar-{row.style}"
        runs = (
            (f"{marker} {fit(row.label, widths.label, ellipsis)} ", (text,)),
            (bar(row.fraction, widths.bar, self.ascii), (bar_text,)),
            (" " * _GAP + fit(indent + row.value, widths.value, ellipsis), (text,)),
            (_note(row.detail, widths.detail, ellipsis), ("comparison-bars--note",)),
            (_note(row.badge, widths.badge, ellipsis), ("comparison-bars--badge",)),
        )
        return tuple(run for run in runs if run[0])


def first_in_view(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show: `first` where it can stay, else this run in the middle."""
    last_first = max(0, total - shown)
    first = min(first, last_first)
    if this_run is None or first <= this_run < first + shown:
        return first
    return min(max(0, this_run - shown // 2), last_first)


def hidden_text(above: int, below: int) -> str:
    """Say how many rows are out of view, and where."""
    if not above:
        return f"{below} more"
    if not below:
        return f"{above} more above"
    return f"{above} more above, {below} below"


def _whole_part(value: str) -> str:
    """Return what stands before the decimal point, or where it would."""
    part = value.partition(".")[0]
    return part.rstrip("abcdefghijklmnopqrstuvwxyz ")


def _column(width: int) -> int:
    return width + _GAP if width else 0


def _note(text: str, width: int, ellipsis: str) -> str:
    return " " * _GAP + fit(text, width, ellipsis) if width else ""
