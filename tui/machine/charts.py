"""CPU beside GPUs (or memory, where there is no GPU), on the axis that the screen gives."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.machine.gpu_rows import GpuRows, gpu_rows_wanted
from tui.machine.readings import show_cpu, show_gpu, show_memory
from tui.machine.tiles import ChartTile
from tui.machine.view import MachineView

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

# A chart with fewer rows, borders and all, is unreadable; the first GPU's shall have some more
# before others have theirs.
_LEAST_CHART, _GOOD_CHART = 5, 6


class MachineCharts(Horizontal):
    """The hardware under the throughput."""

    DEFAULT_CSS = """
    MachineCharts { height: 1fr; }
    MachineCharts > * { width: 1fr; }
    MachineCharts GpuRows { padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._cpu = ChartTile(id="cpu", classes="panel")
        self._gpu = ChartTile(id="gpu", classes="panel")
        self._others: list[ChartTile] = []
        self._rows = GpuRows(id="gpus")
        self._rows.display = False
        self._gpu_and_rows = Vertical(self._gpu, self._rows)

    def compose(self) -> ComposeResult:
        """Lay out both charts; those of more GPUs are made once there is room for them."""
        yield self._cpu
        yield self._gpu_and_rows

    @property
    def plot_columns(self) -> int:
        """How many columns the narrower of both charts has room for."""
        # The CPU's is always there; that a screen closes counts as not displayed as well.
        shown = [self._cpu, self._gpu] if self._gpu.display else [self._cpu]
        return min(chart.plot_columns for chart in shown)

    def show(self, view: MachineView, axis: TimeAxis, times: TimeLabels = NO_LABELS) -> None:
        """Show readings along `axis`, which the lowest charts label."""
        gpu = view.main_gpu
        others = [other for other in view.gpus if gpu is not None and other.index != gpu.index]
        self._make_room(len(others))
        shown = [chart for chart in (self._gpu, *self._others) if chart.display]
        lowest = shown[-1] if shown else None
        is_above = lowest is not None and self._gpu_and_rows.region.y > self._cpu.region.y
        show_cpu(self._cpu, view, axis, times=times.unlabelled if is_above else times)
        if gpu is None:
            show_memory(self._gpu, view, axis, times=times)
        for chart, one in zip((self._gpu, *self._others), (gpu, *others), strict=False):
            if one is not None and (chart.display or chart is self._gpu):
                show_gpu(chart, one, view, axis, times if chart is lowest else times.unlabelled)
        if self._rows.display and gpu is not None:
            # The chart names the GPU that trains; without it, the rows must.
            has_chart = self._gpu.display
            with_chart = frozenset({gpu.index} if has_chart else ())
            self._rows.show(view, axis, mark=not has_chart, without=with_chart)

    def _make_room(self, others: int) -> None:
        """Give each other GPU a chart, or all of them rows; where both have no room, all rows."""
        width, height = self._gpu_and_rows.size
        has_charts = height >= _GOOD_CHART + others * _LEAST_CHART
        self._rows.display = others > 0 and not has_charts
        self._show_charts(others if has_charts else 0)
        if not self._rows.display:
            self._gpu.display = True
            return
        wanted, least = gpu_rows_wanted(others, max(1, width - 2))
        room = height - _LEAST_CHART
        self._gpu.display = room >= max(least, -(-wanted // 2))
        rows = min(wanted, room) if self._gpu.display else height
        self._rows.styles.height = max(1, rows)

    def _show_charts(self, count: int) -> None:
        """Show so many charts of GPUs below the first."""
        new = [
            ChartTile(id=f"gpu-{number}", classes="panel")
            for number in range(len(self._others), count)
        ]
        if new:
            self._others += new
            self._gpu_and_rows.mount(*new)
        for number, chart in enumerate(self._others):
            chart.display = number < count
            # An odd row goes to the first.
            chart.styles.height = max(1, self._gpu_and_rows.size.height // (count + 1))
