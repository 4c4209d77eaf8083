"""The chart of a sweep: how the time depends on what is varied."""

from __future__ import annotations

from typing import ClassVar

from tui.sweep.picture import SweepPicture
from tui.sweep.plot import GRID, SERIES, bar_rows, plot_rows
from tui.widgets.lines import MUTED, Lines
from tui.widgets.rows import TextRow

HELP: tuple[tuple[str, str], ...] = (
    (
        "Chart",
        "How the time of a sample depends on what is varied, from zero up: less is better. Where "
        "values double from one to the next, equal steps along the axis are equal factors. A line "
        "through a point is the 95 % band of at least three runs; ✗ at the top is where memory ran "
        "out. "
        "Where nothing that is varied is a number, bars stand for the combinations.",
    ),
)


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

    _picture: SweepPicture | None = None

    def show(self, picture: SweepPicture) -> None:
        if picture != self._picture:
            self._picture = picture
            note = picture.note.replace("✗", "x") if self.glyphs.is_ascii else picture.note
            self.set_titles(picture.title, note)
            self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the picture, or say that there is nothing to see yet."""
        picture = self._picture
        if picture is None:
            return []
        known = [point.y for series in picture.series for point in series.points]
        failed = any(p.out_of_memory for series in picture.series for p in series.points)
        if picture.series and not failed and all(y is None for y in known):
            waiting = "waiting for the first throughput"
            return [((waiting[:width], MUTED),)]
        if picture.series:
            return plot_rows(picture.series, width, height, self.glyphs)
        return bar_rows(picture.bars, width, height, self.glyphs)
