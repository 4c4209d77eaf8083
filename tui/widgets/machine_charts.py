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
from tui.widgets.rows import Row

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
        self._cpu.set_titles("CPU", right=_cpu_figures(machine, view))
        self._cpu.show(_percent_picture(view.history.cpu_pct, axis, view, _cpu_reason(machine)))
        gpu = _shown_gpu(machine, view.gpu_index)
        if gpu is None:
            self._show_memory(machine, view, axis)
        else:
            self._show_gpu(gpu, view, axis)
        others = machine.gpus if machine is not None and machine.gpus else ()
        self._rows.display = len(others) > 1
        self._rows.show(others, view.facts)

    def _show_gpu(self, gpu: Gpu, view: MachineView, axis: TimeAxis) -> None:
        name = next((g.name for g in view.facts.gpus or () if g.index == gpu.index), "")
        self._gpu.set_titles(f"GPU {gpu.index} {name}".strip(), right=_gpu_figures(gpu, view))
        series = view.history.gpu_utilization_pct.get(gpu.index, Series())
        reason = gpu.why.get("utilization_pct", "no reading yet")
        self._gpu.show(_percent_picture(series, axis, view, reason))

    def _show_memory(self, machine: Machine | None, view: MachineView, axis: TimeAxis) -> None:
        total = view.facts.memory_limit_mib or view.facts.memory_mib
        used = machine.memory.used_mib if machine and machine.memory else None
        no_gpu = "no GPU"
        why = view.facts.why.get("gpus") or (machine.why.get("gpus") if machine else None)
        if why:
            no_gpu = f"no GPU: {why}"
        right = f"{figures.gibibytes(used)} of {figures.gibibytes(total)}"
        self._gpu.set_titles("Memory", no_gpu, right=view.stale or right)
        top = total or max(1.0, used or 1.0)
        self._gpu.show(
            ChartPicture(
                columns=axis.columns(view.history.memory_mib),
                top=float(top),
                marks=axis.marks(view.epoch_begins),
                shades=axis.shades(view.stretches),
                left_labels=(f"{top / 1024:.0f}G", "0"),
                reason="no reading yet",
            )
        )


class GpuRows(Lines):
    """One line for each GPU where there are several."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._gpus: tuple[Gpu, ...] = ()
        self._facts = MachineFacts()

    def show(self, gpus: tuple[Gpu, ...], facts: MachineFacts) -> None:
        """Show GPUs."""
        if len(gpus) != len(self._gpus):
            self.styles.height = len(gpus)
        self._gpus, self._facts = gpus, facts
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return a row a GPU."""
        return [cut(self._row(gpu), width) for gpu in self._gpus[:height]]

    def _row(self, gpu: Gpu) -> Row:
        share = None if gpu.utilization_pct is None else gpu.utilization_pct / 100
        return (
            (f"GPU {gpu.index} ", MUTED),
            (bar(share, 12, self.ascii), PLAIN),
            (
                f" {figures.percent(gpu.utilization_pct):>5}  "
                f"{figures.gibibytes(gpu.memory_used_mib):>9}  "
                f"{_watts(gpu):>12}  {_degrees(gpu)}",
                PLAIN,
            ),
        )


def _shown_gpu(machine: Machine | None, wanted: int | None) -> Gpu | None:
    gpus = machine.gpus if machine is not None else None
    if not gpus:
        return None
    return next((gpu for gpu in gpus if gpu.index == wanted), gpus[0])


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


def _cpu_figures(machine: Machine | None, view: MachineView) -> str:
    if view.stale or machine is None or machine.cpu is None:
        return view.stale
    parts = [figures.percent(machine.cpu.pct)]
    cores = view.facts.cores
    if cores and machine.cpu.pct is not None:
        parts.append(f"{machine.cpu.pct * cores / 100:.1f} of {cores} cores")
    if machine.cpu.mhz:
        parts.append(f"{machine.cpu.mhz / 1000:.1f} GHz")
    if machine.process is not None and machine.process.rss_mib is not None:
        parts.append(f"run {figures.gibibytes(machine.process.rss_mib)}")
    return "  ".join(parts)


def _gpu_figures(gpu: Gpu, view: MachineView) -> str:
    if view.stale:
        return view.stale
    total = next((g.memory_mib for g in view.facts.gpus or () if g.index == gpu.index), None)
    memory = f"{figures.gibibytes(gpu.memory_used_mib)} of {figures.gibibytes(total)}"
    parts = [figures.percent(gpu.utilization_pct), memory, _degrees(gpu), _watts(gpu)]
    if gpu.sm_mhz:
        parts.append(f"{gpu.sm_mhz} MHz")
    if gpu.throttle:
        parts.append(", ".join(gpu.throttle))
    return "  ".join(part for part in parts if part)


def _watts(gpu: Gpu) -> str:
    if gpu.power_w is None:
        return ""
    limit = f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w else ""
    return f"{gpu.power_w:.0f}{limit} W"


def _degrees(gpu: Gpu) -> str:
    return "" if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
