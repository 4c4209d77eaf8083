"""Rows of styled text that repaint only where they changed."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len

from tui.widgets.rows import Row, RowWidget, fit

PLAIN: tuple[str, ...] = ("lines--plain",)
MUTED: tuple[str, ...] = ("lines--muted",)
STRONG: tuple[str, ...] = ("lines--strong",)
ACCENT: tuple[str, ...] = ("lines--accent",)
GOOD: tuple[str, ...] = ("lines--good",)
BAD: tuple[str, ...] = ("lines--bad",)

APART = 2
"""Blanks between what is left and what is right in a line."""


class Lines(RowWidget):
    """Base of the panels that are text; a subclass formats in `draw`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--plain",
        "lines--muted",
        "lines--strong",
        "lines--accent",
        "lines--good",
        "lines--bad",
    }

    DEFAULT_CSS = """
    Lines {
        & > .lines--muted { color: $text-muted; }
        & > .lines--strong { text-style: bold; }
        & > .lines--accent { color: $text-accent; text-style: bold; }
        & > .lines--good { color: $text-success; }
        & > .lines--bad { color: $text-error; text-style: bold; }
    }
    """


def joined(left: Row, right: Row, width: int, ellipsis: str = "…") -> Row:
    """Put `left` and `right` at both ends of a line; `left` is cut where they would meet."""
    right_width = row_width(right)
    if right_width > width:
        return cut(right, width, ellipsis)
    room = width - right_width - (APART if right else 0)
    kept = cut(left, room, ellipsis) if row_width(left) > room else left
    gap = width - right_width - row_width(kept)
    return (*kept, (" " * gap, PLAIN), *right)


def cut(row: Row, width: int, ellipsis: str = "…") -> Row:
    """Return a row of at most `width` cells."""
    kept = []
    for text, style in row:
        cells = cell_len(text)
        if cells > width:
            if width > 0:
                kept.append((fit(text, width, ellipsis), style))
            break
        kept.append((text, style))
        width -= cells
    return tuple(kept)


def row_width(row: Row) -> int:
    """Return how many cells a row takes."""
    return sum(cell_len(text) for text, _ in row)
