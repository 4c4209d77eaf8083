"""CPU beside GPUs (or memory, where there is no GPU), on the axis that the screen gives."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tui.machine_view import MachineView
from tui.time_axis import TimeAxis
from tui.widgets.gpu_rows import GpuRows, gpu_rows_wanted
from tui.widgets.machine_tiles import ChartTile, show_cpu, show_gpu, show_memory

MACHINE_HELP: tuple[tuple[str, str], ...] = (
    ("CPU", "How busy all cores together are, and of how many cores that is the whole work."),
    (
        "GPU",
        "The share of time in which the GPU computed at all, its temperature, power and the "
        "limit of it, clock, and memory in use; a row each where there are several.",
    ),
    (
        "held by",
        "What keeps a GPU's clock down: its power limit is usual, thermal slowdown means that "
        "it is too hot.",
    ),
    ("Memory", "Memory that no other program could have, of all there is."),
    ("stale", "The last readings are older than they should be: the sensors don't answer."),
)

# A chart with fewer rows between its borders tells nothing.
_LEAST_CHART = 5


class MachineCharts(Horizontal):
    """The hardware under the throughput."""

    DEFAULT_CSS = """
    MachineCharts { height: 1fr; }
    MachineCharts > * { width: 1fr; }
    MachineCharts GpuRows { padding: 0 1; }
    """

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Draw with plain characters when `ascii` is set."""
        super().__init__(id=id)
        self._cpu = ChartTile(ascii=ascii, id="cpu", classes="panel")
        self._gpu = ChartTile(ascii=ascii, id="gpu", classes="panel")
        self._rows = GpuRows(ascii=ascii, id="gpus")
        self._rows.display = False
        self._gpu_and_rows = Vertical(self._gpu, self._rows)

    def compose(self) -> ComposeResult:
        """Lay out both charts, and rows for the GPUs where there are several."""
        yield self._cpu
        yield self._gpu_and_rows

    @property
    def plot_columns(self) -> int:
        """How many columns the narrower of both charts has room for."""
        # The CPU's is always there; that a screen closes counts as not displayed as well.
        shown = [self._cpu, self._gpu] if self._gpu.display else [self._cpu]
        return min(chart.plot_columns for chart in shown)

    def show(self, view: MachineView, axis: TimeAxis) -> None:
        """Show readings along `axis`."""
        show_cpu(self._cpu, view, axis)
        gpu = view.main_gpu
        if gpu is None:
            show_memory(self._gpu, view, axis)
        else:
            show_gpu(self._gpu, gpu, view, axis)
        self._make_room(len(view.gpus))
        # The chart names the GPU that trains; without it, the rows must.
        self._rows.show(view, axis, mark=not self._gpu.display)

    def _make_room(self, gpus: int) -> None:
        """Give several GPUs their rows; the chart over them goes where both have no room."""
        self._rows.display = gpus > 1
        if gpus < 2:
            self._gpu.display = True
            return
        width, height = self._gpu_and_rows.size
        wanted, least = gpu_rows_wanted(gpus, max(1, width - 2))
        room = height - _LEAST_CHART
        self._gpu.display = room >= least
        rows = min(wanted, room) if self._gpu.display else height
        self._rows.styles.height = max(1, rows)
