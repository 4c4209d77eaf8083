"""The machine in the room there is: from one GPU to sixty-four, and for every screen that shows it.

Up to eight GPUs have a chart each, in a grid; more of them, or those that have no room for that,
a row each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.widget import Widget

from dlmon.figures.machine import (
    NO_GPU,
    cpu_meter,
    identity,
    machine_meters,
    why_no_gpu,
    without_detail,
)
from dlmon.records import Gpu, MachineFacts
from dlmon.records.record import record
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.cores import CoreRows
from tui.machine.gpu_rows import GpuRows, gpus_in_a_row
from tui.machine.meters import Meters
from tui.machine.process_list import ProcessList
from tui.machine.readings import (
    Reading,
    cpu_reading,
    gpu_memory_reading,
    gpu_power_reading,
    gpu_reading,
    gpu_temperature_reading,
    memory_reading,
)
from tui.machine.tile import MachineTile, Reader
from tui.machine.view import MachineView, at_the_end, is_over
from tui.widgets.lines import BAD, GrowingLines, in_rows, shows
from tui.widgets.rows import TextRow

MOST_CHARTS = 8
# Fewer stand below each other where they can: an instant is one line through them.
_GRID_FROM = 4
_LEAST_TILE_WIDTH, _LEAST_TILE_HEIGHT, _GOOD_TILE_HEIGHT = 28, 5, 6
# A cell is about twice as tall as wide, and a chart reads well when it is longer than tall.
_TILE_SHAPE = 3.2
# From here on parts stand side by side.
_WIDE, _LEAST_WIDE_HEIGHT = 100, 22
# A machine of that height has a table of processes below; one of several GPUs needs more.
_LEAST_FOR_PROCESSES, _LEAST_BELOW_GPUS = 36, 48
_TALL = 14
# A narrow one of less height has a row each for cores and meters; a higher one has more for cores.
_LOW, _HIGH = 12, 28
_FRAME = 2
# A narrower chart says what it uses in place of the time.
_LABELLED_FROM = 50


@record(frozen=True)
class Form:
    """How the parts of a machine stand.

    Attributes:
        arrangement: `column`, each below the other; `wide`, cores beside the CPU, GPUs below; or
            `beside`, the GPUs beside the CPU.
        charts: how many GPUs have a chart.
        columns: of the grid in which they stand.
        rows: the height of those of the other GPUs; empty for none.
        gpus_height: the height of all of them, as a style sheet has it.
        cpu: whether the CPU has a chart.
        side: whether cores and meters are shown.
        memory: whether the memory has a chart.
        gpu_memory: whether that of the first GPU has one.
        curves: whether its power and its temperature do.
        processes: whether they are listed.
    """

    arrangement: str = "column"
    charts: int = 0
    columns: int = 1
    rows: str = ""
    gpus_height: str = "1fr"
    cpu: bool = True
    side: bool = True
    memory: bool = False
    gpu_memory: bool = False
    curves: bool = False
    processes: bool = False


def alone(width: int, height: int, gpus: int, side_rows: int, processes: bool) -> Form:
    """Return how a machine stands that has a panel of its own.

    In a narrow one, so many rows say what it is, and show cores and meters.
    """
    least = _LEAST_FOR_PROCESSES if gpus < 2 else _LEAST_BELOW_GPUS
    if width >= _WIDE and height >= _LEAST_WIDE_HEIGHT:
        below = processes and height >= least
        room = (height - 1) * (0.8 if below else 1.0) * 0.55
        # The memory fills the last place of the grid.
        memory = gpus % 2 == 1 or gpus == 0
        columns = grid_columns(gpus + memory, width, int(room))
        if gpus > MOST_CHARTS or not columns:
            most = str(min(gpus + _FRAME, int(room)))
            return Form("wide", rows="1fr", gpus_height=most, processes=below)
        share = "1fr" if gpus < 2 else "1.4fr"
        return Form("wide", gpus, columns, memory=memory, gpus_height=share, processes=below)
    left = height - side_rows
    rows = (gpus if gpus <= 4 else -(-gpus // 2)) + (0 if height < _LOW else _FRAME) if gpus else 0
    has_chart = left - rows >= _LEAST_TILE_HEIGHT
    columns = grid_columns(max(1, gpus), width, left // 2)
    if gpus > MOST_CHARTS or not columns:
        return Form(rows="1fr" if gpus else "", gpus_height=str(min(rows, left)), cpu=has_chart)
    half = str(left // 2)
    return Form(charts=gpus, columns=columns, memory=gpus == 0, gpus_height=half, cpu=has_chart)


def among_charts(width: int, height: int, gpus: int) -> Form:
    """Return how a machine stands under other charts; the size is that of the room for GPUs."""
    form = partial(Form, "beside", side=height >= _TALL)
    if gpus == 0:
        return form(memory=True) if height >= _TALL else Form("wide")
    if gpus == 1:
        memory = height >= _GOOD_TILE_HEIGHT + _LEAST_TILE_HEIGHT
        curves = height >= 3 * _GOOD_TILE_HEIGHT + _LEAST_TILE_HEIGHT
        return form(charts=1, gpu_memory=memory, curves=curves)
    columns = grid_columns(gpus, width, height) if gpus <= MOST_CHARTS else 0
    if height >= _GOOD_TILE_HEIGHT + _LEAST_TILE_HEIGHT * (gpus - 1) and gpus < _GRID_FROM:
        columns = 1
    if columns:
        return form(charts=gpus, columns=columns)
    left = height - _GOOD_TILE_HEIGHT
    others = gpus - 1
    wanted = min(left, -(-others // 2))
    if left >= 1 and others <= wanted * gpus_in_a_row(others, width - 2, wanted):
        return form(charts=1, rows=str(wanted))
    return form(rows="1fr")


def grid_columns(tiles: int, width: int, height: int) -> int:
    """Return the columns of the grid that suits so many charts best; 0 where they have no room."""
    best, found = 0.0, 0
    for columns in range(1, tiles + 1):
        rows = -(-tiles // columns)
        tile_width, tile_height = width // columns, height // rows
        if tile_width < _LEAST_TILE_WIDTH or tile_height < _LEAST_TILE_HEIGHT:
            continue
        # Places of the grid that stay empty are room that is lost.
        score = min(tile_width / _TILE_SHAPE, tile_height) * (tiles / (columns * rows)) ** 3
        if score > best:
            best, found = score, columns
    return found


class Machine(Widget):
    """The machine along a time axis: charts, cores, meters and GPUs.

    Args:
        beside: it stands under other charts, whose axis it has: GPUs beside the CPU, and none of
            what is no chart unless it has room.
        processes: show what runs on the machine, where there is room.
    """

    DEFAULT_CSS = """
    Machine {
        width: 1fr;
        height: 1fr;

        & > Container { width: 1fr; height: 1fr; }
        AboutLines, CoreRows, Meters, GpuRows { height: auto; padding: 0 1; }
        CoreRows { max-height: 4; }
        Meters { max-height: 2; }
        #side { height: auto; }
        #curves { layout: horizontal; height: 5; }
        #gpu-memory { height: 7; }
        ProcessList { height: 20%; }

        &.-low CoreRows, &.-low Meters { max-height: 1; }
        &.-tall CoreRows { max-height: 8; }
        &.-wide {
            & > #top { layout: horizontal; }
            #top > * { width: 1fr; height: 100%; }
            CoreRows { height: 1fr; max-height: 100%; }
            Meters { max-height: 8; }
        }
        &.-beside {
            layout: horizontal;
            & > Container { height: 100%; }
        }
    }
    """

    def __init__(
        self, *, beside: bool = False, processes: bool = False, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._beside, self._lists_processes = beside, processes
        self.about = AboutLines(id="identity")
        self._cpu = MachineTile(large=not beside, id="cpu")
        self._cores = CoreRows(id="cores")
        self._meters = Meters(id="meters")
        self._side = Container(self._cores, self._meters, id="side")
        self._top = Container(self._cpu, self._side, id="top")
        self._tiles: list[MachineTile] = []
        self._gpu_memory = MachineTile(id="gpu-memory")
        self._power = MachineTile(id="gpu-power")
        self._temperature = MachineTile(id="gpu-temperature")
        self._curves = Container(self._power, self._temperature, id="curves")
        self._memory = MachineTile(large=not beside, id="memory")
        self._rows = GpuRows(id="gpus")
        parts = (self._gpu_memory, self._curves, self._memory, self._rows)
        self._grid = Container(*parts, id="gpus-grid")
        self._processes = ProcessList(id="processes", classes="panel")
        self._form: Form | None = None
        self._shown: Callable[[], None] | None = None
        for part in (*parts, self._processes):
            part.display = False
        self.about.display = not beside

    def compose(self) -> ComposeResult:
        """Lay out the parts that every machine has; a GPU's chart is made once it is known."""
        yield self.about
        yield self._top
        yield self._grid
        yield self._processes

    def on_mount(self) -> None:
        self._cpu.set_titles("CPU")
        self._cores.set_titles("Cores")

    def on_resize(self) -> None:
        """Show the same once all parts have their new size."""
        self.call_after_refresh(self.show_again)

    def show_again(self) -> None:
        """Show the same, now that the parts have another size."""
        if self._shown is not None and self.is_attached:
            self._shown()

    @property
    def plot_columns(self) -> int:
        """How many columns charts have room for that are about as wide as the CPU's."""
        columns = self._cpu.plot_columns
        charts = (*self._tiles, self._gpu_memory, self._memory)
        counts = (chart.plot_columns for chart in charts if chart.display)
        return min((count for count in counts if 10 * count > 9 * columns), default=columns)

    @property
    def form(self) -> Form:
        """How the parts stand."""
        return self._form or Form()

    def show(
        self,
        view: MachineView,
        axis: TimeAxis,
        times: Callable[[TimeAxis], TimeLabels] = lambda axis: NO_LABELS,
        time_shown: str = "",
        note: str = "",
    ) -> None:
        """Show readings along `axis`, or along as much of it as a chart has room for.

        Args:
            view: the readings.
            axis: that of all charts.
            times: returns the times along an axis; the lowest charts say them.
            time_shown: says how much time that is, where no chart says its times.
            note: stands below the CPU's chart.
        """
        self._shown = partial(self.show, view, axis, times, time_shown, note)
        if self._take_form(view):
            # What has another place has its size once it is laid out.
            self.call_after_refresh(self.show_again)
        form, latest, stale = self.form, view.history.latest, bool(view.stale)
        labelled_tiles = {tile for tile in self._lowest(view) if tile.size.width >= _LABELLED_FROM}
        show = partial(MachineTile.show_reading, view=view, axis=axis, times=times)
        if form.cpu:
            labelled = self._beside or not labelled_tiles
            notes = ", ".join(filter(None, ("" if labelled else time_shown, note)))
            show(self._cpu, cpu_reading, labelled=labelled, note=notes)
        if form.side:
            cpu = latest.cpu if latest is not None else None
            self._cores.show(cpu, stale=stale, without_reason=view.no_reading)
            # What each core did at the cursor isn't kept.
            now = " now" if view.cursor_ns is not None else ""
            self._cores.set_titles(f"Cores{' at the end' if is_over(view) else now}")
            self._show_meters(view, axis)
        for tile, read in self._charts(view):
            show(tile, read, labelled=tile in labelled_tiles)
        if form.rows:
            main = view.main_gpu
            self._rows.set_titles(f"GPUs{at_the_end(view)}")
            without = main.index if main is not None and form.charts else None
            self._rows.show(view, axis, without=without)
        if form.processes:
            self._processes.show(view)

    def _show_meters(self, view: MachineView, axis: TimeAxis) -> None:
        machine = view.machine_at(axis)
        meters = machine_meters(machine, view.facts)
        if self.form.memory:
            del meters[0]
        if not self.form.cpu:
            meters.insert(0, cpu_meter(machine, view.facts))
        if self._beside:
            del meters[1:]
        names = ", ".join(figure.label for figure in meters)
        note = without_detail(view.no_gpus, self._meters.size.width - 4) if self._beside else ""
        own = memory_reading(view, axis, axis).words if self._beside else ()
        self._meters.set_titles(names[:1].upper() + names[1:], note, "".join(own))
        self._meters.show(meters, stale=bool(view.stale))

    def _charts(self, view: MachineView) -> list[tuple[MachineTile, Reader]]:
        """Return the charts beside the CPU's, in the order in which they stand, and what of."""
        form, main = self.form, view.main_gpu
        found: list[tuple[MachineTile, Reader]] = []
        if main is not None:
            others = [gpu for gpu in view.gpus if gpu.index != main.index]
            # Under the charts of a run, what trains comes first.
            gpus = [main, *others] if self._beside else [*view.gpus]
            shown = zip(self._tiles[: form.charts], gpus, strict=False)
            read = partial(gpu_reading, with_memory=not form.gpu_memory)
            found += ((tile, partial(_of_gpu, read, gpu.index)) for tile, gpu in shown)
            if form.gpu_memory:
                found.append((self._gpu_memory, partial(_of_gpu, gpu_memory_reading, main.index)))
            if form.curves:
                curves = (gpu_power_reading, gpu_temperature_reading)
                tiles = (self._power, self._temperature)
                found += (
                    (tile, partial(_of_gpu, curve, main.index))
                    for tile, curve in zip(tiles, curves, strict=True)
                )
        if form.memory:
            found.append((self._memory, memory_reading))
        return found

    def _lowest(self, view: MachineView) -> list[MachineTile]:
        """Return the charts of the last row."""
        tiles = [tile for tile, _ in self._charts(view) if tile.parent is self._grid]
        return tiles[-((len(tiles) - 1) % self.form.columns + 1) :]

    def _take_form(self, view: MachineView) -> bool:
        """Arrange the parts for the size and for what the machine has; return whether that is new.

        What has no room is left out rather than squeezed.
        """
        count = len(view.gpus)
        width, height = self._room
        if self._beside:
            form = among_charts(*self._room_for_gpus, count)
        else:
            form = alone(width, height, count, self._side_rows, self._lists_processes)
        new = [
            MachineTile(large=not self._beside, id=f"gpu-{number}")
            for number in range(len(self._tiles), form.charts)
        ]
        if new:
            self._tiles += new
            self._grid.mount(*new, before=self._gpu_memory)
        is_column = form.arrangement == "column"
        classes = self.classes, self._rows.classes
        self.set_class(is_column and height < _LOW, "-low", update=False)
        self.set_class(is_column and height >= _HIGH, "-tall", update=False)
        # A frame takes two rows, which those that have no room without them need.
        room = self._room_for_gpus[1] - _FRAME if self._beside else height - _LOW
        is_tight = count > 2 * room if self._beside else is_column and room < 0
        self._rows.set_framed(not form.charts and not is_tight)
        is_new = form != self._form
        if is_new:
            self._arrange(form)
        if is_new or (self.classes, self._rows.classes) != classes:
            # Once for all of them: it looks at every part.
            self.update_node_styles()
        return is_new

    def _arrange(self, form: Form) -> None:
        """Have the parts stand as `form` says; their styles are to be updated after it."""
        self._form = form
        is_column = form.arrangement == "column"
        for name in ("column", "wide", "beside"):
            self.set_class(form.arrangement == name, f"-{name}", update=False)
        for number, tile in enumerate(self._tiles):
            tile.display = number < form.charts
        shown = {
            self._cpu: form.cpu,
            self._side: form.side,
            self._meters: form.arrangement != "beside",
            self._gpu_memory: form.gpu_memory,
            self._curves: form.curves,
            self._memory: form.memory,
            self._rows: bool(form.rows),
            self._processes: form.processes,
            self._grid: bool(form.charts or form.rows or form.memory),
        }
        for part, is_shown in shown.items():
            part.display = is_shown
        for lines in (self._cores, self._meters):
            lines.set_class(not is_column, "panel", update=False)
        self._meters.in_a_row = 2 if is_column else 1
        self._grid.styles.height = form.gpus_height
        self._rows.styles.height = form.rows or "1fr"
        in_grid = form.columns > 1
        self._grid.styles.layout = "grid" if in_grid else "vertical"
        self._grid.styles.grid_size_columns = form.columns

    @property
    def _room(self) -> Size:
        """The size; before it is laid out, that of the screen without its last row."""
        return self.size or self.app.size - (0, 1)

    @property
    def _side_rows(self) -> int:
        """How many rows a narrow machine has for what is no chart, as its style sheet has it."""
        height, inner = self._room.height, self._room.width - 2
        most = 1 if height < _LOW else 8 if height >= _HIGH else 4
        cores = min(most, self._cores.rows_needed(inner))
        meters = min(1 if height < _LOW else 2, self._meters.rows_needed(inner))
        return self.about.rows_needed(inner) + cores + meters

    @property
    def _room_for_gpus(self) -> tuple[int, int]:
        """The room beside the CPU, or below it where a style sheet puts one below the other."""
        width, height = self.size
        if self.styles.layout is not None and self.styles.layout.name == "vertical":
            return width, height // 2
        return width // 2, height


def _of_gpu(
    read: Callable[[MachineView, Gpu, TimeAxis, TimeAxis], Reading],
    index: int,
    view: MachineView,
    shared: TimeAxis,
    axis: TimeAxis,
) -> Reading:
    gpu = next(gpu for gpu in view.gpus if gpu.index == index)
    return read(view, gpu, shared, axis)


class AboutLines(GrowingLines):
    """What the machine is; or what is wrong with its sensors."""

    MOST_ROWS: ClassVar[int] = 2

    def rows(
        self, width: int, height: int, facts: MachineFacts, notice: str, host: str | None = None
    ) -> list[TextRow]:
        """Return facts behind the name of a host; the notice takes the last row."""
        about = identity(facts) or ["waiting for the sensors"]
        why = without_detail(why_no_gpu(facts), 0)
        about = [f"{part}: {why}" if part == NO_GPU and why else part for part in about]
        first, *parts = about if host is None else [host, *about]
        rows = in_rows(first, parts, width, height)
        return [*rows[: height - 1], ((notice, BAD),)] if notice else rows

    show = shows(rows)
