"""Every GPU in the room there is: curves of the one that trains, a grid, or a row each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from dlmon.records import Gpu
from tui.drawing.time_axis import TimeAxis, TimeLabels
from tui.machine.gpu_rows import GpuRows, coarser, gpu_rows_wanted
from tui.machine.readings import (
    gpu_memory_shares,
    show_gpu,
    show_gpu_memory,
    show_gpu_power,
    show_gpu_temperature,
)
from tui.machine.tiles import ChartTile
from tui.machine.view import MachineView, at_the_end
from tui.widgets.chart import Chart, ChartPicture
from tui.widgets.chart_picture import LINE, picture_rows
from tui.widgets.rows import TextRow

MEMORY = "gpu-tile--memory"
# With fewer rows the utilisation has them all; with one more there are marks as well.
_LEAST_WITH_MEMORY = 4


class GpuTile(ChartTile):
    """A GPU over time: its utilisation, and where its memory has no chart, a row of that."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {MEMORY}

    DEFAULT_CSS = """
    GpuTile > .gpu-tile--memory { color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._shares: tuple[float | None, ...] = ()

    def show_memory(self, shares: tuple[float | None, ...]) -> None:
        """Show which share of the memory was in use, 0 to 1, in the columns of the chart."""
        if shares != self._shares:
            self._shares = shares
            self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the chart, the lowest of the memory where there is room for it."""
        if height < _LEAST_WITH_MEMORY or all(share is None for share in self._shares):
            return super().draw(width, height)
        picture, axis = self._picture, self._axis_width(width)
        if height == _LEAST_WITH_MEMORY:
            picture = replace(picture, marks=(), shades=())
        rows = picture_rows(picture, width, height - 1, axis, self.glyphs, filled=True)
        memory = ChartPicture(
            self._shares, left_labels=("mem",), times=picture.times, cursor=picture.cursor
        )
        (row,) = picture_rows(memory, width, 1, axis, self.glyphs, filled=True)
        in_hue = tuple(
            (text, tuple(MEMORY if name == LINE else name for name in style)) for text, style in row
        )
        return [*rows, in_hue]


# A chart with fewer rows, borders and all, is unreadable; the first GPU's shall have some more
# before others have theirs.
_LEAST_CHART, _GOOD_CHART = 5, 6
_MEMORY, _CURVES = 5, 5
_LEAST_CELL = 28
_MOST_COLUMNS = 4
_GRID_FROM = 4
# Curves in rows have columns of their own, but the time of the chart beside them, which labels it.
_OF_TIME = ("curves over the time of the CPU chart", "time as in CPU chart")
_AROUND_TITLE = 6


@dataclass(frozen=True)
class GpuShape:
    """How GPUs share their room.

    Attributes:
        charts: how many have a chart; the first is that of the GPU that trains.
        columns: of the grid in which they stand.
        each: the rows of each other chart in a stack; an odd row is the first one's.
        memory: the rows of the first one's memory, 0 for none.
        curves: the rows of its power and its temperature.
        rows: those of the GPUs in a row each.
        framed: whether these have a border.
    """

    charts: int = 1
    columns: int = 1
    each: int = 0
    memory: int = 0
    curves: int = 0
    rows: int = 0
    framed: bool = False


def gpu_shape(count: int, width: int, height: int) -> GpuShape:
    """Return how so many GPUs share a room: as evenly as has room."""
    others = count - 1
    if count >= _GRID_FROM:
        most = min(_MOST_COLUMNS, width // _LEAST_CELL)
        fitting = [n for n in range(2, most + 1) if -(-count // n) * _LEAST_CHART <= height]
        if fitting:
            # A grid without a hole where there is one.
            columns = min(fitting, key=lambda n: (count % n > 0, n))
            return GpuShape(charts=count, columns=columns)
        if count + 2 <= height and width >= _LEAST_CELL:
            return GpuShape(charts=0, rows=height, framed=True)
    if others <= 0 or height >= _GOOD_CHART + others * _LEAST_CHART:
        each = max(_LEAST_CHART, height // count) if others > 0 else 0
        return _with_curves(GpuShape(charts=count, each=each), height - max(0, others) * each)
    wanted, least = gpu_rows_wanted(others, max(1, width - 2))
    room = height - _LEAST_CHART
    if room < max(least, -(-wanted // 2)):
        return GpuShape(charts=0, rows=max(1, height))
    rows = max(1, min(wanted, room))
    return _with_curves(GpuShape(rows=rows), height - rows)


def _with_curves(shape: GpuShape, height: int) -> GpuShape:
    """Give the first GPU more curves where it has room for them."""
    memory = _MEMORY if height >= _GOOD_CHART + _MEMORY else 0
    curves = _CURVES if height >= 2 * _GOOD_CHART + _MEMORY + _CURVES else 0
    if curves:
        memory = _GOOD_CHART + 1
    return replace(shape, memory=memory, curves=curves)


class SmallTile(ChartTile):
    """A small curve, whose columns are not those of the other charts: no click reads it."""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.prevent_default()


class GpuPanel(Vertical):
    """The GPUs of a machine, beside its CPU."""

    DEFAULT_CSS = """
    GpuPanel { grid-gutter: 0; }
    GpuPanel > ChartTile { height: 1fr; width: 1fr; }
    GpuPanel GpuRows { padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._first = GpuTile(id="gpu", classes="panel")
        self._memory = ChartTile(id="gpu-memory", classes="panel")
        self._power = SmallTile(id="gpu-power", classes="panel")
        self._temperature = SmallTile(id="gpu-temperature", classes="panel")
        self._curves = Horizontal(self._power, self._temperature)
        self._others: list[GpuTile] = []
        self._rows = GpuRows(id="gpus")
        self._shape = GpuShape()
        self._axes: tuple[TimeAxis, TimeAxis] | None = None
        """That of all charts, and that of the grid's, where they stand in one."""
        for part in (self._memory, self._curves, self._rows):
            part.display = False

    def compose(self) -> ComposeResult:
        """Lay out the first GPU's; the charts of others are made once there is room for them."""
        yield self._first
        yield self._memory
        yield self._curves
        yield self._rows

    @property
    def shape(self) -> GpuShape:
        """How the GPUs share the room."""
        return self._shape

    @property
    def grid_columns(self) -> int:
        """How many columns of data the narrowest chart of a grid, or of a small curve, has."""
        small = self._others if self._shape.columns > 1 else (self._power, self._temperature)
        return min((tile.plot_columns for tile in small if tile.display), default=0)

    @property
    def plot_columns(self) -> int | None:
        """How many columns its charts have room for; None where they have an axis of their own."""
        alone = self._shape.columns == 1 and self._first.display
        return self._first.plot_columns if alone else None

    def show(self, view: MachineView, axis: TimeAxis, times: TimeLabels) -> None:
        """Show all GPUs along `axis`, the one that trains first; the lowest chart labels it."""
        first = view.main_gpu
        if first is None:
            return
        others = [gpu for gpu in view.gpus if gpu.index != first.index]
        shape = gpu_shape(1 + len(others), *self.size)
        self._take_shape(shape)
        shown = [self._first, *self._others[: max(0, shape.charts - 1)]]
        if shape.columns > 1:
            self._show_grid([first, *others], shown, view, axis)
        elif shape.charts:
            self._axes = None
            self._show_stack(first, others, shown, view, axis, times)
        if shape.rows:
            # The chart names the GPU that trains; without it, the rows must.
            without = frozenset({first.index} if shape.charts else ())
            if shape.framed:
                room = self.size.width - _AROUND_TITLE
                of_time = next((text for text in _OF_TIME if len(text) <= room), "")
                self._rows.set_titles(f"GPUs{at_the_end(view)}", of_time)
            else:
                self._rows.set_titles("")
            self._rows.show(view, axis, mark=not shape.charts, without=without)

    def _show_stack(
        self,
        first: Gpu,
        others: list[Gpu],
        shown: list[GpuTile],
        view: MachineView,
        axis: TimeAxis,
        times: TimeLabels,
    ) -> None:
        shape = self._shape
        lowest = shown[-1] if len(shown) > 1 else self._memory if shape.memory else self._first
        own_memory = not shape.memory
        for tile, gpu in zip(shown, (first, *others), strict=False):
            labels = times if tile is lowest else times.unlabelled
            with_memory = own_memory or tile is not shown[0]
            show_gpu(tile, gpu, view, axis, labels, with_memory=with_memory)
            tile.show_memory(gpu_memory_shares(gpu, view, axis) if with_memory else ())
        if shape.memory:
            labels = times if lowest is self._memory else times.unlabelled
            show_gpu_memory(self._memory, first, view, axis, labels)
        if shape.curves:
            for small, show in (
                (self._power, show_gpu_power),
                (self._temperature, show_gpu_temperature),
            ):
                own = coarser(axis, small.plot_columns)
                show(small, first, view, axis, own)

    def _show_grid(
        self, gpus: list[Gpu], shown: list[GpuTile], view: MachineView, axis: TimeAxis
    ) -> None:
        drawn = coarser(axis, min(tile.plot_columns for tile in shown))
        self._axes = axis, drawn
        for tile, gpu in zip(shown, gpus, strict=False):
            show_gpu(tile, gpu, view, axis, drawn_axis=drawn)
            tile.show_memory(gpu_memory_shares(gpu, view, drawn))

    def _take_shape(self, shape: GpuShape) -> None:
        """Show the parts of a shape; nothing happens where it is the same."""
        new = [
            GpuTile(id=f"gpu-{number}", classes="panel")
            for number in range(len(self._others), shape.charts - 1)
        ]
        if new:
            self._others += new
            self.mount(*new, after=self._curves)
        if shape == self._shape and not new:
            return
        self._shape = shape
        self._first.display = shape.charts > 0
        self._memory.display = shape.memory > 0
        self._memory.styles.height = max(1, shape.memory)
        self._curves.display = shape.curves > 0
        self._curves.styles.height = max(1, shape.curves)
        for number, tile in enumerate(self._others, 1):
            tile.display = number < shape.charts
            tile.styles.height = shape.each or "1fr"
        self._rows.display = shape.rows > 0
        self._rows.styles.height = max(1, shape.rows)
        self._rows.set_class(shape.framed, "panel")
        in_grid = shape.columns > 1
        self.styles.layout = "grid" if in_grid else "vertical"
        self.styles.grid_size_columns = shape.columns

    def on_chart_pointed(self, message: Chart.Pointed) -> None:
        """Take a column of the grid's own axis as one of all charts'."""
        if self._axes is not None:
            axis, drawn = self._axes
            at_ns = drawn.start_ns + message.column * drawn.column_ns
            message.column = (at_ns - axis.start_ns) // axis.column_ns

    def on_chart_dragged(self, message: Chart.Dragged) -> None:
        if self._axes is not None:
            axis, drawn = self._axes
            message.columns = message.columns * drawn.column_ns // axis.column_ns
