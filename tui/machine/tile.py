"""A chart of one part of the machine, with its figures above it or in its border."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from textual import events

from dlmon.figures import units
from dlmon.figures.machine.readings import (
    LEVELS,
    Figure,
    Level,
    busy_level,
    cpu_figures,
    has_no_readings,
    memory_figures,
    no_utilization,
    run_figures,
    worst,
)
from dlmon.figures.value_axis import nice_top
from dlmon.records import Gpu, GpuFacts
from dlmon.records.record import record
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.meters import meters_side_by_side
from tui.machine.view import MachineView
from tui.widgets.chart import LINE, Chart, ChartPicture, picture_rows
from tui.widgets.lines import BAD, BRIGHT, HIGH, MUTED, TextRow, digits_of, fit, without_detail

# A tile of at least this size has figures above its chart; a smaller one, in its border.
_LEAST_WIDTH, _LEAST_ROWS = 44, 10
_DIGITS_ROWS, _DIGITS_CELLS = 3, 14
_METER_CELLS, _MOST_METER_COLUMNS = 36, 3
_LEAST_WITH_MEMORY = 4
_INDENT = 3
_LABEL = 8
_LEVEL_STYLES = {"": BRIGHT, "high": HIGH, "bad": BAD}


# The driver takes some megabytes of an unused GPU.
_LEAST_PEAK_MIB = 52


@record(frozen=True)
class TileReading:
    """The content of a tile: one quantity over time, and now or at the cursor.

    Attributes:
        title: the quantity's name.
        hue: its colour.
        columns: its curve.
        top: the value at the top of the chart.
        labels: of the value axis.
        value: the present value in words, or the reason why it is unknown.
        percent: the value in large digits, if it is a share.
        level: how bad the value is.
        name: the model name of the part.
        figures: further figures, the most important first.
        words: go beside the value in the border, before the figures.
        below: the parts of the text in the bottom border.
        problem: replaces all figures.
        reason: why there is no curve.
        part: a part of each column's value, drawn filled.
        shares: the share of memory in use over time, a row of its own.
    """

    title: str
    hue: str
    columns: tuple[float | None, ...]
    top: float = 100.0
    labels: tuple[str, ...] = ("100%", "50%", "0")
    value: str = ""
    percent: str = ""
    level: Level = ""
    name: str = ""
    figures: tuple[Figure, ...] = ()
    words: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    problem: str = ""
    reason: str = ""
    part: tuple[float | None, ...] = ()
    shares: tuple[float | None, ...] = ()


def cpu_reading(view: MachineView, shared: TimeAxis, axis: TimeAxis) -> TileReading:
    """Return the CPU's utilisation along `axis`, with the run's part if there is a run.

    The value at the cursor is that of its column on the `shared` axis.
    """
    machine, cores = view.machine_at(shared), view.cores
    cpu = machine.cpu if machine is not None else None
    tree = machine.process if machine is not None else None
    pct = cpu.pct if cpu is not None else None
    reason = view.no_sample or view.no_reading
    if cpu is not None:
        reason = "" if pct is not None else cpu.why.get("pct", view.no_reading)
    part: tuple[float | None, ...] = ()
    words: tuple[str, ...] = ()
    if view.history.run_cpu_pct.end_ns is not None and cores is not None:
        cores_pct = axis.columns(view.history.run_cpu_pct)
        part = tuple(None if core_pct is None else core_pct / cores for core_pct in cores_pct)
        # Without a cursor there is room for a legend.
        legend = "⣿ this run" if view.cursor_ns is None else "run"
        words = (f"{legend} {units.percent(view.run_pct(shared))}",)
    return TileReading(
        f"CPU{view.title_end}",
        "$chart-cpu",
        axis.columns(view.history.cpu_pct),
        value="" if cpu is None else units.percent(pct),
        percent="" if pct is None else units.percent(pct),
        level=busy_level(pct),
        figures=(*cpu_figures(machine, view.facts), *run_figures(tree)),
        words=words,
        reason=reason,
        part=part,
    )


def gpu_reading(
    view: MachineView, shared: TimeAxis, axis: TimeAxis, gpu: Gpu, *, with_memory: bool = True
) -> TileReading:
    """Return a GPU's utilisation, and its memory in use unless that has a tile of its own."""
    facts, reading = view.facts_of(gpu), view.gpu_at(gpu, shared)
    reason = "" if gpu.utilization_pct is not None else no_utilization(gpu, view.no_reading)
    pct = reading.utilization_pct
    # A GPU that doesn't report its utilisation may report the rest.
    is_lost = has_no_readings(reading) and view.cursor_ns is None
    figures = () if is_lost else tuple(view.figures_of(reading))
    unknown = reason if view.cursor_ns is None else ""
    name = units.device(facts.name) if facts is not None else ""
    memory = _known_figure(figures, "memory")
    below: tuple[str, ...] = (name,)
    if with_memory:
        below = () if memory is None else (memory.text, *memory_notes(gpu, view))
    elif memory is not None:
        figures = tuple(figure for figure in figures if figure is not memory)
    return TileReading(
        f"GPU {gpu.index}{view.title_end}",
        "$chart-gpu",
        axis.columns(view.history.gpu_utilization_pct.get(gpu.index, Series())),
        value=units.percent(pct) if pct is not None else unknown or units.percent(None),
        percent="" if pct is None else units.percent(pct),
        level=busy_level(pct),
        name=name,
        figures=figures,
        below=below,
        problem=reason if is_lost else "",
        reason=reason,
        shares=memory_shares(gpu, view, axis) if with_memory else (),
    )


def memory_shares(gpu: Gpu, view: MachineView, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return the share of a GPU's memory in use over time; empty if its size is unknown."""
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    if not total_mib:
        return ()
    columns = axis.columns(view.history.gpu_memory_mib.get(gpu.index, Series()))
    return tuple(None if used_mib is None else used_mib / total_mib for used_mib in columns)


def _known_figure(figures: Iterable[Figure], label: str) -> Figure | None:
    return next((figure for figure in figures if figure.label == label and figure.is_known), None)


def memory_notes(gpu: Gpu, view: MachineView) -> tuple[str, ...]:
    """Return a GPU's peak memory, the run's memory and the free memory, in GiB.

    None of them is known of the past, so at a cursor there are no notes.
    """
    if view.cursor_ns is not None:
        return ()
    facts, peak_mib = view.facts_of(gpu), view.history.gpu_memory_peak_mib.get(gpu.index)
    total_mib = facts.memory_mib if facts is not None else None
    run_mib = view.run_gpu_memory_mib(gpu)
    free_mib = None
    if total_mib and gpu.memory_used_mib is not None:
        free_mib = max(0, total_mib - gpu.memory_used_mib)
    if peak_mib is not None and peak_mib < _LEAST_PEAK_MIB:
        peak_mib = None
    notes = (("peak {:.1f}", peak_mib), ("this run {:.1f}", run_mib), ("{:.1f} left", free_mib))
    return tuple(text.format(mib / 1024) for text, mib in notes if mib is not None)


def _gibibytes(mib: float) -> str:
    return f"{mib / 1024:.3g}G"


# Of each quantity: its figure, its reading, its history, and the format of its axis' top.
CURVES: dict[str, tuple[str, str, str, Callable[[float], str]]] = {
    "memory": ("memory", "memory_used_mib", "gpu_memory_mib", _gibibytes),
    "power": ("power", "power_w", "gpu_power_w", "{:.0f}W".format),
    "temperature": ("temp", "temperature_c", "gpu_temperature_c", "{:.0f}°".format),
}


def gpu_curve(
    view: MachineView, shared: TimeAxis, axis: TimeAxis, gpu: Gpu, quantity: str
) -> TileReading:
    """Return a GPU's memory, power or temperature, on an axis up to its limit if that is known."""
    facts, history = view.facts_of(gpu) or GpuFacts(gpu.index, ""), view.history
    label, field, name, format_top = CURVES[quantity]
    columns = axis.columns(getattr(history, name).get(gpu.index, Series()))
    highest = nice_top(max((value for value in columns if value is not None), default=1.0))
    limits = {"memory": facts.memory_mib, "power": gpu.power_limit_w}
    top = float(limits.get(quantity, facts.slowdown_c or 100) or highest)
    figure = _known_figure(view.figures_of(view.gpu_at(gpu, shared)), label)
    return TileReading(
        f"GPU {quantity}{view.title_end}",
        "$primary" if quantity == "temperature" else f"$chart-{quantity}",
        columns,
        top,
        (format_top(top), "0"),
        "" if figure is None else figure.text,
        level="" if figure is None else figure.level,
        words=memory_notes(gpu, view) if quantity == "memory" else (),
        reason="" if figure is not None else gpu.why.get(field, view.no_reading),
    )


def memory_reading(view: MachineView, shared: TimeAxis, axis: TimeAxis) -> TileReading:
    """Return the machine's memory in use."""
    machine, facts = view.machine_at(shared), view.facts
    in_use, *more = memory_figures(machine, facts)
    top_mib = facts.memory_limit_mib or facts.memory_mib
    is_known = view.history.latest is not None or facts.memory_mib is not None
    used_pct = None if in_use.fraction is None else 100 * in_use.fraction
    tree = machine.process if machine is not None else None
    run_mib = tree.rss_mib if tree is not None else None
    return TileReading(
        f"Memory{view.title_end}",
        "$chart-memory",
        axis.columns(view.history.memory_mib),
        float(top_mib or 1),
        (_gibibytes(top_mib), "0") if top_mib else ("",),
        in_use.text if is_known else "",
        "" if used_pct is None else units.percent(used_pct),
        in_use.level,
        figures=(in_use, *(figure for figure in more if figure.label == "swap")),
        words=() if run_mib is None else (f"this run {units.gibibytes(run_mib)}",),
        reason="" if is_known and view.goes_on else view.no_sample,
    )


TileReader = Callable[[MachineView, TimeAxis, TimeAxis], TileReading]
"""Returns a quantity of a machine: its value on the axis of all charts, its curve on another."""


class MachineTile(Chart):
    """A filled chart along an axis with as many columns as fit.

    Args:
        large: whether figures may be above the chart.
    """

    DEFAULT_CSS = "MachineTile { width: 1fr; height: 1fr; }"

    def __init__(self, *, large: bool = False, id: str | None = None) -> None:
        super().__init__(filled=True, id=id, classes="panel")
        self._large = large
        self._reading = TileReading("", "", ())
        self._stale = ""
        self._show_again: Callable[[], None] | None = None

    def show_reading(
        self,
        reader: TileReader,
        view: MachineView,
        axis: TimeAxis,
        times: Callable[[TimeAxis], TimeLabels],
        *,
        labelled: bool,
        note: str = "",
    ) -> None:
        """Show a reading of `view` along `axis`, made coarser to fit.

        Args:
            reader: returns the reading.
            view: the machine.
            axis: the axis of all charts.
            times: returns the labels of an axis.
            labelled: whether the border has these labels; without them, there is only the grid.
            note: goes at the bottom.
        """
        self._show_again = partial(
            self.show_reading, reader, view, axis, times, labelled=labelled, note=note
        )
        tile_axis = coarser(axis, self.plot_columns)
        self.axes = axis, tile_axis
        reading = reader(view, axis, tile_axis)
        labels = times(tile_axis) if tile_axis.count else NO_LABELS
        picture = ChartPicture(
            columns=reading.columns,
            top=reading.top,
            marks=tile_axis.marks(view.epoch_starts),
            shades=tile_axis.shades(view.phase_spans),
            left_labels=reading.labels,
            reason=reading.reason,
            cursor=None if view.cursor_ns is None else tile_axis.column_of(view.cursor_ns),
            part=reading.part,
            times=labels if labelled else labels.unlabelled,
            value=reading.value if reading.value != reading.reason else "",
        )
        changed = (reading, view.stale, picture) != (self._reading, self._stale, self._picture)
        self._reading, self._stale, self._picture = reading, view.stale, picture
        if self.hue != reading.hue:
            self.hue = reading.hue
            self.notify_style_update()
        self._put_figures_in_border(view.cursor_label if view.cursor_ns is not None else "", note)
        if changed:
            self.redraw()

    def _put_figures_in_border(self, at: str, note: str) -> None:
        """Set the titles, with as many of the figures without a row as fit."""
        reading, room = self._reading, self.outer_size.width - 2 * _INDENT
        title, more, below = reading.title, [*reading.words], [note] if note else []
        problem = without_detail(reading.problem or self._stale, room - len(title) - 3)
        in_rows = {figure.label for figure in self._in_rows}
        if in_rows:
            title = "  ".join(filter(None, (title, reading.name)))
            value = "" if reading.percent else reading.value
        else:
            value = f"{at}  {reading.value}".strip()
            below += reading.below
        used_texts = {reading.value, *reading.below}
        more += (
            figure.brief
            for figure in sorted(reading.figures, key=lambda figure: figure.level != "bad")
            if figure.is_known and figure.label not in in_rows and figure.text not in used_texts
        )
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
        """Return the chart, below rows of figures if these fit."""
        if width < 1 or height < 1:
            return []
        reading, in_rows = self._reading, self._in_rows
        if not in_rows:
            return self._chart_rows(width, height)
        style = MUTED if self._stale else _LEVEL_STYLES[reading.level]
        digits = [f" {row}" for row in digit_rows(reading.percent)] or [""] * _DIGITS_ROWS
        room, stale = width - _DIGITS_CELLS - 1, bool(self._stale)
        meters = meters_side_by_side(in_rows, self._meter_columns, room, _LABEL, stale=stale)
        meters += [()] * (_DIGITS_ROWS - len(meters))
        beside = zip(digits, meters, strict=True)
        figures = [((fit(row, _DIGITS_CELLS), style), *meter) for row, meter in beside]
        return [*figures, (), *self._chart_rows(width, height - _DIGITS_ROWS - 1)]

    def _chart_rows(self, width: int, height: int) -> list[TextRow]:
        """Return the chart, with a row of memory below unless the figures above tell it."""
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
        """The figures above the chart, the worst first; none if all are in the border."""
        width, height = self.size
        if not self._large or self._reading.problem or width < _LEAST_WIDTH or height < _LEAST_ROWS:
            return []
        ordered = sorted(self._reading.figures, key=lambda figure: -LEVELS.index(figure.level))
        return ordered[: _DIGITS_ROWS * self._meter_columns]

    @property
    def _meter_columns(self) -> int:
        room = self.size.width - _DIGITS_CELLS - 1
        return max(1, min(_MOST_METER_COLUMNS, room // _METER_CELLS))

    def on_resize(self, event: events.Resize) -> None:
        """Show the same reading along the new number of columns."""
        if self._show_again is not None:
            self._show_again()


def coarser(axis: TimeAxis, count: int) -> TimeAxis:
    """Return the elapsed part of `axis` in at most `count` columns, each of several whole ones.

    The new columns are as narrow as fit, and the last may reach beyond the end. On a full
    axis they begin at multiples of their width, so that a moving axis rarely changes.
    """
    if axis.count <= count:
        return axis
    factor = max(1, -(-axis.elapsed // max(1, count)))
    width_ns = axis.column_ns * factor
    start_ns = axis.start_ns
    if axis.elapsed == axis.count:
        # Align to whole cells; the axis may then begin a little earlier.
        cell_ns = width_ns * COLUMNS_PER_CELL
        start_ns = -(-axis.end_ns // cell_ns) * cell_ns - width_ns * count
    elapsed = -(-(axis.end_ns - start_ns) // width_ns)
    return TimeAxis(start_ns, width_ns, count, max(0, min(count, elapsed)))


def digit_rows(text: str) -> list[str]:
    """Return a percentage in digits that are three rows high."""
    if not text:
        return []
    rows = digits_of(text.removesuffix(" %"))
    return [*rows[:-1], f"{rows[-1]} %"]
