"""Which readings of a machine a tile shows: its CPUs, a GPU, its memory."""

from __future__ import annotations

from dataclasses import replace

from dlmon.figures import units
from dlmon.figures.machine import (
    BUSY_PCT,
    Figure,
    Level,
    cpu_figures,
    gpu_memory_figure,
    gpu_temperature,
    has_no_readings,
    machine_meters,
    no_utilization,
    power_figure,
)
from dlmon.figures.value_axis import nice_top
from dlmon.records import Cpu, Gpu, Memory
from dlmon.statistics.series import Series
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.tiles import TEXT_BESIDE_TIMES, ChartTile, TileContent, brief_words
from tui.machine.view import MachineView, at_the_end
from tui.widgets.chart import ChartPicture

# Labels of time come first in a border: so many cells of it are theirs. Those that count back from
# now begin farther right, and end with it.
_ROOM_FOR_TIMES, _ROOM_TO_NOW = 10, 20
# With fewer cells a title has room for one word only of when its figures were read.
_ROOM_FOR_WORDS = 48
# A GPU that nothing uses has some megabytes of its driver's.
_LEAST_PEAK_MIB = 52


def show_cpu(
    tile: ChartTile,
    view: MachineView,
    axis: TimeAxis,
    note: str = "",
    times: TimeLabels = NO_LABELS,
) -> None:
    """Show the CPU's utilisation, and of it the run's own where one is watched.

    The note stands below, and so do labels of time.
    """
    tile.take_hue("cpu")
    machine = view.history.latest
    run_columns = _run_columns(view, axis)
    if machine is not None and machine.cpu is not None and view.cursor is not None:
        pct = view.value_at_cursor(view.history.cpu_pct, axis)
        power_w = view.value_at_cursor(view.history.cpu_power_w, axis)
        then = Cpu(pct, machine.cpu.cores, power_w=power_w, why={"pct": "no reading"})
        machine = replace(machine, cpu=then, process=None)
    cpu = machine.cpu if machine is not None else None
    pct = cpu.pct if cpu is not None else None
    figures = cpu_figures(machine, view.facts)
    first = _at(view, units.percent(pct)) if cpu is not None else ""
    more, marked = brief_words(figures), _marked(figures)
    if first and run_columns:
        share = units.percent(_run_pct(view, axis))
        # At a cursor, both are what was asked for; else the first shows how the run is drawn.
        if view.cursor is not None:
            first = f"{first}  run {share}"
        else:
            legend = f"{tile.glyphs.full_cell} this run {share}"
            more, marked = (legend, *more), (legend, *marked)
    content = TileContent(
        _title(view, "CPU", tile),
        headline=_headline(pct),
        level=_busy(pct),
        figures=tuple(figures),
        problem=view.stale,
        first=first,
        more=more,
        marked=marked,
        note=note,
    )
    reason = view.no_sample or view.no_reading
    if cpu is not None:
        reason = "" if cpu.pct is not None else cpu.why.get("pct", view.no_reading)
    picture = _percent_picture(view.history.cpu_pct, axis, view, reason, times)
    value = "" if pct is None else units.percent(pct)
    tile.show_content(content, replace(picture, part=run_columns, value=value))


def _run_pct(view: MachineView, axis: TimeAxis) -> float | None:
    """Return the run's share of all cores now, or at the cursor; None where it isn't known."""
    cores, machine = view.cores, view.history.latest
    if cores is None or machine is None:
        return None
    if view.cursor is not None:
        of_a_core = view.value_at_cursor(view.history.run_cpu_pct, axis)
    else:
        of_a_core = machine.process.cpu_pct if machine.process is not None else None
    return None if of_a_core is None else min(100.0, of_a_core / cores)


def _run_columns(view: MachineView, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return the run's share of all cores over time; nothing where no run was ever watched."""
    series, cores = view.history.run_cpu_pct, view.cores
    if series.end_ns is None or cores is None:
        return ()
    return tuple(None if pct is None else pct / cores for pct in axis.columns(series))


def show_gpu(
    tile: ChartTile,
    gpu: Gpu,
    view: MachineView,
    axis: TimeAxis,
    times: TimeLabels = NO_LABELS,
    *,
    with_memory: bool = True,
    drawn_axis: TimeAxis | None = None,
) -> None:
    """Show one GPU's utilisation.

    `with_memory` says whether its memory stands in the border, for it has no chart of its own. A
    narrow tile is drawn along an axis with fewer columns.
    """
    tile.take_hue("gpu")
    facts = view.facts_of(gpu)
    reason = ""
    if gpu.utilization_pct is None:
        reason = no_utilization(gpu, view.no_reading)
    then = view.gpu_at_cursor(gpu, axis)
    pct = then.utilization_pct
    figures = view.figures_of(then)
    # A GPU that doesn't report its utilisation may report the rest.
    without = reason if view.cursor is None and pct is None else ""
    lost = without if has_no_readings(then) else ""
    figures = [] if lost else figures
    memory = [figure for figure in figures if figure.label == "memory" and figure.known]
    others = [figure for figure in figures if figure not in memory]
    content = TileContent(
        _title(view, f"GPU {gpu.index}", tile),
        name=units.device(facts.name) if facts else "",
        headline=_headline(pct),
        level=_busy(pct),
        figures=tuple(figures),
        problem=view.stale or lost,
        first=without or _at(view, units.percent(pct)),
        more=brief_words(others),
        marked=_marked(others),
        below=_memory_text(memory[0], gpu, view, tile, times) if memory and with_memory else "",
    )
    series = view.history.gpu_utilization_pct.get(gpu.index, Series())
    if drawn_axis is not None:
        view, axis = drawn_along(view, axis, drawn_axis), drawn_axis
    picture = _percent_picture(series, axis, view, reason, times)
    value = "" if pct is None else units.percent(pct)
    tile.show_content(content, replace(picture, value=value))


def drawn_along(view: MachineView, axis: TimeAxis, drawn: TimeAxis) -> MachineView:
    """Return what is shown with its cursor on the column of another axis."""
    if view.cursor is None:
        return view
    at_ns = axis.start_ns + view.cursor * axis.column_ns
    return replace(view, cursor=(at_ns - drawn.start_ns) // drawn.column_ns)


def _memory_text(
    memory: Figure, gpu: Gpu, view: MachineView, tile: ChartTile, times: TimeLabels
) -> str:
    """Return a GPU's memory with its peak and the run's own, as far as a border has room."""
    text, room = memory.text, tile.outer_size.width - 6
    if times.are_shown:
        of_times = _ROOM_TO_NOW if times.last else _ROOM_FOR_TIMES
        room = min(room - of_times, TEXT_BESIDE_TIMES)
    for part in memory_peak_and_own(gpu, view):
        longer = f"{text}  {part}"
        if len(longer) > room:
            break
        text = longer
    return text


def memory_left(gpu: Gpu, view: MachineView) -> list[str]:
    """Return what is free of a GPU's memory, in GiB; now only."""
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    if view.cursor is not None or gpu.memory_used_mib is None or not total_mib:
        return []
    return [f"{max(0, total_mib - gpu.memory_used_mib) / 1024:.1f} left"]


def memory_peak_and_own(gpu: Gpu, view: MachineView) -> list[str]:
    """Return the most that was in use, and what of it this run holds, in GiB; now only."""
    if view.cursor is not None:
        return []
    peak_mib = view.history.gpu_memory_peak_mib.get(gpu.index)
    own_mib = view.run_gpu_memory_mib(gpu)
    used = peak_mib is not None and peak_mib >= _LEAST_PEAK_MIB
    parts = [f"peak {peak_mib / 1024:.1f}"] if peak_mib is not None and used else []
    return parts if own_mib is None else [*parts, f"this run {own_mib / 1024:.1f}"]


def gpu_memory_shares(gpu: Gpu, view: MachineView, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return which share of a GPU's memory was in use over time; none where its size is unknown."""
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    if not total_mib:
        return ()
    columns = axis.columns(view.history.gpu_memory_mib.get(gpu.index, Series()))
    return tuple(None if used_mib is None else used_mib / total_mib for used_mib in columns)


def show_gpu_memory(
    tile: ChartTile, gpu: Gpu, view: MachineView, axis: TimeAxis, times: TimeLabels = NO_LABELS
) -> None:
    """Show how much of a GPU's memory is in use, was at most, is this run's own, and is left.

    That follows from what is in use and the whole, so it is the first to go.
    """
    tile.take_hue("memory")
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    used_mib = view.gpu_at_cursor(gpu, axis).memory_used_mib
    more = (*memory_peak_and_own(gpu, view), *memory_left(gpu, view))
    reason = "" if used_mib is not None else gpu.why.get("memory_used_mib", view.no_reading)
    figures = () if used_mib is None else (gpu_memory_figure("memory", used_mib, total_mib),)
    content = TileContent(
        _title(view, "GPU memory", tile),
        figures=figures,
        problem=view.stale,
        first=_at(view, units.memory_in_use(used_mib, total_mib)),
        more=more,
        marked=more,
    )
    series = view.history.gpu_memory_mib.get(gpu.index, Series())
    peak_mib = view.history.gpu_memory_peak_mib.get(gpu.index, 1)
    picture = ChartPicture(
        columns=axis.columns(series),
        top=float(total_mib or max(1, peak_mib)),
        left_labels=(f"{total_mib / 1024:.3g}G", "0") if total_mib else ("",),
        reason=reason,
        cursor=view.cursor,
        times=times,
        value=units.memory_in_use(used_mib, total_mib),
    )
    tile.show_content(content, picture)


def show_gpu_power(
    tile: ChartTile, gpu: Gpu, view: MachineView, axis: TimeAxis, drawn_axis: TimeAxis
) -> None:
    """Show a GPU's power up to its limit, along an axis of the tile's own."""
    tile.take_hue("power")
    now = view.gpu_at_cursor(gpu, axis)
    text = "" if now.power_w is None else power_figure(now.power_w, now.power_limit_w).text
    series = view.history.gpu_power_w.get(gpu.index, Series())
    columns = drawn_axis.columns(series)
    most = max((value for value in columns if value is not None), default=1.0)
    picture = ChartPicture(
        columns=columns,
        top=gpu.power_limit_w or nice_top(most),
        left_labels=(f"{gpu.power_limit_w or nice_top(most):.0f}W", "0"),
        reason="" if now.power_w is not None else gpu.why.get("power_w", "no reading"),
        cursor=drawn_along(view, axis, drawn_axis).cursor,
    )
    content = TileContent(
        _title(view, "GPU power", tile), problem=view.stale, first=_at(view, text)
    )
    tile.show_content(content, picture)


def show_gpu_temperature(
    tile: ChartTile, gpu: Gpu, view: MachineView, axis: TimeAxis, drawn_axis: TimeAxis
) -> None:
    """Show a GPU's temperature up to where it slows down, along an axis of the tile's own."""
    facts = view.facts_of(gpu)
    now = view.gpu_at_cursor(gpu, axis)
    figures = () if now.temperature_c is None else (gpu_temperature(now.temperature_c, facts),)
    series = view.history.gpu_temperature_c.get(gpu.index, Series())
    top = float((facts.slowdown_c if facts is not None else None) or 100)
    picture = ChartPicture(
        columns=drawn_axis.columns(series),
        top=top,
        left_labels=(f"{top:.0f}°", "0"),
        reason="" if figures else gpu.why.get("temperature_c", "no reading"),
        cursor=drawn_along(view, axis, drawn_axis).cursor,
    )
    content = TileContent(
        _title(view, "GPU temperature", tile),
        figures=figures,
        problem=view.stale,
        first=_at(view, figures[0].text if figures else ""),
    )
    tile.show_content(content, picture)


def show_memory(
    tile: ChartTile, view: MachineView, axis: TimeAxis, times: TimeLabels = NO_LABELS
) -> None:
    """Show the memory in use."""
    tile.take_hue("memory")
    in_use, *others = memory_in_use(view, axis)
    known = view.history.latest is not None or view.facts.memory_mib is not None
    share = None if in_use.fraction is None else 100 * in_use.fraction
    content = TileContent(
        _title(view, "Memory", tile),
        headline=_headline(share),
        level=in_use.level,
        figures=(in_use, *(figure for figure in others if figure.label == "swap")),
        problem=view.stale,
        first=_at(view, in_use.text) if known else "",
    )
    top_mib = view.facts.memory_limit_mib or view.facts.memory_mib
    picture = ChartPicture(
        columns=axis.columns(view.history.memory_mib),
        top=float(top_mib or 1),
        marks=axis.marks(view.epoch_starts),
        shades=axis.shades(view.phase_spans),
        left_labels=(f"{top_mib / 1024:.3g}G", "0") if top_mib else ("",),
        reason="" if known and view.goes_on else view.no_sample,
        cursor=view.cursor,
        times=times,
        value=in_use.value,
    )
    tile.show_content(content, picture)


def memory_in_use(view: MachineView, axis: TimeAxis) -> list[Figure]:
    """Return the memory in use now, or at the cursor, before the other meters."""
    machine = view.history.latest
    if machine is not None and view.cursor is not None:
        used_mib = view.value_at_cursor(view.history.memory_mib, axis)
        then = Memory(used_mib=None if used_mib is None else round(used_mib))
        machine = replace(machine, memory=then, disk=None, network=None)
    return machine_meters(machine, view.facts)


def _title(view: MachineView, title: str, tile: ChartTile) -> str:
    """Say when the figures beside a title were read, where that is not now or at the cursor."""
    when = at_the_end(view)
    if not when or tile.outer_size.width >= _ROOM_FOR_WORDS:
        return title + when
    return f"{title}, last"


def _at(view: MachineView, text: str) -> str:
    """Say when, where it is the cursor's time."""
    return f"{view.cursor_label}  {text}".strip() if view.cursor is not None else text


def _headline(pct: float | None) -> str:
    """Return the text in large digits; empty where nothing is known."""
    return "" if pct is None else units.percent(pct)


def _busy(pct: float | None) -> Level:
    return "high" if pct is not None and pct >= BUSY_PCT else ""


def _marked(figures: list[Figure]) -> tuple[str, ...]:
    return tuple(figure.marked for figure in figures if figure.known)


def _percent_picture(
    series: Series, axis: TimeAxis, view: MachineView, reason: str, times: TimeLabels
) -> ChartPicture:
    return ChartPicture(
        columns=axis.columns(series),
        top=100.0,
        marks=axis.marks(view.epoch_starts),
        shades=axis.shades(view.phase_spans),
        left_labels=("100%", "50%", "0"),
        reason=reason,
        cursor=view.cursor,
        times=times,
    )
