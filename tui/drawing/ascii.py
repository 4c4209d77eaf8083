"""Keep everything that reaches the terminal within ASCII, cell for cell."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_GLYPHS = {
    "─━═╌┄┈╍–—−▔▁‐‑": "-",
    "│┃║╎┆┊▏▎▍▌▐▕": "|",
    "╭╮╰╯┌┐└┘├┤┬┴┼┏┓┗┛╔╗╚╝╸╺╹╻": "+",
    "█▓▒░■▇▆▅▄▃▂▀": "#",
    "▶►❯→›»": ">",
    "◀◄❮←‹«": "<",
    "▲↑△": "^",
    "▼↓▽": "v",
    "×✕✖✗": "x",
    "·•…∙": ".",
    "●◉✓✔": "*",
    "○◯": "o",
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


class PlainCharacters(LineFilter):
    """Draw lines, marks and arrows with ASCII; any other character becomes question marks.

    Each takes the cells it took before, so nothing moves.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with their text within ASCII."""
        return [
            segment
            if segment.text.isascii()
            else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def plain(text: str) -> str:
    """Return `text` in ASCII and in as many cells."""
    # A run as a whole: what modifies a character takes no cell of its own.
    return _FOREIGN.sub(lambda run: "?" * cell_len(run[0]), text.translate(_TABLE))
