"""The process table's columns, its order, and what is left by a filter. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from dlmon.figures import units
from dlmon.records import Process
from tui.widgets import sorted_table
from tui.widgets.sorted_table import Column


def memory_text(mib: int | None) -> str:
    """Write the memory that a process holds: 88 MiB, 1.8 GiB."""
    if mib is None:
        return "–"
    return f"{mib} MiB" if mib < 1024 else units.gibibytes(mib)


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _gpu_memory(process: Process) -> str:
    """Write what a process holds on GPUs: nothing where it is on none, a dash for unknown."""
    unknown = process.gpus or "gpus" in process.why or "gpu_memory_mib" in process.why
    if process.gpu_memory_mib is None and not unknown:
        return ""
    return memory_text(process.gpu_memory_mib)


def _without_folder(command: str | None) -> str | None:
    """Return a command without the folder that its program lies in."""
    if command is None or not command.startswith(("/", "./", "../")):
        return command
    program, *rest = command.split(" ", 1)
    return " ".join((program.rpartition("/")[2] or program, *rest))


def _largest_first(name: str, cells: int, title: str = "") -> Column:
    return Column(name, attrgetter(name), True, cells, is_text=False, title=title)


def running_for(process: Process, wall: float | None) -> str:
    """Write how long a process runs: 01:12, 2:03:04, or days."""
    if process.started is None or wall is None:
        return "–"
    running_s = max(0.0, wall - process.started)
    days = int(running_s // 86_400)
    return units.counted(days, "day") if days else units.clock(running_s)


COLUMNS = (
    Column("pid", lambda p: p.pid, cells=7, is_text=False),
    Column("user", lambda p: _lower(p.user), cells=8),
    Column("gpus", lambda p: p.gpus or None, cells=5, title="GPU"),
    _largest_first("gpu_memory_mib", 9, "GPU mem"),
    _largest_first("cpu_pct", 6, "CPU %"),
    _largest_first("rss_mib", 9, "memory"),
    _largest_first("threads", 8),
    Column("started", lambda p: p.started, cells=8, is_text=False, title="running"),
    Column("command", lambda p: _lower(_without_folder(p.command))),
)
BY_NAME = {column.name: column for column in COLUMNS}
_OF_GPUS = ("gpus", "gpu_memory_mib")


def cell_text(name: str, process: Process, wall: float | None) -> str:
    """Write a column of a process at a time of the machine's clock, where that is known."""
    match name:
        case "pid":
            return str(process.pid)
        case "gpus" if "gpus" not in process.why:
            return gpus_text(process.gpus)
        case "gpu_memory_mib":
            return _gpu_memory(process)
        case "rss_mib":
            return memory_text(process.rss_mib)
        case "started":
            return running_for(process, wall)
        case "command":
            return command_text(process)
        case "user":
            return process.user or "–"
    number = None if name == "gpus" else getattr(process, name)
    return "–" if number is None else f"{number:,.0f}"


# What goes first where there is little room, and the cells below which it does.
_LEAST_WIDTHS = {"threads": 95, "started": 84, "user": 64, "rss_mib": 52, "gpus": 44}


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
    command = _without_folder(process.command)
    if command is not None:
        return command
    return f"({process.why.get('command') or process.why.get('of_run') or 'unknown'})"


def columns_for(width: int, with_gpus: bool) -> list[Column]:
    """Return the columns that a width has room for; those of GPUs only where there is one."""
    return [
        column
        for column in COLUMNS
        if width >= _LEAST_WIDTHS.get(column.name, 0) and (with_gpus or column.name not in _OF_GPUS)
    ]


def in_order(processes: Iterable[Process], by: str, reverse: bool = False) -> list[Process]:
    """Return processes sorted by a column; equal ones stand by their share of the CPU, then pid."""
    even = sorted(processes, key=lambda process: (-(process.cpu_pct or 0.0), process.pid))
    return sorted_table.in_order(even, BY_NAME[by], reverse)


def matching(processes: Sequence[Process], typed: str) -> list[Process]:
    """Return the processes that hold every word of `typed`; `gpu:0` is on GPU 0."""
    words = typed.lower().split()
    return [process for process in processes if all(_has(process, word) for word in words)]


def reasons(process: Process) -> str:
    """Return each reason for which something of a process is unknown, and what that is."""
    headings = {column.name: column.heading for column in COLUMNS} | {"of_run": "of this run"}
    unknown: dict[str, list[str]] = {}
    for name, reason in process.why.items():
        unknown.setdefault(reason, []).append(headings.get(name, name))
    return "; ".join(f"{reason}: {', '.join(names)}" for reason, names in unknown.items())


def _has(process: Process, word: str) -> bool:
    """Return whether a process matches a word: `gpu:` is on any GPU, `gpu:1` on that one."""
    if word.startswith("gpu:"):
        number = word.removeprefix("gpu:")
        return number in ("", *map(str, process.gpus)) and bool(process.gpus)
    return word in f"{process.pid} {process.user or ''} {process.command or ''}".lower()
