"""Wrap and cut texts by their width in cells."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells, set_cell_size

# A text with more characters per cell has combining characters, which take no cell.
_CHARACTERS_PER_CELL = 4


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
            return [*lines, shortened(rest, width)]
        lines.append(line.rstrip())
        rest = rest[len(line) :].lstrip()
    return lines


def _fits(text: str, width: int) -> bool:
    return len(text) <= width * _CHARACTERS_PER_CELL and cell_len(text) <= width


def _line_of(text: str, width: int) -> str:
    """Return the first words that fit in `width` cells, or a part of the first word."""
    head = chop_cells(text[: width * _CHARACTERS_PER_CELL], width)[0]
    if text[len(head) : len(head) + 1] in ("", " ") or " " not in head:
        return head
    return head[: head.rindex(" ")]
