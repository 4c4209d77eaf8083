"""Draw columns of values as rows of text: lines, areas, bands, marks and bars.

Pure functions of their arguments. A column is None where nothing is known: it
is a gap in the picture, never a zero. A cell holds two columns side by side, four levels high.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache

COLUMNS_PER_CELL = 2
LEVELS = 4
"""Of a cell: as many as the dots of braille."""

Span = tuple[int, int]
"""The lowest and the highest level that a column covers, both included."""

Cells = list[list[int]]
"""Rows, the top one first, of the levels that are covered in each cell, as bits from the bottom
up: the left column's, then the right one's."""

# The dots of a braille cell (Unicode 15, U+2800), each column from the bottom up.
_DOTS = (0x40, 0x04, 0x02, 0x01, 0x80, 0x20, 0x10, 0x08)
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Every second level; and of a faint area one dot of each column, the right one higher.
_STRIPES, _FAINT_LEFT, _FAINT_RIGHT = 0b0101_0101, 0b0000_0001, 0b0100_0000


def _braille(levels: int) -> str:
    dots = sum(dot for bit, dot in enumerate(_DOTS) if levels >> bit & 1)
    return chr(0x2800 + dots) if dots else " "


BRAILLE = "".join(map(_braille, range(256)))


class Tone(Enum):
    """What a cell shows: the curve itself, what lies around it, below it, or above a part."""

    CURVE, BAND, AREA, REST, BLANK = range(5)


Drawn = list[tuple[str, list[Tone]]]
"""For each row its text, and what each of its cells shows."""


def braille_rows(
    columns: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    filled: bool = False,
) -> list[str]:
    """Draw `columns` from the left as a line in braille.

    Returns `height` rows of exactly `width` characters, the top one first; a
    cell without a dot is a space. Of more than `2 * width` columns the last
    ones are drawn. Neighbours are joined, values outside of `bottom`..`top`
    drawn at its edge; `filled` draws down to the bottom.
    """
    cells = cells_of(column_spans(columns, width, height, top, bottom, filled), width, height)
    return ["".join(map(BRAILLE.__getitem__, row)) for row in cells]


def curve_rows(
    columns: Sequence[float | None],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    area: bool = True,
) -> Drawn:
    """Draw columns as a line, with dots below it where an `area` is asked for.

    What lies between `lows` and `highs`, where they are given, is filled. Each lies behind the one
    before: a cell that the line goes through shows nothing else, so that it stays sharp.
    """
    spans = column_spans(columns, width, height, top, bottom)
    ends = zip(
        column_spans(lows, width, height, top, bottom, True),
        column_spans(highs, width, height, top, bottom, True),
        strict=True,
    )
    around = [None if low is None or high is None else (low[1], high[1]) for low, high in ends]
    # Down to below the line's cell.
    below = [None if span is None or not area else (0, span[0]) for span in spans]
    layers = [cells_of(each, width, height) for each in (spans, around, below)]
    faint = [[_faint(levels) for levels in row] for row in layers[2]]
    drawn = []
    for of_line, of_band, of_area in zip(layers[0], layers[1], faint, strict=True):
        text, tones = [], []
        for curve, between, under in zip(of_line, of_band, of_area, strict=True):
            if curve:
                text.append(BRAILLE[curve])
                tones.append(Tone.CURVE)
            elif between:
                text.append(BRAILLE[between])
                tones.append(Tone.BAND)
            else:
                text.append(BRAILLE[under])
                tones.append(Tone.AREA if under else Tone.BLANK)
        drawn.append(("".join(text), tones))
    return drawn


def _faint(levels: int) -> int:
    """Return the dots of a faint area in a cell of which these levels are covered."""
    left, right = levels & 0b1111, levels >> LEVELS
    return (_FAINT_LEFT if left else 0) | (_FAINT_RIGHT if right else 0)


def split_rows(
    columns: Sequence[float | None],
    part: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
) -> Drawn:
    """Draw filled columns of which `part` is filled whole, and what lies above it with stripes.

    A column whose part is unknown has none. The stripes lie, so that they don't change where a
    chart scrolls, and end in a line, so that the height can be read.
    """
    wholes = column_spans(columns, width, height, top, bottom, True)
    known = [value if value is not None and value > bottom else None for value in part]
    parts = [
        None if whole is None or inner is None else (0, min(inner[1], whole[1]))
        for whole, inner in zip(
            wholes, column_spans(known, width, height, top, bottom, True), strict=True
        )
    ]
    highest = [None if whole is None else (whole[1], whole[1]) for whole in wholes]
    layers = (cells_of(spans, width, height) for spans in (wholes, parts, highest))
    drawn = []
    for whole_row, part_row, top_row in zip(*layers, strict=True):
        text, tones = [], []
        for whole, inner, line in zip(whole_row, part_row, top_row, strict=True):
            rest = whole & ~inner
            text.append(BRAILLE[inner | rest & (_STRIPES | line)])
            tones.append(Tone.CURVE if inner else Tone.REST)
        drawn.append(("".join(text), tones))
    return drawn


def cells_of(spans: Iterable[Span | None], width: int, height: int) -> Cells:
    """Return the cells that columns cover."""
    cells = [[0] * width for _ in range(height)]
    for column, span in enumerate(spans):
        if span is not None:
            cell, side = divmod(column, COLUMNS_PER_CELL)
            for row, levels in _levels_of_rows(span, height):
                cells[row][cell] |= levels << side * LEVELS
    return cells


# A chart that moves draws the same few spans over and over.
@lru_cache(maxsize=4096)
def _levels_of_rows(span: Span, height: int) -> tuple[tuple[int, int], ...]:
    """Return (row, its levels as bits) of the cells that a column covers, from the bottom up."""
    low, high = span
    covered = (2 << high) - (1 << low)
    cells = range(low // LEVELS, high // LEVELS + 1)
    return tuple((height - 1 - cell, covered >> cell * LEVELS & 0b1111) for cell in cells)


def column_spans(
    columns: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float,
    filled: bool = False,
) -> list[Span | None]:
    """Return for each of the newest `2 * width` columns the levels that it covers.

    Level 0 is `bottom`, the highest is `top`. Between two neighbours each column covers its half
    of the way to the other. On an axis without finite ends nothing has a place.
    """
    levels = height * LEVELS
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


def row_of(value: float | None, height: int, top: float, bottom: float = 0.0) -> int | None:
    """Return the row, from the top, in which a line of `height` rows draws a value."""
    if height < 1 or not math.isfinite(top - bottom):
        return None
    level = _level(value, height * LEVELS, top, bottom)
    return None if level is None else height - 1 - level // LEVELS


def mark_row(
    marks: Sequence[tuple[int, str]],
    stretches: Sequence[tuple[int, int, str]],
    width: int,
) -> str:
    """Draw the row under a plot: `┊1` where a mark stands, `╌compile╌` along a stretch.

    Marks are (column, label), stretches (first column, last column, name). A
    label that has no room is left out; of a name its first letter may remain.
    """
    tick, dash = "┊", "╌"
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


def bar(fraction: float | None, width: int) -> str:
    """Draw a thin bar of `fraction` of `width` cells in half-cell steps, padded to `width`.

    Anything above zero shows at least half a cell; None draws nothing.
    """
    if fraction is None or math.isnan(fraction) or fraction <= 0 or width <= 0:
        return " " * max(0, width)
    halves = max(1, round(min(1.0, fraction) * 2 * width))
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width)


def thick_bar(fraction: float | None, width: int) -> str:
    """Draw a bar as high as a cell in eighths of one, padded to `width`.

    Anything above zero shows something; None draws nothing.
    """
    if fraction is None or math.isnan(fraction) or fraction <= 0 or width <= 0:
        return " " * max(0, width)
    cells = min(1.0, fraction) * width
    eighths = max(1, round(8 * cells))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).ljust(width)
