"""Which readings of a machine a tile shows: its CPUs, a GPU, its memory."""

from __future__ import annotations

from dataclasses import replace

from dlmon.records import Cpu, Gpu, Memory
from dlmon.statistics.series import Series
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.formatting import units
from tui.formatting.machine import (
    BUSY_PCT,
    Figure,
    Level,
    cpu_figures,
    has_no_readings,
    machine_meters,
    no_utilization,
)
from tui.machine.tiles import ChartTile, TileContent, brief_words
from tui.machine.view import MachineView
from tui.widgets.chart import ChartPicture


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
        "CPU",
        headline=_headline(pct),
        level=_busy(pct),
        figures=tuple(figures),
        problem=view.stale,
        first=first,
        more=more,
        marked=marked,
        note=note,
    )
    reason = "waiting for the first sample"
    if cpu is not None:
        reason = "" if cpu.pct is not None else cpu.why.get("pct", "no reading yet")
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
    tile: ChartTile, gpu: Gpu, view: MachineView, axis: TimeAxis, times: TimeLabels = NO_LABELS
) -> None:
    """Show one GPU's utilisation."""
    tile.take_hue("gpu")
    facts = view.facts_of(gpu)
    reason = ""
    if gpu.utilization_pct is None:
        reason = no_utilization(gpu)
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
        f"GPU {gpu.index}",
        name=units.device(facts.name) if facts else "",
        headline=_headline(pct),
        level=_busy(pct),
        figures=tuple(figures),
        problem=view.stale or lost,
        first=without or _at(view, units.percent(pct)),
        more=brief_words(others),
        marked=_marked(others),
        below=memory[0].text if memory else "",
    )
    series = view.history.gpu_utilization_pct.get(gpu.index, Series())
    picture = _percent_picture(series, axis, view, reason, times)
    value = "" if pct is None else units.percent(pct)
    tile.show_content(content, replace(picture, value=value))


def show_memory(
    tile: ChartTile, view: MachineView, axis: TimeAxis, times: TimeLabels = NO_LABELS
) -> None:
    """Show the memory in use, and why there is no GPU where there is none."""
    tile.take_hue("memory")
    machine = view.history.latest
    if machine is not None and view.cursor is not None:
        used_mib = view.value_at_cursor(view.history.memory_mib, axis)
        then = Memory(used_mib=None if used_mib is None else round(used_mib))
        machine = replace(machine, memory=then, disk=None, network=None)
    in_use, *others = machine_meters(machine, view.facts)
    known = machine is not None or view.facts.memory_mib is not None
    share = None if in_use.fraction is None else 100 * in_use.fraction
    content = TileContent(
        "Memory",
        headline=_headline(share),
        level=in_use.level,
        figures=(in_use, *(figure for figure in others if figure.label == "swap")),
        problem=view.stale,
        first=_at(view, in_use.text) if known else "",
        note=view.no_gpus,
    )
    top_mib = view.facts.memory_limit_mib or view.facts.memory_mib
    picture = ChartPicture(
        columns=axis.columns(view.history.memory_mib),
        top=float(top_mib or 1),
        marks=axis.marks(view.epoch_starts),
        shades=axis.shades(view.phase_spans),
        left_labels=(f"{top_mib / 1024:.3g}G", "0") if top_mib else ("",),
        reason="" if known else "no reading yet",
        cursor=view.cursor,
        times=times,
        value=in_use.value,
    )
    tile.show_content(content, picture)


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
