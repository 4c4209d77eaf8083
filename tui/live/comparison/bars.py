"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message

from tui.drawing.bars import thick_bar
from tui.live.comparison.bar_layout import GAP, MARKER_WIDTH, Widths, aligned, arrange
from tui.live.comparison.bar_rows import NO_LEGEND, BarRow, BarStyle, Legend
from tui.widgets.following_lines import Wheel
from tui.widgets.lines import ACCENT, BRIGHT, CHOSEN, MUTED, PLAIN, STRONG, Lines, cut, wrapped
from tui.widgets.rows import TextRow, fit


def scrolled_to(bars: Sequence[BarRow], first: int, shown: int) -> list[int]:
    """Return the indices of `shown` bars from `first` on; this run takes the nearest one's place.

    Before the last ones it stops, so that all rows are taken.
    """
    total, this = len(bars), _this_run(bars)
    first = min(first, max(0, total - shown))
    indices = [*range(first, min(first + shown, total))]
    if this is not None and this not in indices:
        indices[0 if this < first else -1] = this
    return indices


def around(index: int, first: int, shown: int, total: int) -> list[int]:
    """Return the indices of `shown` bars, the one of `index` among them: from `first` if can be."""
    first = first_in_view(index, first, shown, total)
    return [*range(first, min(first + shown, total))]


def around_this_run(bars: Sequence[BarRow], first: int, shown: int) -> list[int]:
    """Return the indices of `shown` bars around this run's, which is among them.

    So is what the headline compares with, and then the published ones next to this run.
    """
    total, this = len(bars), _this_run(bars)
    first = first_around(this, first, shown, total)
    indices = [*range(first, min(first + shown, total))]
    if this is None:
        return indices
    kept = list(dict.fromkeys([this, *_in_headline(bars), *_published_beside(bars, this)]))[:shown]
    if set(kept) <= set(indices):
        return indices
    others = sorted(set(range(total)) - set(kept), key=lambda index: abs(index - this))
    return sorted((*kept, *others[: shown - len(kept)]))


def _this_run(bars: Sequence[BarRow]) -> int | None:
    return next((i for i, row in enumerate(bars) if row.style == "this"), None)


def _in_headline(bars: Sequence[BarRow]) -> list[int]:
    """Return the bars that the headline compares with, in the order of its sentences."""
    places = [
        (row.headline_place, i) for i, row in enumerate(bars) if row.headline_place is not None
    ]
    return [index for _, index in sorted(places)]


def _published_beside(bars: Sequence[BarRow], this: int) -> list[int]:
    """Return the published bars nearest to this run's: the faster, then the slower."""
    published = [i for i, row in enumerate(bars) if row.style in ("published", "own") and row.alike]
    above = [index for index in published if index < this][-1:]
    return above + [index for index in published if index > this][:1]


def first_in_view(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show: `first` where it can stay, else this run in the middle."""
    last_first = max(0, total - shown)
    first = min(first, last_first)
    if this_run is None or first <= this_run < first + shown:
        return first
    return min(max(0, this_run - shown // 2), last_first)


def first_around(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show around this run: `first` where it can stay.

    Where this run is near the top or the end, that is in view, whatever was before.
    """
    if this_run is not None:
        last_first = max(0, total - shown)
        middle = this_run - shown // 2
        if not 0 < middle < last_first:
            return min(max(0, middle), last_first)
    return first_in_view(this_run, first, shown, total)


NOT_COMPARABLE = "not comparable with this run:"

HELP: tuple[tuple[str, str], ...] = (
    (
        "Bars",
        "▶ is this run, ◆ what you chose to compare with (c, Enter), · an earlier run on this "
        "machine, + a reference figure of your own, the rest are published measurements of the "
        "same network on other devices. The shortest bar is the fastest, of samples per second "
        "the longest. A click on a row shows its details.",
    ),
    (
        "logarithmic scale",
        "The times differ so much that equal steps of length stand for equal factors, not for "
        "equal seconds; the numbers beside the bars are what was measured.",
    ),
    (
        "batch 32, not 100",
        "What was different when that number was measured: it was other work, so it stands below "
        "the others (not comparable with this run), without a bar or a factor. Where a note has no "
        "room, (1) stands instead, and the note below the bars.",
    ),
)

_MARKERS: dict[BarStyle, str] = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_BADGE: tuple[str, ...] = ("comparison-bars--badge",)
_TEXT_STYLES = {"published": PLAIN, "own": PLAIN, "earlier": PLAIN, "this": STRONG}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_ASCII_MARKERS: dict[BarStyle, str] = {"published": " ", "own": "+", "earlier": ".", "this": ">"}


class ComparisonBars(Wheel, Lines):
    """Rows of label, bar, value and notes; the row of this run is always in view.

    Without scrolling it is where it belongs; beyond the rows in view it takes the
    nearest one's place.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"comparison-bars--badge"}
    DEFAULT_CSS = """
    ComparisonBars > .comparison-bars--badge { color: $text-warning; text-style: italic; }
    """

    @dataclass
    class Pointed(Message):
        """A row was clicked: the one of this index."""

        index: int

    _chosen: int | None = None
    _indices: Sequence[int | None] = ()
    _bars: tuple[BarRow, ...] = ()
    _legend = NO_LEGEND
    _alone: Sequence[Sequence[str]] = ()
    _first = 0
    _shown = 1
    _drawn_height = 0
    _scrolled = False

    def show(
        self,
        bars: tuple[BarRow, ...],
        legend: Legend = NO_LEGEND,
        alone: Sequence[Sequence[str]] = (),
    ) -> None:
        """Show `bars` from top to bottom, repainting only the rows that changed.

        Where there is nothing to compare with, the sentences `alone` take their place: the first
        of them that have room.
        """
        if (bars, legend, alone) != (self._bars, self._legend, self._alone):
            self._bars, self._legend, self._alone = bars, legend, alone
            self.redraw()

    def choose(self, index: int) -> None:
        """Mark a row; where it is another than before, bring it into view."""
        if index != self._chosen:
            self._chosen, self._scrolled = index, False
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        index = self._indices[event.y] if event.y < len(self._indices) else None
        if index is not None:
            self.post_message(self.Pointed(index))

    def scroll_lines(self, delta: int) -> None:
        """Bring other rows into view; up is negative."""
        self._first = min(max(0, self._first + delta), max(0, len(self._bars) - self._shown))
        self._scrolled = True
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows in view, and below them what a person should know of them."""
        self._indices = []
        if width < 1 or height < 1:
            return []
        if self._alone or not self._bars:
            return self._in_words(width, height)
        if height != self._drawn_height:
            self._drawn_height, self._first = height, 0
        arranged = arrange(self._bars, self._in_view, (width, height), self._legend, self.ellipsis)
        indices, place = arranged.indices, arranged.heading_at
        # After scrolling, this run may stand before the first row of the view.
        self._shown, self._first = len(indices), self._first if self._scrolled else indices[0]
        rows = [
            self._row(row, arranged.widths, arranged.badges_below, index == self._chosen)
            for index, row in zip(indices, arranged.rows, strict=True)
        ]
        self._indices = [*indices]
        if place:
            rows.insert(place, ((" " * MARKER_WIDTH + NOT_COMPARABLE, MUTED),))
            self._indices.insert(place, None)
        rows.extend(((" " * MARKER_WIDTH + text, MUTED),) for text in arranged.notes)
        return [cut(row, width, self.ellipsis) for row in rows]

    def _in_words(self, width: int, height: int) -> list[TextRow]:
        """Return what is said in place of bars."""
        lines: list[str] = []
        for sentences in self._alone:
            # With one row more, what is too long is seen to be.
            lines = [row for one in sentences for row in wrapped(one, width, height + 1)]
            if len(lines) <= height:
                break
        return [((line, MUTED),) for line in lines[:height]]

    def _in_view(self, most: int, shown: int) -> list[int]:
        """Return which bars are in view: what was scrolled to, the chosen one, or this run's.

        Args:
            most: of so many first bars; where others are chosen from, of all.
            shown: for how many there is room.
        """
        if self._chosen is not None and not self._scrolled:
            return around(self._chosen, self._first, shown, len(self._bars))
        bars = self._bars[:most]
        look = scrolled_to if self._scrolled else around_this_run
        return look(bars, self._first, shown)

    def _row(self, row: BarRow, widths: Widths, below: list[str], chosen: bool) -> TextRow:
        marker = (_ASCII_MARKERS if self.glyphs.is_ascii else _MARKERS)[row.style]
        if row.is_reference:
            marker = "=" if self.glyphs.is_ascii else "◆"
        ellipsis = self.glyphs.ellipsis[:2]
        value = aligned(row.value, widths.number)
        badge = f"({below.index(row.badge) + 1})" if row.badge in below else row.badge
        style, bar_style = _TEXT_STYLES[row.style], _BAR_STYLES[row.style]
        drawn = thick_bar(row.fraction, widths.bar, self.glyphs)
        if not row.alike:
            style, bar_style = MUTED, MUTED
            drawn, badge = fit(row.badge, widths.bar, ellipsis), ""
        if chosen:
            style = CHOSEN
            marker = marker.strip() or ("*" if self.glyphs.is_ascii else "▸")
        runs = (
            (f"{marker} {fit(row.label, widths.label, ellipsis)} ", style),
            (drawn, bar_style),
            (" " * GAP + fit(value, widths.value, ellipsis), style),
            (_note(row.detail, widths.detail, ellipsis), MUTED),
            *(
                (_note(text, cells, ellipsis), MUTED)
                for text, cells in zip(row.more, widths.more, strict=False)
            ),
            (_note(badge, widths.badge, ellipsis), _BADGE),
        )
        return tuple(run for run in runs if run[0])


def _note(text: str, width: int, ellipsis: str) -> str:
    return " " * GAP + fit(text, width, ellipsis) if width else ""
