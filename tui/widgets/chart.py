"""The live chart: columns of values on an axis, marks and shaded stretches under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from tui.widgets.plot import COLUMNS_PER_CELL, ascii_rows, braille_rows, mark_row, short_number

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

    def set_titles(self, title: str, subtitle: str = "", right: str = "") -> None:
        """Set the texts in the border: top left, bottom, and the right end of the top.

        They are shown as they are, never read as markup. Nothing happens when
        none of them changed.
        """
        texts = (title, subtitle, right)
        if texts != self._title_texts:
            self._title_texts = texts
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
        line = room - cell_len(title) - cell_len(right) - 2
        if not right or not title or line < 1:
            return ((f"{title} {right}".strip(), ()),)
        dash = {"ascii": "-", "heavy": "━", "double": "═"}.get(self.styles.border_top[0], "─")
        return ((f"{title} ", ()), (dash * line, ("line",)), (f" {right}", ()))


@dataclass(frozen=True)
class ChartPicture:
    """What a chart shows.

    `columns` are resampled to `Chart.plot_columns`, newest last; None is a gap.
    Marks are (column, label), such as the start of epoch 2; shades are (first
    column, last column, kind), where a kind is one of `SHADES`. The labels of
    the axis stand at equal distances from top to bottom; without them `top`,
    the middle and `bottom` are told. `reason` says why nothing is known.
    """

    columns: tuple[float | None, ...] = ()
    top: float = 1.0
    bottom: float = 0.0
    marks: tuple[tuple[int, str], ...] = ()
    shades: tuple[tuple[int, int, str], ...] = ()
    left_labels: tuple[str, ...] = ()
    reason: str = ""


SHADES = ("compile", "validation")


class Chart(RowWidget):
    """A line over time. The screen asks for `plot_columns` and calls `show`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--axis",
        "chart--low",
        "chart--high",
        "chart--mark",
        "chart--reason",
        *(f"chart--{kind}" for kind in SHADES),
    }
    """
    `chart--low` and `chart--high` colour the line at the bottom and at the top,
    with what lies between them in between.
    """

    DEFAULT_CSS = """
    Chart {
        & > .chart--axis { color: $text-muted; }
        & > .chart--low { color: $primary; }
        & > .chart--high { color: $text-primary; }
        & > .chart--mark { color: $text-muted; }
        & > .chart--reason { color: $text-muted; text-style: italic; }
        & > .chart--compile { background: $warning 20%; }
        & > .chart--validation { background: $secondary 30%; }
    }
    """

    AXIS_WIDTH = 6
    """Cells for the labels and the blank after them; a narrow chart goes without."""

    def __init__(
        self,
        *,
        filled: bool = False,
        tall_shades: bool = False,
        ascii: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ):
        """Fill the area under the line when `filled` is set.

        Shades lie behind the marks only, so that a chart which scrolls has few
        rows to repaint; with `tall_shades` they lie behind the line as well.
        """
        super().__init__(ascii=ascii, id=id, classes=classes)
        self.filled = filled
        self.tall_shades = tall_shades
        self._picture = ChartPicture()

    @property
    def plot_columns(self) -> int:
        """How many columns of data fit now."""
        width = self.size.width
        return COLUMNS_PER_CELL * (width - self._axis_width(width))

    def show(self, picture: ChartPicture) -> None:
        """Show `picture`, repainting only the rows that it changes."""
        if picture != self._picture:
            self._picture = picture
            self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the rows of the picture: axis, line, and marks under it."""
        if width < 1 or height < 1:
            return []
        axis_width = self._axis_width(width)
        plot_width = width - axis_width
        picture = _newest(self._picture, COLUMNS_PER_CELL * plot_width)
        has_marks = bool(picture.marks or picture.shades) and height >= 3
        plot_height = height - has_marks
        draw_line = ascii_rows if self.ascii else braille_rows
        lines = draw_line(
            picture.columns, plot_width, plot_height, picture.top, picture.bottom, self.filled
        )
        strip = _backgrounds(picture.shades, plot_width)
        behind_line = strip if self.tall_shades else _backgrounds((), plot_width)
        labels = _axis_labels(picture, height, axis_width)
        rows = [
            _runs(label, line, "chart--low", behind_line)
            for label, line in zip(labels, lines, strict=False)
        ]
        if has_marks:
            marks = mark_row(picture.marks, picture.shades, plot_width, self.ascii)
            rows.append(_runs(labels[-1], marks, "chart--mark", strip))
        if picture.reason and all(value is None for value in picture.columns):
            reason = fit(picture.reason, plot_width, "~" if self.ascii else "…")
            y = plot_height // 2
            rows[y] = _runs(labels[y], reason, "chart--reason", [(0, len(reason), ())])
        return rows

    def style_of(self, components: tuple[str, ...], y: int) -> Style:
        """Return the style of a run; the line's own goes from low to high."""
        style = super().style_of(components, y)
        if components[-1] != "chart--low":
            return style
        low, high = style.foreground, self.get_visual_style("chart--high").foreground
        if low is None or high is None:
            return style
        rise = 1 - y / max(1, self.size.height - 1)
        return style + Style(foreground=low.blend(high, rise))

    def _axis_width(self, width: int) -> int:
        return self.AXIS_WIDTH if width >= 3 * self.AXIS_WIDTH else 0


def _newest(picture: ChartPicture, room: int) -> ChartPicture:
    """Keep the newest columns that have room: the picture may be of a wider chart."""
    excess = len(picture.columns) - room
    if excess <= 0:
        return picture
    return replace(
        picture,
        columns=picture.columns[excess:],
        marks=tuple((column - excess, label) for column, label in picture.marks),
        shades=tuple((first - excess, last - excess, kind) for first, last, kind in picture.shades),
    )


def _axis_labels(picture: ChartPicture, height: int, axis_width: int) -> list[str]:
    """Return one text of `axis_width` cells for each row."""
    texts = picture.left_labels
    if not texts:
        middle = (picture.top + picture.bottom) / 2
        values = (
            (picture.top, middle, picture.bottom) if height >= 5 else (picture.top, picture.bottom)
        )
        texts = tuple(map(short_number, values))
    steps = max(1, len(texts) - 1)
    # Where two labels meet in one row, the upper one stays.
    label_at = {round(i * (height - 1) / steps): texts[i] for i in reversed(range(len(texts)))}
    labels = [label_at.get(y, "") for y in range(height)]
    return [_right_aligned(label, axis_width - 1) + " " if axis_width else "" for label in labels]


def _backgrounds(
    shades: Sequence[tuple[int, int, str]], plot_width: int
) -> list[tuple[int, int, tuple[str, ...]]]:
    """Divide a row into (begin, end, component classes that shade it)."""
    cells: list[tuple[str, ...]] = [()] * plot_width
    for first, last, kind in shades:
        if kind in SHADES:
            begin = max(0, first // COLUMNS_PER_CELL)
            end = max(begin, min(plot_width, last // COLUMNS_PER_CELL + 1))
            cells[begin:end] = [(f"chart--{kind}",)] * (end - begin)
    runs = []
    begin = 0
    for background, group in groupby(cells):
        end = begin + sum(1 for _ in group)
        runs.append((begin, end, background))
        begin = end
    return runs


def _runs(
    label: str, text: str, component: str, backgrounds: list[tuple[int, int, tuple[str, ...]]]
) -> Row:
    """Return a row: its part of the axis, and the text in runs of equal background."""
    axis: Row = ((label, ("chart--axis",)),) if label else ()
    return (
        *axis,
        *((text[begin:end], (*background, component)) for begin, end, background in backgrounds),
    )


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + ellipsis, width)


def _right_aligned(text: str, width: int) -> str:
    return fit(" " * (width - cell_len(text)) + text, width)


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
