"""A chart of one GPU's utilisation, with its memory in the lowest row."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tui.machine.tiles import ChartTile
from tui.widgets.chart import ChartPicture
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
