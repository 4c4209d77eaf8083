"""The live chart: columns of values on an axis, marks and shaded stretches under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.style import Style

from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import TimeAxis, TimeLabels
from tui.widgets.chart_picture import SHADES, ChartPicture, newest, picture_rows
from tui.widgets.lines import Lines
from tui.widgets.rows import NO_RULER, Ruler, TextRow

__all__ = ["SHADES", "Chart", "ChartPicture", "newest"]


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
        "chart--value",
        "chart--area",
        "chart--band",
        "chart--grid",
        "chart--stalled",
        "chart--point",
        *(f"chart--{kind}" for kind in SHADES),
    }
    """
    `chart--low` and `chart--high` colour what is drawn at the bottom and at the
    top, with what lies between them in between; `chart--rest` is what lies above
    a part that is given, `chart--area` below a line and `chart--band` around it.
    A style sheet gives them the hue of a quantity, by a class such as `cpu-hue`.
    """

    DEFAULT_CSS = """
    Chart {
        & > .chart--axis { color: $text-muted; }
        & > .chart--low { color: $primary; }
        & > .chart--high { color: $text-primary; }
        & > .chart--rest { color: $text-muted; }
        & > .chart--mark { color: $text-muted; }
        & > .chart--reason { color: $text-muted; text-style: italic; }
        & > .chart--area { color: $primary 45%; }
        & > .chart--band { color: $primary 55%; }
        & > .chart--grid { color: $foreground 22%; }
        & > .chart--cursor { color: $foreground; }
        & > .chart--value { color: $foreground; text-style: bold; }
        & > .chart--point { color: $text-accent; text-style: bold; }
        & > .chart--stalled { color: $text-error; text-style: bold; }
        & > .chart--compile { background: $warning 20%; }
        & > .chart--validation { background: $secondary 30%; }
        & > .chart--pause { background: $foreground 12%; }
        & > .chart--stall { background: $error 35%; }
        /* The terminal's own colours can't be made fainter. */
        &:ansi {
            & > .chart--area, & > .chart--band { text-style: dim; }
            & > .chart--grid { color: ansi_bright_black; }
            & > .chart--compile, & > .chart--validation, & > .chart--pause {
                background: transparent;
            }
            & > .chart--stall { background: ansi_red; }
            & > .chart--stalled { color: ansi_bright_white; }
        }
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

    axes: tuple[TimeAxis, TimeAxis] | None = None
    """That of all charts, in whose columns the mouse is understood, and this one's own."""
    AXIS_WIDTH = 6
    """Cells for the labels and the blank after them; a narrow chart goes without."""

    def __init__(
        self,
        *,
        filled: bool = False,
        tall_shades: bool = False,
        hue: str = "",
        id: str | None = None,
        classes: str | None = None,
    ):
        """Fill the area under the line when `filled` is set.

        Shades lie behind the marks only, so that a chart which scrolls has few
        rows to repaint; with `tall_shades` they lie behind the line as well.
        The `hue` is that of a quantity: throughput, cpu, gpu, memory, power or loss.
        """
        super().__init__(id=id, classes=classes)
        self._hue = ""
        self.take_hue(hue)
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

    def take_hue(self, quantity: str) -> None:
        """Draw in the hue of a quantity from now on."""
        if quantity == self._hue:
            return
        if self._hue:
            self.remove_class(f"{self._hue}-hue")
        self._hue = quantity
        self.add_class(f"{quantity}-hue")

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

    def style_of(self, components: tuple[str, ...], y: int) -> Style:
        """Return the style of a run; the line's own goes from low to high."""
        style = super().style_of(components, y)
        if "chart--low" in components:
            low, high = style.foreground, self.component_style("chart--high").foreground
            if low is not None and high is not None:
                rise = 1 - y / max(1, self.size.height - 1)
                style += Style(foreground=low.blend(high, rise))
        return style

    def ruler_of(self, times: TimeLabels, name: str = "") -> Ruler:
        """Return times as labels of the border, whose line begins a cell before the chart.

        `name` stands at the right end where `times` say nothing there.
        """
        if not times.are_shown:
            return NO_RULER
        start = 1 + self._axis_width(self.size.width)
        marks = ((start + column // COLUMNS_PER_CELL, text) for column, text in times.marks)
        return Ruler(tuple(marks), times.last or name)

    @property
    def label_style(self) -> Style:
        """The labels of time look like those of the other axis."""
        return Style(foreground=self.component_style("chart--axis").foreground)

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
