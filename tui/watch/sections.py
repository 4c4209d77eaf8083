"""All that is known of a machine, part by part, and why the rest is not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlmon.figures import units
from dlmon.figures.machine import (
    BUSY_PCT,
    Figure,
    Level,
    clock_figure,
    gpu_memory_figure,
    gpu_temperature,
    has_no_readings,
    link_text,
    memory_figure,
    no_utilization,
    power_figure,
    rate_text,
    temperature_of_cpu,
    throttle_figure,
    traffic_text,
)
from dlmon.records import (
    MAX_ON_GPUS,
    Disk,
    Gpu,
    GpuFacts,
    Machine,
    MachineFacts,
    Memory,
    Network,
    Process,
)
from tui.machine.process_rows import memory_text
from tui.machine.view import MachineView, is_over

NOT_READ = "no reading"


@dataclass(frozen=True)
class Section:
    """One part of a machine: what it is, its figures, and the reasons of what is unknown.

    `unknown` holds each reason with the names of all that it is the reason of.
    A part without readings has its `problem` in place of them.
    """

    title: str
    about: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    problem: str = ""


def sections(view: MachineView) -> list[Section]:
    """Return every GPU, then the rest of the machine."""
    machine, facts = view.history.latest, view.facts
    gpus = [gpu_section(view, gpu) for gpu in view.gpus]
    if not gpus:
        gpus = [Section("GPU", problem=view.no_gpus or view.no_sample or view.no_reading)]
    if machine is None:
        return gpus
    parts = (
        _cpu(machine, facts, view.history.energy.cpu.joules_since_start),
        _memory(machine, facts),
        _run(machine),
        _sensors(machine, facts),
    )
    return [*gpus, *(part for part in parts if part is not None)]


class _Readings:
    """Collects the figures of a part in their order, and what is unknown by its reason.

    Args:
        sources: what the fields are of.
        why: the reason of each field that is unknown.
    """

    def __init__(self, sources: Sequence[object], why: Mapping[str, str]) -> None:
        self._sources, self._why = sources, why
        self._known: list[Figure] = []
        self._unknown: dict[str, list[str]] = {}

    def add(self, label: str, figure: Figure | str | None, *names: str) -> None:
        """Take a figure under its label; else note the reason of the first field that has one."""
        if isinstance(figure, Figure):
            self._known.append(replace(figure, label=label))
        elif figure:
            self._known.append(Figure(label, figure))
        else:
            reason = next((self._why[name] for name in names if name in self._why), NOT_READ)
            self._unknown.setdefault(reason, []).append(label)

    def take(self, label: str, name: str, write: Callable[[Any], Figure | str], *also: str) -> None:
        """Take a field as `write` makes a figure of it; else note why it is unknown."""
        fields = (getattr(source, name) for source in self._sources if hasattr(source, name))
        value = next(fields, None)
        self.add(label, None if value is None else write(value), name, *also)

    def section(self, title: str, about: Sequence[str] = ()) -> Section:
        """Return a part of what was collected."""
        unknown = ((reason, ", ".join(labels)) for reason, labels in self._unknown.items())
        return Section(title, tuple(about), tuple(self._known), tuple(unknown))


def gpu_section(view: MachineView, gpu: Gpu) -> Section:
    """Return all that is known of a GPU."""
    facts = view.facts_of(gpu) or GpuFacts(gpu.index, "")
    about = [units.device(facts.name)] if facts.name else []
    about += ["trains"] if gpu.index == view.gpu_index and not is_over(view) else []
    about += [text for text in (facts.bus_id, facts.uuid) if text]
    title = f"GPU {gpu.index}"
    energy = _energy(gpu, view.energy_j_of(gpu))
    if has_no_readings(gpu):
        left = (Figure("energy", energy),) if energy else ()
        return Section(title, tuple(about), left, problem=_silence(gpu, view))
    mig = {"utilization_pct": "unknown while MIG is on"} if gpu.mig else {}
    known = _Readings([gpu], {**gpu.why, **mig} | _why_users_unknown(view.history.latest))
    known.take("utilisation", "utilization_pct", _utilization)
    known.take("memory", "memory_used_mib", lambda n: gpu_memory_figure("", n, facts.memory_mib))
    known.take("power", "power_w", lambda watts: power_figure(watts, gpu.power_limit_w))
    known.take("temperature", "temperature_c", lambda degrees: gpu_temperature(degrees, facts))
    known.take("SM clock", "sm_mhz", lambda mhz: clock_figure("", mhz, facts.sm_max_mhz))
    most_mhz = facts.memory_max_mhz
    known.take("memory clock", "memory_mhz", lambda mhz: clock_figure("", mhz, most_mhz))
    known.take("fan", "fan_pct", _share)
    known.take("encoder", "encoder_pct", _share)
    known.take("decoder", "decoder_pct", _share)
    known.take("clock", "throttle", _clock_limit)
    known.add("PCIe link", _link(gpu, facts), "pcie_generation", "pcie_width")
    traffic = traffic_text(gpu.pcie_receive_mib_s, gpu.pcie_send_mib_s)
    known.add("over PCIe", traffic, "pcie_receive_mib_s", "pcie_send_mib_s")
    known.take("NVLink", "nvlinks", "{} active".format)
    if gpu.nvlinks:
        traffic = traffic_text(gpu.nvlink_receive_mib_s, gpu.nvlink_send_mib_s)
        known.add("over NVLink", traffic, "nvlink_receive_mib_s", "nvlink_send_mib_s")
    known.add("ECC errors", _ecc(gpu), "ecc_uncorrected", "ecc_corrected")
    known.add("energy", energy, "energy_j")
    known.add("used by", _users(gpu, view.history.latest), "processes")
    known.take("MIG", "mig", lambda is_on: "on" if is_on else "off")
    return known.section(title, about)


def _silence(gpu: Gpu, view: MachineView) -> str:
    """Return why a GPU has no readings."""
    reason = no_utilization(gpu, view.no_reading)
    return f"{NOT_READ}: {reason}" if reason in ("not supported", "denied") else reason


def _cpu(machine: Machine, facts: MachineFacts, energy_j: float | None) -> Section:
    cpu = machine.cpu
    about = [units.device(facts.cpu_model)] if facts.cpu_model else []
    about += [_cores(facts.cores, facts.physical_cores)] if facts.cores else []
    if cpu is None:
        return Section("CPU", tuple(about), problem=machine.why.get("cpu", NOT_READ))
    known = _Readings([cpu], cpu.why)
    known.take("utilisation", "pct", _utilization)
    known.add("temperature", temperature_of_cpu(cpu), "temperature_c")
    cores = len(cpu.cores or ()) or facts.cores
    busy = None
    if cpu.pct is not None and cores:
        busy = Figure("", f"{cpu.pct * cores / 100:.1f} of {units.cores(cores)}", cpu.pct / 100)
    known.add("busy", busy, "pct")
    known.take("clock", "mhz", lambda mhz: f"{mhz / 1000:.1f} GHz")
    known.take("load average", "load_1m", "{:.2f}".format)
    known.take("power", "power_w", lambda watts: power_figure(watts, None), "energy_j")
    energy = None if energy_j is None else units.energy(energy_j)
    known.add("energy", energy, "energy_j", "power_w")
    known.add("allowed", _allowed(facts.cpu_limit, cpu.limit_used_pct))
    if facts.cpu_limit is not None and "limit_used_pct" in cpu.why:
        known.add("used of allowed", None, "limit_used_pct")
    if facts.cpu_limit is not None or cpu.throttled_pct:
        known.take("held back", "throttled_pct", _held_back)
    for label, text in (("governor", facts.governor), ("runs on", _supply(facts.on_battery))):
        if text:
            known.add(label, text)
    return known.section("CPU", about)


def _cores(cores: int, physical: int | None) -> str:
    """Write how many cores there are to use; a physical one may count as two."""
    text = units.cores(cores)
    return f"{text}, {physical} physical" if physical and physical < cores else text


def _allowed(cores: float | None, used_pct: float | None) -> Figure:
    """Return what a control group may use of the CPU, and how much of that it uses."""
    if cores is None:
        return Figure("", "all cores")
    if used_pct is None:
        return Figure("", units.cores(cores))
    level: Level = "high" if used_pct >= BUSY_PCT else ""
    return Figure("", f"{units.cores(cores)}, {used_pct:.0f} % of it used", level=level)


def _held_back(pct: float) -> Figure:
    return Figure("", f"{pct:.0f} % of periods", level="high" if pct else "")


def _memory(machine: Machine, facts: MachineFacts) -> Section:
    memory, disk = machine.memory or Memory(), machine.disk or Disk()
    network = machine.network or Network()
    parts = (memory, disk, network)
    why = {name: reason for part in (machine, *parts) for name, reason in part.why.items()}
    known = _Readings(parts, why)
    total_mib = facts.memory_limit_mib or facts.memory_mib
    known.take("memory", "used_mib", lambda mib: memory_figure("", mib, total_mib), "memory")
    if facts.swap_mib:
        swap_mib = facts.swap_mib
        known.take("swap", "swap_used_mib", lambda n: memory_figure("", n, swap_mib), "memory")
        known.take("swapped", "swap_mib_s", _swapped, "memory")
    known.take("major faults", "major_faults_s", "{:,.0f} per second".format, "memory")
    known.take("disk read", "read_mib_s", rate_text, "disk")
    known.take("disk written", "write_mib_s", rate_text, "disk")
    traffic = traffic_text(network.receive_mib_s, network.send_mib_s)
    known.add("network", traffic, "receive_mib_s", "network")
    return known.section("Memory, disk, network")


def _run(machine: Machine) -> Section | None:
    """Return what the run itself takes; None where there is no run."""
    tree = machine.process
    if tree is None:
        return None
    known = _Readings([tree], tree.why)
    known.take("CPU", "cpu_pct", lambda pct: f"{pct / 100:.1f} cores")
    known.take("top thread", "busiest_thread_pct", _share)
    known.take("memory", "rss_mib", units.gibibytes)
    known.take("processes", "processes", "{:,}".format)
    known.take("threads", "threads", "{:,}".format)
    known.take("major faults", "major_faults_s", "{:,.0f} per second".format)
    return known.section("This run")


def _sensors(machine: Machine, facts: MachineFacts) -> Section:
    known = _Readings([facts], facts.why)
    known.add("driver", facts.driver, "driver")
    known.add("CUDA", facts.cuda, "cuda")
    label, text = _users_of_gpus(machine, facts)
    if text:
        known.add(label, text)
    cost = machine.cost
    if cost is not None:
        known.add("cost", f"{cost.cpu_ms:.1f} ms of CPU per sample")
        known.add("late by", f"{cost.late_ms:.1f} ms")
    return known.section("Driver and sensors")


def _users_of_gpus(machine: Machine, facts: MachineFacts) -> tuple[str, str]:
    """Say how many processes are on GPUs now; where that isn't read, how many others were."""
    if machine.processes is not None and machine.gpus:
        count = sum(bool(process.gpus) for process in machine.processes)
        if not count and any("gpus" in process.why for process in machine.processes):
            return "", ""
        more = " or more" if count >= MAX_ON_GPUS else ""
        return "GPUs used by", f"{units.counted(count, 'process')}{more}"
    others = facts.foreign_gpu_processes
    if others is None:
        return "", ""
    return "at the start", f"{units.counted(others, 'other')} on the GPUs"


def _utilization(pct: float) -> Figure:
    return replace(_share(pct), level="high" if pct >= BUSY_PCT else "")


def _share(pct: float) -> Figure:
    return Figure("", f"{pct:.0f} %", pct / 100)


def _clock_limit(reasons: tuple[str, ...]) -> Figure | str:
    if not reasons:
        return "not limited"
    figure = throttle_figure(reasons)
    return replace(figure, value=f"limited by {figure.value}")


def _why_users_unknown(machine: Machine | None) -> dict[str, str]:
    """Return why it isn't known which processes are on GPUs, where that is so."""
    if machine is None:
        return {}
    rows = machine.processes
    if rows is None:
        why = machine.why.get("processes", "processes are read every 5 s")
    else:
        why = next((row.why["gpus"] for row in rows if "gpus" in row.why), "")
    return {"processes": why} if why else {}


def _users(gpu: Gpu, machine: Machine | None) -> str:
    """Name who uses a GPU: the user, the process, and what it holds; empty where unknown."""
    rows = (machine.processes if machine is not None else None) or ()
    on_it = [row for row in rows if gpu.index in row.gpus]
    if not on_it:
        is_unknown = machine is None or bool(_why_users_unknown(machine))
        return "" if is_unknown else "nobody"
    on_it.sort(key=lambda row: -(row.gpu_memory_mib or 0))
    return ", ".join(_user(row) for row in on_it)


def _user(row: Process) -> str:
    name = f"{row.user} (pid {row.pid})" if row.user else f"pid {row.pid}"
    if row.gpu_memory_mib is None:
        return name
    several = f" on {len(row.gpus)} GPUs" if len(row.gpus) > 1 else ""
    return f"{name} {memory_text(row.gpu_memory_mib)}{several}"


def _link(gpu: Gpu, facts: GpuFacts) -> Figure | None:
    now = link_text(gpu.pcie_generation, gpu.pcie_width)
    most = link_text(facts.pcie_max_generation, facts.pcie_max_width)
    if not now:
        return None
    narrow = (gpu.pcie_width or 0) < (facts.pcie_max_width or 0)
    level: Level = "high" if narrow and gpu.pcie_width is not None else ""
    return Figure("", f"{now} of {most}" if most else now, level=level)


def _ecc(gpu: Gpu) -> Figure | None:
    counts: Iterable[tuple[int | None, str]] = (
        (gpu.ecc_corrected, "corrected"),
        (gpu.ecc_uncorrected, "uncorrected"),
    )
    text = ", ".join(f"{count:,} {word}" for count, word in counts if count is not None)
    return Figure("", text, level="bad" if gpu.ecc_uncorrected else "") if text else None


def _energy(gpu: Gpu, since_begin_j: float | None) -> str:
    """Write what a GPU has taken since the run began, and in all since its driver was loaded."""
    here = "" if since_begin_j is None else units.energy(since_begin_j)
    ever = "" if gpu.energy_j is None else f"{units.energy(gpu.energy_j)} in all"
    return ", ".join(filter(None, (here, ever)))


def _swapped(mib_s: float) -> Figure:
    return Figure("", f"{mib_s:.1f} MiB/s", level="high" if mib_s >= 0.05 else "")


def _supply(on_battery: bool | None) -> str:
    return "" if on_battery is None else "battery" if on_battery else "mains"
