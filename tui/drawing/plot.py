"""Draw columns of values as rows of text: lines, axis labels, marks and bars.

Pure functions of their arguments. A column is None where nothing is known: it
is a gap in the picture, never a zero. A cell holds two columns side by side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from dlmon.figures.glyphs import UNICODE, Glyphs

COLUMNS_PER_CELL = 2

# The dots of a braille cell (Unicode 15, U+2800), each column from the bottom up.
_LEFT_DOTS = (0x40, 0x04, 0x02, 0x01)
_RIGHT_DOTS = (0x80, 0x20, 0x10, 0x08)
DOTS_PER_CELL = 4


Span = tuple[int, int]
"""The lowest and the highest level that a column covers, both included."""


def braille_rows(
    columns: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    filled: bool = False,
) -> list[str]:
    """Draw `columns` from the left as a line in braille, 2 × 4 dots a cell.

    Returns `height` rows of exactly `width` characters, the top one first; a
    cell without a dot is a space. Of more than `2 * width` columns the last
    ones are drawn. Neighbours are joined, values outside of `bottom`..`top`
    drawn at its edge; `filled` draws down to the bottom.
    """
    cells = [[0] * width for _ in range(height)]
    spans = column_spans(columns, width, height * DOTS_PER_CELL, top, bottom, filled)
    for column, span in enumerate(spans):
        if span is None:
            continue
        cell, side = divmod(column, COLUMNS_PER_CELL)
        shift = side * DOTS_PER_CELL
        for row, levels in bits_of_cells(span, height, DOTS_PER_CELL):
            cells[row][cell] |= levels << shift
    return ["".join(map(BRAILLE.__getitem__, row)) for row in cells]


def ascii_rows(
    columns: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    filled: bool = False,
) -> list[str]:
    """Draw what `braille_rows` draws with plain characters, two levels a cell.

    A cell of which only one column is known shows as a dot, so that a short
    gap can be seen.
    """
    cells = [[" "] * width for _ in range(height)]
    spans = column_spans(columns, width, height * 2, top, bottom, filled)
    for cell in range(width):
        known = [span for span in spans[2 * cell : 2 * cell + 2] if span is not None]
        if not known:
            continue
        union = min(low for low, _ in known), max(high for _, high in known)
        touched = cells_of(union, height, 2)
        for row, low, high in touched:
            if filled:
                character = "#" if high else "_"
            elif len(touched) == 1:
                whole = len(known) == COLUMNS_PER_CELL
                character = ("-" if whole else "'") if high else ("_" if whole else ".")
            else:
                character = "|" if low != high else "'" if high else "."
            cells[row][cell] = character
    return ["".join(row) for row in cells]


def mark_row(
    marks: Sequence[tuple[int, str]],
    stretches: Sequence[tuple[int, int, str]],
    width: int,
    glyphs: Glyphs = UNICODE,
) -> str:
    """Draw the row under a plot: `┊1` where a mark stands, `╌compile╌` along a stretch.

    Marks are (column, label), stretches (first column, last column, name). A
    label that has no room is left out; of a name its first letter may remain.
    """
    tick, dash = glyphs.mark, glyphs.shade
    row = [" "] * width
    ticks = sorted({column // COLUMNS_PER_CELL: label for column, label in marks}.items())
    ends = [cell for cell, _ in ticks[1:]] + [width]
    for (cell, label), end in zip(ticks, ends, strict=False):
        if 0 <= cell < width:
            text = tick + label if cell + len(label) < min(end, width) else tick
            row[cell : cell + len(text)] = text
    for first, last, name in stretches:
        start = max(0, first // COLUMNS_PER_CELL)
        end = max(start, min(width, last // COLUMNS_PER_CELL + 1))
        free = "".join(row[start:end]).replace(" ", dash)
        dashes = max(re.findall(f"{dash}+", free), key=len, default="")
        fitting = (text for text in (name, name[:1]) if len(text) + 2 <= len(dashes))
        free = free.replace(dashes, next(fitting, "").center(len(dashes), dash), 1)
        row[start : start + len(free)] = free
    return "".join(row)


def row_of(
    value: float | None, height: int, top: float, bottom: float = 0.0, glyphs: Glyphs = UNICODE
) -> int | None:
    """Return the row, from the top, in which a line of `height` rows draws a value."""
    per_cell = 2 if glyphs.is_ascii else DOTS_PER_CELL
    if height < 1 or not math.isfinite(top - bottom):
        return None
    level = _level(value, height * per_cell, top, bottom)
    return None if level is None else height - 1 - level // per_cell


def bar(fraction: float | None, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Draw a bar of `fraction` of `width` cells in half-cell steps, padded to `width`.

    Anything above zero shows at least half a cell; None draws nothing.
    """
    whole, half = glyphs.bar, glyphs.half_bar
    if fraction is None or math.isnan(fraction) or fraction <= 0 or width <= 0:
        return " " * max(0, width)
    halves = max(1, round(min(1.0, fraction) * 2 * width))
    return (whole * (halves // 2) + half * (halves % 2)).ljust(width)


def bits(low: int, high: int) -> int:
    """Return the levels of a column from one to another, both included, as bits."""
    return (2 << high) - (1 << low)


def column_spans(
    columns: Sequence[float | None],
    width: int,
    levels: int,
    top: float,
    bottom: float,
    filled: bool,
) -> list[Span | None]:
    """Return for each of the newest `2 * width` columns the levels that it covers.

    Level 0 is `bottom`, level `levels - 1` is `top`. Between two neighbours
    each column covers its half of the way to the other. On an axis without
    finite ends nothing has a place.
    """
    if width <= 0 or levels <= 0 or not math.isfinite(top - bottom):
        return []
    newest = columns[-COLUMNS_PER_CELL * width :]
    own = [_level(value, levels, top, bottom) for value in newest]
    if filled:
        return [None if level is None else (0, level) for level in own]
    spans: list[Span | None] = [None if level is None else (level, level) for level in own]
    for right in range(1, len(own)):
        before, after = own[right - 1], own[right]
        if before is None or after is None or abs(after - before) < 2:
            continue
        low, high = min(before, after), max(before, after)
        middle = (low + high) // 2
        left_part, right_part = (low, middle), (middle + 1, high)
        if before > after:
            left_part, right_part = right_part, left_part
        spans[right - 1] = _union(spans[right - 1], left_part)
        spans[right] = _union(spans[right], right_part)
    return spans


def _union(span: Span | None, other: Span) -> Span:
    return other if span is None else (min(span[0], other[0]), max(span[1], other[1]))


def _level(value: float | None, levels: int, top: float, bottom: float) -> int | None:
    if value is None or math.isnan(value):
        return None
    if value <= bottom:
        return 0
    if value >= top:
        return levels - 1
    return round((value - bottom) / (top - bottom) * (levels - 1))


def cells_of(span: Span, height: int, levels_per_cell: int) -> tuple[tuple[int, int, int], ...]:
    """Return (row, lowest, highest level within that row's cell) from the bottom up."""
    low, high = span
    cells = range(low // levels_per_cell, high // levels_per_cell + 1)
    return tuple(
        (
            height - 1 - cell,
            max(low - cell * levels_per_cell, 0),
            min(high - cell * levels_per_cell, levels_per_cell - 1),
        )
        for cell in cells
    )


# A chart that moves draws the same few spans over and over.
@lru_cache(maxsize=4096)
def bits_of_cells(span: Span, height: int, levels_per_cell: int) -> tuple[tuple[int, int], ...]:
    """Return (row, its levels as bits) of the cells that a column covers, from the bottom up."""
    return tuple(
        (row, bits(low, high)) for row, low, high in cells_of(span, height, levels_per_cell)
    )


def _braille(levels: int) -> str:
    """Return the character of these levels, as bits: the left column's, then the right one's."""
    dots = sum(dot for bit, dot in enumerate(_LEFT_DOTS + _RIGHT_DOTS) if levels >> bit & 1)
    return chr(0x2800 + dots) if dots else " "


BRAILLE = "".join(map(_braille, range(256)))
