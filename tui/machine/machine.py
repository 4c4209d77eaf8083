"""The machine in the room there is: from one GPU to sixty-four, and for every screen that shows it.

Up to eight GPUs have a chart each, in a grid; more of them, or those that have no room for that,
a row each.
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
    NO_GPU,
    Figure,
    cpu_figures,
    identity,
    memory_figures,
    why_no_gpu,
    without_detail,
)
from dlmon.records import MachineFacts
from dlmon.records.record import record
from dlmon.session.source import MachineSource
from tui.drawing.time_axis import (
    NO_LABELS,
    NOTHING_FINER,
    NOTHING_MORE,
    WHOLE_RUN,
    ZOOM_NOTE_S,
    RunSpan,
    TimeAxis,
    TimeLabels,
    TimeWindow,
)
from tui.machine.meters import CoreRows, Meters
from tui.machine.tile import (
    CURVES,
    MachineTile,
    Reader,
    cpu_reading,
    gpu_curve,
    gpu_reading,
    memory_reading,
)
from tui.machine.view import NO_PROCESSES_YET, MachineView, is_over
from tui.widgets.lines import BAD, GrowingLines, TextRow, in_rows, shows

# Imported once there is something to list: nothing is known of either before the first paint.
if TYPE_CHECKING:
    from tui.machine.gpu_rows import GpuRows
    from tui.machine.process_list import ProcessList

PARTS = ("cpu", "cores", "gpus", "processes")
"""What can be hidden of a machine that has a panel of its own."""
MOST_CHARTS = 8
# Fewer stand below each other where they can: an instant is one line through them.
_GRID_FROM = 4
_LEAST_TILE_WIDTH, _LEAST_TILE_HEIGHT, _GOOD_TILE_HEIGHT = 20, 5, 6
# A cell is about twice as tall as wide, and a chart reads well when it is longer than tall.
_TILE_SHAPE = 3.2
# From here on parts stand side by side.
_WIDE, _LEAST_WIDE_HEIGHT = 100, 22
# A machine of that height has a table of processes below; one of several GPUs needs more.
_LEAST_FOR_PROCESSES, _LEAST_BELOW_GPUS = 36, 48
_TALL = 14
# A narrow one of less height has a row each for cores and meters; a higher one has more for cores.
_LOW, _HIGH = 12, 28
_MOST_CORES = {"low": 1, "": 4, "high": 8}
_FRAME = 2
# A narrower chart says what it uses in place of the time.
_LABELLED_FROM = 50


@record(frozen=True)
class Form:
    """How the parts of a machine stand.

    Attributes:
        arrangement: `column`, each below the other; `wide`, cores beside the CPU, GPUs below; or
            `beside`, the GPUs beside the CPU.
        charts: how many there are beside that of the CPU: of GPUs, then of memory.
        columns: of the grid in which they stand.
        rows: whether the GPUs have a row each instead.
        gpus_height: the height of that grid, or of the rows, as a style sheet has it.
        cpu: whether the CPU has a chart.
        side: whether cores and meters are shown.
        processes: whether they are listed.
        size: of a column: `low`, `high`, or neither; `tight` where rows have no room for a frame.
    """

    arrangement: str = "column"
    charts: int = 0
    columns: int = 1
    rows: bool = False
    gpus_height: str = "1fr"
    cpu: bool = True
    side: bool = True
    processes: bool = False
    size: str = ""


def alone(width: int, height: int, gpus: int, side_rows: int, processes: bool) -> Form:
    """Return how a machine stands that has a panel of its own.

    In a narrow one, so many rows say what it is, and show cores and meters.
    """
    least = _LEAST_FOR_PROCESSES if gpus < 2 else _LEAST_BELOW_GPUS
    if width >= _WIDE and height >= _LEAST_WIDE_HEIGHT:
        below = processes and height >= least
        room = int((height - 1) * (0.8 if below else 1.0) * 0.55)
        # The memory fills the last place of the grid.
        charts = gpus + (gpus % 2 or gpus == 0)
        columns = grid_columns(charts, width, room) if gpus <= MOST_CHARTS else 0
        if not columns:
            most = str(min(gpus + _FRAME, room))
            return Form("wide", rows=True, gpus_height=most, processes=below)
        share = "1fr" if gpus < 2 else "1.4fr"
        return Form("wide", charts, columns, gpus_height=share, processes=below)
    size = "low" if height < _LOW else "high" if height >= _HIGH else ""
    left = height - side_rows
    rows = (gpus if gpus <= 4 else -(-gpus // 2)) + (0 if size == "low" else _FRAME) if gpus else 0
    has_chart = left - rows >= _LEAST_TILE_HEIGHT
    columns = grid_columns(max(1, gpus), width, left // 2) if gpus <= MOST_CHARTS else 0
    if not columns:
        most = str(min(rows, left))
        return Form(rows=gpus > 0, gpus_height=most, cpu=has_chart, size=size)
    half = str(left // 2)
    return Form("column", max(1, gpus), columns, gpus_height=half, cpu=has_chart, size=size)


def among_charts(width: int, height: int, gpus: int) -> Form:
    """Return how a machine stands under other charts; the size is that of the room for GPUs."""
    side = height >= _TALL
    if gpus == 0:
        return Form("beside", charts=1) if side else Form("wide")
    charts, columns = gpus, grid_columns(gpus, width, height) if gpus <= MOST_CHARTS else 0
    if gpus == 1:
        # Its memory has a chart too, and its power and temperature where they have room.
        good = height >= _GOOD_TILE_HEIGHT + _LEAST_TILE_HEIGHT
        charts = 4 if height >= 4 * _GOOD_TILE_HEIGHT else 1 + good
    if gpus < _GRID_FROM and height >= _GOOD_TILE_HEIGHT + _LEAST_TILE_HEIGHT * (gpus - 1):
        columns = 1
    if not columns:
        is_tight = gpus > 2 * (height - _FRAME)
        return Form("beside", rows=True, side=side, size="tight" if is_tight else "")
    return Form("beside", charts, columns, side=side)


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
        AboutLines, CoreRows, Meters { height: auto; padding: 0 1; }
        CoreRows { max-height: 4; }
        Meters { max-height: 2; }
        GpuRows { padding: 0 1; }
        #side { height: auto; }
        #processes { height: 20%; }

        &.-low CoreRows, &.-low Meters { max-height: 1; }
        &.-high CoreRows { max-height: 8; }
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
        self._tiles = [MachineTile(large=not beside, id="chart-0")]
        self._rows: GpuRows | None = None
        self._grid = Container(*self._tiles, id="gpus-grid")
        self._processes: ProcessList | Static = Static(
            f" {NO_PROCESSES_YET}", id="processes", classes="panel"
        )
        self._processes.border_title = "Processes"
        self._processes.display = False
        self.form = Form("")
        """How the parts stand; that of nothing before something is shown."""
        self._hidden: frozenset[str] = frozenset()
        self._shown: Callable[[], None] | None = None
        self.about.display = not beside

    def compose(self) -> ComposeResult:
        """Lay out the parts of every machine; charts of the grid are made when needed."""
        yield self.about
        yield self._top
        yield self._grid
        yield self._processes

    async def list_processes(self) -> None:
        """Put the list of processes into its place."""
        from tui.machine.process_list import ProcessList

        with self.app.batch_update():
            await self._processes.remove()
            self._processes, self.form = ProcessList(id="processes", classes="panel"), Form("")
            await self.mount(self._processes)
            self.show_again()

    def on_resize(self) -> None:
        """Show the same once all parts have their new size."""
        self.call_after_refresh(self.show_again)

    def show_again(self) -> None:
        """Show the same, now that the parts have another size."""
        if self._shown is not None and self.is_attached:
            self._shown()

    def hide(self, parts: frozenset[str]) -> None:
        """Show nothing of some of the `PARTS`."""
        if parts != self._hidden:
            self._hidden, self.form = parts, Form("")
            self.show_again()

    @property
    def plot_columns(self) -> int:
        """How many columns charts have room for that are about as wide as the CPU's."""
        if isinstance(self.screen.maximized, MachineTile):
            return self.screen.maximized.plot_columns
        columns = self._cpu.plot_columns
        counts = (tile.plot_columns for tile in self._tiles if tile.display)
        return min((count for count in counts if 10 * count > 9 * columns), default=columns)

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
        show = partial(MachineTile.show_reading, view=view, axis=axis, times=times)
        tiles = self._tiles[: form.charts]
        lowest = tiles[-((len(tiles) - 1) % form.columns + 1) :]
        labelled = [tile for tile in lowest if tile.size.width >= _LABELLED_FROM]
        if form.cpu:
            own_labels = self._beside or not labelled
            notes = ", ".join(filter(None, ("" if own_labels else time_shown, note)))
            show(self._cpu, cpu_reading, labelled=own_labels, note=notes)
        if form.side:
            cpu = latest.cpu if latest is not None else None
            self._cores.show(cpu, stale=stale, without_reason=view.no_reading)
            # What each core did at the cursor isn't kept.
            now = " now" if view.cursor_ns is not None else ""
            self._cores.set_titles(f"Cores{' at the end' if is_over(view) else now}")
            self._show_meters(view, axis)
        for tile, read in zip(tiles, self._readers(view), strict=False):
            show(tile, read, labelled=tile in labelled)
        if self._rows is not None and form.rows:
            self._rows.show(view, axis)
        if form.processes and not isinstance(self._processes, Static):
            self._processes.show(view)

    def _show_meters(self, view: MachineView, axis: TimeAxis) -> None:
        machine = view.machine_at(axis)
        meters = memory_figures(machine, view.facts)
        if self.form.charts > len(view.gpus):
            del meters[0]
        if not self.form.cpu:
            unknown = Figure("CPU", view.no_sample or view.no_reading, known=False)
            figures = cpu_figures(machine, view.facts, in_depth=True)[:2] or [unknown]
            both = "  ".join(figure.value for figure in figures if figure.known)
            meters.insert(0, replace(figures[0], label="CPU", value=both or figures[0].value))
        if self._beside:
            del meters[1:]
        names = ", ".join(figure.label for figure in meters)
        note = without_detail(view.no_gpus, self._meters.size.width - 4) if self._beside else ""
        own = memory_reading(view, axis, axis).words if self._beside else ()
        self._meters.set_titles(names[:1].upper() + names[1:], note, "".join(own))
        self._meters.show(meters, stale=bool(view.stale))

    def _readers(self, view: MachineView) -> list[Reader]:
        """Return what the charts beside the CPU's are of, in the order in which they stand."""
        main = view.main_gpu
        if main is None:
            return [memory_reading]
        if self._beside and len(view.gpus) == 1:
            curves = [partial(gpu_curve, gpu=main, quantity=name) for name in CURVES]
            return [partial(gpu_reading, gpu=main, with_memory=self.form.charts == 1), *curves]
        gpus = view.gpus
        if self._beside:
            # Under the charts of a run, what trains comes first.
            gpus = tuple(sorted(gpus, key=lambda gpu: gpu.index not in view.training))
        return [*(partial(gpu_reading, gpu=gpu) for gpu in gpus), memory_reading]

    def _form_for(self, view: MachineView) -> Form:
        """Return how the parts stand; what has no room is left out rather than squeezed."""
        count, size = len(view.gpus), self.size
        if self._beside:
            # Beside the CPU, or below it where a style sheet puts one below the other.
            is_below = self.styles.layout is not None and self.styles.layout.name == "vertical"
            room = (size.width, size.height // 2) if is_below else (size.width // 2, size.height)
            return among_charts(*room, count)
        # Before it is laid out it has the screen but for its last row.
        width, height = size or self.app.size - (0, 1)
        most = _MOST_CORES["low" if height < _LOW else "high" if height >= _HIGH else ""]
        parts = (self.about, 2), (self._cores, most), (self._meters, 1 if height < _LOW else 2)
        side_rows = sum(min(most, part.rows_needed(width - 2)) for part, most in parts)
        return alone(width, height, count, side_rows, self._lists_processes)

    def _take_form(self, view: MachineView) -> bool:
        """Have the parts stand as they do best; return whether that is new."""
        if self.screen.maximized is not None and self.form.arrangement:
            # A pane that is alone has all the room.
            return False
        form = self._form_for(view)
        if form == self.form:
            return False
        self.form = form
        for number in range(len(self._tiles), form.charts):
            self._tiles.append(MachineTile(large=not self._beside, id=f"chart-{number}"))
            self._grid.mount(self._tiles[-1])
        if form.rows and self._rows is None:
            from tui.machine.gpu_rows import GpuRows

            self._rows = GpuRows(id="gpus")
            self._grid.mount(self._rows)
        for number, tile in enumerate(self._tiles):
            tile.display = number < form.charts
        is_column = form.arrangement == "column"
        cpu, cores, gpus, processes = (part not in self._hidden for part in PARTS)
        self._cpu.display, self._side.display = form.cpu and cpu, form.side and cores
        has_top = self._cpu.display or self._side.display
        self._top.display = has_top
        self._meters.display = form.arrangement != "beside"
        if self._rows is not None:
            self._rows.display = form.rows
            self._rows.set_class(form.size not in ("low", "tight"), "panel", update=False)
        self._grid.display = (form.rows or form.charts > 0) and gpus
        self._processes.display = form.processes and processes
        self._processes.styles.height = None if has_top or self._grid.display else "1fr"
        self._meters.in_a_row = 2 if is_column else 1
        self._grid.styles.height = form.gpus_height if has_top else "1fr"
        self._grid.styles.layout = "grid" if form.columns > 1 else "vertical"
        self._grid.styles.grid_size_columns = form.columns
        for name in ("column", "wide", "beside", "low", "high"):
            self.set_class(name in (form.arrangement, form.size), f"-{name}", update=False)
        for lines in (self._cores, self._meters):
            lines.set_class(not is_column, "panel", update=False)
        # Once for all of them: it looks at every part.
        self.update_node_styles()
        return True


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


_NOTICE_S = 10.0
# So often it is looked for the first sample, which somebody waits for.
_FIRST_S = 0.1


class MachinePanel(Machine):
    """The machine as it is now, along an axis that ends now.

    Args:
        source: where its readings come from.
        processes: show what runs on the machine, where there is room.
    """

    @dataclass
    class FactsRead(Message):
        """What the machine is has become known."""

        machine: MachineFacts

    def __init__(self, source: MachineSource, *, processes: bool = False) -> None:
        """Nothing is read until `start`."""
        super().__init__(processes=processes)
        self._source = source
        self._facts = source.facts
        self._timer: Timer | None = None
        self._waiting: Timer | None = None
        self._window = TimeWindow()
        self._zoom_note = ""

    def compose(self) -> ComposeResult:
        """Lay out the parts as they will stand, so that their styles are looked up once."""
        if not self._facts.gpus:
            self.about.show(self._facts, "")
            self._take_form(self.look())
        yield from super().compose()

    def on_mount(self) -> None:
        """Paint once or twice a second; nothing is repainted that did not change."""
        seconds = min(1.0, max(0.5, self._source.interval_s))
        self._timer = self.set_interval(seconds, self._on_timer, pause=not self._source.is_on)
        self.paint()
        if self._lists_processes:
            self.call_after_refresh(self.list_processes)

    def on_unmount(self) -> None:
        """Have no readings come for nobody."""
        self.stop()

    def start(self) -> None:
        """Have readings come, and paint them; where they do already, show what came meanwhile."""
        if self._source.is_on:
            self.call_after_refresh(self.paint)
        self._source.start()
        if self._timer is not None:
            self._timer.resume()
        if self._source.history.latest is None and self._waiting is None:
            self._waiting = self.set_interval(_FIRST_S, self._paint_first)

    def _paint_first(self) -> None:
        """Paint the first sample once it is there."""
        if self._source.history.latest is None and self._source.is_on:
            self._poll()
        elif self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
            self._on_timer()

    def stop(self) -> None:
        """Have no readings come, and paint none."""
        self._source.stop()
        if self._timer is not None:
            self._timer.pause()

    def look(self) -> MachineView:
        """Return the readings as they are."""
        source = self._source
        return MachineView(
            source.history, source.facts, source.age_s, source.interval_s, host=source.host
        )

    def _on_timer(self) -> None:
        """Take what is new; paint, but not for nobody: another screen may show what is sensed."""
        if self.screen.is_active or isinstance(self.app.screen, ModalScreen):
            self.paint()
        else:
            self._poll()

    def _poll(self) -> None:
        """Say what is heard of the sensors, and post what the machine is once that is known."""
        for sentence in self._source.poll():
            self.notify(sentence, severity="warning", timeout=_NOTICE_S, markup=False)
        if self._source.facts is not self._facts:
            self._facts = self._source.facts
            self.post_message(self.FactsRead(self._facts))

    def paint(self) -> None:
        """Show the readings as they are."""
        if not self.is_attached:
            return
        self._poll()
        view = self.look()
        notice = self._source.status if view.age_s is None or view.stale else ""
        self.about.show(self._facts, notice)
        axis = self._window.axis(self._run, self.plot_columns).ending_now
        is_over = not self._source.goes_on
        self.show(
            view,
            axis,
            lambda own: own.time_before_now(is_over=is_over),
            self._seen,
            self._zoom_note,
        )

    def show_again(self) -> None:
        self.paint()

    def zoom(self, *, out: bool) -> None:
        """Show more time, or less; say why where that can't be."""
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
    def time_shown(self) -> str:
        """How much time the charts show, in words."""
        return ", ".join(filter(None, (self._seen, self._zoom_note)))

    @property
    def _seen(self) -> str:
        seen = self._window.shown_part(self._run, self.plot_columns)
        return "all since the start" if seen == WHOLE_RUN else seen

    @property
    def _run(self) -> RunSpan:
        source = self._source
        column_ns = max(int(source.interval_s * 1e9), 1_000_000_000)
        return RunSpan(source.start_ns, source.now(), True, column_ns)
