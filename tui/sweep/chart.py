"""The chart of a sweep: how the time depends on what is varied."""

from __future__ import annotations

from typing import ClassVar

from dlmon.figures.sections import Bars, Chart
from dlmon.figures.value_axis import bar_lengths, is_doubling
from tui.sweep.plot import GRID, SERIES, bar_rows, plot_rows
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

    _picture: Chart | Bars | None = None

    def show(self, picture: Chart | Bars) -> None:
        """Show what combinations took."""
        if picture != self._picture:
            self._picture = picture
            title = picture.title if isinstance(picture, Chart) else picture.heading
            self.set_titles(title, self._note(picture))
            self.redraw()

    def _note(self, picture: Chart | Bars) -> str:
        """Say what is not as usual: the scale, and combinations without a figure."""
        if isinstance(picture, Bars):
            return "logarithmic scale" * bar_lengths([bar.value for bar in picture.bars])[1]
        if not _has_any(picture):
            return ""
        doubles = is_doubling([x for x, _ in picture.x_labels])
        notes = ["logarithmic from left to right"] if doubles else []
        if any(line.out_of_memory for line in picture.lines):
            notes.append("✗ memory ran out")
        return "  ".join(notes)

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the picture, or say that there is nothing to see yet."""
        picture = self._picture
        if picture is None:
            return []
        if isinstance(picture, Bars):
            return bar_rows(picture.bars, width, height)
        if not _has_any(picture):
            return [(("waiting for the first throughput"[:width], MUTED),)]
        return plot_rows(picture, width, height)


def _has_any(picture: Chart) -> bool:
    """Return whether there is anything to draw yet."""
    return any(line.out_of_memory or any(line.mean) for line in picture.lines)
