"""A chart of one part of the machine, with its figures beside it, above it, or in its border."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import events

from dlmon.figures.machine import LEVELS, Figure, without_detail, worst
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.meters import meter_rows
from tui.machine.readings import Reading
from tui.machine.view import MachineView
from tui.widgets.chart import Chart, ChartPicture
from tui.widgets.chart_picture import LINE, picture_rows
from tui.widgets.lines import BAD, BRIGHT, HIGH, MUTED, PLAIN, cut, digits_of, row_width
from tui.widgets.rows import TextRow

Reader = Callable[[MachineView, TimeAxis, TimeAxis], Reading]
"""Returns a quantity of a machine: at the cursor of the axis of all charts, along another one."""

MEMORY = "tile--memory"

# Figures stand beside a chart in a tile of that width, above it in one of that size, else in the
# border.
_BESIDE, _BESIDE_CELLS, _LEAST_BESIDE_ROWS = 64, 32, 5
_ABOVE, _LEAST_ABOVE_ROWS = 44, 10
_DIGITS_ROWS, _DIGITS_CELLS = 3, 14
_LEAST_WITH_MEMORY = 4
_INDENT = 3
_LABEL = 8
_LEVEL_STYLES = {"": BRIGHT, "high": HIGH, "bad": BAD}
# In rows, what comes and goes stands below what is always there.
_FIRST = ("MIG", "memory", "swap", "busy", "power", "temp", "clock", "run")


class MachineTile(Chart):
    """A filled chart along an axis of as many columns as it has room for.

    Args:
        large: whether figures may stand beside or above the chart.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {MEMORY}

    DEFAULT_CSS = """
    MachineTile { width: 1fr; height: 1fr; }
    MachineTile > .tile--memory { color: $text-muted; }
    """

    def __init__(self, *, large: bool = False, id: str | None = None) -> None:
        super().__init__(filled=True, id=id, classes="panel")
        self._large = large
        self._reading = Reading("", "", ())
        self._stale = ""
        self._shown: Callable[[], None] | None = None

    @property
    def plot_columns(self) -> int:
        """How many columns of data fit now, beside the figures."""
        width = self.size.width - self._beside_cells(*self.size)
        return COLUMNS_PER_CELL * max(0, width - self._axis_width(width))

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
        self.take_hue(reading.hue)
        self._put_figures_in_border(view.cursor_label if view.cursor_ns is not None else "", note)
        if changed:
            self.redraw()

    def _put_figures_in_border(self, at: str, note: str) -> None:
        """Write the titles: the figures that have no row, as far as they have room."""
        reading, room = self._reading, self.outer_size.width - 2 * _INDENT
        title, more, below = reading.title, [*reading.words], [note] if note else []
        problem = without_detail(reading.problem or self._stale, room - len(title) - 3)
        shown = self._rows_of_figures
        if shown:
            title = "  ".join(filter(None, (title, reading.name)))
            value = "" if reading.percent else reading.value
        else:
            value = f"{at}  {reading.value}".strip()
            below += reading.below
        said = {reading.value, *reading.below}
        briefs = (one for one in reading.figures if one.known and one.label not in shown)
        more += (one.brief for one in briefs if one.text not in said)
        ruler = self.ruler_of(self._picture.times, left=self._beside_cells(*self.size))
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
        """Return the rows of the chart, with those of the figures where they have room."""
        if width < 1 or height < 1:
            return []
        figures = self._figure_rows(width, height)
        if self._stands_above(width, height):
            chart = self._chart_rows(width, height - len(figures) - 1)
            return [*figures, (), *chart]
        left = self._beside_cells(width, height)
        chart = self._chart_rows(width - left, height)
        if not left:
            return chart
        figures += [()] * (height - len(figures))
        return [(*_padded(row, left), *of) for row, of in zip(figures, chart, strict=False)]

    def _chart_rows(self, width: int, height: int) -> list[TextRow]:
        """Return the chart, with a row of the memory below where no figure of it stands beside."""
        reading, picture, axis = self._reading, self._picture, self._axis_width(width)
        has_memory = any(share is not None for share in reading.shares)
        if not has_memory or self._rows_of_figures or height < _LEAST_WITH_MEMORY:
            return picture_rows(picture, width, height, axis, filled=True)
        if height == _LEAST_WITH_MEMORY:
            picture = replace(picture, marks=(), shades=())
        rows = picture_rows(picture, width, height - 1, axis, filled=True)
        memory = ChartPicture(
            reading.shares, left_labels=("mem",), times=picture.times, cursor=picture.cursor
        )
        (row,) = picture_rows(memory, width, 1, axis, filled=True)
        hues = {LINE: MEMORY}
        return [*rows, tuple((text, tuple(hues.get(s, s) for s in style)) for text, style in row)]

    def _figure_rows(self, width: int, height: int) -> list[TextRow]:
        """Return the value large, with the figures beside or below it; nothing without room."""
        reading, ordered = self._reading, self._ordered
        style = MUTED if self._stale else _LEVEL_STYLES[reading.level]
        drawn = digit_rows(reading.percent)
        digits: list[TextRow] = [((f" {row}", style),) for row in drawn]
        stale = bool(self._stale or reading.problem)
        if self._stands_above(width, height):
            room = width - _DIGITS_CELLS - 1
            meters = meter_rows(ordered[:_DIGITS_ROWS], room, _LABEL, stale=stale)
            digits += [()] * (_DIGITS_ROWS - len(digits))
            meters += [()] * (_DIGITS_ROWS - len(meters))
            beside = zip(digits, meters, strict=True)
            return [(*_padded(row, _DIGITS_CELLS), *meter) for row, meter in beside]
        if height < _DIGITS_ROWS + 3 and digits:
            digits = [((f" {reading.percent}", style),)]
        if height > len(digits) + len(ordered):
            digits.append(())
        room = self._beside_cells(width, height) - 3
        rows = meter_rows(ordered, room, _LABEL, stale=stale)
        return [*digits, *(((" ", PLAIN), *row) for row in rows)][:height]

    @property
    def _rows_of_figures(self) -> set[str]:
        """The labels of the figures that have a row each; empty where all stand in the border."""
        size, ordered = self.size, self._ordered
        if self._stands_above(*size):
            return {figure.label for figure in ordered[:_DIGITS_ROWS]}
        return {figure.label for figure in ordered} if self._beside_cells(*size) else set()

    @property
    def _ordered(self) -> list[Figure]:
        """The figures in the order of their rows, the worst before all."""
        figures = self._reading.figures
        first = {label: place for place, label in enumerate(_FIRST)}
        places = sorted(figures, key=lambda figure: first.get(figure.label, len(first)))
        return sorted(places, key=lambda figure: -LEVELS.index(figure.level))

    def _stands_above(self, width: int, height: int) -> bool:
        has_figures = self._large and not self._reading.problem
        return has_figures and _ABOVE <= width < _BESIDE and height >= _LEAST_ABOVE_ROWS

    def _beside_cells(self, width: int, height: int) -> int:
        """Return the cells for figures beside the chart."""
        has_figures = self._large and not self._reading.problem
        fits = has_figures and width >= _BESIDE and height >= _LEAST_BESIDE_ROWS
        return _BESIDE_CELLS if fits else 0

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


def _padded(row: TextRow, width: int) -> TextRow:
    row = cut(row, width)
    return (*row, (" " * (width - row_width(row)), PLAIN))
