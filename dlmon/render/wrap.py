"""Wrap and cut texts by their width in cells."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells, set_cell_size

# A text with more characters per cell has combining characters, which take no cell.
_CHARACTERS_PER_CELL = 4
_PHRASE_END = re.compile(r"(?<=[;:,]) ")


def shortened(text: str, width: int) -> str:
    """Return a text in at most `width` cells, cut with an ellipsis."""
    if _fits(text, width):
        return text
    beginning = set_cell_size(text, max(0, width - 1)).rstrip()
    return set_cell_size(f"{beginning}…", min(width, cell_len(beginning) + 1))


def wrapped(text: str, width: int, most: int | None = None) -> list[str]:
    """Break a text between words into at most `most` lines of at most `width` cells."""
    lines: list[str] = []
    rest = text.strip()
    while rest and width > 0 and (most is None or len(lines) < most):
        if _fits(rest, width):
            return [*lines, rest]
        line = _line_of(rest, width)
        if not line or len(lines) + 1 == most:
            # Cut between words as well, unless the first one is too long.
            return [*lines, f"{_line_of(rest, width - 1).rstrip()}…" if width > 1 else "…"]
        lines.append(line.rstrip())
        rest = rest[len(line) :].lstrip()
    return lines


def between_words(sentence: str, width: int) -> list[str]:
    """Break a sentence between words, but within no command of dlmon, which people copy.

    A terminal wraps a path or a command that is longer than a line.
    """
    lines = [""]
    for phrase in _PHRASE_END.split(sentence):
        for piece in [phrase] if "dlmon " in phrase else phrase.split(" "):
            line = f"{lines[-1]} {piece}" if lines[-1] else piece
            if cell_len(line) <= width or cell_len(piece) > width:
                lines[-1] = line
            else:
                lines.append(piece)
    return lines if lines[0] else lines[1:]


def _fits(text: str, width: int) -> bool:
    return len(text) <= width * _CHARACTERS_PER_CELL and cell_len(text) <= width


def _line_of(text: str, width: int) -> str:
    """Return the first words that fit in `width` cells, or a part of the first word or path."""
    head = chop_cells(text[: width * _CHARACTERS_PER_CELL], width)[0]
    if text[len(head) : len(head) + 1] in ("", " "):
        return head
    if " " not in head:
        folder = head.rfind("/") + 1
        return head[:folder] if 2 * folder > len(head) else head
    return head[: head.rindex(" ")]


def first_words(text: str, width: int) -> str:
    """Return a text in at most `width` cells: the first words that fit, and an ellipsis."""
    if _fits(text, width):
        return text
    words = _line_of(text, max(1, width - 2)).rstrip()
    return shortened(f"{words} …", width)
