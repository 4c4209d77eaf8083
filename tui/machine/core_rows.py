"""How busy each core is: a bar each, or a column each where there are many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from dlmon.figures.glyphs import Glyphs
from dlmon.figures.machine import BUSY_PCT, NO_READING_YET
from dlmon.records import Cpu
from tui.drawing.plot import COLUMNS_PER_CELL, ascii_rows, bar, braille_rows
from tui.widgets.lines import BAD, BAR, BRIGHT, HIGH, MUTED, Lines, cut
from tui.widgets.rows import TextRow

# "12  95 % ━━━━" and a gap: the least that a core with a bar of its own takes.
_LABEL, _PERCENT, _LEAST_BAR, _GAP = 3, 6, 4, 2
# A number alone reads as the beginning of a range: 0 100 %.
_NAME = "core"
_LEAST_BAR_OF_NAMED = 8
_ENTRY = _LABEL + _PERCENT + _LEAST_BAR
_LONGEST_BAR = 30
# More bars than that are more than one reads, and each one's number changes every second.
_MOST_BARS = 16
# Columns of cores stand in groups, so that one can be found by counting.
_GROUP = 8
_TALLEST_BAND = 6


class CoreRows(Lines):
    """Every core in even rows; nothing is repainted for less than half a cell of a bar."""

    _cores: tuple[int, ...] = ()
    _reason = ""
    _without_reason = NO_READING_YET
    _stale = False

    def show(
        self, cpu: Cpu | None, *, stale: bool = False, without_reason: str = NO_READING_YET
    ) -> None:
        """Show cores, muted where they are too old; or the reason why nothing is known of them."""
        self._stale = stale
        self._cores = (cpu.cores if cpu is not None else None) or ()
        self._reason = cpu.why.get("cores", "") if cpu is not None else ""
        self._without_reason = without_reason
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return bars where there is room for them, else columns."""
        if width < 1 or height < 1:
            return []
        if not self._cores:
            style = BAD if self._reason else MUTED
            return [cut(((self._reason or self._without_reason, style),), width)]
        in_a_row = bars_in_a_row(len(self._cores), width, height)
        rows = self._bars(in_a_row, width) if in_a_row else self._columns(width, height)
        return [tuple((text, MUTED) for text, _ in row) for row in rows] if self._stale else rows

    def _bars(self, in_a_row: int, width: int) -> list[TextRow]:
        entry = (width + _GAP) // in_a_row
        room = entry - _GAP - _LABEL - _PERCENT - 1
        name = _NAME if room - len(_NAME) >= _LEAST_BAR_OF_NAMED else ""
        length = min(_LONGEST_BAR - 1, room - len(name))
        gap: TextRow = ((" " * (room + _GAP - len(name) - length), MUTED),)
        rows = []
        for first in range(0, len(self._cores), in_a_row):
            cells: list[TextRow] = [
                (
                    (f"{name}{number:>{_LABEL}}{pct:>4} % ", MUTED),
                    (bar(pct / 100, length, self.glyphs), _tint(pct)),
                )
                for number, pct in enumerate(self._cores[first : first + in_a_row], first)
            ]
            rows.append(tuple(run for cell in cells for run in (*cell, *gap))[:-1])
        return rows

    def _columns(self, width: int, height: int) -> list[TextRow]:
        """Return bands of columns, each behind the number of its first core."""
        cores = self._cores
        bands = core_bands(len(cores), width, height)
        if bands.rows(len(cores)) > height:
            busy = sum(pct >= BUSY_PCT for pct in cores)
            text = f"{len(cores)} cores, {busy} of them above {BUSY_PCT:.0f} %"
            return [cut(((text, MUTED),), width)]
        digits = len(str(len(cores) - 1))
        rows: list[TextRow] = []
        for first in range(0, len(cores), bands.in_a_row):
            rows.extend(self._band(first, cores[first : first + bands.in_a_row], digits, bands))
        return rows

    def _band(self, first: int, some: tuple[int, ...], digits: int, bands: Bands) -> list[TextRow]:
        drawn = (
            _dense(some, bands.tall, self.glyphs)
            if bands.dense
            else _solid(some, bands.tall, self.glyphs)
        )
        group = _GROUP // COLUMNS_PER_CELL if bands.dense else _GROUP
        rows = []
        for y, text in enumerate(drawn):
            label = f"{first if y == len(drawn) - 1 else '':>{digits}} "
            tints = _tints(some, y, bands)
            if bands.grouped:
                starts = range(0, len(text), group)
                text = " ".join(text[at : at + group] for at in starts)
                tints = [tint for at in starts for tint in (*tints[at : at + group], tints[at])]
            row: list[tuple[str, tuple[str, ...]]] = [(label, MUTED)]
            at = 0
            for tint, same in groupby(tints[: len(text)]):
                end = at + sum(1 for _ in same)
                row.append((text[at:end], tint))
                at = end
            rows.append(tuple(row))
        return rows


@dataclass(frozen=True)
class Bands:
    """How columns of cores stand: so many to a band, which is so many rows tall.

    Where they are `dense`, two cores share a cell.
    """

    in_a_row: int
    tall: int
    dense: bool
    grouped: bool

    def rows(self, cores: int) -> int:
        """Return how many rows cores take."""
        return -(-cores // self.in_a_row) * self.tall


def bars_in_a_row(cores: int, width: int, height: int) -> int:
    """Return how many bars to put in a row, as even as can be; 0 where they have no room."""
    if not 0 < cores <= _MOST_BARS:
        return 0
    most = (width + _GAP) // (_ENTRY + _GAP)
    wanted = -(-cores // max(1, height))
    if wanted > most:
        return 0
    return -(-cores // -(-cores // wanted))


def core_bands(cores: int, width: int, height: int) -> Bands:
    """Return the tallest even bands of columns that have room; dense where nothing else has."""
    room = max(1, width - len(str(cores - 1)) - 1)
    found = [
        _even_bands(cores, room, height, dense, grouped)
        for dense in (False, True)
        for grouped in (True, False)
    ]
    fitting = (bands for bands in found if bands.rows(cores) <= height)
    bands = next(fitting, found[-1])
    tall = height // bands.rows(cores)
    return replace(bands, tall=max(1, min(_TALLEST_BAND, tall)))


def _even_bands(cores: int, room: int, height: int, dense: bool, grouped: bool) -> Bands:
    """Return bands of one row with as many cores in each: a round number where it costs little."""
    in_a_cell = COLUMNS_PER_CELL if dense else 1
    most = room * in_a_cell
    if grouped:
        # A blank after each group, but behind the last.
        most = max(1, (room + 1) * _GROUP // (_GROUP + in_a_cell) * in_a_cell)
    count = -(-cores // most)
    even = -(-cores // count)
    for rounded in (1 << (most.bit_length() - 1), -(-even // _GROUP) * _GROUP):
        if rounded <= most and -(-cores // rounded) <= min(1.5 * count, max(height, count)):
            return Bands(rounded, 1, dense, grouped)
    return Bands(even, 1, dense, grouped)


def core_rows_wanted(cores: int, width: int, most: int, *, roomy: bool = False) -> int:
    """Return in how many rows cores look well, of `most` that they may have.

    Bars take as few rows as they can, or as many where they have a room of their own.
    """
    if not cores:
        return 1
    heights = range(1, most + 1)
    for height in reversed(heights) if roomy else heights:
        in_a_row = bars_in_a_row(cores, width, height)
        if in_a_row:
            return -(-cores // in_a_row)
    bands = core_bands(cores, width, most)
    return min(most, -(-cores // bands.in_a_row) * min(bands.tall, 4))


def _solid(cores: tuple[int, ...], tall: int, glyphs: Glyphs) -> list[str]:
    """Draw a column of whole cells for each core, from the top row down."""
    if tall == 1:
        levels = glyphs.levels
        return ["".join(levels[min(max(pct, 0), 99) * len(levels) // 100] for pct in cores)]
    base, half, whole = ("_", "o", "#") if glyphs.is_ascii else ("▁", "▄", "█")
    halves = [round(min(max(pct, 0), 100) / 100 * 2 * tall) for pct in cores]
    rows = []
    for floor in range(2 * (tall - 1), -1, -2):
        empty = " " if floor else base
        rows.append(
            "".join(whole if h >= floor + 2 else half if h > floor else empty for h in halves)
        )
    return rows


def _dense(cores: tuple[int, ...], tall: int, glyphs: Glyphs) -> list[str]:
    """Draw two cores to a cell."""
    draw = ascii_rows if glyphs.is_ascii else braille_rows
    cells = -(-len(cores) // COLUMNS_PER_CELL)
    return draw([float(pct) for pct in cores], cells, tall, 100.0, 0.0, True)


def _tints(cores: tuple[int, ...], y: int, bands: Bands) -> list[tuple[str, ...]]:
    """Return each cell's colour: by how busy it is, or by its height where a band is tall."""
    if bands.dense:
        return [BRIGHT] * -(-len(cores) // COLUMNS_PER_CELL)
    if bands.tall == 1:
        return [_tint(pct) for pct in cores]
    return [_tint(round(100 * (bands.tall - y - 0.5) / bands.tall))] * len(cores)


def _tint(pct: float) -> tuple[str, ...]:
    if pct >= BUSY_PCT:
        return HIGH
    return BRIGHT if pct >= 50 else BAR
