"""How busy each core is: a bar each, or a column each where there are many."""

from __future__ import annotations

from itertools import groupby

from dlmon.figures.machine import BUSY_PCT, NO_READING_YET
from dlmon.records import Cpu
from tui.drawing.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.widgets.lines import BAD, BAR, BRIGHT, HIGH, MUTED, GrowingLines, cut
from tui.widgets.rows import TextRow

# "core  12  95 % ━━━━" and a gap.
_MOST_BARS, _LEAST_ENTRY, _LONGEST_ENTRY, _GAP = 16, 14, 44, 2
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
            rows = self._bars(in_a_row, width)
        else:
            rows = core_columns(cores, width, height)
        return [tuple((text, MUTED) for text, _ in row) for row in rows] if self._stale else rows

    def _bars(self, in_a_row: int, width: int) -> list[TextRow]:
        entry = min(_LONGEST_ENTRY, (width + _GAP) // in_a_row)
        # A number alone reads as the beginning of a range: 0 100 %.
        name = "core" if entry >= 2 * _LEAST_ENTRY else ""
        rows = []
        for first in range(0, len(self._cores), in_a_row):
            runs = []
            for number, pct in enumerate(self._cores[first : first + in_a_row], first):
                label = f"{name}{number:>3}{pct:>4} % "
                drawn = bar(pct / 100, entry - len(label) - _GAP)
                runs += [(label, MUTED), (drawn, _tint(pct)), (" " * _GAP, MUTED)]
            rows.append(tuple(runs[:-1]))
        return rows


def _in_a_row(cores: int, width: int, height: int) -> int:
    """Return how many bars to put in a row: as few as there are rows for, and all rows even."""
    most = max(1, (width + _GAP) // (_LEAST_ENTRY + _GAP))
    wanted = min(most, -(-cores // height))
    return -(-cores // -(-cores // wanted))


def core_columns(cores: tuple[int, ...], width: int, height: int) -> list[TextRow]:
    """Return bands of columns, each behind the number of its first core.

    Where whole cells have no room two cores share one, and where that has none they are counted.
    """
    digits = len(str(len(cores) - 1))
    # A blank stands after each group, but behind the last.
    groups = max(1, (width - digits) // (_GROUP + 1))
    in_a_row, dense = _even(len(cores), groups * _GROUP), False
    if -(-len(cores) // in_a_row) > height:
        most = COLUMNS_PER_CELL * (width - digits - 1) // _GROUP * _GROUP
        in_a_row, dense = _even(len(cores), max(1, most)), True
    bands = -(-len(cores) // in_a_row)
    if bands > height:
        busy = sum(pct >= BUSY_PCT for pct in cores)
        text = f"{len(cores)} cores, {busy} of them above {BUSY_PCT:.0f} %"
        return [cut(((text, MUTED),), width)]
    tall = min(_TALLEST_BAND, height // bands)
    rows: list[TextRow] = []
    for first in range(0, len(cores), in_a_row):
        some = cores[first : first + in_a_row]
        drawn = _dense(some, tall) if dense else _solid(some, tall)
        for y, text in enumerate(drawn):
            label = f"{first if y == tall - 1 else '':>{digits}} "
            tints = [BRIGHT] * len(text) if dense else [_tint(pct) for pct in some]
            rows.append(((label, MUTED), *_grouped(text, tints, 0 if dense else _GROUP)))
    return rows


def _even(cores: int, most: int) -> int:
    """Return how many to put in each of as few bands as have room, in whole groups."""
    each = -(-cores // -(-cores // most))
    return min(most, -(-each // _GROUP) * _GROUP)


def _grouped(text: str, tints: list[tuple[str, ...]], group: int) -> TextRow:
    """Return characters in their colours, with a blank after each group."""
    runs: list[tuple[str, tuple[str, ...]]] = []
    for tint, same in groupby(enumerate(text), lambda pair: tints[pair[0]]):
        letters = (
            f" {letter}" if group and at and at % group == 0 else letter for at, letter in same
        )
        runs.append(("".join(letters), tint))
    return tuple(runs)


def _solid(cores: tuple[int, ...], tall: int) -> list[str]:
    """Draw a column of whole cells for each core, from the top row down."""
    levels = "▁▂▃▄▅▆▇█"
    most = tall * len(levels)
    steps = [min(max(pct, 0) * most // 100, most - 1) for pct in cores]
    rows = []
    for floor in range((tall - 1) * len(levels), -1, -len(levels)):
        inside = (min(step - floor, len(levels) - 1) for step in steps)
        rows.append("".join(levels[level] if level >= 0 else " " for level in inside))
    return rows


def _dense(cores: tuple[int, ...], tall: int) -> list[str]:
    """Draw two cores to a cell."""
    cells = -(-len(cores) // COLUMNS_PER_CELL)
    return braille_rows([float(pct) for pct in cores], cells, tall, 100.0, 0.0, True)


def _tint(pct: float) -> tuple[str, ...]:
    if pct >= BUSY_PCT:
        return HIGH
    return BRIGHT if pct >= 50 else BAR
