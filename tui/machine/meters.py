"""Figures in rows: what each is, a bar where there is a most, and its value in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len

from dlmon.figures.machine import Figure
from tui.drawing.plot import bar
from tui.widgets.lines import BAD, BAR, HIGH, MUTED, PLAIN, TRACK, GrowingLines, shows
from tui.widgets.rows import TextRow, fit

LEVEL_STYLES = {"": PLAIN, "high": HIGH, "bad": BAD}

_LEAST_BAR, _LONGEST_BAR = 6, 20
_GAP = 2
_LEAST_WIDTH = 34


class Meters(GrowingLines):
    """A row for each figure, in two columns where they have room."""

    MOST_ROWS = 8

    in_a_row = 2
    """How many may stand side by side."""

    def rows(
        self, width: int, height: int, figures: Sequence[Figure], *, stale: bool = False
    ) -> list[TextRow]:
        """Return figures, the most important first; muted where they are too old."""
        in_a_row = max(1, min(self.in_a_row, (width + _GAP) // (_LEAST_WIDTH + _GAP)))
        return meters_side_by_side(figures[: height * in_a_row], in_a_row, width, stale=stale)

    show = shows(rows)


def meters_side_by_side(
    figures: Sequence[Figure],
    in_a_row: int,
    width: int,
    label: int = 0,
    *,
    stale: bool = False,
) -> list[TextRow]:
    """Return figures in so many columns of one width, to be read row by row."""
    each = (width - _GAP * (in_a_row - 1)) // in_a_row
    columns = (
        meter_rows(figures[first::in_a_row], each, label, stale=stale)
        for first in range(min(in_a_row, len(figures)))
    )
    gap: TextRow = ((" " * _GAP, PLAIN),)
    return [
        (*first, *(run for meter in more for run in (*gap, *meter)))
        for first, *more in zip_longest(*columns, fillvalue=())
    ]


def meter_rows(
    figures: Sequence[Figure], width: int, label: int = 0, *, stale: bool = False
) -> list[TextRow]:
    """Return figures in rows of exactly `width` cells; their bars begin and end together.

    Their names take `label` cells at least. Stale ones are muted.
    """
    label = max((label, *(cell_len(figure.label) + 1 for figure in figures)))
    with_bars = [cell_len(figure.text) for figure in figures if figure.fraction is not None]
    bar_cells = min(_LONGEST_BAR, width - label - 1 - max(with_bars, default=0))
    rows = [_meter(figure, label, bar_cells, width) for figure in figures]
    return [tuple((text, MUTED) for text, _ in row) for row in rows] if stale else rows


def _meter(figure: Figure, label: int, bar_cells: int, width: int) -> TextRow:
    name = (fit(figure.label, label), MUTED)
    style = LEVEL_STYLES[figure.level] if figure.known else MUTED
    if figure.fraction is None or bar_cells < _LEAST_BAR:
        return (name, (fit(_text(figure, width - label), width - label), style))
    drawn = bar(figure.fraction, bar_cells).rstrip()
    room = width - label - bar_cells - 1
    value = fit(_text(figure, room), room)
    return (
        name,
        (drawn, style if figure.level else BAR),
        (f"{'─' * (bar_cells - len(drawn))} ", TRACK),
        (value, style),
    )


def _text(figure: Figure, room: int) -> str:
    """Return a value with its word, or with a mark where that would be cut."""
    return figure.text if cell_len(figure.text) <= room else figure.value + figure.mark
