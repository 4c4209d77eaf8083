"""The live chart: columns of values on an axis, marks and shaded stretches under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.style import Style

from tui.drawing.plot import (
    COLUMNS_PER_CELL,
    ascii_rows,
    braille_rows,
    mark_row,
    short_number,
    split_rows,
)
from tui.drawing.time_axis import NO_LABELS, TimeLabels
from tui.formatting.glyphs import Glyphs
from tui.widgets.chart_points import POINT, with_points
from tui.widgets.lines import Lines, wrapped
from tui.widgets.rows import TextRow, TextRun, fit


@dataclass(frozen=True)
class ChartPicture:
    """What a chart shows.

    `columns` are resampled to `Chart.plot_columns`, newest last; None is a gap.
    Marks are (column, label), such as the start of epoch 2; shades are (first
    column, last column, kind), where a kind is one of `SHADES`. The labels of
    the axis stand at equal distances from top to bottom; without them `top`,
    the middle and `bottom` are labelled. `reason` says why nothing is known. The
    `cursor` is a column too, and `times` are labelled at columns. Where a `part`
    of each column is given, it is drawn filled and the rest above it in another
    tone. Points are single values, (column, value), over the line.
    """

    columns: tuple[float | None, ...] = ()
    top: float = 1.0
    bottom: float = 0.0
    marks: tuple[tuple[int, str], ...] = ()
    shades: tuple[tuple[int, int, str], ...] = ()
    left_labels: tuple[str, ...] = ()
    reason: str = ""
    cursor: int | None = None
    part: tuple[float | None, ...] = ()
    points: tuple[tuple[int, float], ...] = ()
    times: TimeLabels = NO_LABELS


SHADES = ("compile", "validation", "pause")


class Chart(Lines):
    """A line over time. The screen asks for `plot_columns` and calls `show`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--axis",
        "chart--low",
        "chart--high",
        "chart--rest",
        "chart--mark",
        "chart--reason",
        "chart--cursor",
        "chart--crossed",
        POINT,
        *(f"chart--{kind}" for kind in SHADES),
    }
    """
    `chart--low` and `chart--high` colour the line at the bottom and at the top,
    with what lies between them in between; `chart--rest` is what lies above a
    part that is given. The cursor is `chart--cursor` where
    nothing is drawn, and adds `chart--crossed` to what it crosses.
    """

    DEFAULT_CSS = """
    Chart {
        & > .chart--axis { color: $text-muted; }
        & > .chart--low { color: $primary; }
        & > .chart--high { color: $text-primary; }
        & > .chart--rest { color: $text-muted; }
        & > .chart--mark { color: $text-muted; }
        & > .chart--reason { color: $text-muted; text-style: italic; }
        & > .chart--point { color: $text-accent; text-style: bold; }
        & > .chart--cursor { color: $text-accent; }
        & > .chart--compile { background: $warning 20%; }
        & > .chart--validation { background: $secondary 30%; }
        & > .chart--pause { background: $error 20%; }
    }
    """

    @dataclass
    class Pointed(Message):
        """A column was clicked; it may lie outside of the picture."""

        column: int

    class Grabbed(Message):
        """The chart may be dragged from now on."""

    @dataclass
    class Dragged(Message):
        """The chart was dragged by so many columns since it was grabbed; left is negative."""

        columns: int

    @dataclass
    class Scrolled(Message):
        """The wheel was turned over the chart."""

        up: bool

    AXIS_WIDTH = 6
    """Cells for the labels and the blank after them; a narrow chart goes without."""

    def __init__(
        self,
        *,
        filled: bool = False,
        tall_shades: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ):
        """Fill the area under the line when `filled` is set.

        Shades lie behind the marks only, so that a chart which scrolls has few
        rows to repaint; with `tall_shades` they lie behind the line as well.
        """
        super().__init__(id=id, classes=classes)
        self.filled = filled
        self.tall_shades = tall_shades
        self._picture = ChartPicture()
        self._grabbed_x: int | None = None
        self._dragged = False

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

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the picture: axis, line, and marks under it."""
        if width < 1 or height < 1:
            return []
        axis_width = self._axis_width(width)
        plot_width = width - axis_width
        picture = newest(self._picture, COLUMNS_PER_CELL * plot_width)
        has_marks = bool(picture.marks or picture.shades) and height >= 3
        plot_height = height - has_marks
        strip = _backgrounds(picture.shades, plot_width)
        behind_line = strip if self.tall_shades else _backgrounds((), plot_width)
        labels = _axis_labels(picture, height, axis_width)
        rows = [
            _runs(label, line, behind_line, is_part)
            for label, (line, is_part) in zip(
                labels, self._lines(picture, plot_width, plot_height), strict=False
            )
        ]
        if picture.points:
            mark, edges = self.glyphs.series[1], (picture.top, picture.bottom)
            rows = with_points(rows, picture.points, mark, axis_width, plot_height, *edges)
        if has_marks:
            marks = mark_row(picture.marks, picture.shades, plot_width, self.glyphs)
            rows.append(_runs(labels[-1], marks, strip, component="chart--mark"))
        if picture.cursor is not None and 0 <= picture.cursor < COLUMNS_PER_CELL * plot_width:
            rows = [_crossed(row, axis_width, picture.cursor, self.glyphs) for row in rows]
        if picture.reason and all(value is None for value in picture.columns):
            lines = wrapped(picture.reason, plot_width - 2, plot_height, self.ellipsis)
            for y, line in enumerate(lines, (plot_height - len(lines)) // 2):
                text = fit(" " * ((plot_width - cell_len(line)) // 2) + line, plot_width)
                rows[y] = _runs(labels[y], text, [(0, len(text), ())], component="chart--reason")
        return rows

    def _lines(
        self, picture: ChartPicture, width: int, height: int
    ) -> list[tuple[str, list[bool] | None]]:
        """Draw the columns: each row's text, and which of its cells are of the part, if any is."""
        edges = picture.top, picture.bottom
        if picture.part:
            return [
                *split_rows(
                    picture.columns, picture.part, width, height, *edges, glyphs=self.glyphs
                )
            ]
        draw_line = ascii_rows if self.glyphs.is_ascii else braille_rows
        lines = draw_line(picture.columns, width, height, *edges, self.filled)
        return [(line, None) for line in lines]

    def style_of(self, components: tuple[str, ...], y: int) -> Style:
        """Return the style of a run; the line's own goes from low to high."""
        style = super().style_of(components, y)
        if "chart--low" in components:
            low, high = style.foreground, self.get_visual_style("chart--high").foreground
            if low is not None and high is not None:
                rise = 1 - y / max(1, self.size.height - 1)
                style += Style(foreground=low.blend(high, rise))
        if "chart--crossed" in components:
            # Textual takes this from no style sheet.
            style += Style(reverse=True)
        return style

    @property
    def label_style(self) -> Style:
        """The labels of time look like those of the other axis."""
        return Style(foreground=self.get_visual_style("chart--axis").foreground)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin what becomes a click or a drag."""
        if event.button == 1:
            self._grabbed_x, self._dragged = event.screen_x, False
            self.capture_mouse()
            self.post_message(self.Grabbed())

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grabbed_x is None:
            return
        if event.button == 0:
            # The button was let go where this chart heard nothing of it.
            self._let_go()
            return
        cells = event.screen_x - self._grabbed_x
        if cells or self._dragged:
            self._dragged = True
            self.post_message(self.Dragged(COLUMNS_PER_CELL * cells))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._grabbed_x is None:
            return
        self._let_go()
        if not self._dragged:
            self.post_message(self.Pointed(self._column_at(event.screen_x)))

    def on_hide(self) -> None:
        """Let go: what is not seen can't be dragged."""
        self._let_go()

    def _let_go(self) -> None:
        if self._grabbed_x is not None:
            self._grabbed_x = None
            self.release_mouse()

    def on_mouse_scroll_up(self) -> None:
        self.post_message(self.Scrolled(up=True))

    def on_mouse_scroll_down(self) -> None:
        self.post_message(self.Scrolled(up=False))

    def _column_at(self, screen_x: int) -> int:
        """Return the column of the picture that is drawn at the left of a cell of the screen."""
        region = self.content_region
        x = screen_x - region.x - self._axis_width(region.width)
        hidden = max(0, len(self._picture.columns) - self.plot_columns)
        return hidden + COLUMNS_PER_CELL * x

    def _axis_width(self, width: int) -> int:
        return self.AXIS_WIDTH if width >= 3 * self.AXIS_WIDTH else 0


def newest(picture: ChartPicture, room: int) -> ChartPicture:
    """Keep the newest columns that have room: the picture may be of a wider chart."""
    excess = len(picture.columns) - room
    if excess <= 0:
        return picture
    return replace(
        picture,
        columns=picture.columns[excess:],
        part=picture.part[excess:],
        marks=tuple((column - excess, label) for column, label in picture.marks),
        points=tuple((column - excess, value) for column, value in picture.points),
        times=replace(
            picture.times, marks=tuple((at - excess, text) for at, text in picture.times.marks)
        ),
        shades=tuple((first - excess, last - excess, kind) for first, last, kind in picture.shades),
        cursor=None if picture.cursor is None else picture.cursor - excess,
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
    if not axis_width:
        return [""] * height
    room = axis_width - 1
    return [fit(" " * (room - cell_len(label)) + label, room) + " " for label in labels]


def _backgrounds(
    shades: Sequence[tuple[int, int, str]], plot_width: int
) -> list[tuple[int, int, tuple[str, ...]]]:
    """Divide a row into (start, end, component classes that shade it)."""
    cells: list[tuple[str, ...]] = [()] * plot_width
    for first, last, kind in shades:
        if kind in SHADES:
            start = max(0, first // COLUMNS_PER_CELL)
            end = max(start, min(plot_width, last // COLUMNS_PER_CELL + 1))
            cells[start:end] = [(f"chart--{kind}",)] * (end - start)
    runs = []
    start = 0
    for background, group in groupby(cells):
        end = start + sum(1 for _ in group)
        runs.append((start, end, background))
        start = end
    return runs


def _runs(
    label: str,
    text: str,
    backgrounds: list[tuple[int, int, tuple[str, ...]]],
    is_part: list[bool] | None = None,
    component: str = "chart--low",
) -> TextRow:
    """Return a row: its part of the axis, and the text in runs of equal background and tone."""
    axis: TextRow = ((label, ("chart--axis",)),) if label else ()
    runs: list[TextRun] = []
    for start, end, background in backgrounds:
        for inside, group in groupby(range(start, end), lambda x: is_part is None or is_part[x]):
            cells = [*group]
            tone = component if inside else "chart--rest"
            runs.append((text[cells[0] : cells[-1] + 1], (*background, tone)))
    return (*axis, *runs)


def _crossed(row: TextRow, axis_width: int, cursor: int, glyphs: Glyphs) -> TextRow:
    """Draw the cursor over a row: a line where it is blank, the cell reversed where it is not."""
    cell, side = divmod(cursor, COLUMNS_PER_CELL)
    at = axis_width + cell
    crossed: list[TextRun] = []
    start = 0
    for text, components in row:
        end = start + len(text)
        if start <= at < end:
            before, character, after = text[: at - start], text[at - start], text[at - start + 1 :]
            drawn, over = _cursor_cell(character, side, components, glyphs)
            parts = ((before, components), (drawn, over), (after, components))
            crossed.extend(part for part in parts if part[0])
        else:
            crossed.append((text, components))
        start = end
    return tuple(crossed)


def _cursor_cell(character: str, side: int, components: tuple[str, ...], glyphs: Glyphs) -> TextRun:
    """Return the cell in which the cursor stands at the left or the right side."""
    if character == " ":
        return ("|" if glyphs.is_ascii else "▏▕"[side]), (*components[:-1], "chart--cursor")
    return ("+" if glyphs.is_ascii else character), (*components, "chart--crossed")
