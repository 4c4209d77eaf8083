"""Rows of styled text, and widgets that repaint only the rows that changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Concatenate, ParamSpec

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from dlmon.records.record import record
from dlmon.render.wrap import first_words
from dlmon.render.wrap import wrapped as wrapped
from tui.drawing.plot import bar
from tui.textual_internals import put_border_titles

# A style that is parsed from text loses the 60 % of Textual's own $text-muted.
PLAIN, MUTED, STRONG, ACCENT = "", "$text-muted 60%", "bold", "bold $text-accent"
GOOD, HIGH, BAD = "$text-success", "$text-warning", "bold $text-error"
BAR, BRIGHT, TRACK = "$primary", "$text-primary", "$foreground 25%"
CHOSEN = "bold $block-cursor-foreground on $block-cursor-background"

_CHARACTERS_PER_CELL = 4
_BAND = re.compile(r" ± [0-9.,]+")

APART = 2
"""Blanks between the left and the right text of a line."""

Shown = ParamSpec("Shown")

TextRun = tuple[str, str]
"""A piece of a row: its text and its style, such as "bold $text-accent"."""

TextRow = tuple[TextRun, ...]


@record(frozen=True)
class Ruler:
    """Labels on a border's line: the cell of each tick and its text; `last` is at the right end."""

    marks: tuple[tuple[int, str], ...] = ()
    last: str = ""


NO_RULER = Ruler()

_LINE, _VALUE = "line", "value"
"""The styles of a border's line, in the colour of the border, and of the present value."""

_TITLE_INDENT = 3
"""Cells before a border's title: the corner, a piece of the line and a blank."""


class Lines(Widget):
    """A widget that draws its own rows and repaints only those that changed.

    A subclass defines `rows`, and `show = shows(rows)`; or it overrides `draw`, and calls `redraw`
    when its rows may have changed. Rows and titles are never parsed as markup, so any text is safe.
    """

    ALLOW_SELECT = False
    FOCUS_ON_CLICK = False
    ALLOW_MAXIMIZE = True

    DEFAULT_CSS = """
    Lines {
        width: 1fr;
        height: 1fr;
    }
    """

    more_goes_below = False
    """Put the first text of `more` that does not fit at the top into the bottom border."""

    rows_shown: Callable[[int, int], list[TextRow]] | None = None
    """Returns the rows for a width and a height; None until something is shown."""

    def __init__(self, *, id: str | None = None, classes: str | None = None):
        super().__init__(id=id, classes=classes)
        self._rows: list[TextRow] = []
        self._rows_size = Size(0, 0)
        self._run_styles: dict[tuple[str, int], RichStyle] = {}
        self._styled_as: tuple[object, ...] = ()
        self._title_texts = ("", "", "")
        self._title_more: tuple[str, ...] = ()
        self._title_rows: tuple[TextRow, TextRow] = ((), ())
        self._ruler = NO_RULER

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return at most `height` rows of at most `width` cells."""
        if self.rows_shown is None or width < 1 or height < 1:
            return []
        return [cut(row, width) for row in self.rows_shown(width, height)[:height]]

    def style_of(self, style: str, y: int) -> Style:
        """Return the style of a run in row `y`."""
        return self.visual_style + Style.parse(style)

    def redraw(self) -> None:
        """Draw again, and repaint the rows that changed."""
        size = self.size
        before, self._rows = self._rows, self.draw(size.width, size.height)[: size.height]
        if size != self._rows_size:
            self._rows_size = size
            self.refresh()
            return
        pairs = enumerate(zip_longest(before, self._rows, fillvalue=()))
        changed = [_changed_part(old, new, y, size.width) for y, (old, new) in pairs if old != new]
        if changed:
            self.refresh(*changed)

    def set_titles(
        self,
        title: str,
        subtitle: str = "",
        right: str = "",
        more: tuple[str, ...] = (),
        ruler: Ruler = NO_RULER,
    ) -> None:
        """Set the texts in the border: top left, bottom, and the right end of the top.

        Texts of `more` follow `right`, and labels of the `ruler` stand on the bottom line, as many
        as fit.
        """
        texts = (title, subtitle, right)
        if (texts, more, ruler) != (self._title_texts, self._title_more, self._ruler):
            self._title_texts, self._title_more, self._ruler = texts, more, ruler
            self._put_titles()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw if the size changed; the compositor keeps the lines until a row is repainted."""
        size = self.size
        if size != self._rows_size:
            self._rows, self._rows_size = self.draw(*size), size
        # Everything that may change a style, apart from the style sheets.
        styled_as = (size, self.mouse_hover, self.has_focus, self.is_disabled)
        if styled_as != self._styled_as:
            self._styled_as = styled_as
            self._run_styles.clear()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        row = self._rows[y] if y < len(self._rows) else ()
        styles = self._run_styles
        for _, style in row:
            if (style, y) not in styles:
                styles[style, y] = self.style_of(style, y).rich_style
        segments = [Segment(text, styles[style, y]) for text, style in row]
        return Strip(segments).adjust_cell_length(
            self._rows_size.width, self.visual_style.rich_style
        )

    def notify_style_update(self) -> None:
        """Write the titles again: their line has the colour of the border."""
        super().notify_style_update()
        self._run_styles.clear()
        if self.is_mounted and (self._title_texts[2] or self._ruler.marks):
            self._title_rows = ((), ())
            self._put_titles()

    def on_resize(self, event: events.Resize) -> None:
        if self._title_texts[2] or self._ruler.marks:
            self._put_titles()

    def _put_titles(self) -> None:
        """Write the titles, and repaint the border rows that changed."""
        title, subtitle, right = self._title_texts
        width, height = self.outer_size
        above, omitted = self.top_row(title, right)
        below = ruled_row(self._ruler, subtitle, width, self._dash)
        room = width - 2 * _TITLE_INDENT - cell_len(subtitle) - 3
        if self.more_goes_below and omitted and cell_len(omitted[0]) <= room:
            below = self._at_both_ends(omitted[0], subtitle)
        rows = above, below
        before, self._title_rows = self._title_rows, rows
        (indent, top), ends = self.styles.gutter.top_left, (0, height - 1)
        changed = [n for n in (0, 1) if rows[n] != before[n]]
        if changed:
            put_border_titles(self, {n: self._in_border(rows[n]) for n in changed})
            self.refresh(*(Region(-indent, ends[n] - top, width, 1) for n in changed))

    def _in_border(self, row: TextRow) -> Content:
        """Return a border row with its line in the colour of the border, and its value bright."""
        # A title that warns has its own colour, and a chosen one its own background.
        has_colour = self.classes & {"-high", "-bad", "-chosen"}
        styles: dict[str, Style | str] = {
            _LINE: Style(foreground=self.styles.border_top[1]),
            _VALUE: "bold" if has_colour else "bold $foreground",
        }
        return Content.assemble(*((text, styles.get(style, style)) for text, style in row))

    @property
    def _dash(self) -> str:
        return {"heavy": "━", "double": "═"}.get(self.styles.border_top[0], "─")

    def top_row(self, title: str, right: str) -> tuple[TextRow, tuple[str, ...]]:
        """Return the top border, and the texts of `more` that do not fit."""
        omitted, beside = self._title_more, ""
        while omitted:
            longer = f"{beside}  {omitted[0]}"
            if cell_len(right) + cell_len(longer) > self.room_beside(title):
                break
            beside, omitted = longer, omitted[1:]
        return self._at_both_ends(title, right, beside), omitted

    def room_beside(self, title: str) -> int:
        """Return the cells at the right end of the top border, apart from the title."""
        return self.outer_size.width - 2 * _TITLE_INDENT - cell_len(title) - 3

    def _at_both_ends(self, start: str, end: str, after: str = "") -> TextRow:
        """Put texts at both ends of a border row, with the border's line between them.

        `after` follows the text at the end.
        """
        room = self.outer_size.width - 2 * _TITLE_INDENT - cell_len(start) - 2
        line = room - cell_len(end) - cell_len(after)
        if not start or not end or line < 1:
            return ((start, ""), (" " if start and end else "", ""), (end, _VALUE), (after, ""))
        return ((f"{start} ", ""), (self._dash * line, _LINE), (f" {end}", _VALUE), (after, ""))


def ruled_row(ruler: Ruler, text: str, width: int, dash: str = "─") -> TextRow:
    """Return the bottom row of a border: labels at their ticks, and its text.

    The text stands before the labels if it fits there, else after them, in place of the labels
    that it would overlap.
    """
    tick = "┴"
    end = width - _TITLE_INDENT
    first = next((cell for cell, _ in ruler.marks if cell >= _TITLE_INDENT), 0)
    goes_first = bool(text) and _TITLE_INDENT + cell_len(text) + 2 <= first
    after = [ruler.last] if goes_first else [part for part in (text, ruler.last) if part]
    if cell_len("  ".join(after)) > end - _TITLE_INDENT:
        after = after[:1]
    after_text = "  ".join(after)
    free_to = end - (cell_len(after_text) + 1 if after_text else 0)
    runs: list[TextRun] = [(f"{text} ", "")] if goes_first else []
    at = _TITLE_INDENT + cell_len(text) + 1
    for cell, label in ruler.marks:
        ends = cell + 1 + cell_len(label)
        if cell < (at if runs else _TITLE_INDENT) or ends > free_to:
            continue
        runs += [(dash * (cell - at), _LINE)] if runs else []
        runs += [(tick, _LINE), (label, MUTED)]
        at = ends
    if not runs:
        return ((after_text, ""),)
    return (*runs, (dash * (free_to - at), _LINE), (f" {after_text}" if after_text else "", ""))


def _changed_part(before: TextRow, after: TextRow, y: int, width: int) -> Region:
    """Return a small part of a row that contains every change."""
    if any(cell_len(text) != len(text) for text, _ in (*before, *after)):
        return Region(0, y, width, 1)
    first, ends = _same_cells(before, after), {row_width(before), row_width(after)}
    if len(ends) > 1:
        return Region(first, y, max(1, width - first), 1)
    last = _same_cells(_backwards(before), _backwards(after))
    return Region(first, y, max(1, ends.pop() - last - first), 1)


def _backwards(row: TextRow) -> TextRow:
    return tuple((text[::-1], style) for text, style in reversed(row))


def _same_cells(before: TextRow, after: TextRow) -> int:
    """Count the cells at the start of two rows that are alike, in runs of equal style."""
    same = 0
    for (old, old_style), (new, new_style) in zip(before, after, strict=False):
        if old_style != new_style:
            break
        if old != new:
            return same + _same_length(old, new)
        same += len(old)
    return same


def _same_length(old: str, new: str) -> int:
    """Return the length of the start that two texts share, by bisection: rows are long."""
    same, end = 0, min(len(old), len(new))
    while same < end:
        middle = (same + end + 1) // 2
        if old[same:middle] == new[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def fit(text: str, width: int) -> str:
    """Return `text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    start = set_cell_size(text, max(0, width - 1)).rstrip()
    return set_cell_size(f"{start}…", width)


def fit_right(text: str, width: int) -> str:
    """Return `text` in exactly `width` cells: at their right end, or cut with an ellipsis."""
    return fit(" " * (width - cell_len(text)) + text, width)


def first_parts(text: str, width: int, apart: str) -> str:
    """Return the first parts of a text that fit, or the first words, and an ellipsis."""
    for between in (apart, " "):
        parts = text.split(between)
        while cell_len(text) > width and len(parts) > 1:
            parts.pop()
            text = f"{between.join(parts)}{between}…"
    return text


def fitting_parts(text: str, width: int) -> str:
    """Return the first parts of a text, apart by "; ", that fit as a whole."""
    parts = text.split("; ")
    while parts and cell_len("; ".join(parts)) > width:
        parts.pop()
    return "; ".join(parts)


def whole_parts(text: str, width: int) -> str:
    """Return the parts of a text, apart by "; ", that fit; of the first one at least its words."""
    whole = fitting_parts(text, width) or text.partition("; ")[0]
    if cell_len(whole) > width:
        whole = least_part(whole)
    return first_words(whole, max(1, width))


def least_part(text: str) -> str:
    """Return the first part of a text, apart by "; ", without the band of its figure.

    The unit of a figure says more than its band.
    """
    return _BAND.sub("", text.partition("; ")[0])


def without_detail(text: str, width: int) -> str:
    """Return a reason without what follows its last colons, as far as needed to fit."""
    while cell_len(text) > width and ": " in text:
        text = text.rpartition(": ")[0]
    return text


def shows(
    rows: Callable[Concatenate[Any, int, int, Shown], list[TextRow]],
) -> Callable[Concatenate[Any, Shown], None]:
    """Return a method `show` that takes the arguments of `rows` after the size, and redraws."""

    def show(self: Lines, /, *values: Shown.args, **named: Shown.kwargs) -> None:
        self.rows_shown = lambda width, height: rows(self, width, height, *values, **named)
        self.redraw()

    return show


class OneLine(Lines):
    """Lines of which one is shown."""

    DEFAULT_CSS = "OneLine { height: 1; padding: 0 1; }"


class GrowingLines(Lines):
    """Lines as high as their text needs, up to `MOST_ROWS`."""

    DEFAULT_CSS = "GrowingLines { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 2

    _requested_height = 1

    def rows_needed(self, width: int) -> int:
        return max(1, len(self.draw(width, self.MOST_ROWS)))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._requested_height = self.rows_needed(width)
        return self._requested_height

    def redraw(self) -> None:
        """Draw again; lay the screen out again only if the height changes."""
        width, height = self.size.width, self.styles.height
        is_auto = height is not None and height.is_auto
        if width and is_auto and self.rows_needed(width) != self._requested_height:
            self.refresh(layout=True)
        super().redraw()


def joined(start: TextRow, end: TextRow, width: int) -> TextRow:
    """Put two rows at both ends of a line; `start` is cut if they would overlap."""
    end_width = row_width(end)
    if end_width > width:
        return cut(end, width)
    room = width - end_width - (APART if end else 0)
    start = cut(start, room) if row_width(start) > room else start
    gap = width - end_width - row_width(start)
    return (*start, (" " * gap, PLAIN), *end)


def fitting(runs: TextRow, width: int, apart: int = APART) -> TextRow:
    """Return the first runs that fit side by side; at least the first one, cut if need be."""
    row: list[TextRun] = []
    room = width
    for text, style in runs:
        text = " " * apart + text if row else text
        room -= cell_len(text)
        if room < 0 and row:
            break
        row.append((text, style))
    return cut(tuple(row), width)


def cut(row: TextRow, width: int) -> TextRow:
    """Return a row of at most `width` cells."""
    runs = []
    for text, style in row:
        cells = cell_len(text)
        if cells > width:
            if width > 0:
                runs.append((fit(text, width), style))
            break
        runs.append((text, style))
        width -= cells
    return tuple(runs)


def cut_inside(text: str, width: int) -> str:
    """Return the beginning and the end of a text that is too wide."""
    # A text from elsewhere may hold any number of marks that take no cell.
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
    from textual.renderables.digits import Digits

    parts = Digits(number).render(RichStyle(bold=True))
    return [part.text for part in parts if isinstance(part, Segment) and part.text != "\n"]


def in_rows(name: str, parts: Sequence[str], width: int, most: int) -> list[TextRow]:
    """Return a name and parts after it, in `most` rows at most: as many parts as fit."""
    if most < 1:
        return []
    rows: list[TextRow] = [((name, STRONG),)]
    for part in parts:
        longer: TextRow = (*rows[-1], (f"   {part}", MUTED))
        if row_width(longer) <= width:
            rows[-1] = longer
        elif len(rows) < most:
            rows.append(((part, MUTED),))
        else:
            break
    return rows


def beside(
    heading: str, texts: Sequence[str], style: str = PLAIN, heading_style: str = MUTED
) -> list[TextRow]:
    """Return rows of text beside a heading."""
    blank = " " * len(heading)
    return [
        ((blank if n else heading, heading_style), (text, style)) for n, text in enumerate(texts)
    ]


def bar_on_track(fraction: float | None, cells: int) -> TextRow:
    """Return a thin bar and the rest of its track."""
    done = bar(None if fraction is None else min(1.0, fraction), cells).rstrip()
    return (done, ACCENT), ("─" * (cells - len(done)), MUTED)


def row_width(row: TextRow) -> int:
    """Return the cells that a row takes."""
    return sum(cell_len(text) for text, _ in row)
