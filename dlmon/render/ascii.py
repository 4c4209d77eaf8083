"""Write any text in ASCII, cell for cell."""

from __future__ import annotations

import re

from rich.cells import cell_len

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


def plain(text: str) -> str:
    """Return `text` in ASCII and in as many cells."""
    text = text.replace("± ", "+-").translate(_TABLE)
    # A run as a whole: what modifies a character takes no cell of its own.
    return _FOREIGN.sub(lambda run: "?" * cell_len(run[0]), text)
