"""The machine's charts on every screen that shows them, for one GPU to sixty-four.

Up to eight GPUs have a chart each, in a grid. More GPUs, or GPUs with too little room for that,
have a row each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from dlmon.figures.machine.readings import (
    GPU_CURVES,
    NO_GPU,
    Figure,
    cpu_figures,
    identity,
    memory_figures,
    why_no_gpu,
)
from dlmon.records import MachineFacts
from dlmon.records.record import record
from dlmon.render.wrap import first_words
from dlmon.session.source import MachineSource
from tui.drawing.time_axis import (
    NO_LABELS,
    NOTHING_FINER,
    NOTHING_MORE,
    ZOOM_NOTE_S,
    RunSpan,
    TimeAxis,
    TimeLabels,
    TimeWindow,
)
from tui.machine.meters import CoreRows, Meters
from tui.machine.tile import (
    MachineTile,
    TileReader,
    cpu_reading,
    disk_reading,
    gpu_curve,
    gpu_reading,
    memory_reading,
)
from tui.machine.view import NO_PROCESSES_YET, MachineView
from tui.widgets.lines import BAD, GrowingLines, TextRow, in_rows, shows

# Imported after the first paint, which never shows either.
if TYPE_CHECKING:
    from tui.machine.gpu_rows import GpuRows
    from tui.machine.process_list import ProcessList

PARTS = ("cpu", "cores", "gpus", "processes")
"""The parts that can be hidden in a panel of the machine."""
MOST_CHARTS = 8
_LEAST_TILE_WIDTH, _LEAST_TILE_HEIGHT, _GOOD_TILE_HEIGHT = 20, 5, 7
# Width to height in cells. A cell is about twice as tall as wide.
_TILE_SHAPE = 3.2
# A panel of at least this size has parts side by side.
_WIDE, _LEAST_WIDE_HEIGHT = 76, 20
# The least rows in which processes are listed.
_LEAST_PROCESSES = 7
# The rows of CPU and cores below GPUs, and of figures in their place.
_LEAST_TOP, _MOST_TOP, _METERS_ALONE = 8, 16, 4
# In a low panel, the figures below the cores have no frame: processes have its rows.
_LOW_PANEL, _LOW_TOP = 24, 6
# The least size of the charts of a GPU's utilisation and memory side by side in a wide panel; four
# charts of a GPU, with those of `_CURVES`, are as high as here at least, or as there in two rows.
_LEAST_PAIR, _LEAST_PAIR_HEIGHT, _LEAST_FOUR, _LEAST_TWO_ROWS = 60, 6, 7, 9
# The least width of one chart of a GPU, with its memory in it.
_LEAST_SINGLE = 38
# From this height on, the cores stand below the CPU's chart.
_TALL = 16
_LEAST_CPU_HEIGHT = 4
# Below the GPUs of a run, the CPU's chart needs no more.
_MOST_CPU_BELOW = 8
# From this height on, the CPU's chart has a row with the memory over time.
_TALL_CPU = 10
# A column below the first has one row each for cores and meters, below the second no frame around
# the GPUs; one from the third on has more rows for cores.
_LOWEST, _LOW, _HIGH = 10, 12, 28
_MOST_CORES = {"low": 1, "": 4, "high": 8}
# The curves of a GPU with much room, besides its utilisation and memory.
_CURVES = ("power", "temp")
# From this width on, two rows of them are uneven: the lower one has what changes slowly.
_LEAST_UNEVEN, _UNEVEN, _BESIDE_GPU = 160, "2fr 1fr", ("power", "memory", "temp")
_FRAME = 2
# From these heights on a machine without a GPU has charts of its disks and of its memory, below
# other charts.
_LEAST_WITH_DISK, _LEAST_WITH_MEMORY = 20, 28
# The columns of time where no chart is shown.
_WITHOUT_CHART = 80
# The height of a wide panel from which the machine's identity may take two rows.
_LEAST_FOR_TWO_ROWS = 30
# A narrower chart shows figures in place of the times.
_LABELLED_FROM = 50


@record(frozen=True)
class MachineLayout:
    """The arrangement of a machine's parts.

    Attributes:
        arrangement: `column`, one part below the other; `wide`, cores beside the CPU and GPUs
            above; or `below`, the GPUs above the CPU, all below other charts.
        charts: the number of charts besides the CPU's: of GPUs, or without any of disks and memory.
        per_gpu: the charts of each GPU: of its utilisation, then of its memory, then `_CURVES`.
        columns: the columns of the grid of these charts.
        rows: whether the GPUs have a row each instead of charts.
        gpus_height: the height of that grid, or of the rows, as a style sheet has it.
        row_heights: the heights of the rows of that grid, in turns.
        top_height: the height of CPU and cores.
        processes_height: the height of the processes.
        cpu: whether the CPU has a chart.
        side: whether cores and meters are shown.
        processes: whether processes are listed.
        size: `low` or `high` for such a column, `short` for a low row of CPU and cores, `bare` if
            its figures have no frame, `meters` for figures in their place, `tight` for rows
            without room for a frame, otherwise empty.
    """

    arrangement: str = "column"
    charts: int = 0
    columns: int = 1
    rows: bool = False
    per_gpu: int = 1
    gpus_height: str = "1fr"
    row_heights: str = "1fr"
    top_height: str | None = None
    processes_height: str = "1fr"
    cpu: bool = True
    side: bool = True
    processes: bool = False
    size: str = ""


def panel_layout(
    width: int, height: int, gpus: int, side_rows: int, processes: bool, per_gpu: int = 2
) -> MachineLayout:
    """Return the layout of a panel of its own, with at most `per_gpu` charts of each GPU.

    In a narrow panel, identity, cores and meters take `side_rows`. Processes are listed only if
    that is wanted and they fit.
    """
    if width >= _WIDE and height >= _LEAST_WIDE_HEIGHT:
        return _wide_layout(width, height - 1, gpus, processes, per_gpu)
    size = "low" if height < _LOWEST else "high" if height >= _HIGH else ""
    size = "tight" if _LOWEST <= height < _LOW else size
    room = height - side_rows
    frame = 0 if height < _LOW else _FRAME
    rows = (gpus if gpus <= 4 else -(-gpus // 2)) + frame if gpus else 0
    has_cpu = room - rows >= (_LEAST_CPU_HEIGHT if size == "tight" else _LEAST_TILE_HEIGHT)
    if size == "low" and not has_cpu and room - rows > 1:
        # The cores and the figures have the rows that no chart needs.
        size = "tight"
    columns = grid_columns(max(1, gpus), width, room // 2) if gpus <= MOST_CHARTS else 0
    alone = grid_columns(gpus, width, room, _LEAST_SINGLE) if not columns else 0
    if alone:
        # The GPUs come first: the CPU has a line.
        return MachineLayout("column", gpus, alone, gpus_height=str(room), cpu=False, size=size)
    if not columns:
        most = str(min(rows, room))
        return MachineLayout(rows=gpus > 0, gpus_height=most, cpu=has_cpu, size=size)
    half = str(room // 2)
    return MachineLayout("column", max(1, gpus), columns, gpus_height=half, cpu=has_cpu, size=size)


def _wide_layout(
    width: int, height: int, gpus: int, processes: bool, per_gpu: int
) -> MachineLayout:
    """Return the layout with the GPUs in charts or rows above CPU and cores."""
    least = _LEAST_PROCESSES if processes else 0
    if not gpus:
        charts = max(_LEAST_TILE_HEIGHT, min(_LEAST_TOP, height // 6))
        top = min(_MOST_TOP, max(_LEAST_TOP, height * 2 // 5))
        rest = height - charts - top
        listed = rest if processes and rest >= least else 0
        layout = MachineLayout("wide", 2, 2, gpus_height=str(charts))
    else:
        layout, rows = _wide_gpus(width, height, gpus, height - _LEAST_TOP - least, per_gpu)
        rest = height - rows
        top = max(_LEAST_TOP, min(_MOST_TOP, rest // 2 if least else rest))
        if rest < _LEAST_TOP + least and (rest < _LEAST_TOP or rest >= _METERS_ALONE + least):
            # Figures alone leave room for GPUs or processes.
            top = _METERS_ALONE if rest >= _METERS_ALONE + least else rest
            layout = replace(layout, cpu=False, size="meters")
        elif least and top == _LEAST_TOP and height < _LOW_PANEL:
            layout, top = replace(layout, size="bare"), _LOW_TOP
        listed = rest - top if least and rest - top >= least else 0
        if layout.rows and not listed:
            top = rest
    size = layout.size or ("short" if top < _LOW else "")
    if not listed:
        return replace(layout, top_height=str(top) if gpus else None, size=size)
    return replace(
        layout, top_height=str(top), processes_height=str(listed), processes=True, size=size
    )


def _wide_gpus(
    width: int, height: int, gpus: int, room: int, per_gpu: int
) -> tuple[MachineLayout, int]:
    """Return the layout of the GPUs in a wide panel, and the rows that they take of the `room`."""
    room = min(room, max(height // 2, _LEAST_PAIR_HEIGHT))
    if per_gpu > 2 and gpus <= MOST_CHARTS:
        for columns, least in ((2, _LEAST_TWO_ROWS), (4, _LEAST_FOUR)):
            tall = room // (gpus * per_gpu // columns)
            if tall >= least and width // columns >= _LEAST_PAIR // 2:
                heights = _UNEVEN if columns == 2 and width >= _LEAST_UNEVEN else "1fr"
                layout = MachineLayout("wide", per_gpu * gpus, columns, per_gpu=per_gpu)
                return replace(layout, row_heights=heights), room
    columns = grid_columns(gpus, width, room, _LEAST_PAIR) if gpus <= MOST_CHARTS else 0
    if columns and room // -(-gpus // columns) >= _LEAST_PAIR_HEIGHT:
        return MachineLayout("wide", 2 * gpus, 2 * columns, per_gpu=2), room
    if gpus <= width // _LEAST_SINGLE and room >= _LEAST_PAIR_HEIGHT:
        return MachineLayout("wide", gpus, gpus), room
    most = height - _METERS_ALONE
    rows = (gpus if gpus + _FRAME <= most else min(most - _FRAME, -(-gpus // 2))) + _FRAME
    return MachineLayout("wide", rows=True, gpus_height=str(rows)), rows


def layout_below_charts(
    width: int, height: int, gpus: int, unread: bool = False, per_gpu: int = 1
) -> MachineLayout:
    """Return the layout below other charts with the same axis.

    If the GPUs are `unread`, each has a row with the reason. A single one has `per_gpu` charts if
    they fit.
    """
    if unread:
        rows = str(min(gpus, max(1, height - _LEAST_CPU_HEIGHT)))
        side = height - gpus >= _TALL
        return MachineLayout("below", rows=True, gpus_height=rows, side=side, size="tight")
    if gpus == 0:
        charts = (height >= _LEAST_WITH_DISK) + (height >= _LEAST_WITH_MEMORY)
        of_others = str(charts * max(_LEAST_TILE_HEIGHT, height // 5)) if charts else "1fr"
        return MachineLayout("below", charts, gpus_height=of_others, side=height >= _TALL)
    has_cpu = height >= _LEAST_TILE_HEIGHT + _LEAST_CPU_HEIGHT
    cpu = max(_LEAST_CPU_HEIGHT, min(_MOST_CPU_BELOW, height * 2 // 5))
    room = height - cpu if has_cpu else height
    charts, columns = gpus, grid_columns(gpus, width, room) if gpus <= MOST_CHARTS else 0
    if gpus == 1:
        charts, columns = max(1, min(per_gpu, room // _GOOD_TILE_HEIGHT)), 1
    elif room >= _LEAST_TILE_HEIGHT * gpus:
        # One cursor line then runs through all of them.
        columns = 1
    if columns:
        return MachineLayout(
            "below", charts, columns, gpus_height=str(room), cpu=has_cpu, side=False
        )
    is_tight = gpus > 2 * (room - _FRAME)
    beside = -(-gpus // max(1, room - _FRAME))
    room = room if is_tight else -(-gpus // beside) + _FRAME
    return MachineLayout(
        "below",
        rows=True,
        gpus_height=str(room),
        cpu=has_cpu,
        side=False,
        size="tight" if is_tight else "",
    )


def grid_columns(tiles: int, width: int, height: int, least_width: int = _LEAST_TILE_WIDTH) -> int:
    """Return the columns of the best grid for a number of charts, or 0 if they don't fit."""
    best_score, best_columns = 0.0, 0
    shape = _TILE_SHAPE * least_width / _LEAST_TILE_WIDTH
    for columns in range(1, tiles + 1):
        rows = -(-tiles // columns)
        tile_width, tile_height = width // columns, height // rows
        if tile_width < least_width or tile_height < _LEAST_TILE_HEIGHT:
            continue
        # Empty cells of the grid waste room.
        score = min(tile_width / shape, tile_height) * (tiles / (columns * rows)) ** 3
        if score > best_score:
            best_score, best_columns = score, columns
    return best_columns


class MachineCharts(Widget):
    """The machine along a time axis: charts, cores, meters and GPUs, and processes if they fit.

    With `below`, for a place below other charts with the same axis, the GPUs stand above the CPU,
    without meters.
    """

    DEFAULT_CSS = """
    MachineCharts {
        width: 1fr;
        height: 1fr;

        & > Container { width: 1fr; height: 1fr; }
        CoreRows { max-height: 4; }
        Meters { max-height: 2; }
        GpuRows { padding: 0 1; }
        #side { height: auto; }
        &.-low CoreRows, &.-low Meters { max-height: 1; }
        &.-high CoreRows { max-height: 8; }
        &.-wide {
            & > #top { layout: horizontal; }
            #top > * { width: 1fr; height: 100%; }
            CoreRows { height: 1fr; max-height: 100%; }
            Meters { max-height: 8; }
            &.-short Meters, &.-meters Meters { max-height: 4; }
            &.-bare Meters { max-height: 2; }
            &.-meters CoreRows { display: none; }
        }
    }
    """

    def __init__(
        self, *, below: bool = False, processes: bool = False, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._below, self._lists_processes = below, processes
        self.about = AboutLines(id="identity")
        self._cpu = MachineTile(id="cpu")
        self._cores = CoreRows(id="cores")
        self._meters = Meters(id="meters")
        self._side = Container(self._cores, self._meters, id="side")
        self._top = Container(self._cpu, self._side, id="top")
        self._tiles = [MachineTile(id=f"chart-{number}") for number in range(2)]
        self._rows: GpuRows | None = None
        self._grid = Container(*self._tiles, id="gpus-grid")
        self._processes: ProcessList | Static = Static(
            f" {NO_PROCESSES_YET}", id="processes", classes="panel"
        )
        self._processes.border_title = "Processes"
        self._processes.display = False
        self.machine_layout = MachineLayout("")
        self._hidden: frozenset[str] = frozenset()
        self._last_show: Callable[[], None] | None = None
        self.about.display = not below

    def compose(self) -> ComposeResult:
        yield self.about
        yield from (self._grid, self._top) if self._below else (self._top, self._grid)
        yield self._processes

    async def list_processes(self) -> None:
        """Replace the placeholder by the list of processes."""
        from tui.machine.process_list import ProcessList

        with self.app.batch_update():
            await self._processes.remove()
            self._processes = ProcessList(id="processes")
            self.machine_layout = MachineLayout("")
            await self.mount(self._processes)
            self.show_again()

    def on_resize(self) -> None:
        """Show the same readings once all parts have their new size."""
        self.call_after_refresh(self.show_again)

    def on_chart_plot_resized(self) -> None:
        self.show_again()

    def show_again(self) -> None:
        """Show the same readings in the present size of the parts."""
        if self._last_show is not None and self.is_attached:
            self._last_show()

    def hide(self, parts: frozenset[str]) -> None:
        """Hide these of the `PARTS` and show all others."""
        if parts != self._hidden:
            self._hidden, self.machine_layout = parts, MachineLayout("")
            self.show_again()

    @property
    def plot_columns(self) -> int:
        """The columns of the narrowest chart, not counting those much narrower than the CPU's."""
        if isinstance(self.screen.maximized, MachineTile):
            return self.screen.maximized.plot_columns
        columns = self._cpu.plot_columns if self._cpu.display else 0
        counts = (tile.plot_columns for tile in self._tiles if tile.display)
        wide = (count for count in counts if 10 * count > 9 * columns)
        return min(wide, default=columns or _WITHOUT_CHART)

    def show(
        self,
        view: MachineView,
        axis: TimeAxis,
        times: Callable[[TimeAxis], TimeLabels] = lambda axis: NO_LABELS,
        note: str = "",
    ) -> None:
        """Show readings along `axis`, coarser in charts with fewer columns.

        The lowest charts have the labels that `times` returns of an axis; a `note` goes below the
        CPU's chart.
        """
        self._last_show = partial(self.show, view, axis, times, note)
        self._apply_layout(view)
        layout, latest, stale = self.machine_layout, view.history.latest, bool(view.stale)
        show = partial(MachineTile.show_reading, view=view, axis=axis, times=times)
        tiles = self._tiles[: layout.charts]
        lowest = tiles[-((len(tiles) - 1) % layout.columns + 1) :]
        labelled = [tile for tile in lowest if tile.size.width >= _LABELLED_FROM]
        if self._below and layout.cpu and view.gpus:
            labelled = []
        if layout.cpu:
            has_memory = memory_reading not in self._readers(view)[: layout.charts]
            read_cpu = partial(
                cpu_reading,
                with_memory=has_memory and self._below,
                with_memory_row=has_memory and self._cpu.size.height >= _TALL_CPU,
            )
            show(self._cpu, read_cpu, labelled=True, note=note)
        if layout.side:
            cpu = latest.cpu if latest is not None else None
            # A log keeps no history of them.
            self._cores.has_histories = layout.arrangement == "wide" and not view.is_over
            self._cores.show(cpu, stale=stale, without_reason=view.no_reading)
            # The history has no cores: at the cursor too, they are shown as they are now.
            when = " at the end" if view.is_over else " now"
            at_cursor = view.cursor_ns is not None
            self._cores.set_titles(f"Cores{when if at_cursor else ''}", self._cores.scale)
            if not self._below:
                self._show_meters(view, axis)
        for tile, reader in zip(tiles, self._readers(view), strict=False):
            show(tile, reader, labelled=tile in labelled)
        if self._rows is not None and layout.rows:
            self._rows.show(view, axis)
        if layout.processes and not isinstance(self._processes, Static):
            self._processes.show(view)

    def _show_meters(self, view: MachineView, axis: TimeAxis) -> None:
        machine = view.machine_at(axis)
        meters = memory_figures(machine, view.facts)
        layout = self.machine_layout
        if layout.per_gpu == 1 and layout.charts > len(view.gpus):
            charted = ("memory", "disk")[: layout.charts - len(view.gpus)]
            meters = [figure for figure in meters if figure.label not in charted]
        if not layout.cpu:
            unknown = Figure("CPU", view.no_sample or view.no_reading, is_known=False)
            figures = cpu_figures(machine, view.facts, in_depth=True)[:2] or [unknown]
            value = "  ".join(figure.value for figure in figures if figure.is_known)
            meters.insert(0, replace(figures[0], label="CPU", value=value or figures[0].value))
        self._meters.show(meters, stale=bool(view.stale))

    def _readers(self, view: MachineView) -> list[TileReader]:
        main = view.main_gpu
        if main is None:
            return [disk_reading, memory_reading] if self._below else [memory_reading, disk_reading]
        if self._below and len(view.gpus) == 1:
            reading = partial(gpu_reading, gpu=main)
            if not (view.needs_memory and view.facts_of(main).memory_mib):
                return [reading]
            name = f"GPU {main.index}"
            memory = partial(gpu_curve, gpu=main, label="memory", name=name)
            return [memory, partial(reading, charted=("memory",))]
        gpus = view.gpus
        if self._below:
            # Below the charts of a run, the GPUs that train come first.
            gpus = tuple(sorted(gpus, key=lambda gpu: gpu.index not in view.training))
        per_gpu = self.machine_layout.per_gpu
        if per_gpu == 1:
            return [*(partial(gpu_reading, gpu=gpu) for gpu in gpus), memory_reading]
        labels = ("memory", *_CURVES)[: per_gpu - 1]
        if self.machine_layout.row_heights == _UNEVEN:
            labels = _BESIDE_GPU
        readers: list[TileReader] = []
        for gpu in gpus:
            readers.append(partial(gpu_reading, gpu=gpu, charted=labels))
            name = f"GPU {gpu.index}"
            readers += (partial(gpu_curve, gpu=gpu, label=label, name=name) for label in labels)
        return readers

    def _layout_for(self, view: MachineView) -> MachineLayout:
        """Return the layout that fits; a part without room is left out rather than squeezed."""
        count, size = len(view.gpus), self.size
        if self._below:
            unread = count > 0 and all(map(view.is_unread, view.gpus))
            return layout_below_charts(*size, count, unread, len(self._readers(view)))
        # Before the first layout, assume the screen but for its last row.
        width, height = size or self.app.size - (0, 1)
        side_rows = 0
        if width < _WIDE or height < _LEAST_WIDE_HEIGHT:
            most = _MOST_CORES["low" if height < _LOWEST else "high" if height >= _HIGH else ""]
            parts = (self._cores, most), (self._meters, 1 if height < _LOWEST else 2)
            side_rows = 1 + sum(min(most, part.rows_needed(width - 2)) for part, most in parts)
        self.about.is_low = width >= _WIDE and height < _LEAST_FOR_TWO_ROWS
        height -= self.about.rows_needed(width - 2) - 1
        curves = (
            view.history.gpu_series(GPU_CURVES[label], gpu.index)
            for gpu in view.gpus
            for label in _CURVES
        )
        per_gpu = 2 + len(_CURVES) if all(series.sums for series in curves) else 2
        has_none = view.is_over and view.history.latest and not view.history.latest.processes
        lists = self._lists_processes and not has_none
        return panel_layout(width, height, count, side_rows, lists, per_gpu)

    def _apply_layout(self, view: MachineView) -> None:
        """Lay out the parts for the present size."""
        if self.screen.maximized is not None and self.machine_layout.arrangement:
            return
        layout = self._layout_for(view)
        if layout == self.machine_layout:
            return
        self.machine_layout = layout
        for number in range(len(self._tiles), layout.charts):
            self._tiles.append(MachineTile(id=f"chart-{number}"))
            self._grid.mount(self._tiles[-1])
        if layout.rows and self._rows is None:
            from tui.machine.gpu_rows import GpuRows

            self._rows = GpuRows(id="gpus")
            self._grid.mount(self._rows)
        for number, tile in enumerate(self._tiles):
            tile.display = number < layout.charts
        is_column = layout.arrangement == "column"
        if self._grid.is_attached:
            first, second = self._top, self._grid
            first, second = (second, first) if view.gpus else (first, second)
            self.move_child(first, before=second)
        cpu, cores, gpus, processes = (part not in self._hidden for part in PARTS)
        self._cpu.display, self._side.display = layout.cpu and cpu, layout.side and cores
        has_top = self._cpu.display or self._side.display
        self._top.display = has_top
        self._meters.display = not self._below
        if self._rows is not None:
            self._rows.display = layout.rows
            self._rows.set_class(layout.size not in ("low", "tight"), "panel", update=False)
        self._grid.display = (layout.rows or layout.charts > 0) and gpus
        self._processes.display = layout.processes and processes
        self._top.styles.height = layout.top_height if self._grid.display else None
        shares_room = has_top or self._grid.display
        self._processes.styles.height = layout.processes_height if shares_room else "1fr"
        self._meters.max_columns = 2 if is_column or layout.size == "meters" else 1
        self._grid.styles.height = layout.gpus_height if has_top else "1fr"
        self._grid.styles.layout = "grid" if layout.columns > 1 else "vertical"
        self._grid.styles.grid_size_columns = layout.columns
        self._grid.styles.grid_rows = layout.row_heights
        for name in ("wide", "low", "high", "short", "bare", "meters"):
            self.set_class(name in (layout.arrangement, layout.size), f"-{name}", update=False)
        self._cores.set_class(not is_column, "panel", update=False)
        has_frame = not is_column and layout.size != "bare"
        self._meters.set_class(has_frame, "panel", update=False)
        # Each update visits every part, so update once for all of these classes.
        self.update_node_styles()


class AboutLines(GrowingLines):
    """The machine's identity, and any problem of its sensors."""

    MOST_ROWS: ClassVar[int] = 2

    is_low = False
    """Take one row only."""

    def rows_needed(self, width: int) -> int:
        return 1 if self.is_low else super().rows_needed(width)

    def rows(
        self, width: int, height: int, facts: MachineFacts, notice: str, host: str | None = None
    ) -> list[TextRow]:
        """Return the name of the host, if given, and the facts; a notice takes the last row."""
        about = identity(facts) or ["waiting for the sensors"]
        why = why_no_gpu(facts).partition(": ")[0]
        about = [f"{part}: {why}" if part == NO_GPU and why else part for part in about]
        first, *parts = about if host is None else [host, *about]
        rows = in_rows(first, parts, width, height)
        return [*rows[: height - 1], ((first_words(notice, width), BAD),)] if notice else rows

    show = shows(rows)


_NOTICE_S = 10.0
# Somebody waits for the first sample: poll more often until it arrives.
_FIRST_SAMPLE_POLL_S = 0.1
_YOUNG_NS, _MOVE_NS = 20_000_000_000, 2_000_000_000
"""Charts that hold more than the first move in steps of the second, as btop's do: each move draws
all of them. The values beside them don't wait."""


class MachinePanel(MachineCharts):
    """The machine now, along an axis that ends now. Sensors run from `start` to `stop`."""

    @dataclass
    class FactsRead(Message):
        """Posted when the facts of the machine are known or changed."""

        machine: MachineFacts

    def __init__(self, source: MachineSource, *, processes: bool = False) -> None:
        super().__init__(processes=processes)
        self._source = source
        self._facts = source.facts
        self._about_shown: tuple[MachineFacts, str] | None = None
        self._timer: Timer | None = None
        self._first_sample_timer: Timer | None = None
        self._window = TimeWindow()
        self._zoom_note = ""

    def compose(self) -> ComposeResult:
        """Apply the layout before the parts are mounted, so that their styles are applied once."""
        if not self._facts.gpus:
            self.about.show(self._facts, "")
            self._apply_layout(self.view())
        yield from super().compose()

    def on_mount(self) -> None:
        seconds = min(1.0, max(0.5, self._source.interval_s))
        self._timer = self.set_interval(seconds, self._on_timer, pause=not self._source.is_on)
        self.paint()
        if self._lists_processes:
            self.call_after_refresh(self.list_processes)

    def on_unmount(self) -> None:
        self.stop()

    def start(self) -> None:
        """Start the sensors and paint their readings; paint at once if the sensors run already."""
        if self._source.is_on:
            self.call_after_refresh(self.paint)
        self._source.start()
        if self._timer is not None:
            self._timer.resume()
        if self._source.history.latest is None and self._first_sample_timer is None:
            self._first_sample_timer = self.set_interval(
                _FIRST_SAMPLE_POLL_S, self._paint_first_sample
            )

    def _paint_first_sample(self) -> None:
        if self._source.history.latest is None and self._source.is_on:
            self._poll()
        elif self._first_sample_timer is not None:
            self._first_sample_timer.stop()
            self._first_sample_timer = None
            self._on_timer()

    def stop(self) -> None:
        self._source.stop()
        if self._timer is not None:
            self._timer.pause()

    def view(self) -> MachineView:
        source = self._source
        return MachineView(
            source.history,
            source.facts,
            source.age_s if source.goes_on else None,
            source.interval_s,
            goes_on=source.goes_on,
            host=source.host,
            is_here=source.is_here,
            axis=lambda count: self._window.axis(self._run, count).ending_now,
            times=lambda axis: axis.time_before_now(is_over=not source.goes_on),
        )

    def _on_timer(self) -> None:
        """Poll the sensors; paint only if the panel is visible."""
        if self.screen.is_active or isinstance(self.app.screen, ModalScreen):
            self.paint()
        else:
            self._poll()

    def _poll(self) -> None:
        """Notify of the sensors' warnings, and post new facts of the machine."""
        for warning in self._source.poll():
            self.notify(warning, severity="warning", timeout=_NOTICE_S, markup=False)
        if self._source.facts is not self._facts:
            self._facts = self._source.facts
            self.post_message(self.FactsRead(self._facts))

    def paint(self) -> None:
        if not self.is_attached:
            return
        self._poll()
        view = self.view()
        notice = self._source.status if view.age_s is None or view.stale else ""
        if (self._facts, notice) != self._about_shown:
            self._about_shown = self._facts, notice
            self.about.show(self._facts, notice)
        axis = view.axis(self.plot_columns)
        self.show(view, axis, view.times, self._zoom_note)

    def show_again(self) -> None:
        self.paint()

    def zoom(self, *, out: bool) -> None:
        """Show more time or less, or a note that this is impossible."""
        run, columns = self._run, self.plot_columns
        window = self._window
        zoomed = window.zoomed_out(run, columns) if out else window.zoomed_in(run, columns)
        self._zoom_note = ""
        if zoomed is window:
            self._zoom_note = NOTHING_MORE if out else NOTHING_FINER
            self.set_timer(ZOOM_NOTE_S, self._forget_zoom_note)
        self._window = zoomed
        self.paint()

    def _forget_zoom_note(self) -> None:
        self._zoom_note = ""
        self.paint()

    @property
    def _run(self) -> RunSpan:
        source = self._source
        column_ns = max(int(source.interval_s * 1e9), 1_000_000_000)
        end_ns = source.now()
        if source.goes_on and end_ns - source.start_ns > _YOUNG_NS:
            end_ns = end_ns // _MOVE_NS * _MOVE_NS
        return RunSpan(source.start_ns, end_ns, source.goes_on, column_ns)
