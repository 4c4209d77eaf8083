"""Write any text in ASCII, cell for cell."""

from __future__ import annotations

import re

from rich.cells import cell_len

_GLYPHS = {
    "─╌┄┈╍–—−▔▁‐‑░": "-",
    "━═╸╺▓": "=",
    "│┃║╎┆┊▏▎▍▌▐▕╹╻": "|",
    "╭╮╰╯┌┐└┘├┤┬┴┼┏┓┗┛┣┫┻┳╋╔╗╚╝▒": "+",
    "█▉▊▋■▇▆▅▄▃▂": "#",
    "▶►▸❯→›»": ">",
    "◀◄◂❮←‹«": "<",
    "▲↑△▀": "^",
    "▼↓▽": "v",
    "╱": "/",
    "╲": "\\",
    "×✕✖✗▚": "x",
    "·•…∙": ".",
    "●◉✓✔": "*",
    "▞": "/",
    "○◯◆": "o",
    "⚑": "!",
    "★": "@",
    "°‘’": "'",
    "“”": '"',
    "±": "~",
    "µμ": "u",
    "\u00a0": " ",
}
_TABLE = {ord(glyph): plain for glyphs, plain in _GLYPHS.items() for glyph in glyphs}
# Two cells wide: the mark of Textual's command palette.
_TABLE[ord("🔎")] = "> "
_FOREIGN = re.compile("[^\x00-\x7f]+")

# Masks of the dots of a braille cell (Unicode 15, U+2800): the upper half and the left column.
_UPPER, _LEFT = 0x1B, 0x47


def _like(dots: int) -> str:
    """Return the ASCII character that looks most like the dots of a braille cell."""
    upper, left = dots & _UPPER, dots & _LEFT
    if not dots:
        return " "
    if dots.bit_count() > 5:
        return "#"
    if max(left.bit_count(), (dots & ~_LEFT).bit_count()) > 2:
        return "|"
    if upper and dots & ~_UPPER:
        return "-" if dots.bit_count() == 2 else ":"
    is_wide = bool(left and dots & ~_LEFT)
    if upper:
        return "-" if is_wide else "'"
    return "_" if is_wide else "."


_TABLE |= {0x2800 + dots: _like(dots) for dots in range(256)}


def plain(text: str) -> str:
    """Return `text` in ASCII, with the same width in cells."""
    text = text.replace("± ", "+-").translate(_TABLE)
    # A run as a whole, as combining characters take no cell.
    return _FOREIGN.sub(lambda run: "?" * cell_len(run[0]), text)
