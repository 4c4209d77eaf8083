"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.run_comparison import Comparison, comparison_bars
from dlmon.figures.sections import Bar
from dlmon.figures.value_axis import bar_lengths
from tui.drawing.plot import thick_bar
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import ACCENT, BRIGHT, CHOSEN, MUTED, PLAIN, STRONG, cut, wrapped
from tui.widgets.rows import TextRow, fit

_MARKERS = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_NOTE = "italic $text-warning"
_MARKER_CELLS = 2
_GAP = "  "
_LEAST_BAR = 5
"""A bar takes this part of the width at the least, before notes have any."""


class ComparisonBars(ScrollingLines):
    """Rows of label, bar, value and notes around this run, or around the one that is chosen."""

    @dataclass
    class Pointed(Message):
        """A row was clicked."""

        row: ComparisonRow

    scale = ""
    """What to know of how long the bars are."""
    _compared: Sequence[ComparisonRow] = ()
    _bars: tuple[Bar, ...] = ()
    _fractions: tuple[float, ...] = ()
    _instead = ""
    _reference: int | None = None
    _chosen: int | None = None
    _scrolled = False

    def show(self, comparison: Comparison, instead: str = "") -> None:
        """Show a comparison from top to bottom; `instead` is said where there is nothing."""
        section = comparison_bars(comparison)
        self._bars, self._instead = section.bars, instead
        self._compared = comparison.rows
        is_drawn = sum(map(is_alike, section.bars)) > 1
        values = [bar.value if is_drawn and is_alike(bar) else 0.0 for bar in section.bars]
        self._fractions, is_logarithmic = bar_lengths(values)
        self.scale = "logarithmic scale" * is_logarithmic
        chosen = comparison.chosen
        self._reference = None if chosen is None else comparison.rows.index(chosen)
        self.redraw()

    def choose(self, index: int) -> None:
        """Mark a row; where it is another than before, bring it into view."""
        if index != self._chosen:
            self._chosen, self._scrolled = index, False
            self.redraw()

    def scroll_lines(self, delta: int) -> None:
        """Show what is further up or down."""
        self._scrolled = True
        super().scroll_lines(delta)

    def on_click(self, event: events.Click) -> None:
        within = event.get_content_offset(self)
        index = None if within is None else self.index_at(within.y, len(self._bars))
        if index is not None:
            self.post_message(self.Pointed(self._compared[index]))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows in view."""
        if self._instead or not self._bars:
            return [((text, MUTED),) for text in wrapped(self._instead, width, height)]
        if not self._scrolled:
            this = (n for n, bar in enumerate(self._bars) if kind_of(bar) == "this")
            centre = next(this, 0) if self._chosen is None else self._chosen
            self._first = min(centre, len(self._bars) - 1) - height // 2
        seen = self.in_view(len(self._bars), height)
        inner = width - 2 if self.scrolls else width
        rows = [cut(self._row(index, inner), inner) for index in seen]
        return self.with_thumb(rows, len(self._bars), width)

    def _row(self, index: int, width: int) -> TextRow:
        bar = self._bars[index]
        kind, alike = kind_of(bar), is_alike(bar)
        values = max(cell_len(each.text) for each in self._bars)
        labels = max(cell_len(each.label) for each in self._bars)
        room = width - _MARKER_CELLS - 1 - len(_GAP) - values
        labels = min(labels, width // 2, max(0, room))
        room -= labels
        most = min(room // 2, room - max(10, width // _LEAST_BAR))
        is_brief = max(cell_len(_note(each)) for each in self._bars) > most
        notes = max(0, min(most, max(cell_len(_note(each, is_brief)) for each in self._bars)))
        bars = max(0, room - notes - (len(_GAP) if notes else 0))
        marker = "◆" if index == self._reference else _MARKERS[kind]
        style, bar_style = STRONG if kind == "this" else PLAIN, _BAR_STYLES[kind]
        style_of_notes = _NOTE if bar.note and alike else MUTED
        drawn = thick_bar(self._fractions[index], bars)
        if not alike:
            style = bar_style = MUTED
            drawn = fit(bar.note, bars)
        if index == self._chosen:
            style, marker = CHOSEN, marker.strip() or "▸"
        return (
            (f"{marker} {fit(bar.label, labels)} ", style),
            (drawn, bar_style),
            (f"{_GAP}{' ' * (values - cell_len(bar.text))}{bar.text}", style),
            (_GAP * bool(notes) + fit(_note(bar, is_brief), notes), style_of_notes),
        )


def kind_of(bar: Bar) -> str:
    """Return what a bar is of: this run, an earlier one, a published time, or an own one."""
    return "own" if "own" in bar.kind.split() else bar.kind.split()[0]


def is_alike(bar: Bar) -> bool:
    """Return whether a bar is of the same work as this run."""
    return "other" not in bar.kind.split()


def _note(bar: Bar, is_brief: bool = False) -> str:
    """Return what stands behind a value; of this run the headline says what speaks against it."""
    note = bar.note if is_alike(bar) and kind_of(bar) != "this" else ""
    return _GAP.join(filter(None, (note, *bar.more[: 1 if is_brief else None])))
