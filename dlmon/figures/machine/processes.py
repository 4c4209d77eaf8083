"""Write processes in words, and filter them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from dlmon.figures import units
from dlmon.figures.columns import Column
from dlmon.records import MAX_ON_GPUS, Gpu, Machine, MachineFacts, Process
from dlmon.session.framework_memory import amount


def lowered(text: str | None) -> str | None:
    """Return the sort key of a text; None for None."""
    return text.lower() if text else None


def memory_text(mib: int | None) -> str:
    """Write the memory of a process: 88 MiB, 1.8 GiB."""
    return "–" if mib is None else amount(mib)


def _gpu_memory(process: Process) -> str:
    """Write the GPU memory of a process: empty if it uses no GPU, a dash if unknown."""
    unknown = process.gpus or "gpus" in process.why or "gpu_memory_mib" in process.why
    if process.gpu_memory_mib is None and not unknown:
        return ""
    return memory_text(process.gpu_memory_mib)


def without_folder(command: str | None) -> str | None:
    """Return a command without the folder of its program."""
    if command is None or not command.startswith(("/", "./", "../")):
        return command
    program, *rest = command.split(" ", 1)
    return " ".join((program.rpartition("/")[2] or program, *rest))


def running_for(process: Process, wall: float | None) -> str:
    """Write the running time of a process: 01:12, 2:03:04, or days."""
    if process.started is None or wall is None:
        return "–"
    running_s = max(0.0, wall - process.started)
    days = int(running_s // 86_400)
    return units.counted(days, "day") if days else units.clock(running_s)


def gpus_text(gpus: Iterable[int]) -> str:
    """Write the numbers of GPUs: 0, or 0-3,6."""
    numbers = sorted(set(gpus))
    parts = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *more = (number for _, number in run)
        parts.append(f"{first}-{more[-1]}" if more else str(first))
    return ",".join(parts)


def command_text(process: Process) -> str:
    """Return the command without its program's folder, or in brackets why it is unknown."""
    command = without_folder(process.command)
    if command is not None:
        return command
    return f"({process.why.get('command') or process.why.get('of_run') or 'unknown'})"


def columns_at(wall: float | None) -> tuple[Column[Process], ...]:
    """Return the columns of a table of processes; their running time needs the host's clock."""
    return (
        Column("pid", lambda row: str(row.pid), lambda row: row.pid, is_number=True, cells=7),
        Column("user", lambda row: row.user or "–", lambda row: lowered(row.user), cells=8),
        Column("gpus", _gpus, lambda row: row.gpus or None, title="GPU", cells=5),
        _largest_first("gpu_memory_mib", 9, "GPU mem", _gpu_memory),
        _largest_first("cpu_pct", 6, "CPU %"),
        _largest_first("rss_mib", 9, "memory", lambda row: memory_text(row.rss_mib)),
        _largest_first("threads", 8, "threads"),
        Column(
            "started",
            lambda row: running_for(row, wall),
            lambda row: row.started,
            is_number=True,
            title="running",
            cells=8,
        ),
        Column("command", command_text, lambda row: lowered(without_folder(row.command))),
    )


def _gpus(process: Process) -> str:
    return "–" if "gpus" in process.why else gpus_text(process.gpus)


def _largest_first(
    name: str, cells: int, title: str, text: Callable[[Process], str] | None = None
) -> Column[Process]:
    order = attrgetter(name)

    def number(process: Process) -> str:
        value = order(process)
        return "–" if value is None else f"{value:,.0f}"

    return Column(name, text or number, order, True, True, title=title, cells=cells)


def matching(processes: Sequence[Process], typed: str) -> list[Process]:
    """Return the processes that match every word of `typed`; `gpu:0` matches those on GPU 0."""
    words = typed.lower().split()
    return [process for process in processes if all(_has(process, word) for word in words)]


def _has(process: Process, word: str) -> bool:
    """Return whether a process matches a word; `gpu:` matches any GPU, `gpu:1` that one."""
    if word.startswith("gpu:"):
        number = word.removeprefix("gpu:")
        return number in ("", *map(str, process.gpus)) and bool(process.gpus)
    return word in f"{process.pid} {process.user or ''} {process.command or ''}".lower()


def users_of_gpus(machine: Machine, facts: MachineFacts) -> tuple[str, str]:
    """Count the processes on GPUs now; if they aren't read, those of others at the start."""
    if machine.processes is not None and machine.gpus:
        count = sum(bool(process.gpus) for process in machine.processes)
        if not count and any("gpus" in process.why for process in machine.processes):
            return "", ""
        more = " or more" if count >= MAX_ON_GPUS else ""
        return "GPUs used by", f"{units.counted(count, 'process')}{more}"
    count_at_start = facts.foreign_gpu_processes
    if count_at_start is None:
        return "", ""
    return "at the start", f"{units.counted(count_at_start, 'other')} on the GPUs"


def why_users_unknown(machine: Machine) -> dict[str, str]:
    """Return why the processes on GPUs are unknown; empty if they are known."""
    rows = machine.processes
    if rows is None:
        why = machine.why.get("processes", "processes are read every 5 s")
    else:
        why = next((row.why["gpus"] for row in rows if "gpus" in row.why), "")
    return {"processes": why} if why else {}


def instance_rows(gpu: Gpu, machine: Machine | None) -> Iterator[tuple[str, str]]:
    """Yield the name, memory and users of each MIG instance of a GPU."""
    rows = (machine.processes if machine is not None else None) or ()
    on_it = {row.pid: row for row in rows if gpu.index in row.gpus}
    for part in gpu.instances or ():
        # "NVIDIA H100 80GB HBM3 MIG 1g.10gb": its GPU is named above it.
        profile = (part.name or "").rpartition("MIG ")[2]
        memory = part.why.get("memory_used_mib", "")
        if part.memory_used_mib is not None:
            memory = units.memory_in_use(part.memory_used_mib, part.memory_mib or None)
        users = [_who(on_it[pid]) if pid in on_it else f"pid {pid}" for pid in part.pids or ()]
        used_by = ", ".join(users) or ("nobody" if part.pids is not None else "")
        unknown = "" if part.pids is not None else part.why.get("pids", "")
        text = ", ".join(filter(None, (profile, memory, used_by or unknown)))
        yield f"MIG {part.index}", text


def users_of(gpu: Gpu, machine: Machine) -> str:
    """Name the processes on a GPU, with their users and memory; empty if unknown."""
    on_it = [row for row in machine.processes or () if gpu.index in row.gpus]
    if not on_it:
        return "" if why_users_unknown(machine) else "nobody"
    on_it.sort(key=lambda row: -(row.gpu_memory_mib or 0))
    return ", ".join(map(_user, on_it))


def _who(row: Process) -> str:
    return f"{row.user} (pid {row.pid})" if row.user else f"pid {row.pid}"


def _user(row: Process) -> str:
    name = _who(row)
    if row.gpu_memory_mib is None:
        return name
    several = f" on {len(row.gpus)} GPUs" if len(row.gpus) > 1 else ""
    return f"{name} {memory_text(row.gpu_memory_mib)}{several}"
