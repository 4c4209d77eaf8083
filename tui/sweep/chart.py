"""The chart of a sweep: how the time depends on what is varied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dlmon.figures.sections import Bars, Curves, Point
from dlmon.figures.value_axis import bar_lengths
from tui.sweep.plot import GRID, SERIES, bar_rows, is_doubling, plot_rows
from tui.widgets.lines import MUTED, Lines
from tui.widgets.rows import TextRow


class SweepChart(Lines):
    """Shows a picture; draws it again only where it changed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {name for (name,) in (*SERIES, GRID)}
    DEFAULT_CSS = """
    SweepChart {
        & > .sweep-chart--series-0 { color: $text-primary; }
        & > .sweep-chart--series-1 { color: $text-warning; }
        & > .sweep-chart--series-2 { color: $text-success; }
        & > .sweep-chart--series-3 { color: $text-accent; }
        & > .sweep-chart--series-4 { color: $text-error; }
        & > .sweep-chart--series-5 { color: $text-secondary; }
        & > .sweep-chart--grid { color: $foreground 22%; }
        /* The terminal's own colours can't be made fainter. */
        &:ansi > .sweep-chart--grid { color: ansi_bright_black; }
    }
    """

    DEFAULT_CLASSES = "panel"

    _picture: Curves | Bars | None = None

    def show(self, picture: Curves | Bars) -> None:
        """Show what combinations took."""
        if picture != self._picture:
            self._picture = picture
            title = picture.title if isinstance(picture, Curves) else picture.heading
            self.set_titles(title, self._note(picture))
            self.redraw()

    def _note(self, picture: Curves | Bars) -> str:
        """Say what is not as usual: the scale, and combinations without a figure."""
        if isinstance(picture, Bars):
            return "logarithmic scale" * bar_lengths([bar.value for bar in picture.bars])[1]
        points = _points(picture)
        if not _has_any(points):
            return ""
        doubles = is_doubling([point.x for point in points])
        notes = ["logarithmic from left to right"] if doubles else []
        if any(point.out_of_memory for point in points):
            notes.append("✗ memory ran out")
        return "  ".join(notes)

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the picture, or say that there is nothing to see yet."""
        picture = self._picture
        if picture is None:
            return []
        if isinstance(picture, Bars):
            return bar_rows(picture.bars, width, height)
        if not _has_any(_points(picture)):
            return [(("waiting for the first throughput"[:width], MUTED),)]
        return plot_rows(picture, width, height)


def _points(picture: Curves) -> list[Point]:
    return [point for line in picture.lines.values() for point in line]


def _has_any(points: Sequence[Point]) -> bool:
    """Return whether there is anything to draw yet."""
    return any(point.y is not None or point.out_of_memory for point in points)
