"""Write the readings of a machine, and mark those near their limit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal

from dlmon.comparison.conditions import cores as cores_text
from dlmon.figures import units
from dlmon.figures.quantity_text import text_of
from dlmon.quantities import BY_KEY, GPU_ACTIVITY, QUANTITIES
from dlmon.records import (
    Cpu,
    Disk,
    Gpu,
    GpuFacts,
    GpuState,
    Machine,
    MachineFacts,
    Memory,
    Network,
    ProcessTree,
)
from dlmon.records.record import record
from dlmon.session.machine_history import GPU_READINGS, facts_of_gpu, gpus_of
from dlmon.statistics.totals import total

Level = Literal["", "high", "bad"]

# The limits of hot and too hot: processors slow down at about the second one.
CPU_HOT_C, GPU_HOT_C = (85.0, 95.0), (83.0, 90.0)
# A GPU that reports its slowdown temperature counts as hot this much below it.
_HOT_BELOW_SLOWDOWN_C = 7.0
# The shares from which a memory is nearly full, and full.
MEMORY_FULL = (0.90, 0.97)
BUSY_PCT = 90.0
# An idle link lowers its generation to save power; from this utilisation on it shouldn't.
_WORKS_PCT = 30

# Throttle reasons that mean a problem; the others come from a setting.
_SLOWED = ("thermal", "hardware", "brake", "slowdown")
THROTTLED = "throttled"
NO_READING_YET = "no reading yet"
NOT_READ = "no reading"
GPU_CURVES = {
    "utilisation": "utilization_pct",
    "memory": "memory_used_mib",
    "power": "power_w",
    "clock": "sm_mhz",
    "temp": "temperature_c",
    **{BY_KEY[key].label: key for key in GPU_ACTIVITY},
}
"""The labels of a GPU's figures that have a history, the most important first, and their fields."""
_AMDS = frozenset({"junction_c", "memory_c", "gtt_used_mib"})
_NVIDIAS = frozenset(
    {
        *("sm_active_pct", "sm_occupancy_pct", "tensor_pct", "dram_pct", "nvlinks", "xids", "mig"),
        *("pcie_receive_mib_s", "pcie_send_mib_s", "encoder_pct", "decoder_pct"),
    }
)
_NOT_OF_VENDOR = {
    "nvidia": _AMDS,
    "jetson": _NVIDIAS
    | _AMDS
    | {"memory_busy_pct", "ecc_corrected", "ecc_uncorrected", "instances"}
    | {"pcie_generation", "pcie_width"},
    "amd": _NVIDIAS,
    "intel": _NVIDIAS
    | _AMDS
    | {"memory_busy_pct", "memory_mhz", "fan_pct", "ecc_corrected", "ecc_uncorrected"},
}
"""The readings that a vendor's drivers never give; a Jetson's that of NVML."""
_GONE = (GpuState.LOST, GpuState.ASLEEP)
VIRTUAL = {
    "passthrough": "a whole GPU, passed to this virtual machine",
    "vgpu": "a vGPU, which is a part of a GPU",
    "host_vgpu": "divided among virtual machines (vGPU)",
    "host_vsga": "divided among virtual machines (vSGA)",
}
LEVELS: tuple[Level, ...] = ("", "high", "bad")
"""The levels of a figure, the most urgent last."""
# A border shows these without their label, as the value says enough.
_NAMED_BY_VALUE = ("temp", "power", "memory", "clock", "busy")
_FAULTS = "{:,.0f} per second"
# If unknown, these show the reason everywhere; the others only in the list of all readings.
_SAYS_WHY = ("temp", "power", "memory", "disk", "network")


@record(frozen=True)
class Figure:
    """One reading as text.

    Attributes:
        value: the reading with its unit; if unknown, the reason.
        fraction: its share of the maximum.
        level: set if the reading is near its limit.
        word: the level in a word, such as hot.
        short: replaces `value` in a border.
    """

    label: str
    value: str
    fraction: float | None = None
    level: Level = ""
    word: str = ""
    is_known: bool = True
    short: str = ""

    @property
    def text(self) -> str:
        """The value and its word."""
        return f"{self.value} {self.word}".rstrip()

    @property
    def brief(self) -> str:
        """The text for a border: the value and its word, and the label if the value needs one."""
        name = "" if self.label in _NAMED_BY_VALUE else f"{self.label} "
        if self.label == THROTTLED:
            name = f"{THROTTLED}: "
        return f"{name}{self.short or self.value} {self.word}".rstrip()

    @property
    def marked(self) -> str:
        """The short value, with a mark in place of the word."""
        return (self.short or self.value) + self.mark

    @property
    def mark(self) -> str:
        """The sign that replaces the word."""
        return {"": "", "high": "!", "bad": "!!"}[self.level if self.word else ""]


class FigureList:
    """Collects the figures of one part of a machine, the most important first.

    Args:
        source: the record with the readings.
        why: the reasons of the unknown readings, by field.
        in_depth: also take readings with nothing unusual, and all unknown ones.
        left_out: the fields to leave out if they are unknown.
    """

    def __init__(
        self,
        source: object,
        why: Mapping[str, str],
        in_depth: bool,
        left_out: Collection[str] = (),
    ) -> None:
        self._source, self._why, self._in_depth = source, why, in_depth
        self._left_out = left_out
        self.figures: list[Figure] = []

    def take(
        self,
        label: str,
        name: str,
        write: Callable[..., Figure] | str,
        *of: Any,
        deep: bool = False,
    ) -> None:
        """Add the reading of a field, made into a figure or formatted by `write`.

        `write` gets the label, the value, and `of`: the maximum.
        """
        if deep and not self._in_depth:
            return
        value = getattr(self._source, name)
        if value is None:
            self.add(label, None, name)
        elif isinstance(write, str):
            self.figures.append(Figure(label, write.format(value)))
        else:
            self.figures.append(write(label, value, *of))

    def add(self, label: str, figure: Figure | str | None, *names: str, deep: bool = False) -> None:
        """Add a figure, else the first reason among the named readings.

        A `deep` figure is added only in depth.
        """
        if deep and not self._in_depth:
            return
        if figure:
            self.figures.append(figure if isinstance(figure, Figure) else Figure(label, figure))
            return
        if names and all(name in self._left_out for name in names):
            return
        why = next((self._why[name] for name in names if name in self._why), "")
        if self._in_depth or (why and label in _SAYS_WHY):
            self.figures.append(Figure(label, why or NOT_READ, is_known=False))


def cpu_figures(
    machine: Machine | None,
    facts: MachineFacts,
    energy_j: float | None = None,
    *,
    in_depth: bool = False,
) -> list[Figure]:
    """Return the CPU's figures; in depth its utilisation is among them."""
    cpu = machine.cpu if machine is not None else None
    if cpu is None:
        return []
    part = FigureList(cpu, cpu.why, in_depth)
    part.take("utilisation", "pct", _utilization, deep=True)
    # The percentage is of all cores, but the run may be allowed only some of them.
    cores = len(cpu.cores or ()) or facts.cores
    busy = None
    if cores and cpu.pct is not None:
        busy = Figure("busy", f"{cpu.pct * cores / 100:.1f} of {cores_text(cores)}", cpu.pct / 100)
    part.add("busy", busy, "pct")
    part.take("temp", "temperature_c", _temperature, CPU_HOT_C)
    clock = None if cpu.mhz is None else f"{cpu.mhz / 1000:.1f} GHz"
    part.add("clock", clock, "mhz")
    if facts.cpu_limit is not None or cpu.throttled_pct:
        part.take("at its limit", "throttled_pct", _throttled, deep=not cpu.throttled_pct)
    part.add("CPU limit", _allowed(cpu, facts.cpu_limit), deep=facts.cpu_limit is None)
    part.take("load", "load_1m", "{:.2f}")
    part.take("package", "power_w", "{:.0f} W")
    energy = None if energy_j is None else units.energy(energy_j)
    part.add("energy", energy, "energy_j", "power_w", deep=True)
    supply = None if facts.on_battery is None else "battery" if facts.on_battery else "mains"
    for label, text in (("governor", facts.governor), ("runs on", supply)):
        if text:
            part.add(label, text, deep=True)
    return part.figures


def _allowed(cpu: Cpu, cores: float | None) -> Figure:
    """Return the CPU limit of the control group, and its use."""
    if cores is None:
        return Figure("CPU limit", "none")
    used_pct, why = cpu.limit_used_pct, cpu.why.get("limit_used_pct")
    if used_pct is None:
        return Figure("CPU limit", f"{cores_text(cores)}{f', {why}' if why else ''}")
    level: Level = "high" if used_pct >= BUSY_PCT else ""
    return Figure("CPU limit", f"{used_pct:.0f} % of {cores_text(cores)}", used_pct / 100, level)


def _throttled(label: str, pct: float) -> Figure:
    return Figure(label, f"{pct:.0f} % of the time", level="high" if pct else "")


def run_figures(tree: ProcessTree | None, *, in_depth: bool = False) -> list[Figure]:
    """Return the CPU, memory, threads and processes of the run itself."""
    if tree is None:
        return []
    part = FigureList(tree, tree.why, in_depth)
    cores = None if tree.cpu_pct is None else cores_text(round(tree.cpu_pct / 100, 1))
    part.add("run", cores, "cpu_pct")
    part.take("top thread", "busiest_thread_pct", _share, deep=True)
    memory = None if tree.rss_mib is None else units.gibibytes(tree.rss_mib)
    part.add("run mem", memory, "rss_mib")
    part.take("threads", "threads", "{:,}")
    part.take("processes", "processes", "{:,}", deep=True)
    part.take("run faults", "major_faults_s", _FAULTS, deep=(tree.major_faults_s or 0) < 0.5)
    return part.figures


def gpu_figures(
    gpu: Gpu,
    facts: GpuFacts | None = None,
    energy_j: float | None = None,
    *,
    in_depth: bool = False,
) -> list[Figure]:
    """Return a GPU's figures; in depth its utilisation is among them.

    `energy_j` is its energy since the run began.
    """
    facts = facts or GpuFacts(gpu.index, "")
    divided = {"utilization_pct": "unknown while MIG is on"} if gpu.mig else {}
    is_jetson = (facts.uuid or "").startswith("JETSON-")
    left_out = _NOT_OF_VENDOR.get("jetson" if is_jetson else facts.vendor, ())
    part = FigureList(gpu, {**gpu.why, **divided}, in_depth, left_out)
    # Figures that come and go stand behind those that are always there.
    part.take("utilisation", "utilization_pct", _utilization, deep=True)
    for quantity in QUANTITIES:
        if quantity.label:
            text = _share if quantity.unit == "%" else f"{{:,.0f}} {quantity.unit}"
            part.take(quantity.label, quantity.key, text, deep=True)
    part.take("memory", "memory_used_mib", _gpu_memory, facts)
    gtt = None if gpu.gtt_used_mib is None else units.gibibytes(gpu.gtt_used_mib)
    part.add("GTT", gtt, "gtt_used_mib", deep=True)
    part.take("temp", "temperature_c", _gpu_temperature, facts.slowdown_c)
    part.take("junction", "junction_c", "{} °C", deep=True)
    part.take("memory temp", "memory_c", "{} °C", deep=True)
    part.take("power", "power_w", _power, gpu.power_limit_w)
    part.take("clock", "sm_mhz", _clock, facts.sm_max_mhz)
    part.take("mem clock", "memory_mhz", _clock, facts.memory_max_mhz, deep=True)
    part.take(THROTTLED, "throttle", _throttle, gpu.utilization_pct == 0, deep=not gpu.throttle)
    link = _link(gpu, facts)
    part.add("PCIe", link, "pcie_generation", "pcie_width", deep=not (link and link.level))
    if in_depth:
        traffic = _traffic(gpu.pcie_receive_mib_s, gpu.pcie_send_mib_s)
        part.add("over PCIe", traffic, "pcie_receive_mib_s", "pcie_send_mib_s")
    part.take("fan", "fan_pct", _share)
    part.take("encoder", "encoder_pct", _share, deep=not gpu.encoder_pct)
    part.take("decoder", "decoder_pct", _share, deep=not gpu.decoder_pct)
    part.take("NVLinks", "nvlinks", "{} active", deep=True)
    moved = gpu.nvlink_receive_mib_s or gpu.nvlink_send_mib_s
    if gpu.nvlinks or moved:
        traffic = _traffic(gpu.nvlink_receive_mib_s, gpu.nvlink_send_mib_s)
        part.add("NVLink", traffic, "nvlink_receive_mib_s", "nvlink_send_mib_s", deep=not moved)
    errors = gpu.ecc_uncorrected or gpu.ecc_corrected
    part.add("ECC", _ecc(gpu), "ecc_uncorrected", "ecc_corrected", deep=not errors)
    part.add("Xid", _xid(gpu), "xids", deep=not gpu.xids)
    part.add("energy", _energy(gpu, energy_j), "energy_j", deep=energy_j is None)
    if facts.virtualization in VIRTUAL:
        part.add("virtual", VIRTUAL[facts.virtualization], deep=True)
    mig = None if gpu.mig is None else "on" if gpu.mig else "off"
    part.add("MIG", mig, "mig", deep=not gpu.mig)
    if gpu.instances is None and facts.vendor == "nvidia":
        part.add("MIG instances", None, "instances", deep=True)
    return part.figures


def activity_text(means: Mapping[str, float]) -> str:
    """Write the mean activity of a GPU's units; empty if only its utilisation is known.

    The utilisation of its memory is left out if the used bandwidth is known.
    """
    names = [name for name in GPU_ACTIVITY if name in means]
    if "dram_pct" in names:
        names = [name for name in names if name != "memory_busy_pct"]
    busy = [f"busy {units.percent(means['gpu_pct'])}"] if "gpu_pct" in means and names else []
    return ", ".join(
        [*busy, *(f"{activity_name(name)} {text_of(BY_KEY[name], means[name])}" for name in names)]
    )


def activity_name(name: str) -> str:
    """Return the name of a GPU reading without the word GPU."""
    return BY_KEY[name].name.removeprefix("GPU ")


def has_no_readings(gpu: Gpu) -> bool:
    """Return whether a GPU has no readings, or only those from before it was lost."""
    is_away = gpu.utilization_pct is None and gpu.state in _GONE
    return is_away or all(getattr(gpu, name) is None for name in GPU_READINGS)


def no_utilization(gpu: Gpu, without_reason: str = NO_READING_YET) -> str:
    """Say why a GPU's utilisation is unknown; its sample may give no reason."""
    if gpu.mig:
        return "MIG on: no utilisation"
    return gpu.why.get("utilization_pct", without_reason)


def _utilization(label: str, pct: float) -> Figure:
    return Figure(label, f"{pct:.0f} %", pct / 100, busy_level(pct))


def busy_level(pct: float | None) -> Level:
    """Return the level of a utilisation."""
    return "high" if pct is not None and pct >= BUSY_PCT else ""


def _share(label: str, pct: float) -> Figure:
    return Figure(label, f"{pct:.0f} %", pct / 100)


def _gpu_temperature(label: str, degrees: float, slowdown_c: float | None) -> Figure:
    """Return a GPU's temperature, with its slowdown temperature if known."""
    if not slowdown_c:
        return _temperature(label, degrees, GPU_HOT_C)
    hot = slowdown_c - _HOT_BELOW_SLOWDOWN_C, slowdown_c
    return _temperature(label, degrees, hot, slowdown_c)


def _temperature(
    label: str, degrees: float, hot: tuple[float, float], most: float | None = None
) -> Figure:
    level = _level(degrees, hot)
    word = {"": "", "high": "hot", "bad": "too hot"}[level]
    of_most = f"{degrees:.0f} of {most} °C" if most else ""
    short = f"{degrees:.0f} °C"
    return Figure(label, of_most or short, degrees / (most or 100), level, word, short=short)


def _power(label: str, power_w: float, limit_w: float | None) -> Figure:
    of_limit = f" of {limit_w:.0f}" if limit_w else ""
    return Figure(label, f"{power_w:.0f}{of_limit} W", power_w / limit_w if limit_w else None)


def _throttle(label: str, reasons: tuple[str, ...], is_idle: bool) -> Figure:
    """Return why a GPU's clock is lowered; an idle GPU lowers it by itself."""
    slowed = any(word in reason for reason in reasons for word in _SLOWED)
    text = ", ".join(reasons) or ("idle" if is_idle else "no")
    return Figure(label, text, level="high" if slowed else "")


def _clock(label: str, mhz: int, most_mhz: int | None) -> Figure:
    """Return a clock with its maximum; AMD's cards exceed the highest that their driver names."""
    if not most_mhz or mhz > most_mhz:
        return Figure(label, f"{mhz} MHz")
    return Figure(label, f"{mhz} of {most_mhz} MHz", mhz / most_mhz, short=f"{mhz} MHz")


def _link(gpu: Gpu, facts: GpuFacts) -> Figure | None:
    """Return the PCIe link; it stands out if it is below what card and slot support."""
    width, most_width = gpu.pcie_width, facts.pcie_max_width
    generation, most_generation = gpu.pcie_generation, facts.pcie_max_generation
    now, most = _lanes(generation, width), _lanes(most_generation, most_width)
    narrow = width is not None and most_width is not None and width < most_width
    works = (gpu.utilization_pct or 0) >= _WORKS_PCT
    slow = works and 0 < (generation or 0) < (most_generation or 0)
    if not now:
        return None
    text = f"{now} of {most}" if most not in ("", now) else now
    return Figure("PCIe", text, level="high" if narrow or slow else "")


def _lanes(generation: int | None, width: int | None) -> str:
    """Write a PCIe link: gen 4 ×16; empty if unknown."""
    lanes = "" if width is None else f"×{width}"
    return " ".join(filter(None, ("" if generation is None else f"gen {generation}", lanes)))


def _ecc(gpu: Gpu) -> Figure | None:
    counts = ((gpu.ecc_corrected, "corrected"), (gpu.ecc_uncorrected, "uncorrected"))
    if all(count is None for count, _ in counts):
        return None
    text = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return Figure("ECC", text or "none", level="bad" if gpu.ecc_uncorrected else "")


def _xid(gpu: Gpu) -> Figure | None:
    """Return the newest error that the driver reported, and the number of earlier ones."""
    if gpu.xids is None:
        return None
    if not gpu.xids:
        return Figure("Xid", "none")
    from dlmon.records.xid import xid_text

    before = (gpu.xid_errors or len(gpu.xids)) - 1
    more = f"; {before:,} before" if before > 0 else ""
    text = xid_text(gpu.xids[-1]).removeprefix("Xid ")
    return Figure("Xid", f"{text}{more}", level="bad", short=str(gpu.xids[-1]))


def _energy(gpu: Gpu, since_begin_j: float | None) -> Figure | None:
    """Return a GPU's energy since the run began, and since its driver was loaded."""
    here = "" if since_begin_j is None else units.energy(since_begin_j)
    ever = "" if gpu.energy_j is None else f"{units.energy(gpu.energy_j)} in all"
    text = ", ".join(filter(None, (here, ever)))
    return Figure("energy", text, short=here) if text else None


def memory_figures(
    machine: Machine | None, facts: MachineFacts, *, in_depth: bool = False
) -> list[Figure]:
    """Return memory, disk, network and swap, the most important first."""
    total_mib = facts.usable_memory_mib
    if machine is None:
        return [memory_figure("memory", None, total_mib)]
    memory, disk = machine.memory or Memory(), machine.disk or Disk()
    network = machine.network or Network()
    # A rate needs two samples.
    why = dict.fromkeys(("read_mib_s", "receive_mib_s"), NO_READING_YET)
    for source in (machine, memory, disk, network):
        why.update(source.why)
    part = FigureList(memory, why, in_depth)
    is_unknown = memory.used_mib is None and bool({"used_mib", "memory"} & {*why})
    in_use = None if is_unknown else memory_figure("memory", memory.used_mib, total_mib)
    part.add("memory", in_use, "used_mib", "memory")
    disk_rates = _rates((disk.read_mib_s, "read"), (disk.write_mib_s, "written"))
    part.add("disk", disk_rates, "disk", "read_mib_s", deep=machine.disk is None)
    received = _traffic(network.receive_mib_s, network.send_mib_s)
    part.add("network", received, "network", "receive_mib_s", deep=machine.network is None)
    if facts.swap_mib:
        part.take("swap", "swap_used_mib", memory_figure, facts.swap_mib)
        part.take("swapped", "swap_mib_s", _swapped, deep=True)
    part.take("faults", "major_faults_s", _FAULTS, deep=(memory.major_faults_s or 0) < 0.5)
    return part.figures


def _swapped(label: str, mib_s: float) -> Figure:
    return Figure(label, f"{mib_s:.1f} MiB/s", level="high" if mib_s >= 0.05 else "")


def memory_figure(label: str, used_mib: float | None, total_mib: float | None) -> Figure:
    """Return the used part of a memory."""
    share = used_mib / total_mib if used_mib is not None and total_mib else None
    level = _level(share, MEMORY_FULL)
    word = {"": "", "high": "nearly full", "bad": "full"}[level]
    return Figure(label, units.memory_in_use(used_mib, total_mib), share, level, word)


OF_SYSTEM = " of the system"
"""Ends the memory of a GPU without memory of its own."""


def _gpu_memory(label: str, used_mib: float, facts: GpuFacts) -> Figure:
    figure = memory_figure(label, used_mib, facts.memory_mib)
    if facts.memory_kind == "system":
        # It fills with programs that use no GPU too: full is full.
        value = figure.value + OF_SYSTEM
        return replace(figure, value=value, short=f"{figure.value} system")
    # Frameworks may allocate all of it at their start: no reason for alarm.
    return replace(figure, level="high") if figure.level else figure


NO_GPU = "no GPU"


def why_no_gpu(facts: MachineFacts) -> str:
    """Return why a machine has no GPU; empty if it has one, or if that is unknown."""
    return "" if facts.gpus else facts.why.get("gpus", "")


def no_gpu_text(machine: Machine | None, facts: MachineFacts) -> str:
    """Say that there is no GPU, and why; empty if there is one, or if it is unknown."""
    why = facts.why.get("gpus") or (machine.why.get("gpus") if machine is not None else None)
    if gpus_of(machine, facts) or (why is None and facts.gpus is None):
        return ""
    return f"{NO_GPU}: {why}" if why else NO_GPU


_DOCTOR = "dlmon doctor says what is missing"
_NO_GPU_STEPS = {
    GpuState.NO_DRIVER: "install the driver of the GPU, so that nvidia-smi lists it, or start the "
    "container with --gpus all",
    GpuState.NO_PACKAGE: "python -m pip install nvidia-ml-py",
    GpuState.VERSIONS_DIFFER: "reboot: the driver was updated while it was loaded",
}


def no_gpu_step(facts: MachineFacts) -> str:
    """Say what to do where no GPU can be read."""
    return _NO_GPU_STEPS.get(facts.gpus_state or GpuState.UNKNOWN, _DOCTOR)


def identity(facts: MachineFacts) -> list[str]:
    """Return the processor, memory, GPUs and driver of a machine, as texts."""
    parts = [units.device(facts.cpu_model)] if facts.cpu_model else []
    if facts.cores:
        parts.append(units.counted(facts.cores, "core"))
    if facts.cpu_limit is not None:
        parts.append(f"limited to {facts.cpu_limit:g}")
    memory_mib = facts.usable_memory_mib
    if memory_mib is not None:
        parts.append(units.gibibytes(memory_mib))
    parts += gpu_kinds(facts)
    if facts.gpus == () or (facts.gpus is None and "gpus" in facts.why):
        parts.append(NO_GPU)
    if facts.gpus and facts.driver:
        # Beside cards of other vendors, it is not theirs.
        is_mixed = any(gpu.vendor != "nvidia" for gpu in facts.gpus)
        parts.append(f"{'NVIDIA driver' if is_mixed else 'driver'} {facts.driver}")
    if facts.gpus and facts.cuda:
        parts.append(f"CUDA {facts.cuda}")
    if facts.on_battery:
        parts.append("on battery")
    return parts


def gpu_kinds(facts: MachineFacts) -> list[str]:
    """Name the GPUs of a machine, with the number of each kind."""
    counts = Counter(gpu_kind(gpu) for gpu in facts.gpus or ())
    return [f"{count} × {kind}" if count > 1 else kind for kind, count in counts.items()]


def gpu_kind(gpu: GpuFacts) -> str:
    """Return the name of a GPU, and whether it is a vGPU."""
    return units.device(gpu.name) + (" vGPU" if gpu.virtualization == "vgpu" else "")


def worst(figures: Iterable[Figure]) -> Level:
    """Return the most urgent level."""
    return max((figure.level for figure in figures), key=LEVELS.index, default="")


def _traffic(receive_mib_s: float | None, send_mib_s: float | None) -> str:
    return _rates((receive_mib_s, "in"), (send_mib_s, "out"))


def _rates(*rates: tuple[float | None, str]) -> str:
    """Write rates in one unit: `read 0.5 + written 120 MiB/s`; empty if all are unknown."""
    numbers = [mib_s for mib_s, _ in rates if mib_s is not None]
    if not numbers:
        return ""
    unit, factor = ("KiB/s", 1024.0) if max(numbers) < 0.95 else ("MiB/s", 1.0)
    if max(numbers) >= 1000:
        unit, factor = "GiB/s", 1 / 1024
    return " + ".join(f"{word} {_rate(mib_s, factor)}" for mib_s, word in rates) + f" {unit}"


def _rate(mib_s: float | None, factor: float) -> str:
    if mib_s is None:
        return "–"
    value = mib_s * factor
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def _level(value: float | None, limits: tuple[float, float]) -> Level:
    if value is None or value < limits[0]:
        return ""
    return "bad" if value >= limits[1] else "high"


def busy_texts(machine: Machine | None) -> list[str]:
    """Write the utilisation of the CPU and of each GPU: CPU 12 %, GPU 0 97 %."""
    cpu, gpus = (machine.cpu, machine.gpus or ()) if machine is not None else (None, ())
    texts = [] if cpu is None else [f"CPU {units.percent(cpu.pct)}"]
    return texts + [f"GPU {gpu.index} {units.percent(gpu.utilization_pct)}" for gpu in gpus]


def load_figures(machine: Machine | None, facts: MachineFacts) -> list[Figure]:
    """Return what all programs together use of a machine now; no figure that is unknown."""
    if machine is None:
        return []
    cpu, memory = machine.cpu or Cpu(), machine.memory or Memory()
    gpus = [gpu for gpu in machine.gpus or () if gpu.utilization_pct is not None]
    used_mib = total(gpu.memory_used_mib for gpu in gpus)
    size_mib = total(facts_of_gpu(facts, gpu.index).memory_mib for gpu in gpus)
    figures = []
    if cpu.pct is not None:
        figures.append(_utilization("CPU", cpu.pct))
    if memory.used_mib is not None:
        figures.append(memory_figure("memory", memory.used_mib, facts.usable_memory_mib))
    if gpus:
        name = "GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        figures.append(_utilization(name, fmean(gpu.utilization_pct or 0 for gpu in gpus)))
    if used_mib is not None:
        figures.append(memory_figure("GPU memory", used_mib, size_mib))
    if cpu.load_1m is not None:
        figures.append(Figure("load", f"{cpu.load_1m:.2f}"))
    return figures


def serving_text(address: str, port: int) -> str:
    """Say at which address metrics are served, and whether other machines can read them."""
    import ipaddress

    ip = ipaddress.ip_address(address)
    host = f"[{address}]" if ip.version == 6 else address
    who = "" if ip.is_loopback else "; other machines can read them, without a password"
    return f"metrics are served at http://{host}:{port}/metrics{who}"


def machine_line(machine: Machine, facts: MachineFacts | None = None) -> str:
    """Write a merged sample in one line; `facts` give the size of the memory."""
    parts = []
    if machine.cpu is not None:
        parts.append(f"CPU {units.percent(machine.cpu.pct)}")
    if machine.memory is not None:
        total_mib = facts.usable_memory_mib if facts is not None else None
        parts.append(f"memory {units.memory_in_use(machine.memory.used_mib, total_mib)}")
    for gpu in machine.gpus or ():
        power = "–" if gpu.power_w is None else f"{gpu.power_w:.0f} W"
        heat = "–" if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
        parts.append(
            f"GPU {gpu.index} {units.percent(gpu.utilization_pct)} "
            f"{units.gibibytes(gpu.memory_used_mib)} {power} {heat}"
        )
    return "  ".join(parts)
