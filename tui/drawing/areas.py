"""Draw columns of values as areas: one with a part, and a curve with what lies below and around it.

Pure functions of their arguments, as those of `plot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from dlmon.figures.glyphs import UNICODE, Glyphs
from tui.drawing.plot import (
    BRAILLE,
    COLUMNS_PER_CELL,
    DOTS_PER_CELL,
    Span,
    ascii_rows,
    bits_of_cells,
    column_spans,
)

# Of a cell's levels from the bottom up: every second one of four, and the upper one of both columns
# of two.
_STRIPES, _UPPER = 0b0101, 0b1010
# A faint area: of the four dots of a cell's left column one, of those of its right column another.
_LEFT, _RIGHT = 0b0001, 0b0100 << DOTS_PER_CELL
_DOTS = " " + BRAILLE[_LEFT] + BRAILLE[_RIGHT] + BRAILLE[_LEFT | _RIGHT]


class Tone(Enum):
    """What a cell shows: the curve itself, what lies around it, or what lies below it."""

    CURVE, BAND, AREA, BLANK = range(4)


def curve_rows(
    columns: Sequence[float | None],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    glyphs: Glyphs = UNICODE,
    area: bool = True,
) -> list[tuple[str, list[Tone]]]:
    """Draw columns as a line, with dots below it where an `area` is asked for.

    Returns for each row its text and what each cell shows. What lies between `lows` and `highs`,
    where they are given, is filled. Each lies behind the one before: a cell that the line goes
    through shows nothing else, so that it stays sharp.
    """
    per_cell = 2 if glyphs.is_ascii else DOTS_PER_CELL
    levels = height * per_cell
    line = column_spans(columns, width, levels, top, bottom, False)
    ends = zip(
        column_spans(lows, width, levels, top, bottom, True),
        column_spans(highs, width, levels, top, bottom, True),
        strict=True,
    )
    bands = [None if low is None or high is None else (low[1], high[1]) for low, high in ends]
    drawn_line = _cells_of_columns(line, width, height, per_cell)
    drawn_band = _cells_of_columns(bands, width, height, per_cell)
    plain = ascii_rows(columns, width, height, top, bottom) if glyphs.is_ascii else None
    # From which row on there is an area in each column; in none, none at all.
    begins = [height if span is None or not area else height - span[0] // per_cell for span in line]
    begins += [height] * (COLUMNS_PER_CELL * width - len(begins))
    dots = " ..." if glyphs.is_ascii else _DOTS
    rows = []
    for y in range(height):
        text = [
            dots[(y >= left) + 2 * (y >= right)]
            for left, right in zip(begins[::2], begins[1::2], strict=True)
        ]
        tones = [Tone.BLANK if character == " " else Tone.AREA for character in text]
        for x, of_band in enumerate(drawn_band[y]):
            if of_band:
                text[x] = ":" if glyphs.is_ascii else BRAILLE[of_band]
                tones[x] = Tone.BAND
        for x, of_line in enumerate(drawn_line[y]):
            if of_line:
                text[x] = plain[y][x] if plain is not None else BRAILLE[of_line]
                tones[x] = Tone.CURVE
        rows.append(("".join(text), tones))
    return rows


def _cells_of_columns(
    spans: Sequence[Span | None], width: int, height: int, per_cell: int
) -> list[list[int]]:
    """Return the levels of each cell that columns cover, as bits: the left one's come first."""
    cells = [[0] * width for _ in range(height)]
    for column, span in enumerate(spans):
        if span is None:
            continue
        cell, side = divmod(column, COLUMNS_PER_CELL)
        for row, covered in bits_of_cells(span, height, per_cell):
            cells[row][cell] |= covered << side * per_cell
    return cells


def split_rows(
    columns: Sequence[float | None],
    part: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    bottom: float = 0.0,
    glyphs: Glyphs = UNICODE,
) -> list[tuple[str, list[bool]]]:
    """Draw filled columns of which `part` is filled whole, and what lies above it with stripes.

    Returns for each row its text, and for each of its cells whether it holds any of the part.
    A column whose part is unknown has none. The stripes lie, so that they don't change where a
    chart scrolls, and end in a line, so that the height can be read.
    """
    per_cell = 2 if glyphs.is_ascii else DOTS_PER_CELL
    levels = height * per_cell
    wholes = column_spans(columns, width, levels, top, bottom, True)
    known = [value if value is not None and value > bottom else None for value in part]
    parts = column_spans(known, width, levels, top, bottom, True)
    # The levels of a cell as bits, from the bottom up: the left column's, then the right one's.
    filled = [[0] * width for _ in range(height)]
    striped = [[0] * width for _ in range(height)]
    for column, (whole, inner) in enumerate(zip(wholes, parts, strict=True)):
        if whole is None:
            continue
        cell, side = divmod(column, COLUMNS_PER_CELL)
        shift, highest = side * per_cell, whole[1]
        inside = -1 if inner is None else min(inner[1], highest)
        if inside >= 0:
            for row, covered in bits_of_cells((0, inside), height, per_cell):
                filled[row][cell] |= covered << shift
        if inside < highest:
            for row, covered in bits_of_cells((inside + 1, highest), height, per_cell):
                kept = covered & (-1 if glyphs.is_ascii else _STRIPES)
                striped[row][cell] |= kept << shift
            striped[height - 1 - highest // per_cell][cell] |= 1 << shift + highest % per_cell
    draw = _ascii_cell if glyphs.is_ascii else _braille_cell
    return [
        ("".join(map(draw, inner, outer)), [drawn > 0 for drawn in inner])
        for inner, outer in zip(filled, striped, strict=True)
    ]


def _braille_cell(filled: int, striped: int) -> str:
    return BRAILLE[filled | striped]


def _ascii_cell(filled: int, striped: int) -> str:
    """Return the character of a cell of two levels, whichever of its columns reaches them."""
    if filled & _UPPER:
        return "#"
    if striped & _UPPER:
        return ":"
    return "_" if filled else "." if striped else " "
