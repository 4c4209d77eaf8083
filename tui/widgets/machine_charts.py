"""CPU beside GPUs (or memory, where there is no GPU), on the axis that the screen gives."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from dlmon.records import Gpu, Machine, MachineFacts
from dlmon.series import Series
from dlmon.session import MachineHistory, Stretch
from tui import figures
from tui.time_axis import TimeAxis
from tui.widgets.chart import Chart, ChartPicture
from tui.widgets.lines import MUTED, PLAIN, Lines, cut
from tui.widgets.plot import bar
from tui.widgets.rows import Row, fit

STALE_INTERVALS = 3.0


@dataclass(frozen=True)
class MachineView:
    """What the charts show: readings over time, facts, and how old the last sample is."""

    history: MachineHistory
    facts: MachineFacts
    age_s: float | None
    interval_s: float
    gpu_index: int | None = None
    epoch_begins: tuple[tuple[int, int], ...] = ()
    stretches: tuple[Stretch, ...] = ()

    @property
    def stale(self) -> str:
        """Say how old the readings are when they are too old; empty otherwise."""
        if self.age_s is None or self.age_s <= STALE_INTERVALS * max(self.interval_s, 1.0):
            return ""
        return f"stale {self.age_s:.0f} s"


class MachineCharts(Horizontal):
    """The hardware under the throughput."""

    DEFAULT_CSS = """
    MachineCharts { height: 1fr; }
    MachineCharts Chart { border: round $surface-lighten-2; }
    MachineCharts GpuRows { height: auto; max-height: 50%; padding: 0 1; }
    """

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Draw with plain characters when `ascii` is set."""
        super().__init__(id=id)
        self._ascii = ascii

    def compose(self) -> ComposeResult:
        """Lay out both charts, and rows for further GPUs."""
        yield Chart(ascii=self._ascii, id="cpu", filled=True)
        with Vertical():
            yield Chart(ascii=self._ascii, id="gpu", filled=True)
            yield GpuRows(ascii=self._ascii, id="gpus")

    def on_mount(self) -> None:
        """Hide the rows until there is more than one GPU."""
        self._cpu = self.query_one("#cpu", Chart)
        self._gpu = self.query_one("#gpu", Chart)
        self._rows = self.query_one(GpuRows)
        self._rows.display = False

    @property
    def plot_columns(self) -> int:
        """How many columns the narrower of both charts has room for."""
        return min(self._cpu.plot_columns, self._gpu.plot_columns)

    def show(self, view: MachineView, axis: TimeAxis) -> None:
        """Show readings along `axis`."""
        machine = view.history.latest
        first, *more = _cpu_figures(machine, view)
        self._cpu.set_titles("CPU", right=first, more=tuple(more))
        self._cpu.show(_percent_picture(view.history.cpu_pct, axis, view, _cpu_reason(machine)))
        gpu = _shown_gpu(machine, view)
        if gpu is None:
            self._show_memory(machine, view, axis)
        else:
            self._show_gpu(gpu, view, axis)
        gpus = machine.gpus if machine is not None and machine.gpus else ()
        self._rows.display = len(gpus) > 1
        self._rows.show(gpus)

    def _show_gpu(self, gpu: Gpu, view: MachineView, axis: TimeAxis) -> None:
        facts = next((g for g in view.facts.gpus or () if g.index == gpu.index), None)
        memory = figures.memory_in_use(gpu.memory_used_mib, facts.memory_mib if facts else None)
        name = f"{memory}  {figures.device(facts.name)}" if facts else memory
        first, *more = _gpu_figures(gpu, view)
        self._gpu.set_titles(f"GPU {gpu.index}", name, right=first, more=tuple(more))
        series = view.history.gpu_utilization_pct.get(gpu.index, Series())
        reason = gpu.why.get("utilization_pct", "no reading yet")
        self._gpu.show(_percent_picture(series, axis, view, reason))

    def _show_memory(self, machine: Machine | None, view: MachineView, axis: TimeAxis) -> None:
        total = view.facts.memory_limit_mib or view.facts.memory_mib
        used = machine.memory.used_mib if machine and machine.memory else None
        why = view.facts.why.get("gpus") or (machine.why.get("gpus") if machine else None)
        no_gpu = f"no GPU: {why}" if why else "no GPU" if view.facts.gpus == () else ""
        right = figures.memory_in_use(used, total) if total else ""
        self._gpu.set_titles("Memory", no_gpu, right=view.stale or right)
        top = total or max(1.0, used or 1.0)
        self._gpu.show(
            ChartPicture(
                columns=axis.columns(view.history.memory_mib),
                top=float(top),
                marks=axis.marks(view.epoch_begins),
                shades=axis.shades(view.stretches),
                left_labels=(f"{top / 1024:.0f}G", "0") if total else ("",),
                reason="no reading yet",
            )
        )


class GpuRows(Lines):
    """A short line for each GPU where there are several; side by side where there are many."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._gpus: tuple[Gpu, ...] = ()

    def show(self, gpus: tuple[Gpu, ...]) -> None:
        """Show GPUs."""
        if len(gpus) != len(self._gpus):
            self.styles.height = -(-len(gpus) // _gpus_in_a_row(len(gpus)))
        self._gpus = gpus
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the GPUs in rows from left to right, and how many have no room."""
        if not self._gpus or height < 1:
            return []
        in_a_row = max(_gpus_in_a_row(len(self._gpus)), -(-len(self._gpus) // height))
        in_a_row = max(1, min(in_a_row, width // _GPU_SHORT))
        room = height * in_a_row
        digits = max(len(str(gpu.index)) for gpu in self._gpus)
        cells = [self._gpu_cell(gpu, digits, width // in_a_row) for gpu in self._gpus[:room]]
        if len(self._gpus) > room:
            ellipsis = "..." if self.ascii else "…"
            cells[-1] = ((f"{ellipsis} {len(self._gpus) - room + 1} more", MUTED),)
        starts = range(0, len(cells), in_a_row)
        rows = (cells[start : start + in_a_row] for start in starts)
        return [cut(tuple(run for cell in row for run in cell), width) for row in rows]

    def _gpu_cell(self, gpu: Gpu, digits: int, width: int) -> Row:
        name = f"{'GPU ' if width >= _GPU_NAMED else ''}{gpu.index:<{digits}} "
        length = max(3, min(5, width - len(name) - 7), min(12, width - _GPU_NAMED - 14))
        if gpu.utilization_pct is None:
            reason = gpu.why.get("utilization_pct", "no reading yet")
            return ((name, MUTED), (fit(reason, width - len(name) - 1) + " ", MUTED))
        text = f"{figures.percent(gpu.utilization_pct):>6}"
        for part in (
            f"{_degrees(gpu):>7}",
            f"{_watts(gpu):>14}",
            f"{figures.gibibytes(gpu.memory_used_mib):>10}",
        ):
            if len(name) + length + len(text) + len(part) < width:
                text += part
        bar_of = bar(gpu.utilization_pct / 100, length, self.ascii)
        return ((name, MUTED), (bar_of, PLAIN), (text.ljust(width - len(name) - length), PLAIN))


# The cells that a GPU needs with its whole name, and with its number alone.
_GPU_NAMED, _GPU_SHORT = 18, 12


def _gpus_in_a_row(count: int) -> int:
    return 1 if count <= 4 else 2


def _shown_gpu(machine: Machine | None, view: MachineView) -> Gpu | None:
    """Return the GPU that trains, else the first; also one that is known but told of no more."""
    gpus = machine.gpus if machine is not None else None
    if gpus is None:
        lost = machine.why.get("gpus") if machine is not None else None
        why = {"utilization_pct": lost} if lost else {}
        gpus = tuple(Gpu(facts.index, why=why) for facts in view.facts.gpus or ())
    if not gpus:
        return None
    return next((gpu for gpu in gpus if gpu.index == view.gpu_index), gpus[0])


def _percent_picture(
    series: Series, axis: TimeAxis, view: MachineView, reason: str
) -> ChartPicture:
    return ChartPicture(
        columns=axis.columns(series),
        top=100.0,
        marks=axis.marks(view.epoch_begins),
        shades=axis.shades(view.stretches),
        left_labels=("100%", "50%", "0"),
        reason=reason,
    )


def _cpu_reason(machine: Machine | None) -> str:
    if machine is None:
        return "waiting for the first sample"
    return machine.cpu.why.get("pct", "no reading yet") if machine.cpu else "no reading yet"


def _cpu_figures(machine: Machine | None, view: MachineView) -> list[str]:
    """Return what is told of the CPU, the most important first."""
    if view.stale or machine is None or machine.cpu is None:
        return [view.stale]
    parts = [figures.percent(machine.cpu.pct)]
    # The percentage is of all cores, of which the run may use but some.
    cores = len(machine.cpu.cores or ()) or view.facts.cores
    if cores and machine.cpu.pct is not None:
        parts.append(f"{machine.cpu.pct * cores / 100:.1f} of {cores} cores")
    if machine.cpu.mhz:
        parts.append(f"{machine.cpu.mhz / 1000:.1f} GHz")
    if machine.process is not None and machine.process.rss_mib is not None:
        parts.append(f"run {figures.gibibytes(machine.process.rss_mib)}")
    return parts


def _gpu_figures(gpu: Gpu, view: MachineView) -> list[str]:
    """Return what is told of a GPU, the most important first."""
    if view.stale:
        return [view.stale]
    if gpu.utilization_pct is None:
        parts = [gpu.why.get("utilization_pct", figures.percent(None))]
    else:
        parts = [figures.percent(gpu.utilization_pct)]
    parts.extend(part for part in (_degrees(gpu), _watts(gpu)) if part)
    if gpu.throttle:
        parts.append(", ".join(gpu.throttle))
    if gpu.sm_mhz:
        parts.append(f"{gpu.sm_mhz} MHz")
    return parts


def _watts(gpu: Gpu) -> str:
    if gpu.power_w is None:
        return ""
    limit = f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w else ""
    return f"{gpu.power_w:.0f}{limit} W"


def _degrees(gpu: Gpu) -> str:
    return "" if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
