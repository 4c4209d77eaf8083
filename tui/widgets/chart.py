"""The live chart: columns of values on an axis, marks and shaded stretches under them."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.style import Style

from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import TimeAxis, TimeLabels
from tui.widgets.chart_picture import (
    AREA,
    BAND,
    GRID,
    LINE,
    SHADES,
    STALL,
    ChartPicture,
    newest,
    picture_rows,
)
from tui.widgets.lines import Lines
from tui.widgets.rows import NO_RULER, Ruler, TextRow

__all__ = ["SHADES", "Chart", "ChartPicture", "newest"]


_SHARES = {LINE: 100, AREA: 50, BAND: 60}
"""How much of the hue each has, in %; what is filled has less of it at the bottom."""
_LEAST = 55


class Chart(Lines):
    """A line over time. The screen asks for `plot_columns` and calls `show`."""

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

    axes: tuple[TimeAxis, TimeAxis] | None = None
    """That of all charts, in whose columns the mouse is understood, and this one's own."""
    AXIS_WIDTH = 6
    """Cells for the labels and the blank after them; a narrow chart goes without."""

    def __init__(
        self,
        *,
        filled: bool = False,
        tall_shades: bool = False,
        hue: str = "$primary",
        id: str | None = None,
        classes: str | None = None,
    ):
        """Fill the area under the line when `filled` is set.

        Shades lie behind the marks only, so that a chart which scrolls has few
        rows to repaint; with `tall_shades` they lie behind the line as well.
        The `hue` is that of a quantity, as `$chart-cpu`.
        """
        super().__init__(id=id, classes=classes)
        self.hue = hue
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
        return picture_rows(
            self._picture,
            width,
            height,
            self._axis_width(width),
            filled=self.filled,
            tall_shades=self.tall_shades,
        )

    def style_of(self, style: str, y: int) -> Style:
        """Return the style of a run; what is filled goes from dim at the bottom to bright."""
        tone, _, shade = style.partition(" on ")
        is_ansi = self.app.native_ansi_color
        if (share := _SHARES.get(tone)) is not None:
            if self.filled:
                share = round(100 - (100 - _LEAST) * y / max(1, self.size.height - 1))
            faint = "dim " if tone != LINE else ""
            tone = f"{faint}{self.hue}" if is_ansi else f"{self.hue} {share}%"
        if is_ansi:
            # The terminal's own colours can't be made fainter.
            shade = "ansi_red" if shade == SHADES["stall"] else ""
            tone = {GRID: "ansi_bright_black", STALL: tone if not shade else "bold"}.get(tone, tone)
        return super().style_of(f"{tone} on {shade}" if shade else tone, y)

    def ruler_of(self, times: TimeLabels, name: str = "") -> Ruler:
        """Return times as labels of the border, whose line begins a cell before the chart.

        `name` stands at the right end where `times` say nothing there.
        """
        if not times.are_shown:
            return NO_RULER
        start = 1 + self._axis_width(self.size.width)
        marks = ((start + column // COLUMNS_PER_CELL, text) for column, text in times.marks)
        return Ruler(tuple(marks), times.last or name)

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
            columns = COLUMNS_PER_CELL * cells
            if self.axes is not None:
                shared, own = self.axes
                columns = columns * own.column_ns // shared.column_ns
            self.post_message(self.Dragged(columns))

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
        """Return the column that is drawn at the left of a cell of the screen."""
        region = self.content_region
        x = screen_x - region.x - self._axis_width(region.width)
        hidden = max(0, len(self._picture.columns) - self.plot_columns)
        column = hidden + COLUMNS_PER_CELL * x
        if self.axes is None:
            return column
        shared, own = self.axes
        return shared.column_of(own.start_ns + column * own.column_ns)

    def _axis_width(self, width: int) -> int:
        return self.AXIS_WIDTH if width >= 3 * self.AXIS_WIDTH else 0
