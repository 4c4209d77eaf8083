"""All that is known of a machine, part by part, and why the rest is not. Pure."""

from __future__ import annotations

from dlmon.comparison.conditions import cores as cores_text
from dlmon.figures import units
from dlmon.figures.machine import (
    NOT_READ,
    Figure,
    Part,
    cpu_figures,
    gpu_figures,
    has_no_readings,
    memory_figures,
    no_utilization,
    run_figures,
)
from dlmon.records import MAX_ON_GPUS, Gpu, GpuFacts, Machine, MachineFacts, Process
from dlmon.records.record import record
from tui.machine.process_rows import memory_text
from tui.machine.view import MachineView, is_over


@record(frozen=True)
class Section:
    """One part of a machine: what it is, and its figures, known or not.

    A part without readings has its `problem` in place of them.
    """

    title: str
    about: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    problem: str = ""

    @property
    def unknown(self) -> dict[str, str]:
        """Each reason why something is unknown, with the names of all that it is the reason of."""
        names: dict[str, list[str]] = {}
        for figure in self.figures:
            if not figure.known:
                names.setdefault(figure.value, []).append(figure.label)
        return {reason: ", ".join(labels) for reason, labels in names.items()}


def sections(view: MachineView) -> list[Section]:
    """Return every GPU, then the rest of the machine."""
    machine, facts = view.history.latest, view.facts
    found = [_gpu(view, gpu) for gpu in view.gpus]
    if not found:
        found = [Section("GPU", problem=view.no_gpus or view.no_sample or view.no_reading)]
    if machine is None:
        return found
    energy_j = view.history.energy.cpu.joules_since_start
    cpu = tuple(cpu_figures(machine, facts, energy_j, in_depth=True))
    about = [units.device(facts.cpu_model)] if facts.cpu_model else []
    about += [_cores(facts.cores, facts.physical_cores)] if facts.cores else []
    problem = "" if cpu else machine.why.get("cpu", NOT_READ)
    found.append(Section("CPU", tuple(about), cpu, problem))
    memory = tuple(memory_figures(machine, facts, in_depth=True))
    found.append(Section("Memory, disk, network", figures=memory))
    if machine.process is not None:
        of_run = tuple(run_figures(machine.process, in_depth=True))
        found.append(Section("This run", figures=of_run))
    return [*found, Section("Driver and sensors", figures=tuple(_sensors(machine, facts)))]


def _gpu(view: MachineView, gpu: Gpu) -> Section:
    facts, machine = view.facts_of(gpu) or GpuFacts(gpu.index, ""), view.history.latest
    trains = "trains" if gpu.index in view.training and not is_over(view) else ""
    about = (units.device(facts.name), trains, facts.bus_id, facts.uuid)
    figures = gpu_figures(gpu, facts, view.energy_j_of(gpu), in_depth=True)
    problem = ""
    if has_no_readings(gpu):
        reason = no_utilization(gpu, view.no_reading)
        problem = f"{NOT_READ}: {reason}" if reason in ("not supported", "denied") else reason
        figures = [one for one in figures if one.label == "energy" and one.known]
    elif machine is not None:
        part = Part(gpu, _why_users_unknown(machine), in_depth=True)
        part.add("used by", _users(gpu, machine), "processes")
        figures += part.figures
    said = tuple(text for text in about if text)
    return Section(f"GPU {gpu.index}", said, tuple(figures), problem)


def _cores(cores: int, physical: int | None) -> str:
    """Write how many cores there are to use; a physical one may count as two."""
    text = cores_text(cores)
    return f"{text}, {physical} physical" if physical and physical < cores else text


def _sensors(machine: Machine, facts: MachineFacts) -> list[Figure]:
    part = Part(facts, facts.why, in_depth=True)
    part.take("driver", "driver", "{}")
    part.take("CUDA", "cuda", "{}")
    label, text = _users_of_gpus(machine, facts)
    if text:
        part.add(label, text)
    cost = machine.cost
    if cost is not None:
        part.add("cost", f"{cost.cpu_ms:.1f} ms of CPU per sample")
        part.add("late by", f"{cost.late_ms:.1f} ms")
    return part.figures


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


def _why_users_unknown(machine: Machine) -> dict[str, str]:
    """Return why it isn't known which processes are on GPUs, where that is so."""
    rows = machine.processes
    if rows is None:
        why = machine.why.get("processes", "processes are read every 5 s")
    else:
        why = next((row.why["gpus"] for row in rows if "gpus" in row.why), "")
    return {"processes": why} if why else {}


def _users(gpu: Gpu, machine: Machine) -> str:
    """Name who uses a GPU: the user, the process, and what it holds; empty where unknown."""
    on_it = [row for row in machine.processes or () if gpu.index in row.gpus]
    if not on_it:
        return "" if _why_users_unknown(machine) else "nobody"
    on_it.sort(key=lambda row: -(row.gpu_memory_mib or 0))
    return ", ".join(map(_user, on_it))


def _user(row: Process) -> str:
    name = f"{row.user} (pid {row.pid})" if row.user else f"pid {row.pid}"
    if row.gpu_memory_mib is None:
        return name
    several = f" on {len(row.gpus)} GPUs" if len(row.gpus) > 1 else ""
    return f"{name} {memory_text(row.gpu_memory_mib)}{several}"
