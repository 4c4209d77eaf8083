"""Draw columns of values as rows of text: lines, areas, bands, marks and bars.

Pure functions. A column of None is a gap in the picture, never a zero. A cell holds two columns
side by side, four levels high.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache

COLUMNS_PER_CELL = 2
LEVELS = 4
"""Levels of a cell: the dots of a braille character from top to bottom."""

Span = tuple[int, int]
"""The lowest and the highest level that a column covers, inclusive."""

Cells = list[list[int]]
"""Rows, the top one first, of the covered levels of each cell.

The levels are bits from the bottom up: first those of the left column, then of the right one.
"""

# The dots of a braille cell (Unicode 15, U+2800), each column from the bottom up.
_DOTS = (0x40, 0x04, 0x02, 0x01, 0x80, 0x20, 0x10, 0x08)
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Stripes cover every second level.
_STRIPES = 0b0101_0101


def _braille(levels: int) -> str:
    dots = sum(dot for bit, dot in enumerate(_DOTS) if levels >> bit & 1)
    return chr(0x2800 + dots) if dots else " "


BRAILLE = "".join(map(_braille, range(256)))


class Tone(Enum):
    """The content of a cell: the curve, the band around it, the area below, or the rest above."""

    CURVE, BAND, AREA, REST, BLANK = range(5)


Drawn = list[tuple[str, list[Tone]]]
"""The text of each row, and the tone of each of its cells."""


def braille_rows(
    columns: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    filled: bool = False,
) -> list[str]:
    """Draw `columns` from the left as a line in braille.

    Returns `height` rows of exactly `width` characters, the top one first; an empty cell is a
    space. Only the last `2 * width` columns are drawn. Neighbours are joined; values outside
    `bottom`..`top` are drawn at the edge; `filled` fills down to the bottom.
    """
    cells = cells_of(column_spans(columns, width, height, top, bottom, filled), width, height)
    return ["".join(map(BRAILLE.__getitem__, row)) for row in cells]


def fitted_rows(values: Sequence[float], width: int, height: int = 1) -> list[str]:
    """Draw values over all of the width, from the least to the largest; a single row is filled."""
    # The first screen opens without what reads metrics.
    from dlmon.session.learning import drawable

    drawn = [drawable(value) for value in values]
    known = [value for value in drawn if value is not None]
    if not known:
        return [""] * height
    columns = width * COLUMNS_PER_CELL
    picked = [drawn[n * len(drawn) // columns] for n in range(columns)]
    low, high = min(known), max(known)
    top = high if high > low else low + abs(low) + 1
    return braille_rows(picked, width, height, top, low, filled=height == 1)


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
    """Draw columns as a line, filled down to the bottom, in a striped band from `lows` to `highs`.

    It is filled only if `area` is set. A cell of the line doesn't show the band, so that the line
    stays sharp.
    """
    spans = column_spans(columns, width, height, top, bottom)
    ends = zip(
        column_spans(lows, width, height, top, bottom, True),
        column_spans(highs, width, height, top, bottom, True),
        strict=True,
    )
    around = [None if low is None or high is None else (low[1], high[1]) for low, high in ends]
    below = [None if span is None or not area else (0, span[0]) for span in spans]
    line, band, filled = (cells_of(layer, width, height) for layer in (spans, around, below))
    drawn = []
    for rows in zip(line, band, filled, strict=True):
        text, tones = [], []
        for curve, between, under in zip(*rows, strict=True):
            if curve:
                text.append(BRAILLE[curve | under])
                tones.append(Tone.CURVE)
            elif under:
                text.append(BRAILLE[under])
                tones.append(Tone.AREA)
            else:
                text.append(BRAILLE[between & _STRIPES])
                tones.append(Tone.BAND if between else Tone.BLANK)
        drawn.append(("".join(text), tones))
    return drawn


def split_rows(
    columns: Sequence[float | None],
    part: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
) -> Drawn:
    """Draw filled columns: solid up to `part`, with stripes above it.

    A column without a part is all stripes. The stripes are horizontal, so that they don't change
    while a chart scrolls, and end in a line that shows the height.
    """
    wholes = column_spans(columns, width, height, top, bottom, True)
    solid = [value if value is not None and value > bottom else None for value in part]
    parts = [
        None if whole is None or inner is None else (0, min(inner[1], whole[1]))
        for whole, inner in zip(
            wholes, column_spans(solid, width, height, top, bottom, True), strict=True
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


# A scrolling chart draws the same few spans over and over.
@lru_cache(maxsize=4096)
def _levels_of_rows(span: Span, height: int) -> tuple[tuple[int, int], ...]:
    """Return (row, levels as bits) of the cells that a column covers, from the bottom up."""
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
    """Return the levels that each of the newest `2 * width` columns covers.

    Level 0 is `bottom`, the highest is `top`. Each column also covers half of the way to its
    neighbours. If the ends of the axis are not finite, there are no columns.
    """
    levels = height * LEVELS
    if width <= 0 or levels <= 0 or not math.isfinite(top - bottom):
        return []
    newest = columns[-COLUMNS_PER_CELL * width :]
    heights = [_level(value, levels, top, bottom) for value in newest]
    if filled:
        return [None if level is None else (0, level) for level in heights]
    spans: list[Span | None] = [None if level is None else (level, level) for level in heights]
    for right in range(1, len(heights)):
        before, after = heights[right - 1], heights[right]
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


def _union(span: Span | None, part: Span) -> Span:
    return part if span is None else (min(span[0], part[0]), max(span[1], part[1]))


def _level(value: float | None, levels: int, top: float, bottom: float) -> int | None:
    if value is None or math.isnan(value):
        return None
    if value <= bottom:
        return 0
    if value >= top:
        return levels - 1
    return round((value - bottom) / (top - bottom) * (levels - 1))


def row_of(value: float | None, height: int, top: float, bottom: float = 0.0) -> int | None:
    """Return the row, from the top, of a value in a plot of `height` rows."""
    if height < 1 or not math.isfinite(top - bottom):
        return None
    level = _level(value, height * LEVELS, top, bottom)
    return None if level is None else height - 1 - level // LEVELS


def mark_row(
    marks: Sequence[tuple[int, str]],
    stretches: Sequence[tuple[int, int, str]],
    width: int,
) -> str:
    """Draw the row under a plot: `┊1` at a mark, `╌compile╌` along a stretch.

    Marks are (column, label), stretches (first column, last column, name). A label or a name that
    doesn't fit is left out.
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
        if not dashes or len(name) + 2 > len(dashes):
            continue
        free = free.replace(dashes, name.center(len(dashes), dash), 1)
        row[start : start + len(free)] = free
    return "".join(row)


def bar(fraction: float | None, width: int) -> str:
    """Draw a thin bar of `fraction` of `width` cells in half-cell steps, padded to `width`.

    A value above zero has at least half a cell; None has no bar.
    """
    halves = _length_of(fraction, 2 * width)
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width)


def thick_bar(fraction: float | None, width: int) -> str:
    """Draw a bar of full height in eighths of a cell, padded to `width`, otherwise as `bar`."""
    eighths = _length_of(fraction, 8 * width)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).ljust(width)


def _length_of(fraction: float | None, whole: int) -> int:
    """Return a fraction of a whole bar: 0 if it is unknown or 0, else at least 1."""
    if fraction is None or math.isnan(fraction) or fraction <= 0 or whole <= 0:
        return 0
    return max(1, round(min(1.0, fraction) * whole))
