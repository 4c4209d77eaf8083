"""A chart of one part of the machine, with its figures above it, or in its border."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from textual import events

from dlmon.figures.machine import LEVELS, Figure, without_detail, worst
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.meters import meters_side_by_side
from tui.machine.readings import Reading
from tui.machine.view import MachineView
from tui.widgets.chart import Chart, ChartPicture
from tui.widgets.chart_picture import LINE, picture_rows
from tui.widgets.lines import BAD, BRIGHT, HIGH, MUTED, digits_of
from tui.widgets.rows import TextRow, fit

Reader = Callable[[MachineView, TimeAxis, TimeAxis], Reading]
"""Returns a quantity of a machine: at the cursor of the axis of all charts, along another one."""

# Figures stand above a chart in a tile of that size, else in its border.
_LEAST_WIDTH, _LEAST_ROWS = 44, 10
_DIGITS_ROWS, _DIGITS_CELLS = 3, 14
_METER_CELLS, _MOST_IN_A_ROW = 36, 3
_LEAST_WITH_MEMORY = 4
_INDENT = 3
_LABEL = 8
_LEVEL_STYLES = {"": BRIGHT, "high": HIGH, "bad": BAD}


class MachineTile(Chart):
    """A filled chart along an axis of as many columns as it has room for.

    Args:
        large: whether figures may stand above the chart.
    """

    DEFAULT_CSS = "MachineTile { width: 1fr; height: 1fr; }"

    def __init__(self, *, large: bool = False, id: str | None = None) -> None:
        super().__init__(filled=True, id=id, classes="panel")
        self._large = large
        self._reading = Reading("", "", ())
        self._stale = ""
        self._shown: Callable[[], None] | None = None

    def show_reading(
        self,
        read: Reader,
        view: MachineView,
        axis: TimeAxis,
        times: Callable[[TimeAxis], TimeLabels],
        *,
        labelled: bool,
        note: str = "",
    ) -> None:
        """Show what is read of `view`, along as much of `axis` as it has columns for.

        Args:
            read: what.
            view: the machine.
            axis: that of all charts.
            times: returns the times along an axis.
            labelled: whether the border says them; the grid shows them anyway.
            note: stands at the bottom.
        """
        self._shown = partial(
            self.show_reading, read, view, axis, times, labelled=labelled, note=note
        )
        own = coarser(axis, self.plot_columns)
        self.axes = axis, own
        reading = read(view, axis, own)
        labels = times(own) if own.count else NO_LABELS
        picture = ChartPicture(
            columns=reading.columns,
            top=reading.top,
            marks=own.marks(view.epoch_starts),
            shades=own.shades(view.phase_spans),
            left_labels=reading.labels,
            reason=reading.reason,
            cursor=None if view.cursor_ns is None else own.column_of(view.cursor_ns),
            part=reading.part,
            times=labels if labelled else labels.unlabelled,
            value=reading.value if reading.value != reading.reason else "",
        )
        changed = (reading, view.stale, picture) != (self._reading, self._stale, self._picture)
        self._reading, self._stale, self._picture = reading, view.stale, picture
        if self.hue != (hue := f"$chart-{reading.hue}"):
            self.hue = hue
            self.notify_style_update()
        self._put_figures_in_border(view.cursor_label if view.cursor_ns is not None else "", note)
        if changed:
            self.redraw()

    def _put_figures_in_border(self, at: str, note: str) -> None:
        """Write the titles: the figures that have no row, as far as they have room."""
        reading, room = self._reading, self.outer_size.width - 2 * _INDENT
        title, more, below = reading.title, [*reading.words], [note] if note else []
        problem = without_detail(reading.problem or self._stale, room - len(title) - 3)
        shown = {figure.label for figure in self._in_rows}
        if shown:
            title = "  ".join(filter(None, (title, reading.name)))
            value = "" if reading.percent else reading.value
        else:
            value = f"{at}  {reading.value}".strip()
            below += reading.below
        said = {reading.value, *reading.below}
        worst_first = sorted(reading.figures, key=lambda figure: figure.level != "bad")
        briefs = (one for one in worst_first if one.known and one.label not in shown)
        more += (one.brief for one in briefs if one.text not in said)
        ruler = self.ruler_of(self._picture.times)
        first, *rest = [problem] if problem else [text for text in (value, *more) if text] or [""]
        subtitle = below[:1]
        for text in below[1:]:
            if len("  ".join((*subtitle, text))) <= room:
                subtitle.append(text)
        self.set_titles(title, "  ".join(subtitle)[: max(0, room)], first, tuple(rest), ruler)
        level = "high" if problem else worst(reading.figures)
        if not problem and not reading.percent:
            level = max(level, reading.level, key=LEVELS.index)
        for name in LEVELS[1:]:
            self.set_class(level == name, f"-{name}")

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the chart, below those of the figures where they have room."""
        if width < 1 or height < 1:
            return []
        reading, shown = self._reading, self._in_rows
        if not shown:
            return self._chart_rows(width, height)
        style = MUTED if self._stale else _LEVEL_STYLES[reading.level]
        digits = [f" {row}" for row in digit_rows(reading.percent)] or [""] * _DIGITS_ROWS
        room, stale = width - _DIGITS_CELLS - 1, bool(self._stale)
        meters = meters_side_by_side(shown, self._in_a_row, room, _LABEL, stale=stale)
        meters += [()] * (_DIGITS_ROWS - len(meters))
        beside = zip(digits, meters, strict=True)
        figures = [((fit(row, _DIGITS_CELLS), style), *meter) for row, meter in beside]
        return [*figures, (), *self._chart_rows(width, height - _DIGITS_ROWS - 1)]

    def _chart_rows(self, width: int, height: int) -> list[TextRow]:
        """Return the chart, with a row of the memory below where no figure of it stands beside."""
        reading, picture, axis = self._reading, self._picture, self._axis_width(width)
        has_memory = any(share is not None for share in reading.shares)
        if not has_memory or self._in_rows or height < _LEAST_WITH_MEMORY:
            return picture_rows(picture, width, height, axis, filled=True)
        if height == _LEAST_WITH_MEMORY:
            picture = replace(picture, marks=(), shades=())
        rows = picture_rows(picture, width, height - 1, axis, filled=True)
        memory = ChartPicture(
            reading.shares, left_labels=("mem",), times=picture.times, cursor=picture.cursor
        )
        (row,) = picture_rows(memory, width, 1, axis, filled=True)
        hue = "$chart-memory"
        return [*rows, tuple((text, style.replace(LINE, hue)) for text, style in row)]

    @property
    def _in_rows(self) -> list[Figure]:
        """The figures that have a row each, the worst first; none where all are in the border."""
        width, height = self.size
        if not self._large or self._reading.problem or width < _LEAST_WIDTH or height < _LEAST_ROWS:
            return []
        ordered = sorted(self._reading.figures, key=lambda figure: -LEVELS.index(figure.level))
        return ordered[: _DIGITS_ROWS * self._in_a_row]

    @property
    def _in_a_row(self) -> int:
        room = self.size.width - _DIGITS_CELLS - 1
        return max(1, min(_MOST_IN_A_ROW, room // _METER_CELLS))

    def on_resize(self, event: events.Resize) -> None:
        """Show the same along as many columns as there are now."""
        if self._shown is not None:
            self._shown()


def coarser(axis: TimeAxis, count: int) -> TimeAxis:
    """Return what is known of `axis` in at most `count` columns, each of as many whole ones.

    They are as narrow as has room, and the last may reach over the end. On a
    full axis they lie at multiples of their width, so that the picture of a
    moving one changes but once in a while.
    """
    if axis.count <= count:
        return axis
    factor = max(1, -(-axis.known // max(1, count)))
    width_ns = axis.column_ns * factor
    start_ns = axis.start_ns
    if axis.known == axis.count:
        # By the cell; it may reach back a little further.
        cell_ns = width_ns * COLUMNS_PER_CELL
        start_ns = -(-axis.end_ns // cell_ns) * cell_ns - width_ns * count
    known = -(-(axis.end_ns - start_ns) // width_ns)
    return TimeAxis(start_ns, width_ns, count, max(0, min(count, known)))


def digit_rows(text: str) -> list[str]:
    """Return a percentage in digits of three rows."""
    if not text:
        return []
    rows = digits_of(text.removesuffix(" %"))
    return [*rows[:-1], f"{rows[-1]} %"]
