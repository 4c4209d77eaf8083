"""Rows of styled text that repaint only where they changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Concatenate, ParamSpec

from rich.cells import cell_len, set_cell_size
from textual.geometry import Size

from dlmon.render.wrap import wrapped as wrapped
from tui.drawing.plot import bar
from tui.widgets.rows import RowWidget, TextRow, TextRun, fit

# Textual's own share of 60 % is lost where a style is read from text.
PLAIN, MUTED, STRONG, ACCENT = "", "$text-muted 60%", "bold", "bold $text-accent"
GOOD, HIGH, BAD = "$text-success", "$text-warning", "bold $text-error"
BAR, BRIGHT, TRACK = "$primary", "$text-primary", "$foreground 25%"
CHOSEN = "bold $block-cursor-foreground on $block-cursor-background"

_CHARACTERS_PER_CELL = 4

APART = 2
"""Blanks between what is left and what is right in a line."""


Shown = ParamSpec("Shown")


def shows(
    rows: Callable[Concatenate[Any, int, int, Shown], list[TextRow]],
) -> Callable[Concatenate[Any, Shown], None]:
    """Return the method `show` of a panel whose method `rows` takes the size and what is shown."""

    def show(self: Lines, /, *shown: Shown.args, **named: Shown.kwargs) -> None:
        self.rows_shown = lambda width, height: rows(self, width, height, *shown, **named)
        self.redraw()

    return show


class Lines(RowWidget):
    """Base of the panels that are text: a subclass has its `rows`, and `show = shows(rows)`."""

    rows_shown: Callable[[int, int], list[TextRow]] | None = None
    """Returns the rows in a width and a height; None before anything was shown."""

    def draw(self, width: int, height: int) -> list[TextRow]:
        if self.rows_shown is None or width < 1 or height < 1:
            return []
        return [cut(row, width) for row in self.rows_shown(width, height)[:height]]


class GrowingLines(Lines):
    """Lines that are as high as their text needs, up to `MOST_ROWS`.

    Style them `height: auto`. Only a change of the height lays the screen out again.
    """

    MOST_ROWS: ClassVar[int] = 2

    _requested_height = 1

    def rows_needed(self, width: int) -> int:
        """Return how many rows the text takes at a width."""
        return max(1, len(self.draw(width, self.MOST_ROWS)))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._requested_height = self.rows_needed(width)
        return self._requested_height

    def redraw(self) -> None:
        """Draw again; take another height where the text asks for one."""
        width, height = self.size.width, self.styles.height
        is_auto = height is not None and height.is_auto
        if width and is_auto and self.rows_needed(width) != self._requested_height:
            self.refresh(layout=True)
        super().redraw()


def joined(left: TextRow, right: TextRow, width: int) -> TextRow:
    """Put `left` and `right` at both ends of a line; `left` is cut where they would meet."""
    right_width = row_width(right)
    if right_width > width:
        return cut(right, width)
    room = width - right_width - (APART if right else 0)
    kept = cut(left, room) if row_width(left) > room else left
    gap = width - right_width - row_width(kept)
    return (*kept, (" " * gap, PLAIN), *right)


def fitting(runs: TextRow, width: int, apart: int = APART) -> TextRow:
    """Return the first of these that have room beside each other; where none has, a part of one."""
    kept: list[TextRun] = []
    room = width
    for text, style in runs:
        text = " " * apart + text if kept else text
        room -= cell_len(text)
        if room < 0 and kept:
            break
        kept.append((text, style))
    return cut(tuple(kept), width)


def cut(row: TextRow, width: int) -> TextRow:
    """Return a row of at most `width` cells."""
    kept = []
    for text, style in row:
        cells = cell_len(text)
        if cells > width:
            if width > 0:
                kept.append((fit(text, width), style))
            break
        kept.append((text, style))
        width -= cells
    return tuple(kept)


def with_thumb(rows: list[TextRow], first: int, total: int, width: int) -> list[TextRow]:
    """Add a thumb at the right end of the rows that says which of `total` these are, if not all."""
    count = len(rows)
    if count >= total:
        return rows
    start = first * count // total
    end = max(start + 1, (first + count) * count // total)
    thumb = "┃"
    drawn: list[TextRow] = []
    for y, row in enumerate(rows):
        gap = " " * (width - 1 - row_width(row))
        drawn.append((*row, (gap + (thumb if start <= y < end else " "), MUTED)))
    return drawn


def cut_inside(text: str, width: int) -> str:
    """Return the beginning and the end of a text that is too wide."""
    # A foreign text may be endless, of marks that take no cell.
    longest = width * _CHARACTERS_PER_CELL
    text = text if len(text) <= longest else f"{text[:longest]}{text[-longest:]}"
    if cell_len(text) <= width:
        return text
    room, end = width - 1, text
    while end and cell_len(end) > room // 2:
        end = end[1:]
    return set_cell_size(text, max(0, room - room // 2)) + "…" * (room >= 0) + end


def digits_of(number: str) -> list[str]:
    """Return a number in digits of three rows."""
    from rich.segment import Segment
    from rich.style import Style
    from textual.renderables.digits import Digits

    parts = Digits(number).render(Style(bold=True))
    return [part.text for part in parts if isinstance(part, Segment) and part.text != "\n"]


def in_rows(name: str, parts: Sequence[str], width: int, most: int) -> list[TextRow]:
    """Return parts after a name, in at most so many rows; what has no room is cut."""
    if most < 1:
        return []
    rows: list[TextRow] = [((name, STRONG),)]
    for part in parts:
        longer: TextRow = (*rows[-1], (f"   {part}", MUTED))
        if row_width(longer) <= width or len(rows) == most:
            rows[-1] = longer
        else:
            rows.append(((part, MUTED),))
    return rows


def beside(
    heading: str,
    texts: Sequence[str],
    style: str = PLAIN,
    named: str = MUTED,
) -> list[TextRow]:
    """Return rows of text beside a heading."""
    blank = " " * len(heading)
    return [((blank if n else heading, named), (text, style)) for n, text in enumerate(texts)]


def bar_on_track(fraction: float | None, cells: int, style: str = ACCENT) -> TextRow:
    """Return a thin bar and the rest of its way."""
    done = bar(None if fraction is None else min(1.0, fraction), cells).rstrip()
    return (done, style), ("─" * (cells - len(done)), MUTED)


def row_width(row: TextRow) -> int:
    """Return how many cells a row takes."""
    return sum(cell_len(text) for text, _ in row)
