"""All that is known of a machine, part by part, and why the rest is not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dlmon.records import MAX_ON_GPUS, Gpu, GpuFacts, Machine, MachineFacts
from tui.formatting import units
from tui.formatting.machine import (
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
    processes_text,
    rate_text,
    temperature_of_cpu,
    throttle_figure,
    traffic_text,
)
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
        gpus = [Section("GPU", problem=view.no_gpus or "waiting for the first sample")]
    if machine is None:
        return gpus
    parts = (
        _cpu(machine, facts, view.history.cpu_energy_j_since_start),
        _memory(machine, facts),
        _run(machine),
        _sensors(machine, facts),
    )
    return [*gpus, *(part for part in parts if part is not None)]


class _Readings:
    """Collects figures in their order, and what is unknown by its reason."""

    def __init__(self) -> None:
        self.known: list[Figure] = []
        self._unknown: dict[str, list[str]] = {}

    def add(self, label: str, figure: Figure | None, why: Mapping[str, str], *names: str) -> None:
        """Take a figure under its label; else note the reason of the first field that has one."""
        if figure is not None:
            self.known.append(replace(figure, label=label))
        else:
            reason = next((why[name] for name in names if name in why), NOT_READ)
            self._unknown.setdefault(reason, []).append(label)

    @property
    def unknown(self) -> tuple[tuple[str, str], ...]:
        """Each reason with what it is the reason of."""
        return tuple((reason, ", ".join(labels)) for reason, labels in self._unknown.items())


def gpu_section(view: MachineView, gpu: Gpu) -> Section:
    """Return all that is known of a GPU."""
    facts = view.facts_of(gpu) or GpuFacts(gpu.index, "")
    known = _Readings()
    about = [units.device(facts.name)] if facts.name else []
    about += ["trains"] if gpu.index == view.gpu_index and not is_over(view) else []
    about += [text for text in (facts.bus_id, facts.uuid) if text]
    title = f"GPU {gpu.index}"
    if has_no_readings(gpu):
        energy = _text_figure(_energy(gpu, view.energy_j_of(gpu)))
        left = (replace(energy, label="energy"),) if energy is not None else ()
        return Section(title, tuple(about), left, problem=_silence(gpu))
    why = gpu.why
    if gpu.mig:
        why = {**why, "utilization_pct": "unknown while MIG is on"}
    known.add("utilisation", _utilization(gpu.utilization_pct), why, "utilization_pct")
    used_mib = gpu.memory_used_mib
    memory = None if used_mib is None else gpu_memory_figure("", used_mib, facts.memory_mib)
    known.add("memory", memory, why, "memory_used_mib")
    power = None if gpu.power_w is None else power_figure(gpu.power_w, gpu.power_limit_w)
    known.add("power", power, why, "power_w")
    degrees = gpu.temperature_c
    known.add(
        "temperature",
        None if degrees is None else gpu_temperature(degrees, facts),
        why,
        "temperature_c",
    )
    for label, name, mhz, most in (
        ("SM clock", "sm_mhz", gpu.sm_mhz, facts.sm_max_mhz),
        ("memory clock", "memory_mhz", gpu.memory_mhz, facts.memory_max_mhz),
    ):
        known.add(label, None if mhz is None else clock_figure("", mhz, most), why, name)
    for label, name, pct in (
        ("fan", "fan_pct", gpu.fan_pct),
        ("encoder", "encoder_pct", gpu.encoder_pct),
        ("decoder", "decoder_pct", gpu.decoder_pct),
    ):
        known.add(label, None if pct is None else _share(pct), why, name)
    known.add("held by", _held(gpu.throttle), why, "throttle")
    known.add("PCIe link", _link(gpu, facts), why, "pcie_generation", "pcie_width")
    traffic = traffic_text(gpu.pcie_receive_mib_s, gpu.pcie_send_mib_s)
    traffic_names = ("pcie_receive_mib_s", "pcie_send_mib_s")
    known.add("over PCIe", _text_figure(traffic), why, *traffic_names)
    active = None if gpu.nvlinks is None else Figure("", f"{gpu.nvlinks} active")
    known.add("NVLink", active, why, "nvlinks")
    if gpu.nvlinks or gpu.nvlinks is None:
        traffic = traffic_text(gpu.nvlink_receive_mib_s, gpu.nvlink_send_mib_s)
        traffic_names = ("nvlink_receive_mib_s", "nvlink_send_mib_s")
        known.add("over NVLink", _text_figure(traffic), why, *traffic_names)
    known.add("ECC errors", _ecc(gpu), why, "ecc_uncorrected", "ecc_corrected")
    known.add("energy", _text_figure(_energy(gpu, view.energy_j_of(gpu))), why, "energy_j")
    mig = None if gpu.mig is None else Figure("", "on" if gpu.mig else "off")
    known.add("MIG", mig, why, "mig")
    return _section(title, tuple(about), known)


def _silence(gpu: Gpu) -> str:
    """Return why a GPU has no readings."""
    reason = no_utilization(gpu)
    return f"{NOT_READ}: {reason}" if reason in ("not supported", "denied") else reason


def _section(title: str, about: tuple[str, ...], known: _Readings) -> Section:
    return Section(title, about, tuple(known.known), known.unknown)


def _cpu(machine: Machine, facts: MachineFacts, energy_j: float | None) -> Section:
    cpu = machine.cpu
    about = [units.device(facts.cpu_model)] if facts.cpu_model else []
    about += [_cores(facts.cores, facts.physical_cores)] if facts.cores else []
    if cpu is None:
        return Section("CPU", tuple(about), problem=machine.why.get("cpu", NOT_READ))
    known, why = _Readings(), cpu.why
    known.add("utilisation", _utilization(cpu.pct), why, "pct")
    known.add("temperature", temperature_of_cpu(cpu), why, "temperature_c")
    cores = len(cpu.cores or ()) or facts.cores
    busy = None
    if cpu.pct is not None and cores:
        busy = Figure("", f"{cpu.pct * cores / 100:.1f} of {cores} cores", cpu.pct / 100)
    known.add("busy", busy, why, "pct")
    clock = None if cpu.mhz is None else Figure("", f"{cpu.mhz / 1000:.1f} GHz")
    known.add("clock", clock, why, "mhz")
    load = None if cpu.load_1m is None else Figure("", f"{cpu.load_1m:.2f}")
    known.add("load average", load, why, "load_1m")
    known.add(
        "power", None if cpu.power_w is None else power_figure(cpu.power_w, None), why, *_WATT
    )
    energy = None if energy_j is None else Figure("", units.energy(energy_j))
    known.add("energy", energy, why, "energy_j", "power_w")
    known.add("allowed", _allowed(facts.cpu_limit, cpu.limit_used_pct), why)
    if facts.cpu_limit is not None and "limit_used_pct" in why:
        known.add("used of allowed", None, why, "limit_used_pct")
    held = cpu.throttled_pct
    if facts.cpu_limit is not None or held:
        throttled = None
        if held is not None:
            throttled = Figure("", f"{held:.0f} % of the time", level="high" if held else "")
        known.add("held back", throttled, why, "throttled_pct")
    for label, text in (("governor", facts.governor), ("runs on", _supply(facts.on_battery))):
        if text:
            known.add(label, Figure("", text), why)
    return _section("CPU", tuple(about), known)


_WATT = ("power_w", "energy_j")


def _cores(cores: int, physical: int | None) -> str:
    """Write how many cores there are to use; a physical one may count as two."""
    text = f"{cores} core{'s' if cores > 1 else ''}"
    return f"{text}, {physical} physical" if physical and physical < cores else text


def _allowed(cores: float | None, used_pct: float | None) -> Figure:
    """Return what a control group may use of the CPU, and how much of that it uses."""
    if cores is None:
        return Figure("", "all cores")
    if used_pct is None:
        return Figure("", f"{cores:g} cores")
    level: Level = "high" if used_pct >= BUSY_PCT else ""
    return Figure("", f"{cores:g} cores, {used_pct:.0f} % of it used", level=level)


def _memory(machine: Machine, facts: MachineFacts) -> Section:
    known = _Readings()
    memory, disk, network = machine.memory, machine.disk, machine.network
    why = {**machine.why, **(memory.why if memory is not None else {})}
    used_mib = memory.used_mib if memory is not None else None
    total_mib = facts.memory_limit_mib or facts.memory_mib
    in_use = None if used_mib is None else memory_figure("", used_mib, total_mib)
    known.add("memory", in_use, why, "used_mib", "memory")
    if facts.swap_mib:
        swap_mib = memory.swap_used_mib if memory is not None else None
        swap = None if swap_mib is None else memory_figure("", swap_mib, facts.swap_mib)
        known.add("swap", swap, why, "swap_used_mib", "memory")
        rate = memory.swap_mib_s if memory is not None else None
        moved = None if rate is None else Figure("", f"{rate:.1f} MiB/s", level=_above_0(rate))
        known.add("swapped", moved, why, "swap_mib_s", "memory")
    faults = memory.major_faults_s if memory is not None else None
    known.add("major faults", _faults(faults), why, "major_faults_s", "memory")
    why = {**machine.why, **(disk.why if disk is not None else {})}
    for label, name in (("disk read", "read_mib_s"), ("disk written", "write_mib_s")):
        rate = getattr(disk, name) if disk is not None else None
        known.add(label, None if rate is None else Figure("", rate_text(rate)), why, name, "disk")
    why = {**machine.why, **(network.why if network is not None else {})}
    both = (network.receive_mib_s, network.send_mib_s) if network is not None else (None, None)
    known.add("network", _text_figure(traffic_text(*both)), why, "receive_mib_s", "network")
    return _section("Memory, disk, network", (), known)


def _run(machine: Machine) -> Section | None:
    """Return what the run itself takes; None where there is no run."""
    tree = machine.process
    if tree is None:
        return None
    known, why = _Readings(), tree.why
    cpu = None if tree.cpu_pct is None else Figure("", f"{tree.cpu_pct / 100:.1f} cores")
    known.add("CPU", cpu, why, "cpu_pct")
    busiest = tree.busiest_thread_pct
    known.add("top thread", None if busiest is None else _share(busiest), why, *_BUSIEST)
    held = None if tree.rss_mib is None else Figure("", units.gibibytes(tree.rss_mib))
    known.add("memory", held, why, "rss_mib")
    count = None if tree.processes is None else Figure("", f"{tree.processes:,}")
    known.add("processes", count, why, "processes")
    threads = None if tree.threads is None else Figure("", f"{tree.threads:,}")
    known.add("threads", threads, why, "threads")
    known.add("major faults", _faults(tree.major_faults_s), why, "major_faults_s")
    return _section("This run", (), known)


_BUSIEST = ("busiest_thread_pct",)


def _sensors(machine: Machine, facts: MachineFacts) -> Section:
    known = _Readings()
    known.add("driver", _text_figure(facts.driver or ""), facts.why, "driver")
    known.add("CUDA", _text_figure(facts.cuda or ""), facts.why, "cuda")
    label, text = _users_of_gpus(machine, facts)
    if text:
        known.add(label, Figure("", text), facts.why)
    cost = machine.cost
    if cost is not None:
        known.add("cost", Figure("", f"{cost.cpu_ms:.1f} ms of CPU per sample"), {})
        known.add("late by", Figure("", f"{cost.late_ms:.1f} ms"), {})
    return _section("Driver and sensors", (), known)


def _users_of_gpus(machine: Machine, facts: MachineFacts) -> tuple[str, str]:
    """Say how many processes are on GPUs now; where that isn't read, how many others were."""
    if machine.processes is not None and machine.gpus:
        count = sum(bool(process.gpus) for process in machine.processes)
        if not count and any("gpus" in process.why for process in machine.processes):
            return "", ""
        more = " or more" if count >= MAX_ON_GPUS else ""
        return "GPUs used by", f"{processes_text(count)}{more}"
    others = facts.foreign_gpu_processes
    if others is None:
        return "", ""
    return "at the start", f"{others:,} other{'' if others == 1 else 's'} on the GPUs"


def _utilization(pct: float | None) -> Figure | None:
    if pct is None:
        return None
    return replace(_share(pct), level="high" if pct >= BUSY_PCT else "")


def _share(pct: float) -> Figure:
    return Figure("", f"{pct:.0f} %", pct / 100)


def _text_figure(text: str) -> Figure | None:
    return Figure("", text) if text else None


def _held(reasons: tuple[str, ...] | None) -> Figure | None:
    if reasons is None:
        return None
    return throttle_figure(reasons) if reasons else Figure("", "nothing")


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


def _faults(rate: float | None) -> Figure | None:
    return None if rate is None else Figure("", f"{rate:,.0f} per second")


def _above_0(rate: float) -> Level:
    return "high" if rate >= 0.05 else ""


def _supply(on_battery: bool | None) -> str:
    return "" if on_battery is None else "battery" if on_battery else "mains"
