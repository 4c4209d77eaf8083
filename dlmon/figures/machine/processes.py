"""Write processes in words, and filter them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dlmon.figures import units
from dlmon.figures.columns import Column, lowered, measured_column
from dlmon.figures.units import gpus_text
from dlmon.records import MAX_ON_GPUS, Gpu, Machine, MachineFacts, Process
from dlmon.records.words import memory_amount
from dlmon.script_name import program_name
from dlmon.system.foreign_processes import SAME_START_S

_GPU_FIELDS = ("gpus", "gpu_memory_mib")
_KTHREADD = 2


def _gpu_memory(process: Process) -> str:
    """Write the GPU memory of a process: empty if it uses no GPU, a dash if unknown."""
    if process.gpu_memory_mib is not None:
        return memory_amount(process.gpu_memory_mib)
    return "–" if process.gpus or process.why.keys() & {*_GPU_FIELDS} else ""


def _engines(process: Process) -> str:
    """Write the share of GPU time of a process: empty if it uses no GPU, a dash if unknown."""
    if process.gpu_pct is not None:
        return units.count(process.gpu_pct)
    return "–" if process.gpus else ""


def without_folder(command: str | None) -> str | None:
    """Return a command without the folder of its program."""
    if command is None or not command.startswith(("/", "./", "../")):
        return command
    program, *rest = command.split(" ", 1)
    return " ".join((program.rpartition("/")[2] or program, *rest))


def without_interpreter(command: str) -> str:
    """Return a command of Python's from the script or module on, which tells it from others."""
    program = program_name(command) or ""
    interpreter, _, rest = command.partition(" ")
    is_script = interpreter.startswith("python") and program != interpreter
    at = rest.find(program) if is_script else -1
    return rest[at:] if at >= 0 else command


def running_for(process: Process, wall: float | None) -> str:
    """Write the running time of a process: 01:12, 2:03:04, or days."""
    if process.started is None or wall is None:
        return "–"
    running_s = max(0.0, wall - process.started)
    days = int(running_s // 86_400)
    return units.counted(days, "day") if days else units.clock(running_s)


def command_text(process: Process) -> str:
    """Return the command without its program's folder, or in brackets why it is unknown."""
    command = without_folder(process.command)
    if command is not None:
        return command
    why = process.why.get("command") or process.why.get("of_run") or "unknown"
    on_gpu = f"{_gpu_memory(process)} on GPU {gpus_text(process.gpus)}: " if process.gpus else ""
    return f"({on_gpu}{why})"


def about_process(process: Process, every: Iterable[Process]) -> str:
    """Write what a table may have no room for: the whole user, the parent, the threads."""
    parent = next((row for row in every if row.pid == process.parent), None)
    program = parent and program_name(parent.command)
    named = f" ({program})" if program else ""
    parts = (
        f"of {process.user}" if process.user else "",
        f"parent {process.parent}{named}" if process.parent else "",
        "" if process.threads is None else units.counted(process.threads, "thread"),
    )
    return ", ".join(filter(None, parts))


def columns_at(wall: float | None) -> tuple[Column[Process], ...]:
    """Return the columns of a table of processes; their running time needs the host's clock."""
    return (
        Column("pid", lambda row: str(row.pid), lambda row: row.pid, is_number=True, cells=7),
        Column("user", lambda row: row.user or "–", lambda row: lowered(row.user), cells=8),
        Column("gpus", _gpus, lambda row: row.gpus or None, title="GPU", cells=5),
        Column(
            "gpu_memory_mib",
            _gpu_memory,
            lambda row: row.gpu_memory_mib,
            largest_first=True,
            is_number=True,
            title="GPU mem",
            cells=9,
        ),
        Column(
            "gpu_pct",
            _engines,
            lambda row: row.gpu_pct,
            largest_first=True,
            is_number=True,
            title="GPU %",
            cells=5,
        ),
        measured_column("cpu_pct", units.count, title="CPU %", cells=6),
        measured_column("rss_mib", memory_amount, title="memory", cells=9),
        measured_column("threads", units.count, cells=8),
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


def with_table(every: Sequence[Process], table: Sequence[Process]) -> tuple[Process, ...]:
    """Return all processes, with what only a session's table of processes knows of them.

    Args:
        every: all processes of a machine; kernel threads are left out.
        table: the rows of the session: what is on GPUs, and what belongs to the run.
    """
    # In a container, pid 2 may be any process.
    if any(row.pid == _KTHREADD and row.command == "[kthreadd]" for row in every):
        every = [row for row in every if _KTHREADD not in (row.pid, row.parent)]
    rows = {row.pid: row for row in table if row.started is not None}
    own = {pid for pid, row in rows.items() if row.of_run}
    for process in sorted(every, key=lambda process: process.started or 0.0):
        # A parent starts before its children.
        own |= {process.pid} if process.parent in own else set()
    why_unknown = {n: why for row in table for n, why in row.why.items() if n in _GPU_FIELDS}
    merged = []
    for process in every:
        row = rows.get(process.pid)
        if row is None or abs((process.started or 0) - (row.started or 0)) > SAME_START_S:
            row = Process(process.pid, why=why_unknown)
        merged.append(
            replace(
                process,
                gpus=row.gpus,
                gpu_memory_mib=row.gpu_memory_mib,
                gpu_pct=row.gpu_pct,
                of_run=process.pid in own,
                why=process.why | {n: why for n, why in row.why.items() if n in _GPU_FIELDS},
            )
        )
    # A driver may number processes in another way.
    return (*merged, *(row for row in table if row.started is None))


def as_tree(processes: Iterable[Process]) -> list[tuple[Process, str]]:
    """Return each process below its parent, siblings by pid, with the branch before its command."""
    by_pid = {process.pid: process for process in processes}
    children: dict[int | None, list[Process]] = {}
    for pid in sorted(by_pid):
        parent = by_pid[pid].parent
        children.setdefault(parent if parent in by_pid else None, []).append(by_pid[pid])
    rows: list[tuple[Process, str]] = []
    # Without recursion: a tree may be deep.
    waiting = [(process, "", "") for process in reversed(children.get(None, []))]
    while waiting:
        process, branch, indent = waiting.pop()
        rows.append((process, branch))
        below = children.get(process.pid, [])
        for child in reversed(below):
            is_last = child is below[-1]
            lines = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            waiting.append((child, indent + lines[0], indent + lines[1]))
    # A damaged log may name no root.
    shown = {process.pid for process, _ in rows}
    return [*rows, *((by_pid[pid], "") for pid in sorted(by_pid.keys() - shown))]


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
    on_it = {row.pid: row for row in _on(gpu, machine)}
    for part in gpu.instances or ():
        # "NVIDIA H100 80GB HBM3 MIG 1g.10gb": its GPU is named above it.
        profile = (part.name or "").rpartition("MIG ")[2]
        memory = part.why.get("memory_used_mib", "")
        if part.memory_used_mib is not None:
            memory = units.memory_in_use(part.memory_used_mib, part.memory_mib or None)
        users = [_who(on_it[pid]) if pid in on_it else f"pid {pid}" for pid in part.pids or ()]
        used_by = ", ".join(users) or ("nobody" if part.pids is not None else "")
        unknown = "" if part.pids is not None else part.why.get("pids", "")
        busy = part.why.get("utilization_pct", "")
        if part.utilization_pct is not None:
            busy = f"{units.percent(part.utilization_pct)} busy"
        text = ", ".join(filter(None, (profile, busy, memory, used_by or unknown)))
        yield f"MIG {part.index}", text


def users_of(gpu: Gpu, machine: Machine) -> str:
    """Name the processes on a GPU, with their users and memory; empty if unknown."""
    if on_it := _on(gpu, machine):
        return ", ".join(map(_user, on_it))
    return "" if why_users_unknown(machine) else "nobody"


def gpu_users(gpu: Gpu, machine: Machine | None) -> tuple[str, ...]:
    """Write the user, memory and program of each process on a GPU, the largest first."""
    users = (
        (
            row.user,
            "" if row.gpu_memory_mib is None else memory_amount(row.gpu_memory_mib),
            program_name(row.command) or f"pid {row.pid}",
        )
        for row in _on(gpu, machine)
    )
    return tuple(" ".join(filter(None, user)) for user in users)


def who_uses(gpu: Gpu, machine: Machine | None) -> str:
    """Name the user and the program of each process on a GPU, the largest first."""
    names = (
        " ".join(filter(None, (row.user, program_name(row.command)))) or f"pid {row.pid}"
        for row in _on(gpu, machine)
    )
    return ", ".join(dict.fromkeys(names))


def _on(gpu: Gpu, machine: Machine | None) -> list[Process]:
    """Return the processes on a GPU, those with the most memory first."""
    rows = (machine.processes if machine is not None else None) or ()
    on_it = (row for row in rows if gpu.index in row.gpus)
    return sorted(on_it, key=lambda row: -(row.gpu_memory_mib or 0))


def _who(row: Process) -> str:
    return f"{row.user} (pid {row.pid})" if row.user else f"pid {row.pid}"


def _user(row: Process) -> str:
    name = _who(row)
    if row.gpu_memory_mib is None:
        return name
    several = f" on {len(row.gpus)} GPUs" if len(row.gpus) > 1 else ""
    return f"{name} {memory_amount(row.gpu_memory_mib)}{several}"


def reasons_text(process: Process) -> str:
    """Return the reasons why figures of a process are unknown, each with the figures' names."""
    headings = {"of_run": "of this run"}
    headings |= {column.name: column.heading for column in columns_at(None)}
    unknown: dict[str, list[str]] = {}
    for name, reason in process.why.items():
        unknown.setdefault(reason, []).append(headings.get(name, name))
    return "; ".join(f"{reason}: {', '.join(names)}" for reason, names in unknown.items())
