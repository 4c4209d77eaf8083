"""A widget that draws its own rows of styled text, and repaints only those that differ."""

from __future__ import annotations

from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

Run = tuple[str, tuple[str, ...]]
"""A piece of a row: its text, and the component classes that style it."""

Row = tuple[Run, ...]

_TITLE_INDENT = 3
"""A corner, a piece of the border's line and a blank stand before its title."""


class RowWidget(Widget):
    """A widget that draws its own rows and repaints only those that differ.

    A subclass says in `draw` what its rows are, and calls `redraw` when they
    may have changed. Foreign text is safe in a row and in a title: neither is
    ever read as markup.
    """

    ALLOW_SELECT = False

    DEFAULT_CSS = """
    RowWidget {
        width: 1fr;
        height: 1fr;
    }
    """

    def __init__(self, *, ascii: bool = False, id: str | None = None, classes: str | None = None):
        """Draw with plain characters when `ascii` is set."""
        super().__init__(id=id, classes=classes)
        self.ascii = ascii
        self._rows: list[Row] = []
        self._rows_size = Size(0, 0)
        self._title_texts = ("", "", "")
        self._title_more: tuple[str, ...] = ()
        self._title_row: Row = ()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return what to show: at most `height` rows of at most `width` cells."""
        raise NotImplementedError

    def style_of(self, components: tuple[str, ...], y: int) -> Style:
        """Return the style of a run in row `y`."""
        return self.get_visual_style(*components)

    def redraw(self) -> None:
        """Draw again, and repaint the rows that came out differently."""
        size = self.size
        before, self._rows = self._rows, self.draw(size.width, size.height)[: size.height]
        if size != self._rows_size:
            self._rows_size = size
            self.refresh()
            return
        pairs = zip_longest(before, self._rows, fillvalue=())
        changed = [
            Region(0, y, min(_changed_until(old, new, size.width), size.width), 1)
            for y, (old, new) in enumerate(pairs)
            if old != new
        ]
        if changed:
            self.refresh(*changed)

    def set_titles(
        self, title: str, subtitle: str = "", right: str = "", more: tuple[str, ...] = ()
    ) -> None:
        """Set the texts in the border: top left, bottom, and the right end of the top.

        They are shown as they are, never read as markup. Of `more`, as many follow
        `right` as have room. Nothing happens when none of them changed.
        """
        texts = (title, subtitle, right)
        if texts != self._title_texts or more != self._title_more:
            self._title_texts, self._title_more = texts, more
            self._put_titles()

    def render_line(self, y: int) -> Strip:
        """Return one line for the compositor, which keeps it until the row is repainted."""
        if self.size != self._rows_size:
            self._rows, self._rows_size = self.draw(*self.size), self.size
        row = self._rows[y] if y < len(self._rows) else ()
        segments = [
            Segment(text, self.style_of(components, y).rich_style) for text, components in row
        ]
        blank = self.visual_style.rich_style
        return Strip(segments).adjust_cell_length(self.size.width, blank)

    def notify_style_update(self) -> None:
        """Follow a change of theme: the line inside of the title has the border's colour."""
        super().notify_style_update()
        if self.is_mounted and self._title_texts[2]:
            self._put_titles()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the title to the new width."""
        if self._title_texts[2]:
            self._put_titles()

    def _put_titles(self) -> None:
        """Write the titles, and repaint only what changed of them.

        The public attributes would repaint the whole widget, twice a second
        for one number.
        """
        title, subtitle, right = self._title_texts
        width, height = self.outer_size
        before, self._title_row = self._title_row, self._top_row(title, right)
        line = Style(foreground=self.styles.border_top[1])
        self._border_title = Content.assemble(
            *((text, line if components else "") for text, components in self._title_row)
        )
        regions = []
        if before != self._title_row:
            end = _TITLE_INDENT + _changed_until(before, self._title_row, width)
            regions.append(Region(0, 0, min(end, width), 1))
        if self._border_subtitle is None or self._border_subtitle.plain != subtitle:
            self._border_subtitle = Content(subtitle)
            regions.append(Region(0, height - 1, width, 1))
        if regions:
            origin = self.styles.gutter.top_left
            self.refresh(*(region.translate((-origin[0], -origin[1])) for region in regions))

    def _top_row(self, title: str, right: str) -> Row:
        """Join both ends of the top border with its own line, where there is room for one."""
        room = self.outer_size.width - 2 * _TITLE_INDENT
        for part in self._title_more:
            longer = f"{right}  {part}"
            if cell_len(title) + cell_len(longer) + 3 > room:
                break
            right = longer
        line = room - cell_len(title) - cell_len(right) - 2
        if not right or not title or line < 1:
            return ((f"{title} {right}".strip(), ()),)
        dash = {"ascii": "-", "heavy": "━", "double": "═"}.get(self.styles.border_top[0], "─")
        return ((f"{title} ", ()), (dash * line, ("line",)), (f" {right}", ()))


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + ellipsis, width)


def _changed_until(before: Row, after: Row, width: int) -> int:
    """Return the cell behind the last one that differs, by whole runs.

    Where a row begins to differ is of no use: Textual sends it from its start.
    """
    end = _cells(after)
    if end != _cells(before):
        return width
    for old, new in zip(reversed(before), reversed(after), strict=False):
        if old != new:
            break
        end -= cell_len(new[0])
    return end


def _cells(row: Row) -> int:
    return sum(cell_len(text) for text, _ in row)
