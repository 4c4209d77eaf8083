"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.figures.run_comparison import Comparison, comparison_bars
from dlmon.figures.sections import Bar
from dlmon.figures.value_axis import bar_lengths
from tui.drawing.plot import thick_bar
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import ACCENT, BRIGHT, CHOSEN, MUTED, PLAIN, STRONG, cut, wrapped
from tui.widgets.rows import TextRow, fit

NOT_COMPARABLE = "not comparable with this run:"

_MARKERS = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_NOTE: tuple[str, ...] = ("comparison-bars--note",)
_MARKER_CELLS = 2
_GAP = "  "
_SHORTEST_BAR = 10
_LEAST_NOTE = 12
"""In fewer cells than these, what differs would say nothing."""


class _Cells(NamedTuple):
    """The cells of each column."""

    label: int
    bar: int
    value: int
    notes: tuple[int, ...]


class ComparisonBars(ScrollingLines):
    """Rows of label, bar, value and notes around this run, or around the one that is chosen."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"comparison-bars--note"}
    DEFAULT_CSS = """
    ComparisonBars > .comparison-bars--note { color: $text-warning; text-style: italic; }
    """

    @dataclass
    class Pointed(Message):
        """A row was clicked: the one of this index."""

        index: int

    _bars: tuple[Bar, ...] = ()
    _fractions: tuple[float, ...] = ()
    _below = _instead = ""
    _reference: int | None = None
    _chosen: int | None = None
    _scrolled = False

    def show(self, comparison: Comparison, instead: str = "") -> None:
        """Show a comparison from top to bottom; `instead` is said where there is nothing."""
        section = comparison_bars(comparison)
        is_drawn = sum(map(is_alike, section.bars)) > 1
        values = [bar.value if is_drawn and is_alike(bar) else 0.0 for bar in section.bars]
        fractions, is_logarithmic = bar_lengths(values)
        below = "logarithmic scale" * is_logarithmic
        chosen = comparison.chosen
        reference = None if chosen is None else comparison.rows.index(chosen)
        shown = (section.bars, below, instead, reference)
        if shown != (self._bars, self._below, self._instead, self._reference):
            self._bars, self._below, self._instead, self._reference = shown
            self._fractions = fractions
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
        lines = self._lines()
        line = self.index_at(event.y, len(lines))
        index = None if line is None else lines[line]
        if index is not None:
            self.post_message(self.Pointed(index))

    def _lines(self) -> list[int | None]:
        """Return which bar stands in each line; None is the heading of those of other work."""
        unlike = [
            n for n, bar in enumerate(self._bars) if not is_alike(bar) and kind_of(bar) != "this"
        ]
        lines: list[int | None] = [*range(len(self._bars))]
        if unlike and unlike[0] > 0:
            lines.insert(unlike[0], None)
        return lines

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows in view, and below them what is to be said of all."""
        if self._instead or not self._bars:
            texts = wrapped(self._instead, width, height)
            return [((text, MUTED),) for text in texts]
        below: list[TextRow] = (
            [((" " * _MARKER_CELLS + self._below, MUTED),)] if self._below else []
        )
        lines, room = self._lines(), max(1, height - len(below))
        if not self._scrolled:
            self._first = lines.index(self._centre) - room // 2
        seen = self.in_view(len(lines), room)
        inner = width - 2 if self.scrolls else width
        cells = self._share_out(inner)
        rows = [
            ((" " * _MARKER_CELLS + NOT_COMPARABLE, MUTED),) if n is None else self._row(n, cells)
            for n in (lines[line] for line in seen)
        ]
        if lines[seen[-1]] is None:
            # What it heads is further down.
            rows[-1] = ()
        rows = self.with_thumb([cut(row, inner) for row in rows], len(lines), width)
        return [*rows, *(cut(row, width) for row in below)][:height]

    @property
    def _centre(self) -> int:
        """The row that is to be seen: the chosen one, else this run's."""
        this = next((n for n, bar in enumerate(self._bars) if kind_of(bar) == "this"), 0)
        return this if self._chosen is None else min(self._chosen, len(self._bars) - 1)

    def _share_out(self, width: int) -> _Cells:
        """Share out the width: notes, the first one first, as far as they leave room for bars."""
        value = max(cell_len(bar.text) for bar in self._bars)
        free = max(0, width - _MARKER_CELLS - 1 - len(_GAP) - value)
        label = min(max(cell_len(bar.label) for bar in self._bars), width // 2, free)
        free -= label
        notes = []
        for texts in zip(*map(_notes, self._bars), strict=True):
            cells = min(max(map(cell_len, texts)), width // 4)
            has_room = free - cells - len(_GAP) >= max(_SHORTEST_BAR, width // 5)
            notes.append(cells if has_room else 0)
            free -= cells + len(_GAP) if cells and has_room else 0
        return _Cells(label, max(0, free), value, tuple(notes))

    def _row(self, index: int, cells: _Cells) -> TextRow:
        bar = self._bars[index]
        kind = kind_of(bar)
        marker = "◆" if index == self._reference else _MARKERS[kind]
        style, bar_style = STRONG if kind == "this" else PLAIN, _BAR_STYLES[kind]
        drawn = thick_bar(self._fractions[index], cells.bar)
        if not is_alike(bar):
            style = bar_style = MUTED
            drawn = fit(bar.note if cells.bar >= _LEAST_NOTE else "", cells.bar)
        if index == self._chosen:
            style = CHOSEN
            marker = marker.strip() or "▸"
        value = " " * (cells.value - cell_len(bar.text)) + bar.text
        note, *others = (
            _GAP + fit(text, width) if width else ""
            for text, width in zip(_notes(bar), cells.notes, strict=True)
        )
        return (
            (f"{marker} {fit(bar.label, cells.label)} ", style),
            (drawn, bar_style),
            (_GAP + value, style),
            (note, _NOTE),
            *((text, MUTED) for text in others),
        )


def kind_of(bar: Bar) -> str:
    """Return what a bar is of: this run, an earlier one, a published time, or an own one."""
    return "own" if "own" in bar.kind.split() else bar.kind.split()[0]


def is_alike(bar: Bar) -> bool:
    """Return whether a bar is of the same work as this run."""
    return "other" not in bar.kind.split()


def _notes(bar: Bar) -> tuple[str, ...]:
    """Return what stands behind a value; of this run the headline says it."""
    return (bar.note if is_alike(bar) and kind_of(bar) != "this" else "", *bar.more)
