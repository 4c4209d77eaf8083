"""A chart of one part of the machine: what it shows, and its figures above it or in its border."""

from __future__ import annotations

from collections.abc import Callable
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
    without_detail,
    worst,
)
from dlmon.figures.value_axis import nice_top
from dlmon.records import Gpu, GpuFacts
from dlmon.records.record import record
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.meters import meters_side_by_side
from tui.machine.view import MachineView, at_the_end
from tui.widgets.chart import LINE, Chart, ChartPicture, picture_rows
from tui.widgets.lines import BAD, BRIGHT, HIGH, MUTED, TextRow, digits_of, fit

# Figures stand above a chart in a tile of that size, else in its border.
_LEAST_WIDTH, _LEAST_ROWS = 44, 10
_DIGITS_ROWS, _DIGITS_CELLS = 3, 14
_METER_CELLS, _MOST_IN_A_ROW = 36, 3
_LEAST_WITH_MEMORY = 4
_INDENT = 3
_LABEL = 8
_LEVEL_STYLES = {"": BRIGHT, "high": HIGH, "bad": BAD}


# A GPU that nothing uses has some megabytes of its driver's.
_LEAST_PEAK_MIB = 52


@record(frozen=True)
class Reading:
    """One quantity over time, and as it is now or at the cursor.

    Attributes:
        title: what it is.
        hue: the colour that means it.
        columns: its curve.
        top: the value at the top of the chart.
        labels: what the axis says.
        value: in words, what the curve is at; the reason where that is unknown.
        percent: the same where it is a share, to be written large.
        level: how much attention that asks for.
        name: what the part is called by its maker.
        figures: what else is known, the most important first.
        words: what stands beside the value in a border, before the figures.
        below: what stands in the border at the bottom, in parts.
        problem: what stands in place of all figures.
        reason: why there is no curve.
        part: a share of each column, which is drawn filled.
        shares: of a memory, the share in use over time: a row of its own.
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


def cpu_reading(view: MachineView, shared: TimeAxis, axis: TimeAxis) -> Reading:
    """Return the CPU's utilisation along `axis`, and of it the run's own where one is watched.

    What is read at the cursor is that of its column on the `shared` axis.
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
        of_a_core = axis.columns(view.history.run_cpu_pct)
        part = tuple(None if each is None else each / cores for each in of_a_core)
        # Now, it shows how the run is drawn as well.
        legend = "⣿ this run" if view.cursor_ns is None else "run"
        words = (f"{legend} {units.percent(view.run_pct(shared))}",)
    return Reading(
        f"CPU{at_the_end(view)}",
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
) -> Reading:
    """Return a GPU's utilisation, with the memory in use as a row of its own, unless it has one."""
    facts, then = view.facts_of(gpu), view.gpu_at(gpu, shared)
    reason = "" if gpu.utilization_pct is not None else no_utilization(gpu, view.no_reading)
    pct = then.utilization_pct
    # A GPU that doesn't report its utilisation may report the rest.
    lost = has_no_readings(then) and view.cursor_ns is None
    figures = () if lost else tuple(view.figures_of(then))
    unknown = reason if view.cursor_ns is None else ""
    name = units.device(facts.name) if facts is not None else ""
    memory = next((one for one in figures if one.label == "memory" and one.known), None)
    below: tuple[str, ...] = (name,)
    if with_memory:
        below = () if memory is None else (memory.text, *peak_and_own(gpu, view))
    elif memory is not None:
        figures = tuple(figure for figure in figures if figure is not memory)
    return Reading(
        f"GPU {gpu.index}{at_the_end(view)}",
        "$chart-gpu",
        axis.columns(view.history.gpu_utilization_pct.get(gpu.index, Series())),
        value=units.percent(pct) if pct is not None else unknown or units.percent(None),
        percent="" if pct is None else units.percent(pct),
        level=busy_level(pct),
        name=name,
        figures=figures,
        below=below,
        problem=reason if lost else "",
        reason=reason,
        shares=memory_shares(gpu, view, axis) if with_memory else (),
    )


def memory_shares(gpu: Gpu, view: MachineView, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return which share of a GPU's memory was in use over time; none where its size is unknown."""
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    if not total_mib:
        return ()
    columns = axis.columns(view.history.gpu_memory_mib.get(gpu.index, Series()))
    return tuple(None if used_mib is None else used_mib / total_mib for used_mib in columns)


def peak_and_own(gpu: Gpu, view: MachineView) -> tuple[str, ...]:
    """Return the most that was in use, what of it this run holds, and what is left, in GiB; now."""
    if view.cursor_ns is not None:
        return ()
    facts, peak_mib = view.facts_of(gpu), view.history.gpu_memory_peak_mib.get(gpu.index)
    total_mib = facts.memory_mib if facts is not None else None
    own_mib = view.run_gpu_memory_mib(gpu)
    left_mib = None
    if total_mib and gpu.memory_used_mib is not None:
        left_mib = max(0, total_mib - gpu.memory_used_mib)
    if peak_mib is not None and peak_mib < _LEAST_PEAK_MIB:
        peak_mib = None
    named = (("peak {:.1f}", peak_mib), ("this run {:.1f}", own_mib), ("{:.1f} left", left_mib))
    return tuple(text.format(mib / 1024) for text, mib in named if mib is not None)


def _gibibytes(mib: float) -> str:
    return f"{mib / 1024:.3g}G"


# The figure and the field of each, its history, and how the top of its axis is written.
CURVES: dict[str, tuple[str, str, str, Callable[[float], str]]] = {
    "memory": ("memory", "memory_used_mib", "gpu_memory_mib", _gibibytes),
    "power": ("power", "power_w", "gpu_power_w", "{:.0f}W".format),
    "temperature": ("temp", "temperature_c", "gpu_temperature_c", "{:.0f}°".format),
}


def gpu_curve(
    view: MachineView, shared: TimeAxis, axis: TimeAxis, gpu: Gpu, quantity: str
) -> Reading:
    """Return a GPU's memory, power or temperature, up to the most that there can be."""
    facts, history = view.facts_of(gpu) or GpuFacts(gpu.index, ""), view.history
    label, field, name, written = CURVES[quantity]
    columns = axis.columns(getattr(history, name).get(gpu.index, Series()))
    highest = nice_top(max((value for value in columns if value is not None), default=1.0))
    most = {"memory": facts.memory_mib, "power": gpu.power_limit_w}
    top = float(most.get(quantity, facts.slowdown_c or 100) or highest)
    figures = view.figures_of(view.gpu_at(gpu, shared))
    figure = next((one for one in figures if one.label == label and one.known), None)
    return Reading(
        f"GPU {quantity}{at_the_end(view)}",
        "$primary" if quantity == "temperature" else f"$chart-{quantity}",
        columns,
        top,
        (written(top), "0"),
        "" if figure is None else figure.text,
        level="" if figure is None else figure.level,
        words=peak_and_own(gpu, view) if quantity == "memory" else (),
        reason="" if figure is not None else gpu.why.get(field, view.no_reading),
    )


def memory_reading(view: MachineView, shared: TimeAxis, axis: TimeAxis) -> Reading:
    """Return the machine's memory in use."""
    machine, facts = view.machine_at(shared), view.facts
    in_use, *others = memory_figures(machine, facts)
    top_mib = facts.memory_limit_mib or facts.memory_mib
    known = view.history.latest is not None or facts.memory_mib is not None
    share = None if in_use.fraction is None else 100 * in_use.fraction
    tree = machine.process if machine is not None else None
    own = tree.rss_mib if tree is not None else None
    return Reading(
        f"Memory{at_the_end(view)}",
        "$chart-memory",
        axis.columns(view.history.memory_mib),
        float(top_mib or 1),
        (_gibibytes(top_mib), "0") if top_mib else ("",),
        in_use.text if known else "",
        "" if share is None else units.percent(share),
        in_use.level,
        figures=(in_use, *(figure for figure in others if figure.label == "swap")),
        words=() if own is None else (f"this run {units.gibibytes(own)}",),
        reason="" if known and view.goes_on else view.no_sample,
    )


Reader = Callable[[MachineView, TimeAxis, TimeAxis], Reading]
"""Returns a quantity of a machine: at the cursor of the axis of all charts, along another one."""


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
        if self.hue != reading.hue:
            self.hue = reading.hue
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
    factor = max(1, -(-axis.elapsed // max(1, count)))
    width_ns = axis.column_ns * factor
    start_ns = axis.start_ns
    if axis.elapsed == axis.count:
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
