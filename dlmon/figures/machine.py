"""Write a machine's readings the way people read them, and say which are near their limit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Literal

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.records import Cpu, Gpu, GpuFacts, GpuState, Machine, MachineFacts, ProcessTree
from dlmon.records.record import record

Level = Literal["", "high", "bad"]

# From here on a temperature is hot, and too hot: makers let processors slow down about there.
CPU_HOT_C, GPU_HOT_C = (85.0, 95.0), (83.0, 90.0)
# A GPU that reports its slowdown temperature counts as hot this much below it.
_HOT_BELOW_SLOWDOWN_C = 7.0
# From this share of a memory on little is left, and nothing.
MEMORY_FULL = (0.90, 0.97)
BUSY_PCT = 90.0
# A link lowers its generation to save power: from that utilisation on it should have its own.
_WORKS_PCT = 30

# Throttle reasons that mean a problem; the others come from a setting.
_SLOWED = ("thermal", "hardware", "brake", "slowdown")
NO_READING_YET = "no reading yet"
GPU_READINGS = tuple(spec.name for spec in fields(Gpu) if spec.name not in ("index", "why"))
_GONE = (GpuState.LOST, GpuState.ASLEEP)
LEVELS: tuple[Level, ...] = ("", "high", "bad")
"""How much attention a figure asks for: the last one the most."""


@record(frozen=True)
class Figure:
    """One reading: what it is, its value, its share of the most there can be.

    What is near its limit has a level, and may have a word for it. An unknown
    one has its reason for a value. `short` stands in a border, where nothing
    else names it.
    """

    label: str
    value: str
    fraction: float | None = None
    level: Level = ""
    word: str = ""
    known: bool = True
    short: str = ""

    @property
    def text(self) -> str:
        """The value and its word."""
        return f"{self.value} {self.word}".rstrip()

    @property
    def brief(self) -> str:
        """What stands in a border, and its word."""
        return f"{self.short or self.value} {self.word}".rstrip()

    @property
    def marked(self) -> str:
        """The same, with a mark in place of the word where there is little room."""
        return (self.short or self.value) + self.mark

    @property
    def mark(self) -> str:
        """What stands in place of the word."""
        return {"": "", "high": "!", "bad": "!!"}[self.level if self.word else ""]


def cpu_figures(machine: Machine | None, facts: MachineFacts) -> list[Figure]:
    """Return the CPU's figures beside its utilisation, the most important first."""
    cpu = machine.cpu if machine is not None else None
    if machine is None or cpu is None:
        return []
    found = []
    # The percentage is of all cores, of which the run may use but some.
    cores = len(cpu.cores or ()) or facts.cores
    if cores and cpu.pct is not None:
        busy = cpu.pct * cores / 100
        found.append(Figure("busy", f"{busy:.1f} of {units.cores(cores)}", cpu.pct / 100))
    if cpu.mhz:
        found.append(Figure("clock", f"{cpu.mhz / 1000:.1f} GHz"))
    if cpu.temperature_c is not None:
        found.append(_temperature(cpu.temperature_c, CPU_HOT_C))
    elif "temperature_c" in cpu.why:
        found.append(_unknown("temp", cpu.why["temperature_c"]))
    if cpu.throttled_pct:
        found.append(_named("limited", f"{cpu.throttled_pct:.0f} % of periods", level="high"))
    if facts.cpu_limit is not None and cpu.limit_used_pct is not None:
        found.append(_of_limit(cpu.limit_used_pct, facts.cpu_limit))
    elif facts.cpu_limit is not None and not cpu.throttled_pct:
        found.append(_named("limited", f"to {units.cores(facts.cpu_limit)}"))
    found += _of_tree(machine.process)
    if cpu.load_1m is not None:
        found.append(_named("load", f"{cpu.load_1m:.2f}"))
    if cpu.power_w is not None:
        found.append(Figure("package", f"{cpu.power_w:.0f} W"))
    # Last, for they come and go, and nothing below is to move.
    return [*found, *_of_faults(machine)]


def _of_limit(used_pct: float, cores: float) -> Figure:
    """Return the share that is used of what a control group may use."""
    return Figure(
        "allowed",
        f"{used_pct:.0f} % of {units.cores(cores)}",
        used_pct / 100,
        level="high" if used_pct >= BUSY_PCT else "",
        short=f"{used_pct:.0f} % of its {units.cores(cores)}",
    )


def _of_tree(tree: ProcessTree | None) -> list[Figure]:
    """Return what the run itself takes of the machine."""
    if tree is None:
        return []
    parts = []
    if tree.cpu_pct is not None:
        parts.append(f"{tree.cpu_pct / 100:.1f} cores")
    if tree.rss_mib is not None:
        parts.append(units.gibibytes(tree.rss_mib))
    found = [Figure("run", "  ".join(parts), short=f"run {' '.join(parts)}")] if parts else []
    if tree.processes is not None:
        count = units.counted(tree.processes, "process")
        threads = "" if tree.threads is None else f"{tree.threads} in "
        found.append(Figure("threads", f"{threads}{count}", short=count))
    return found


def _of_faults(machine: Machine) -> list[Figure]:
    """Return the pages that had to come from a disk, the run's own first."""
    tree, memory = machine.process, machine.memory
    of_run = tree.major_faults_s if tree is not None else None
    rate = of_run or (memory.major_faults_s if memory is not None else None)
    if not rate or rate < 0.5:
        return []
    return [Figure("faults", f"{rate:,.0f} per second", short=f"{rate:,.0f} major faults/s")]


def gpu_figures(
    gpu: Gpu, facts: GpuFacts | None = None, energy_j: float | None = None
) -> list[Figure]:
    """Return a GPU's figures beside its utilisation, the most important first.

    `energy_j` is what it has taken since the run began.
    """
    found = []
    if gpu.ecc_uncorrected:
        found.append(_named("ECC", f"{gpu.ecc_uncorrected:,} uncorrected", level="bad"))
    if gpu.temperature_c is not None:
        found.append(gpu_temperature(gpu.temperature_c, facts))
    if gpu.power_w is not None:
        found.append(power_figure(gpu.power_w, gpu.power_limit_w))
    elif "power_w" in gpu.why:
        found.append(_unknown("power", gpu.why["power_w"]))
    if gpu.throttle:
        found.append(throttle_figure(gpu.throttle))
    found += _of_link(gpu, facts)
    if gpu.memory_used_mib is not None:
        total_mib = facts.memory_mib if facts else None
        found.append(gpu_memory_figure("memory", gpu.memory_used_mib, total_mib))
    elif "memory_used_mib" in gpu.why:
        found.append(_unknown("memory", gpu.why["memory_used_mib"]))
    if gpu.sm_mhz:
        found.append(clock_figure("clock", gpu.sm_mhz, facts.sm_max_mhz if facts else None))
    if gpu.mig:
        found.append(_named("MIG", "on"))
    if gpu.fan_pct is not None:
        found.append(_named("fan", f"{gpu.fan_pct} %", gpu.fan_pct / 100))
    for label, pct in (("encoder", gpu.encoder_pct), ("decoder", gpu.decoder_pct)):
        if pct:
            found.append(_named(label, f"{pct} %", pct / 100))
    nvlink = traffic_text(gpu.nvlink_receive_mib_s, gpu.nvlink_send_mib_s)
    if nvlink and (gpu.nvlink_receive_mib_s or gpu.nvlink_send_mib_s):
        found.append(_named("NVLink", nvlink))
    if gpu.ecc_corrected and not gpu.ecc_uncorrected:
        found.append(_named("ECC", f"{gpu.ecc_corrected:,} corrected"))
    if energy_j is not None:
        found.append(Figure("energy", units.energy(energy_j)))
    return found


def has_no_readings(gpu: Gpu) -> bool:
    """Return whether a GPU has no readings, or only those from before it was lost."""
    gone = gpu.utilization_pct is None and gpu.state in _GONE
    return gone or all(getattr(gpu, name) is None for name in GPU_READINGS)


def no_utilization(gpu: Gpu, without_reason: str = NO_READING_YET) -> str:
    """Say why a GPU's utilisation is unknown; its sample may give no reason."""
    if gpu.mig:
        return "MIG on: no utilisation"
    return gpu.why.get("utilization_pct", without_reason)


def gpu_temperature(degrees: float, facts: GpuFacts | None) -> Figure:
    """Return a GPU's temperature, beside that from which it slows down where that is known."""
    slowdown_c = facts.slowdown_c if facts is not None else None
    if not slowdown_c:
        return _temperature(degrees, GPU_HOT_C)
    figure = _temperature(degrees, (slowdown_c - _HOT_BELOW_SLOWDOWN_C, slowdown_c))
    of_slowdown = f"{degrees:.0f} of {slowdown_c} °C"
    return replace(
        figure, value=of_slowdown, fraction=degrees / slowdown_c, short=f"{degrees:.0f} °C"
    )


def power_figure(power_w: float, limit_w: float | None) -> Figure:
    """Return a GPU's power, of its limit."""
    of_limit = f" of {limit_w:.0f}" if limit_w else ""
    return Figure("power", f"{power_w:.0f}{of_limit} W", power_w / limit_w if limit_w else None)


def throttle_figure(reasons: tuple[str, ...]) -> Figure:
    """Return what keeps a GPU's clock down."""
    slowed = any(word in reason for reason in reasons for word in _SLOWED)
    return Figure("held by", ", ".join(reasons), level="high" if slowed else "")


def clock_figure(label: str, mhz: int, most_mhz: int | None) -> Figure:
    """Return a clock, of the fastest that there is."""
    if not most_mhz:
        return Figure(label, f"{mhz} MHz")
    return Figure(label, f"{mhz} of {most_mhz} MHz", mhz / most_mhz, short=f"{mhz} MHz")


def link_text(generation: int | None, width: int | None) -> str:
    """Write a PCIe link: 4 × 16, its generation and its lanes; empty where neither is known."""
    lanes = "" if width is None else f"× {width}"
    return " ".join(filter(None, ("" if generation is None else f"{generation}", lanes)))


def _of_link(gpu: Gpu, facts: GpuFacts | None) -> list[Figure]:
    """Return the PCIe link where it is less than card and slot can do, and should not be."""
    if facts is None:
        return []
    width, most_width = gpu.pcie_width, facts.pcie_max_width
    generation, most_generation = gpu.pcie_generation, facts.pcie_max_generation
    narrow = width is not None and most_width is not None and width < most_width
    works = (gpu.utilization_pct or 0) >= _WORKS_PCT
    slower = generation is not None and most_generation is not None
    slow = works and slower and (generation or 0) < (most_generation or 0)
    if not narrow and not slow:
        return []
    now = link_text(generation if slow else None, width)
    most = link_text(most_generation if slow else None, most_width)
    return [_named("PCIe", f"{now} of {most}", level="high")]


def traffic_text(receive_mib_s: float | None, send_mib_s: float | None) -> str:
    """Write what goes in and out: `in 3.0  out 4.0 MiB/s`; empty where nothing is known."""
    rates = _rates("", (receive_mib_s, "in"), (send_mib_s, "out"), None)
    return rates.value if rates.known else ""


def rate_text(mib_s: float) -> str:
    """Write one rate: 3.0 MiB/s."""
    unit, factor = _rate_unit(mib_s)
    return f"{_rate(mib_s, factor)} {unit}"


def memory_figure(label: str, used_mib: float | None, total_mib: float | None) -> Figure:
    """Return how much of a memory is in use."""
    share = used_mib / total_mib if used_mib is not None and total_mib else None
    level = _level(share, MEMORY_FULL)
    word = {"": "", "high": "nearly full", "bad": "full"}[level]
    return Figure(label, units.memory_in_use(used_mib, total_mib), share, level, word)


def gpu_memory_figure(label: str, used_mib: float, total_mib: float | None) -> Figure:
    """Return how much of a GPU's memory is in use."""
    figure = memory_figure(label, used_mib, total_mib)
    # Frameworks take all of it at their start: that is no trouble.
    return replace(figure, level="high") if figure.level else figure


def cpu_meter(machine: Machine | None, facts: MachineFacts) -> Figure:
    """Return the CPU's utilisation, for where it has no chart."""
    pct = machine.cpu.pct if machine is not None and machine.cpu is not None else None
    if pct is None:
        why = machine.cpu.why.get("pct") if machine is not None and machine.cpu else None
        return _unknown("CPU", why or "waiting for the first sample")
    busy = [figure.text for figure in cpu_figures(machine, facts)[:1]]
    level: Level = "high" if pct >= BUSY_PCT else ""
    return Figure("CPU", "  ".join([units.percent(pct), *busy]), pct / 100, level)


def machine_meters(machine: Machine | None, facts: MachineFacts) -> list[Figure]:
    """Return memory, swap, disk and network, the most important first."""
    memory = machine.memory if machine is not None else None
    total_mib = facts.memory_limit_mib or facts.memory_mib
    if memory is not None and memory.used_mib is None and "used_mib" in memory.why:
        found = [_unknown("memory", memory.why["used_mib"])]
    else:
        found = [memory_figure("memory", memory.used_mib if memory else None, total_mib)]
    if machine is None:
        return found
    if machine.disk is not None:
        read, write = machine.disk.read_mib_s, machine.disk.write_mib_s
        why = machine.disk.why.get("read_mib_s")
        found.append(_rates("disk", (read, "read"), (write, "written"), why))
    if machine.network is not None:
        receive, send = machine.network.receive_mib_s, machine.network.send_mib_s
        why = machine.network.why.get("receive_mib_s")
        found.append(_rates("network", (receive, "in"), (send, "out"), why))
    if memory is not None and memory.swap_used_mib is not None and facts.swap_mib:
        found.append(memory_figure("swap", memory.swap_used_mib, facts.swap_mib))
    return found


def without_detail(text: str, width: int) -> str:
    """Return a reason without what follows its last colons, as far as needed to fit."""
    while cell_len(text) > width and ": " in text:
        text = text.rpartition(": ")[0]
    return text


NO_GPU = "no GPU"


def why_no_gpu(facts: MachineFacts) -> str:
    """Return why a machine has no GPU; empty where it has one, or that isn't known."""
    return "" if facts.gpus else facts.why.get("gpus", "")


def identity(facts: MachineFacts) -> list[str]:
    """Return what a machine is, part by part: processor, memory, GPUs, driver."""
    parts = [units.device(facts.cpu_model)] if facts.cpu_model else []
    if facts.cores:
        parts.append(units.counted(facts.cores, "core"))
    if facts.cpu_limit is not None:
        parts.append(f"limited to {facts.cpu_limit:g}")
    memory_mib = facts.memory_limit_mib or facts.memory_mib
    if memory_mib is not None:
        parts.append(units.gibibytes(memory_mib))
    parts += gpu_kinds(facts)
    if facts.gpus == () or (facts.gpus is None and "gpus" in facts.why):
        parts.append(NO_GPU)
    if facts.gpus and facts.driver:
        parts.append(f"driver {facts.driver}")
    if facts.gpus and facts.cuda:
        parts.append(f"CUDA {facts.cuda}")
    if facts.on_battery:
        parts.append("on battery")
    return parts


def gpu_kinds(facts: MachineFacts) -> list[str]:
    """Name the GPUs of a machine, and how many there are of each kind."""
    counts = Counter(units.device(gpu.name) for gpu in facts.gpus or ())
    return [f"{count} × {kind}" if count > 1 else kind for kind, count in counts.items()]


def worst(found: Iterable[Figure]) -> Level:
    """Return the level that asks for the most attention."""
    return max((figure.level for figure in found), key=LEVELS.index, default="")


_RateOf = tuple[float | None, str]
"""A rate in MiB/s, and what to call what it is of."""


def _rates(label: str, first: _RateOf, second: _RateOf, why: str | None) -> Figure:
    """Return two rates in one unit: `read 0.5  written 120 MiB/s`."""
    larger = max(first[0] or 0.0, second[0] or 0.0)
    if first[0] is None and second[0] is None:
        return _unknown(label, why or NO_READING_YET)
    unit, factor = _rate_unit(larger)
    both = "  ".join(f"{word} {_rate(mib_s, factor)}" for mib_s, word in (first, second))
    return Figure(label, f"{both} {unit}")


def _rate_unit(mib_s: float) -> tuple[str, float]:
    """Return the unit for a rate, and how many of it make a MiB/s."""
    if mib_s >= 1000:
        return "GiB/s", 1 / 1024
    return ("MiB/s", 1.0) if mib_s >= 0.95 else ("KiB/s", 1024.0)


def _rate(mib_s: float | None, factor: float) -> str:
    if mib_s is None:
        return "–"
    value = mib_s * factor
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def _temperature(degrees: float, hot: tuple[float, float]) -> Figure:
    level = _level(degrees, hot)
    word = {"": "", "high": "hot", "bad": "too hot"}[level]
    return Figure("temp", f"{degrees:.0f} °C", degrees / 100, level, word)


def temperature_of_cpu(cpu: Cpu) -> Figure | None:
    """Return a CPU's temperature, where it is known."""
    return None if cpu.temperature_c is None else _temperature(cpu.temperature_c, CPU_HOT_C)


def _named(label: str, value: str, fraction: float | None = None, level: Level = "") -> Figure:
    """Return a figure that shows its label in a border too."""
    return Figure(label, value, fraction, level, short=f"{label} {value}")


def _unknown(label: str, reason: str) -> Figure:
    return Figure(label, reason, known=False)


def _level(value: float | None, limits: tuple[float, float]) -> Level:
    if value is None or value < limits[0]:
        return ""
    return "bad" if value >= limits[1] else "high"


def machine_line(machine: Machine, facts: MachineFacts | None = None) -> str:
    """Return a sample, merged, in a line; `facts` say of how much memory it is."""
    parts = []
    if machine.cpu is not None:
        parts.append(f"CPU {units.percent(machine.cpu.pct)}")
    if machine.memory is not None:
        total_mib = facts.memory_limit_mib or facts.memory_mib if facts is not None else None
        parts.append(f"memory {units.memory_in_use(machine.memory.used_mib, total_mib)}")
    for gpu in machine.gpus or ():
        power = "–" if gpu.power_w is None else f"{gpu.power_w:.0f} W"
        heat = "–" if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
        parts.append(
            f"GPU {gpu.index} {units.percent(gpu.utilization_pct)} "
            f"{units.gibibytes(gpu.memory_used_mib)} {power} {heat}"
        )
    return "  ".join(parts)
