"""Write a machine's readings the way people read them, and say which are near their limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len

from dlmon.records import Gpu, Machine, MachineFacts
from tui import figures

Level = Literal["", "high", "bad"]

# From here on a temperature is hot, and too hot: makers let processors slow down about there.
CPU_HOT_C, GPU_HOT_C = (85.0, 95.0), (83.0, 90.0)
# From this share of a memory on little is left, and nothing.
MEMORY_FULL = (0.90, 0.97)
BUSY_PCT = 90.0

# Throttle reasons that tell of trouble; the others tell of a setting.
_SLOWED = ("thermal", "hardware", "brake", "slowdown")
_LEVELS: tuple[Level, ...] = ("", "high", "bad")


@dataclass(frozen=True)
class Figure:
    """One reading: what it is, its value, its share of the most there can be.

    What is near its limit has a level, and may have a word for it. An unknown
    one has its reason for a value.
    """

    label: str
    value: str
    fraction: float | None = None
    level: Level = ""
    word: str = ""
    known: bool = True

    @property
    def text(self) -> str:
        """The value and its word."""
        return f"{self.value} {self.word}".rstrip()

    @property
    def marked(self) -> str:
        """The value, with a mark in place of the word where there is little room."""
        return self.value + {"": "", "high": "!", "bad": "!!"}[self.level if self.word else ""]


def cpu_figures(machine: Machine | None, facts: MachineFacts) -> list[Figure]:
    """Return what is told of the CPU beside its utilisation, the most important first."""
    cpu = machine.cpu if machine is not None else None
    if machine is None or cpu is None:
        return []
    found = []
    # The percentage is of all cores, of which the run may use but some.
    cores = len(cpu.cores or ()) or facts.cores
    if cores and cpu.pct is not None:
        busy = cpu.pct * cores / 100
        found.append(Figure("busy", f"{busy:.1f} of {cores} cores", cpu.pct / 100))
    if cpu.mhz:
        found.append(Figure("clock", f"{cpu.mhz / 1000:.1f} GHz"))
    if cpu.temperature_c is not None:
        found.append(_temperature(cpu.temperature_c, CPU_HOT_C))
    elif "temperature_c" in cpu.why:
        found.append(_unknown("temp", cpu.why["temperature_c"]))
    if machine.process is not None and machine.process.rss_mib is not None:
        held = figures.gibibytes(machine.process.rss_mib)
        found.append(Figure("run", f"{held} of memory"))
    if cpu.throttled_pct:
        found.append(
            Figure("limit", f"limited {cpu.throttled_pct:.0f} % of the time", level="high")
        )
    return found


def gpu_figures(gpu: Gpu, memory_mib: int | None) -> list[Figure]:
    """Return what is told of a GPU beside its utilisation, the most important first."""
    found = []
    if gpu.temperature_c is not None:
        found.append(_temperature(gpu.temperature_c, GPU_HOT_C))
    if gpu.power_w is not None:
        limit_w = gpu.power_limit_w
        of_limit = f" of {limit_w:.0f}" if limit_w else ""
        share = gpu.power_w / limit_w if limit_w else None
        found.append(Figure("power", f"{gpu.power_w:.0f}{of_limit} W", share))
    elif "power_w" in gpu.why:
        found.append(_unknown("power", gpu.why["power_w"]))
    if gpu.throttle:
        slowed = any(word in reason for reason in gpu.throttle for word in _SLOWED)
        found.append(Figure("held by", ", ".join(gpu.throttle), level="high" if slowed else ""))
    if gpu.memory_used_mib is not None:
        memory = memory_figure("memory", gpu.memory_used_mib, memory_mib)
        # Frameworks take all of it at their start: that is no trouble.
        found.append(replace(memory, level="high") if memory.level else memory)
    elif "memory_used_mib" in gpu.why:
        found.append(_unknown("memory", gpu.why["memory_used_mib"]))
    if gpu.sm_mhz:
        found.append(Figure("clock", f"{gpu.sm_mhz} MHz"))
    return found


def memory_figure(label: str, used_mib: float | None, total_mib: float | None) -> Figure:
    """Return how much of a memory is in use."""
    share = used_mib / total_mib if used_mib is not None and total_mib else None
    level = _level(share, MEMORY_FULL)
    word = {"": "", "high": "nearly full", "bad": "full"}[level]
    return Figure(label, figures.memory_in_use(used_mib, total_mib), share, level, word)


def cpu_meter(machine: Machine | None, facts: MachineFacts) -> Figure:
    """Return the CPU's utilisation, for where it has no chart."""
    pct = machine.cpu.pct if machine is not None and machine.cpu is not None else None
    if pct is None:
        why = machine.cpu.why.get("pct") if machine is not None and machine.cpu else None
        return _unknown("CPU", why or "waiting for the first sample")
    busy = [figure.text for figure in cpu_figures(machine, facts)[:1]]
    level: Level = "high" if pct >= BUSY_PCT else ""
    return Figure("CPU", "  ".join([figures.percent(pct), *busy]), pct / 100, level)


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


def identity(facts: MachineFacts) -> list[str]:
    """Return what a machine is, part by part: processor, memory, GPUs, driver."""
    parts = [figures.device(facts.cpu_model)] if facts.cpu_model else []
    if facts.cores:
        parts.append(f"{facts.cores} core{'s' if facts.cores > 1 else ''}")
    if facts.cpu_limit is not None:
        parts.append(f"limited to {facts.cpu_limit:g}")
    memory_mib = facts.memory_limit_mib or facts.memory_mib
    if memory_mib is not None:
        parts.append(figures.gibibytes(memory_mib))
    names = [figures.device(gpu.name) for gpu in facts.gpus or ()]
    for name in dict.fromkeys(names):
        count = names.count(name)
        parts.append(f"{count} × {name}" if count > 1 else name)
    if facts.gpus == () or (facts.gpus is None and "gpus" in facts.why):
        parts.append("no GPU")
    if facts.gpus and facts.driver:
        parts.append(f"driver {facts.driver}")
    if facts.gpus and facts.cuda:
        parts.append(f"CUDA {facts.cuda}")
    if facts.on_battery:
        parts.append("on battery")
    return parts


def worst(found: Iterable[Figure]) -> Level:
    """Return the level that asks for the most attention."""
    return max((figure.level for figure in found), key=_LEVELS.index, default="")


def _rates(
    label: str, first: tuple[float | None, str], second: tuple[float | None, str], why: str | None
) -> Figure:
    """Return two rates in one unit: `0.5 read  120 written MiB/s`."""
    larger = max(first[0] or 0.0, second[0] or 0.0)
    if first[0] is None and second[0] is None:
        return _unknown(label, why or "no reading yet")
    unit, factor = ("GiB/s", 1 / 1024) if larger >= 1000 else ("MiB/s", 1.0)
    if larger < 0.95:
        unit, factor = "KiB/s", 1024.0
    parts = (f"{_rate(value, factor)} {word}" for value, word in (first, second))
    return Figure(label, f"{'  '.join(parts)} {unit}")


def _rate(mib_s: float | None, factor: float) -> str:
    if mib_s is None:
        return "–"
    value = mib_s * factor
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def _temperature(degrees: float, hot: tuple[float, float]) -> Figure:
    level = _level(degrees, hot)
    word = {"": "", "high": "hot", "bad": "too hot"}[level]
    return Figure("temp", f"{degrees:.0f} °C", degrees / 100, level, word)


def _unknown(label: str, reason: str) -> Figure:
    return Figure(label, reason, known=False)


def _level(value: float | None, limits: tuple[float, float]) -> Level:
    if value is None or value < limits[0]:
        return ""
    return "bad" if value >= limits[1] else "high"
