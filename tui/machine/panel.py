"""One machine, live: charts, cores and meters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.geometry import NULL_OFFSET, NULL_SPACING, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widget import Widget

from dlmon.figures.machine import (
    NO_GPU,
    Figure,
    cpu_meter,
    identity,
    machine_meters,
    why_no_gpu,
    without_detail,
)
from dlmon.records import MachineFacts
from dlmon.session.source import MachineSource
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_window import NOTHING_MORE, ZOOM_NOTE_S, RunSpan, TimeWindow, View
from tui.machine.charts import MACHINE_HELP
from tui.machine.core_rows import CoreRows
from tui.machine.gpu_rows import GpuRows
from tui.machine.layout import (
    ABOUT,
    CORES,
    CPU,
    GPU_ROWS,
    MEMORY,
    METERS,
    PROCESSES,
    Places,
    Shape,
    gpu_name,
    labelled_charts,
    machine_places,
)
from tui.machine.meters import Meters
from tui.machine.process_list import PROCESS_HELP, ProcessList
from tui.machine.readings import show_cpu, show_gpu, show_memory
from tui.machine.tiles import ChartTile
from tui.machine.view import MachineView
from tui.widgets.lines import BAD, MUTED, STRONG, Lines, cut, row_width
from tui.widgets.rows import TextRow

PANEL_HELP: tuple[tuple[str, str], ...] = (
    *MACHINE_HELP,
    ("Cores", "How busy each core is: a bar each, or a column each where there are many."),
    (
        "-1m, now",
        "Under the lowest charts, how long ago that was; all charts show the same time, in the "
        "same columns.",
    ),
    ("Disk, network", "What all disks and network interfaces move, in MiB (1,048,576 bytes)."),
    *PROCESS_HELP,
)


_NOTICE_S = 10.0


class MachinePanel(Widget):
    """The machine in the room there is: charts, cores, meters; fewer of them where it is small.

    Args:
        source: where its readings come from.
        processes: show what runs on the machine, where there is room.
    """

    DEFAULT_CSS = """
    MachinePanel { width: 1fr; height: 1fr; }
    MachinePanel CoreRows, MachinePanel Meters, MachinePanel GpuRows, MachinePanel AboutLines {
        padding: 0 1;
    }
    """

    @dataclass
    class FactsRead(Message):
        """What the machine is has become known."""

        machine: MachineFacts

    def __init__(self, source: MachineSource, *, processes: bool = False) -> None:
        """Nothing is read until `start`."""
        super().__init__()
        self._source = source
        self._facts = source.facts
        self._timer: Timer | None = None
        self._cpu = ChartTile(side=True, id=CPU, classes="panel")
        self._memory = ChartTile(side=True, id=MEMORY, classes="panel")
        self._processes = processes
        self._shape = Shape(0, 0, processes=processes)
        self._tiles: list[ChartTile] = []
        self._places_layout = _PlacesLayout()
        self._window = TimeWindow()
        self._zoom_note = ""

    @property
    def layout(self) -> Layout:
        """The layout that puts each part in its place."""
        return self._places_layout

    def compose(self) -> ComposeResult:
        """Make the parts that every machine has; each GPU's chart is made once it is known."""
        yield AboutLines(id=ABOUT)
        yield self._cpu
        yield CoreRows(id=CORES)
        yield Meters(id=METERS)
        yield self._memory
        yield GpuRows(id=GPU_ROWS)
        yield ProcessList(id=PROCESSES, classes="panel")

    def on_mount(self) -> None:
        """Paint once or twice a second; nothing is repainted that did not change."""
        self._cpu.set_titles("CPU")
        self._memory.set_titles("Memory")
        self.query_one(CoreRows).set_titles("Cores")
        self.query_one(GpuRows).set_titles("GPUs")
        seconds = min(1.0, max(0.5, self._source.interval_s))
        self._timer = self.set_interval(seconds, self._on_timer, pause=not self._source.is_on)

    def on_unmount(self) -> None:
        """Have no readings come for nobody."""
        self.stop()

    def on_resize(self) -> None:
        """Draw for the new size once all parts have theirs."""
        self._give_borders()
        self.call_after_refresh(self.paint)

    def start(self) -> None:
        """Have readings come, and paint them; where they do already, show what came meanwhile."""
        if self._source.is_on:
            self.call_after_refresh(self.paint)
        self._source.start()
        if self._timer is not None:
            self._timer.resume()

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
        latest = view.history.latest
        self._follow_shape(view)
        places = self.places(self.size)
        notice = self._source.status if view.age_s is None or view.stale else ""
        self.query_one(AboutLines).show(self._facts, notice)
        stale = bool(view.stale)
        self.query_one(CoreRows).show(latest.cpu if latest is not None else None, stale=stale)
        meters = machine_meters(latest, self._facts)
        if MEMORY in places:
            del meters[0]
        if CPU not in places:
            meters.insert(0, cpu_meter(latest, self._facts))
        self.query_one(Meters).set_titles(_names(meters))
        self.query_one(Meters).show(meters, stale=stale)
        if PROCESSES in places:
            self.query_one(ProcessList).show(view)
        self._paint_charts(view, places)

    def _paint_charts(self, view: MachineView, places: Places) -> None:
        """Show the same time on all charts, in the same columns; the lowest ones label it."""
        axis = self._window.axis(self._run, self._plot_columns).ending_now
        times = axis.time_before_now(is_over=not self._source.goes_on)
        labelled = labelled_charts(places)
        if CPU in places:
            # Where they stand, the labels say how much is seen.
            note = self._zoom_note if CPU in labelled else self.time_shown
            show_cpu(self._cpu, view, axis, note, times if CPU in labelled else times.unlabelled)
        if MEMORY in places:
            show_memory(self._memory, view, axis, times if MEMORY in labelled else times.unlabelled)
        if GPU_ROWS in places:
            self.query_one(GpuRows).show(view, axis)
        for tile, gpu in zip(self._tiles, view.gpus, strict=False):
            if tile.id in places:
                show_gpu(tile, gpu, view, axis, times if tile.id in labelled else times.unlabelled)

    def zoom(self, *, out: bool) -> None:
        """Show more time, or less; say why where that can't be."""
        run, columns = self._run, self._plot_columns
        window = self._window
        zoomed = window.zoomed_out(run, columns) if out else window.zoomed_in(run, columns)
        self._zoom_note = ""
        if zoomed is window:
            self._zoom_note = NOTHING_MORE if out else window.why_no_nearer(run, columns)
            self.set_timer(ZOOM_NOTE_S, self._forget_zoom_note)
        self._window = zoomed
        self.paint()

    def _forget_zoom_note(self) -> None:
        self._zoom_note = ""
        self.paint()

    @property
    def time_shown(self) -> str:
        """How much time the charts show, in words."""
        seen = self._window.shown_part(self._run, self._plot_columns)
        words = "all since the start" if seen == View.WHOLE else seen
        return f"{words}, {self._zoom_note}" if self._zoom_note else words

    @property
    def _plot_columns(self) -> int:
        """How many columns the narrowest of the charts has room for."""
        places = self.places(self.size)
        charts = (tile for tile in (self._cpu, self._memory, *self._tiles) if tile.id in places)
        widest = COLUMNS_PER_CELL * self.size.width
        return min((chart.plot_columns for chart in charts), default=widest)

    @property
    def _run(self) -> RunSpan:
        source = self._source
        column_ns = max(int(source.interval_s * 1e9), 1_000_000_000)
        return RunSpan(source.start_ns, source.now(), True, column_ns)

    def _follow_shape(self, view: MachineView) -> None:
        """Give the parts other places where the machine turns out to have more of them."""
        latest = view.history.latest
        cores = len(latest.cpu.cores or ()) if latest is not None and latest.cpu else 0
        about_cells = cell_len("   ".join(identity(self._facts)))
        shape = Shape(cores or self._facts.cores or 0, len(view.gpus), about_cells, self._processes)
        if shape == self._shape:
            return
        self._shape = shape
        new = [
            ChartTile(side=True, id=gpu_name(number), classes="panel")
            for number in range(len(self._tiles), shape.gpus)
        ]
        self._tiles += new
        if new:
            self.mount(*new)
        self._give_borders()
        # Of a part, for that is what makes its container arrange them again.
        self.query_one(CoreRows).refresh(layout=True)
        self.call_after_refresh(self.paint)

    def places(self, size: Size) -> Places:
        """Return where the parts stand, by their ids."""
        return machine_places(size.width, size.height, self._shape)

    def _give_borders(self) -> None:
        places = self.places(self.size)
        for name in (CORES, METERS, GPU_ROWS):
            self.query_one(f"#{name}").set_class(name in places and places[name].border, "panel")


def _names(figures: Sequence[Figure]) -> str:
    """Return what a panel shows, as its title: Disk, network, swap."""
    names = ", ".join(figure.label for figure in figures)
    return names[:1].upper() + names[1:]


class _PlacesLayout(Layout):
    """Puts each part of a machine's panel where it belongs; one without a place is not shown."""

    name = "places"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        assert isinstance(parent, MachinePanel)
        places = parent.places(size)
        return [
            WidgetPlacement(places[child.id].region, NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in places
        ]


class AboutLines(Lines):
    """What the machine is; or what is wrong with its sensors."""

    _facts = MachineFacts()
    _notice = ""
    _host: str | None = None

    def show(self, facts: MachineFacts, notice: str, host: str | None = None) -> None:
        """Show facts behind the name of a host; the notice takes the last row."""
        self._facts, self._notice, self._host = facts, notice, host
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the parts of the machine's identity in as many rows as there are."""
        if width < 1 or height < 1:
            return []
        about = identity(self._facts) or ["waiting for the sensors"]
        first, *parts = about if self._host is None else [self._host, *about]
        rows: list[TextRow] = [((first, STRONG),)]
        for part in parts:
            longer: TextRow = (*rows[-1], (f"   {part}", MUTED))
            if row_width(longer) <= width:
                rows[-1] = longer
            elif len(rows) < height:
                rows.append(((part, MUTED),))
        rows = [self._with_reason(cut(row, width, self.ellipsis), width) for row in rows]
        if self._notice:
            notice = cut(((self._notice, BAD),), width, self.ellipsis)
            rows = [*rows[: height - 1], notice]
        return rows

    def _with_reason(self, row: TextRow, width: int) -> TextRow:
        """Say why there is no GPU, where it is said that there is none and the row has room."""
        reason = without_detail(why_no_gpu(self._facts), 0)
        if not reason or not row or not row[-1][0].endswith(NO_GPU):
            return row
        longer: TextRow = (*row, (f": {reason}", MUTED))
        return longer if row_width(longer) <= width else row
