"""Figures in rows, each with a bar where there is a most; and how busy each core is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, zip_longest

from rich.cells import cell_len

from dlmon.figures.machine.readings import BUSY_PCT, NO_READING_YET, Figure, busy_level
from dlmon.records import Cpu
from tui.drawing.plot import bar
from tui.widgets.lines import (
    BAD,
    BAR,
    BRIGHT,
    HIGH,
    MUTED,
    PLAIN,
    TRACK,
    GrowingLines,
    TextRow,
    cut,
    fit,
    shows,
)

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


# "12 ━━━━━━ 100 %" and a gap; "core 12 " where there is more room.
_MOST_BARS, _LEAST_ENTRY, _ROOM_FOR_WORD = 16, 15, 26
# Columns of cores stand in groups, so that one can be found by counting.
_GROUP = 8
_TALLEST_BAND = 4


class CoreRows(GrowingLines):
    """Every core in even rows; nothing is repainted for less than half a cell of a bar."""

    MOST_ROWS = 8

    _cores: tuple[int, ...] = ()
    _reason = ""
    _without_reason = NO_READING_YET
    _stale = False

    def show(self, cpu: Cpu | None, *, stale: bool, without_reason: str = NO_READING_YET) -> None:
        """Show cores, muted where they are too old; or the reason why nothing is known of them."""
        self._stale = stale
        self._cores = (cpu.cores if cpu is not None else None) or ()
        self._reason = cpu.why.get("cores", "") if cpu is not None else ""
        self._without_reason = without_reason
        self.redraw()

    def rows_needed(self, width: int) -> int:
        """Return in how many rows cores look well: as few bars as can be, or one low band."""
        count = len(self._cores)
        if 0 < count <= _MOST_BARS:
            return -(-count // _in_a_row(count, width, 1))
        return min(4, len(self.draw(width, 4)))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return bars where there is room for them, else columns."""
        if width < 1 or height < 1:
            return []
        cores = self._cores
        if not cores:
            style = BAD if self._reason else MUTED
            return [cut(((self._reason or self._without_reason, style),), width)]
        in_a_row = _in_a_row(len(cores), width, height)
        if len(cores) <= _MOST_BARS and -(-len(cores) // in_a_row) <= height:
            word = "core " if width // in_a_row >= _ROOM_FOR_WORD else ""
            bars = [
                Figure(f"{word}{number:>2}", f"{pct:>3} %", pct / 100, busy_level(pct))
                for number, pct in enumerate(cores)
            ]
            return meters_side_by_side(bars, in_a_row, width, stale=self._stale)
        rows = core_columns(cores, width, height)
        return [tuple((text, MUTED) for text, _ in row) for row in rows] if self._stale else rows


def _in_a_row(cores: int, width: int, height: int) -> int:
    """Return how many bars to put in a row: as few as there are rows for, and all rows even."""
    most = max(1, (width + _GAP) // (_LEAST_ENTRY + _GAP))
    wanted = min(most, -(-cores // height))
    return -(-cores // -(-cores // wanted))


def core_columns(cores: tuple[int, ...], width: int, height: int) -> list[TextRow]:
    """Return bands of columns, each behind the number of its first core.

    Where they have no room they are counted.
    """
    digits = len(str(len(cores) - 1))
    # A blank stands after each group, but behind the last.
    most = max(1, (width - digits) // (_GROUP + 1)) * _GROUP
    # As few bands as have room, even, and of whole groups.
    bands = -(-len(cores) // most)
    in_a_row = min(most, -(-len(cores) // bands // _GROUP) * _GROUP)
    bands = -(-len(cores) // in_a_row)
    if bands > height:
        busy = sum(pct >= BUSY_PCT for pct in cores)
        text = f"{len(cores)} cores, {busy} of them above {BUSY_PCT:.0f} %"
        return [cut(((text, MUTED),), width)]
    tall = min(_TALLEST_BAND, height // bands)
    rows: list[TextRow] = []
    for first in range(0, len(cores), in_a_row):
        some = cores[first : first + in_a_row]
        for y, text in enumerate(_columns(some, tall)):
            label = f"{first if y == tall - 1 else '':>{digits}} "
            rows.append(((label, MUTED), *_grouped(text, some)))
    return rows


def _grouped(text: str, cores: tuple[int, ...]) -> TextRow:
    """Return characters in the colours of their cores, with a blank after each group."""
    runs: list[tuple[str, str]] = []
    for tint, same in groupby(enumerate(text), lambda pair: _tint(cores[pair[0]])):
        letters = (f" {letter}" if at and at % _GROUP == 0 else letter for at, letter in same)
        runs.append(("".join(letters), tint))
    return tuple(runs)


def _columns(cores: tuple[int, ...], tall: int) -> list[str]:
    """Draw a column of whole cells for each core, from the top row down."""
    levels = "▁▂▃▄▅▆▇█"
    most = tall * len(levels)
    steps = [min(max(pct, 0) * most // 100, most - 1) for pct in cores]
    rows = []
    for floor in range((tall - 1) * len(levels), -1, -len(levels)):
        inside = (min(step - floor, len(levels) - 1) for step in steps)
        rows.append("".join(levels[level] if level >= 0 else " " for level in inside))
    return rows


def _tint(pct: float) -> str:
    if pct >= BUSY_PCT:
        return HIGH
    return BRIGHT if pct >= 50 else BAR
