"""A chart of one part of the machine, with its figures above it or in its border."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from rich.cells import cell_len
from textual import events

from dlmon.figures import units
from dlmon.figures.machine.readings import (
    GPU_CURVES,
    LEVELS,
    Figure,
    Level,
    cpu_figures,
    gpu_kind,
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
from tui.machine.view import MachineView
from tui.widgets.chart import LINE, Chart, ChartPicture, picture_rows
from tui.widgets.lines import TextRow, fit, without_detail

_LEAST_WITH_MEMORY = 4
# A chart keeps this many rows, with those of the axis, above rows with more than the memory.
_LEAST_ABOVE_ROWS = 7
_INDENT = 3


# The driver takes some megabytes of an unused GPU.
_LEAST_PEAK_MIB = 52


ShareRow = tuple[str, tuple[float | None, ...]]


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
        short: replaces the value in a narrow border.
        level: how bad the value is.
        figures: further figures, the most important first.
        words: go beside the value in the border, before the figures.
        below: the parts of the text in the bottom border.
        problem: replaces all figures.
        reason: why there is no curve.
        part: a part of each column's value, drawn filled.
        rows: quantities as shares of their most over time, a row each, the first where there
            is little room.
    """

    title: str
    hue: str
    columns: tuple[float | None, ...]
    top: float = 100.0
    labels: tuple[str, ...] = ("100%", "50%", "0")
    value: str = ""
    short: str = ""
    level: Level = ""
    figures: tuple[Figure, ...] = ()
    words: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    problem: str = ""
    reason: str = ""
    part: tuple[float | None, ...] = ()
    rows: tuple[ShareRow, ...] = ()


def cpu_reading(
    view: MachineView,
    shared: TimeAxis,
    axis: TimeAxis,
    *,
    with_memory: bool = False,
    with_memory_row: bool = False,
) -> TileReading:
    """Return the CPU's utilisation along `axis`, with the run's part if there is a run.

    The value at the cursor is that of its column on the `shared` axis. The memory in use stands
    with it unless it has a tile of its own; the row of memory over time may stand there alone.
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
    memory = memory_figures(machine, view.facts)[: 1 if with_memory else 0]
    memory = [replace(figure, label="mem") for figure in memory]
    total_mib = view.facts.usable_memory_mib
    return TileReading(
        "CPU",
        "$chart-cpu",
        axis.columns(view.history.cpu_pct),
        value="" if cpu is None else units.percent(pct),
        figures=(*memory, *cpu_figures(machine, view.facts), *run_figures(tree)),
        words=words,
        reason=reason,
        part=part,
        rows=_share_rows(("memory", view.history.memory_mib, total_mib), axis=axis)
        if with_memory or with_memory_row
        else (),
    )


def gpu_reading(
    view: MachineView,
    shared: TimeAxis,
    axis: TimeAxis,
    gpu: Gpu,
    *,
    charted: Collection[str] = (),
) -> TileReading:
    """Return a GPU's utilisation, and its other figures but those `charted` in tiles of theirs."""
    facts, reading = view.facts_of(gpu), view.gpu_at(gpu, shared)
    reason = "" if gpu.utilization_pct is not None else no_utilization(gpu, view.no_reading)
    pct = reading.utilization_pct
    # A GPU that doesn't report its utilisation may report the rest.
    is_lost = has_no_readings(reading) and view.cursor_ns is None
    figures = () if is_lost else tuple(view.figures_of(reading))
    unknown = reason if view.cursor_ns is None else ""
    memory = _known_figure(figures, "memory")
    below: tuple[str, ...] = () if memory is None else (memory.text, *memory_notes(gpu, view))
    if charted:
        below = (gpu_kind(facts),)
        figures = tuple(figure for figure in figures if figure.label not in charted)
    return TileReading(
        f"GPU {gpu.index}",
        "$chart-gpu",
        axis.columns(view.history.gpu_utilization_pct.get(gpu.index, Series())),
        value=units.percent(pct) if pct is not None else unknown or units.percent(None),
        figures=figures,
        below=below,
        problem=reason if is_lost else "",
        reason=reason,
        rows=() if charted else _gpu_rows(view, axis, gpu),
    )


def _gpu_rows(view: MachineView, axis: TimeAxis, gpu: Gpu) -> tuple[ShareRow, ...]:
    facts = view.facts_of(gpu)
    most = {
        "memory": facts.memory_mib,
        "power": gpu.power_limit_w,
        "clock": facts.sm_max_mhz,
    }
    history = {label: view.history.gpu_series(GPU_CURVES[label], gpu.index) for label in most}
    return _share_rows(*((label, history[label], most[label]) for label in most), axis=axis)


def _share_rows(
    *quantities: tuple[str, Series, float | None], axis: TimeAxis
) -> tuple[ShareRow, ...]:
    """Return quantities as shares of their most over time, without those whose most is unknown."""
    return tuple(
        (label, tuple(value and value / most for value in axis.columns(series)))
        for label, series, most in quantities
        if most
    )


def _known_figure(figures: Iterable[Figure], label: str) -> Figure | None:
    return next((figure for figure in figures if figure.label == label and figure.is_known), None)


def memory_notes(gpu: Gpu, view: MachineView) -> tuple[str, ...]:
    """Return a GPU's peak memory, the run's memory and the free memory, in GiB.

    None of them is known of the past, so at a cursor there are no notes.
    """
    if view.cursor_ns is not None:
        return ()
    peak_mib = view.history.gpu_memory_peak_mib.get(gpu.index) or 0
    total_mib, used_mib = view.facts_of(gpu).memory_mib, gpu.memory_used_mib
    free_mib = max(0, total_mib - used_mib) if total_mib and used_mib is not None else None
    notes = (
        ("peak {:.1f}", peak_mib if peak_mib >= _LEAST_PEAK_MIB else None),
        ("this run {:.1f}", view.run_gpu_memory_mib(gpu)),
        ("{:.1f} left", free_mib),
    )
    return tuple(text.format(mib / 1024) for text, mib in notes if mib is not None)


def _gibibytes(mib: float) -> str:
    return f"{mib / 1024:.3g}G"


_HUES = {
    "memory": "$chart-memory",
    "DRAM bandwidth": "$chart-memory",
    "memory busy": "$chart-memory",
    "power": "$chart-power",
    "clock": "$chart-cpu",
    "temp": "$primary",
}


def gpu_hue(label: str) -> str:
    """Return the colour of a GPU's quantity."""
    return _HUES.get(label, "$chart-gpu")


def gpu_figure_in_short(figure: Figure, gpu: Gpu, facts: GpuFacts) -> str:
    """Write a GPU's figure for a narrow place: its memory in use as 4.7/6G."""
    if figure.label == "memory" and gpu.memory_used_mib is not None and facts.memory_mib:
        whose = " system" if facts.memory_kind == "system" else ""
        in_use = units.short_memory_in_use(gpu.memory_used_mib, facts.memory_mib)
        return f"{in_use}{whose}{figure.mark}"
    return figure.marked


def gpu_axis(label: str, gpu: Gpu, facts: GpuFacts, highest: float) -> tuple[float, str]:
    """Return the top of a GPU quantity's axis, its limit if that is known, and its label."""
    tops: dict[str, tuple[float | None, str]] = {
        "memory": (facts.memory_mib, ""),
        "power": (gpu.power_limit_w, "W"),
        "clock": (facts.sm_max_mhz if highest <= (facts.sm_max_mhz or 0) else None, ""),
        "temp": (facts.slowdown_c or 100, "°"),
    }
    limit, unit = tops.get(label, (100.0, "%"))
    if label == "memory":
        top = float(limit or 1024 * nice_top(max(1.0, highest / 1024)))
        return top, _gibibytes(top)
    top = float(limit or nice_top(highest))
    return top, f"{top:.0f}{unit}"


def gpu_curve(
    view: MachineView, shared: TimeAxis, axis: TimeAxis, gpu: Gpu, label: str, name: str = "GPU"
) -> TileReading:
    """Return a GPU's quantity, by the label of its figure, on an axis up to its limit."""
    facts, field = view.facts_of(gpu), GPU_CURVES[label]
    columns = axis.columns(view.history.gpu_series(field, gpu.index))
    highest = max((value for value in columns if value is not None), default=1.0)
    top, top_text = gpu_axis(label, gpu, facts, highest)
    figure = _known_figure(view.figures_in_depth(gpu, shared), label)
    value = "" if figure is None else figure.text
    if label == "utilisation" and figure is None and view.cursor_ns is None:
        # Of all charts of a GPU that gives no reading, the first says why.
        value = no_utilization(gpu, view.no_reading).partition(" (")[0]
    title = f"{name} {'temperature' if label == 'temp' else label}".strip()
    return TileReading(
        f"{title[0].upper()}{title[1:]}",
        gpu_hue(label),
        columns,
        top,
        (top_text, "0"),
        value,
        "" if figure is None else gpu_figure_in_short(figure, gpu, facts),
        level="" if figure is None or label == "utilisation" else figure.level,
        words=memory_notes(gpu, view) if label == "memory" else (),
        below=view.users_of(gpu) if label == "memory" else (),
        reason="" if figure is not None else gpu.why.get(field, view.no_reading),
    )


def memory_reading(view: MachineView, shared: TimeAxis, axis: TimeAxis) -> TileReading:
    """Return the machine's memory in use."""
    machine, facts = view.machine_at(shared), view.facts
    in_use, *more = memory_figures(machine, facts)
    top_mib = facts.usable_memory_mib
    is_known = view.history.latest is not None or facts.memory_mib is not None
    tree = machine.process if machine is not None else None
    run_mib = tree.rss_mib if tree is not None else None
    return TileReading(
        "Memory",
        "$chart-memory",
        axis.columns(view.history.memory_mib),
        float(top_mib or 1),
        (_gibibytes(top_mib), "0") if top_mib else ("",),
        in_use.text if is_known else "",
        level=in_use.level,
        figures=(in_use, *(figure for figure in more if figure.label == "swap")),
        words=() if run_mib is None else (f"this run {units.gibibytes(run_mib)}",),
        reason="" if is_known and view.goes_on else view.no_sample,
    )


def disk_reading(view: MachineView, shared: TimeAxis, axis: TimeAxis) -> TileReading:
    """Return what all disks read and write."""
    history = view.history
    columns = axis.columns(history.disk_mib_s)
    top = nice_top(max((value for value in columns if value is not None), default=1.0))
    now = _known_figure(memory_figures(view.machine_at(shared), view.facts), "disk")
    at_cursor = view.value_at_cursor(history.disk_mib_s, shared)
    value = "" if now is None else now.value
    return TileReading(
        "Disk",
        "$chart-gpu",
        columns,
        top,
        (f"{top:g}M", "0"),
        value if at_cursor is None else f"{at_cursor:.1f} MiB/s",
        reason="" if history.disk_mib_s.end_ns is not None else view.no_reading,
    )


TileReader = Callable[[MachineView, TimeAxis, TimeAxis], TileReading]
"""Returns a quantity of a machine: its value on the axis of all charts, its curve on another."""


class MachineTile(Chart):
    """A filled chart along an axis with as many columns as fit."""

    DEFAULT_CSS = "MachineTile { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(filled=True, id=id, classes="panel")
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
        if view.is_over and tile_axis is not axis:
            # Nothing moves any more, so that it can have just the time that is shown.
            tile_axis = view.axis(self.plot_columns)
        self.axes = axis, tile_axis
        reading = reader(view, axis, tile_axis)
        labels = times(tile_axis) if tile_axis.count else NO_LABELS
        cursor = None if view.cursor_ns is None else tile_axis.column_of(view.cursor_ns)
        picture = ChartPicture(
            columns=reading.columns,
            top=reading.top,
            marks=tile_axis.marks(view.epoch_starts),
            shades=tile_axis.shades(view.phase_spans),
            left_labels=reading.labels,
            reason=reading.reason,
            cursor=cursor,
            part=reading.part,
            times=labels if labelled else labels.unlabelled,
            # It stands in the chart at the cursor only.
            value="" if cursor is None or reading.value == reading.reason else reading.value,
        )
        changed = (picture, reading.rows) != (self._picture, self._reading.rows)
        self._reading, self._stale, self._picture = reading, view.stale, picture
        if self.hue != reading.hue:
            self.hue = reading.hue
            self.notify_style_update()
        self._put_figures_in_border(view.cursor_label if view.cursor_ns is not None else "", note)
        if changed:
            self.redraw()

    def _put_figures_in_border(self, at: str, note: str) -> None:
        reading, room = self._reading, self.outer_size.width - 2 * _INDENT
        title, more, below = reading.title, [*reading.words], [note] if note else []
        problem = without_detail(reading.problem or self._stale, room - len(title) - 3)
        if cell_len(problem) > room - len(title) - 3:
            problem = problem.partition(" (")[0]
        value = f"{at}  {reading.value}".strip()
        below += reading.below
        if reading.short and cell_len(title) + cell_len(value) + 1 > room:
            value = f"{at}  {reading.short}".strip()
            value = without_last_words(value, room - cell_len(title) - 1)
        used_texts = {reading.value, *reading.below}
        more += (
            figure.brief
            for figure in sorted(reading.figures, key=lambda figure: -LEVELS.index(figure.level))
            if figure.is_known and figure.text not in used_texts
        )
        ruler = self.ruler_of(self._picture.times)
        first, *rest = [problem] if problem else [text for text in (value, *more) if text] or [""]
        rest = self._fitting_beside(title, first, rest)
        subtitle = [without_last_words(text, room) for text in below[:1]]
        for text in below[1:]:
            if cell_len("  ".join((*subtitle, text))) <= room:
                subtitle.append(text)
        self.set_titles(title, "  ".join(subtitle), first, tuple(rest), ruler)
        level = max(worst(reading.figures), reading.level, key=LEVELS.index)
        level = "high" if problem else level
        for name in LEVELS[1:]:
            self.set_class(level == name, f"-{name}")

    def _fitting_beside(self, title: str, value: str, more: Iterable[str]) -> list[str]:
        """Return the texts that fit after a value in the border, leaving out those too long."""
        room, fitting = self.room_beside(title) - cell_len(value), list[str]()
        for each in more:
            if cell_len(each) + 2 <= room:
                room -= cell_len(each) + 2
                fitting.append(each)
        return fitting

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the chart, with the rows of the reading below it that have room."""
        if width < 1 or height < 1:
            return []
        reading, picture, axis = self._reading, self._picture, self._axis_width(width)
        most = max(height - _LEAST_ABOVE_ROWS, height >= _LEAST_WITH_MEMORY)
        below = [row for row in reading.rows if any(share is not None for share in row[1])][:most]
        if below and height == _LEAST_WITH_MEMORY:
            picture = replace(picture, marks=(), shades=())
        rows = picture_rows(picture, width, height - len(below), axis, filled=True)
        for label, shares in below:
            labels = ("mem" if label == "memory" else label,)
            share = ChartPicture(
                shares, left_labels=labels, times=picture.times, cursor=picture.cursor
            )
            (row,) = picture_rows(share, width, 1, axis, filled=True)
            hue = gpu_hue(label)
            rows.append(tuple((text, style.replace(LINE, hue)) for text, style in row))
        return rows

    def on_resize(self, event: events.Resize) -> None:
        """Show the same reading along the new number of columns."""
        if self._show_again is not None:
            self._show_again()


def without_last_words(text: str, width: int) -> str:
    """Return a text without its last words, as far as needed to fit."""
    while cell_len(text) > width and " " in text:
        text = text.rpartition(" ")[0]
    return fit(text, width).rstrip() if cell_len(text) > width else text


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
