"""Digits to be read from across a room. Pure."""

from __future__ import annotations

from dlmon.figures.glyphs import UNICODE, Glyphs

# Three dots wide and five tall, row by row from the top.
_DOTS = {
    "0": ("###", "# #", "# #", "# #", "###"),
    "1": (" # ", "## ", " # ", " # ", "###"),
    "2": ("###", "  #", "###", "#  ", "###"),
    "3": ("###", "  #", "###", "  #", "###"),
    "4": ("# #", "# #", "###", "  #", "  #"),
    "5": ("###", "#  ", "###", "  #", "###"),
    "6": ("###", "#  ", "###", "# #", "###"),
    "7": ("###", "  #", "  #", "  #", "  #"),
    "8": ("###", "# #", "###", "# #", "###"),
    "9": ("###", "# #", "###", "  #", "###"),
    "%": ("# #", "  #", " # ", "#  ", "# #"),
    "–": ("   ", "   ", "###", "   ", "   "),
    " ": (" ", " ", " ", " ", " "),
}
_TALL = 5
SMALL_ROWS, LARGE_ROWS = 3, 5
_HALVES = {"##": "█", "# ": "▀", " #": "▄", "  ": " "}


def big_digits(text: str, *, large: bool = False, glyphs: Glyphs = UNICODE) -> list[str]:
    """Return rows that draw `text`: `SMALL_ROWS`, or `LARGE_ROWS` where large or in ASCII.

    A character that has no drawing is left out.
    """
    drawn = [_DOTS[character] for character in text if character in _DOTS]
    rows = ["".join(f"{dots[y]} " for dots in drawn)[:-1] for y in range(_TALL)]
    if glyphs.is_ascii:
        return rows
    if large:
        return ["".join("██" if dot == "#" else "  " for dot in row) for row in rows]
    rows.append(" " * len(rows[0]))
    return [
        "".join(_HALVES[upper + lower] for upper, lower in zip(rows[y], rows[y + 1], strict=True))
        for y in range(0, _TALL, 2)
    ]
