"""Figures in rows: what each is, a bar where there is a most, and its value in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len

from dlmon.figures.glyphs import Glyphs
from dlmon.figures.machine import Figure
from tui.drawing.plot import bar
from tui.widgets.lines import BAD, BAR, HIGH, MUTED, PLAIN, TRACK, Lines
from tui.widgets.rows import TextRow, fit

_LEAST_BAR, _LONGEST_BAR = 6, 20
_GAP = 2
_LEAST_WIDTH = 34
# For the longest rates, lest each of them is written one way and then the other.
_ROOM_FOR_LONG = 36


class Meters(Lines):
    """A row for each figure; in two columns where rows are fewer than figures."""

    _figures: tuple[Figure, ...] = ()
    _stale = False

    def show(self, figures: list[Figure], *, stale: bool = False) -> None:
        """Show figures, the most important first; muted where they are too old."""
        self._figures, self._stale = tuple(figures), stale
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return as many figures as have room."""
        if width < 1 or height < 1 or not self._figures:
            return []
        in_a_row = min(_meters_in_a_row(width), -(-len(self._figures) // height))
        shown = self._figures[: height * in_a_row]
        return meters_side_by_side(shown, in_a_row, width, self.glyphs, stale=self._stale)


def meter_rows_wanted(count: int, width: int) -> int:
    """Return in how many rows figures stand."""
    return -(-count // _meters_in_a_row(width))


def _meters_in_a_row(width: int) -> int:
    return max(1, min(2, (width + _GAP) // (_LEAST_WIDTH + _GAP)))


def meters_side_by_side(
    figures: Sequence[Figure],
    in_a_row: int,
    width: int,
    glyphs: Glyphs,
    label: int = 0,
    *,
    stale: bool = False,
) -> list[TextRow]:
    """Return figures in so many columns of one width, to be read row by row."""
    each = (width - _GAP * (in_a_row - 1)) // in_a_row
    columns = (
        meter_rows(figures[first::in_a_row], each, glyphs, label, stale=stale)
        for first in range(min(in_a_row, len(figures)))
    )
    gap: TextRow = ((" " * _GAP, PLAIN),)
    return [
        (*first, *(run for meter in more for run in (*gap, *meter)))
        for first, *more in zip_longest(*columns, fillvalue=())
    ]


def meter_rows(
    figures: Sequence[Figure], width: int, glyphs: Glyphs, label: int = 0, *, stale: bool = False
) -> list[TextRow]:
    """Return figures in rows of exactly `width` cells; their bars begin and end together.

    Their names take `label` cells at least. Stale ones are muted.
    """
    label = max((label, *(cell_len(figure.label) + 1 for figure in figures)))
    length = _bar_length([f for f in figures if f.fraction is not None], width - label - 1)
    rows = [_meter(figure, label, length, width, glyphs) for figure in figures]
    return [tuple((text, MUTED) for text, _ in row) for row in rows] if stale else rows


def _bar_length(figures: Sequence[Figure], room: int) -> int:
    """Return how long bars are beside their values; a mark takes no more than they can spare."""
    values = max((cell_len(figure.value) for figure in figures), default=0)
    marked = max((cell_len(figure.value + figure.mark) for figure in figures), default=0)
    return min(_LONGEST_BAR, max(room - marked, min(_LEAST_BAR, room - values)))


def _meter(figure: Figure, label: int, length: int, width: int, glyphs: Glyphs) -> TextRow:
    ellipsis = glyphs.ellipsis
    name: TextRow = ((fit(figure.label, label, ellipsis), MUTED),)
    room = width - label
    style = {"": PLAIN, "high": HIGH, "bad": BAD}[figure.level]
    if figure.fraction is None or length < _LEAST_BAR:
        text = fit(_with_room(figure, room), room, ellipsis)
        return (*name, (text, style if figure.known else MUTED))
    drawn = bar(figure.fraction, length, glyphs).rstrip()
    track = glyphs.track * (length - len(drawn))
    of_bar = style if figure.level else BAR
    room -= length + 1
    return (
        *name,
        (drawn, of_bar),
        (f"{track} ", TRACK),
        (fit(_with_room(figure, room), room, ellipsis), style),
    )


def _with_room(figure: Figure, room: int) -> str:
    """Return a value at length, with its word, or with a mark in place of it; else alone."""
    if figure.long and room >= _ROOM_FOR_LONG:
        return figure.long
    texts = (figure.text, figure.value + figure.mark)
    return next((text for text in texts if cell_len(text) <= room), figure.value)
