"""CPU beside GPUs, or beside cores and memory without one, on the axis that the screen gives."""

from __future__ import annotations

from dataclasses import replace

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from dlmon.figures import units
from dlmon.figures.machine import without_detail
from dlmon.records import Cpu
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.core_rows import CoreRows, core_rows_wanted
from tui.machine.gpu_panel import GpuPanel
from tui.machine.meters import Meters
from tui.machine.readings import memory_in_use, show_cpu, show_memory
from tui.machine.tiles import ChartTile
from tui.machine.view import MachineView, at_the_end, is_over

MACHINE_HELP: tuple[tuple[str, str], ...] = (
    (
        "CPU",
        "How busy all cores together are, also as a number of fully busy cores. During a run, its "
        "own share (with all processes it started) is filled, everything else striped.",
    ),
    (
        "GPU",
        "The share of time in which the GPU computed at all, its temperature, power and the "
        "limit of it, clock, and memory in use; a row each where there are many, in which ! marks "
        "a problem. g shows all figures of each.",
    ),
    (
        "held by",
        "What keeps a GPU's clock down: its power cap is usual, thermal slowdown means that "
        "it is too hot.",
    ),
    ("fan", "How fast a GPU's fan turns, of its fastest."),
    (
        "PCIe",
        "A GPU's link to the computer is slower than it could be: generation × lanes now, of the "
        "most that card and slot can do.",
    ),
    ("MIG", "The GPU is divided into instances, and then reports no utilisation."),
    ("NVLink", "What a GPU moves to and from other GPUs."),
    ("encoder, decoder", "How busy the GPU's video units are, where they are at all."),
    (
        "ECC",
        "Errors of a GPU's memory since its driver was loaded; uncorrected ones mean that the card "
        "may be failing.",
    ),
    ("energy", "What a GPU has used since the session, or this screen, was started."),
    ("run", "The cores and the memory that the training and all processes it started use."),
    (
        "limited, allowed",
        "What a container may use of the CPU, how much of that it uses, and how often it wanted "
        "more.",
    ),
    (
        "faults",
        "Pages of memory that had to be read from a disk: many of them mean too little memory.",
    ),
    ("load", "How many processes ran or waited for a core or a disk, over the last minute."),
    ("package", "The power of the processor package, without the rest of the machine."),
    ("lost, asleep", "A GPU that doesn't respond, or is suspended, shows why."),
    ("Memory", "Memory in use that can't be reclaimed, of the total."),
    ("stale", "The last readings are older than they should be: the sensors don't answer."),
)

OF_GPUS = frozenset(
    {
        *("GPU", "mem", "held by", "fan", "PCIe", "MIG", "NVLink", "encoder, decoder", "ECC"),
        *("energy", "lost, asleep"),
    }
)
"""What of it a machine without a GPU shows nothing of."""

# With fewer rows the CPU's chart has those of the cores, and memory is a bar in place of a chart.
_CORES_FROM, _CHART_FROM = 14, 20
_LEAST_CORES = 3
_MEMORY_BAR = 3


class MachineCharts(Horizontal):
    """The hardware under the throughput: CPU and cores beside the GPUs, or beside memory."""

    DEFAULT_CSS = """
    MachineCharts { height: 1fr; }
    MachineCharts > * { width: 1fr; }
    MachineCharts CoreRows, MachineCharts Meters { padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._cpu = ChartTile(id="cpu", classes="panel")
        self._cores = CoreRows(id="cores", classes="panel")
        self._left = Vertical(self._cpu, self._cores)
        self._gpus = GpuPanel()
        self._memory = ChartTile(id="memory", classes="panel")
        self._bar = Meters(id="memory-bar", classes="panel")
        self._cores_beside = CoreRows(id="cores-beside", classes="panel")
        self._right = Vertical(self._cores_beside, self._memory, self._bar)
        for part in (self._cores, self._right, self._memory):
            part.display = False
        self._bar.styles.height = _MEMORY_BAR
        self._shown: tuple[MachineView, TimeAxis, TimeLabels] | None = None
        self._shown_in: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out both sides; what has no room, or isn't there, is hidden."""
        yield self._left
        yield self._gpus
        yield self._right

    @property
    def plot_columns(self) -> int:
        """How many columns the narrower of both charts has room for."""
        # The CPU's is always there; that a screen closes counts as not displayed as well.
        counts = [self._cpu.plot_columns]
        if self._gpus.display and self._gpus.plot_columns is not None:
            counts.append(self._gpus.plot_columns)
        if self._right.display and self._memory.display:
            counts.append(self._memory.plot_columns)
        return min(counts)

    def show(self, view: MachineView, axis: TimeAxis, times: TimeLabels = NO_LABELS) -> None:
        """Show readings along `axis`, which the lowest charts label."""
        self._shown = view, axis, times
        self._arrange_and_show(view, axis, times)
        if self._arrangement != self._shown_in:
            # What has another place has its size once it is laid out.
            self._shown_in = self._arrangement
            self.call_after_refresh(self._show_again)

    def _show_again(self) -> None:
        if self._shown is not None and self.is_attached:
            self.show(*self._shown)

    @property
    def _arrangement(self) -> tuple[object, ...]:
        parts = (self._cores, self._gpus, self._right, self._cores_beside, self._memory)
        sizes = self.size, self._left.size, self._right.size, self._gpus.grid_columns
        return (*(part.display for part in parts), self._gpus.shape, *sizes)

    def _arrange_and_show(self, view: MachineView, axis: TimeAxis, times: TimeLabels) -> None:
        has_gpus = view.main_gpu is not None
        self._gpus.display, self._right.display = has_gpus, not has_gpus
        show_cpu(self._cpu, view, axis, times=times)
        cpu = view.history.latest.cpu if view.history.latest is not None else None
        for cores in (self._cores, self._cores_beside):
            # What each core did at the cursor isn't kept.
            shown = "" if view.cursor is None else " now"
            cores.set_titles(f"Cores{' at the end' if is_over(view) else shown}")
        in_left = self._left.size.height >= _CORES_FROM
        if has_gpus:
            self._show_cores(cpu, view, in_left)
            self._gpus.show(view, axis, times)
            return
        height = self._right.size.height
        as_chart = height >= _CHART_FROM
        self._memory.display, self._bar.display = as_chart, not as_chart
        beside = not as_chart and height >= _MEMORY_BAR + _LEAST_CORES
        self._cores_beside.display = beside
        self._bar.styles.height = _MEMORY_BAR if beside else "1fr"
        self._show_cores(cpu, view, in_left and not beside)
        if as_chart:
            show_memory(self._memory, view, axis, times)
            return
        in_use, *_ = memory_in_use(view, axis)
        note = without_detail(view.no_gpus, self._bar.size.width - 4)
        title, own = _memory_titles(view, self._bar.outer_size.width - 6)
        self._bar.set_titles(title, note, right=own)
        self._bar.show([replace(in_use, label="in use")], stale=bool(view.stale))
        if beside:
            self._cores_beside.show(cpu, stale=bool(view.stale), without_reason=view.no_reading)

    def _show_cores(self, cpu: Cpu | None, view: MachineView, shown: bool) -> None:
        """Show a bar for each core under the CPU's chart."""
        self._cores.display = shown
        if not shown:
            return
        count = len((cpu.cores if cpu is not None else None) or ())
        width = max(1, self._left.size.width - 4)
        if count:
            self._cores.styles.height = 2 + min(4, core_rows_wanted(count, width, 4))
        self._cores.show(cpu, stale=bool(view.stale), without_reason=view.no_reading)


def _memory_titles(view: MachineView, room: int) -> tuple[str, str]:
    """Say that the memory is the last reading, shorter where it would run into the run's own."""
    own, when = _own_memory(view), at_the_end(view)
    if not when or not own:
        return f"Memory{when}", own
    for title in (f"Memory{when}", "Memory, last"):
        if cell_len(f"{title}   {own}") <= room:
            return title, own
    return f"Memory{when}", ""


def _own_memory(view: MachineView) -> str:
    """Say what of the memory this run holds now; at a cursor that isn't known."""
    machine = view.history.latest
    tree = machine.process if machine is not None and view.cursor is None else None
    if tree is None or tree.rss_mib is None:
        return ""
    return f"this run {units.gibibytes(tree.rss_mib)}"
