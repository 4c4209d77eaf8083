"""The process table's columns, its order, and what is left by a filter. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from dlmon.figures import units
from dlmon.records import Process
from dlmon.records.record import record


@record(frozen=True)
class ProcessColumn:
    """One column, sorted by `value`, which is None where it is unknown.

    `text` writes it as it is at a time of the machine's clock, where that is known.
    `cells` is the width of its widest usual text; with `largest_first` the
    first sort puts the largest on top.
    """

    name: str
    heading: str
    cells: int
    value: Callable[[Process], Any]
    text: Callable[[Process, float | None], str]
    largest_first: bool = False
    of_gpus: bool = False


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


def running_for(process: Process, wall: float | None) -> str:
    """Write how long a process runs: 01:12, 2:03:04, or days."""
    if process.started is None or wall is None:
        return "–"
    running_s = max(0.0, wall - process.started)
    days = int(running_s // 86_400)
    return units.counted(days, "day") if days else units.clock(running_s)


COLUMNS: tuple[ProcessColumn, ...] = (
    ProcessColumn("pid", "pid", 7, lambda p: p.pid, lambda p, _: str(p.pid)),
    ProcessColumn("user", "user", 8, lambda p: _lower(p.user), lambda p, _: p.user or "–"),
    ProcessColumn(
        "gpus",
        "GPU",
        5,
        lambda p: p.gpus or None,
        lambda p, _: "–" if "gpus" in p.why else gpus_text(p.gpus),
        of_gpus=True,
    ),
    ProcessColumn(
        "gpu_memory_mib",
        "GPU mem",
        9,
        lambda p: p.gpu_memory_mib,
        lambda p, _: _gpu_memory(p),
        largest_first=True,
        of_gpus=True,
    ),
    ProcessColumn(
        "cpu_pct",
        "CPU %",
        6,
        lambda p: p.cpu_pct,
        lambda p, _: "–" if p.cpu_pct is None else f"{p.cpu_pct:.0f}",
        largest_first=True,
    ),
    ProcessColumn(
        "rss_mib",
        "memory",
        9,
        lambda p: p.rss_mib,
        lambda p, _: memory_text(p.rss_mib),
        largest_first=True,
    ),
    ProcessColumn(
        "threads",
        "threads",
        8,
        lambda p: p.threads,
        lambda p, _: "–" if p.threads is None else f"{p.threads:,}",
        largest_first=True,
    ),
    ProcessColumn("started", "running", 8, lambda p: p.started, running_for),
    ProcessColumn(
        "command",
        "command",
        0,
        lambda p: _lower(_without_folder(p.command)),
        lambda p, _: command_text(p),
    ),
)
BY_NAME = {column.name: column for column in COLUMNS}

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


def process_key(process: Process) -> tuple[int, bool]:
    """Return what identifies a process: a pid may be used in two namespaces."""
    return process.pid, "of_run" in process.why


def columns_for(width: int, with_gpus: bool) -> list[ProcessColumn]:
    """Return the columns that a width has room for; those of GPUs only where there is one."""
    return [
        column
        for column in COLUMNS
        if width >= _LEAST_WIDTHS.get(column.name, 0) and (with_gpus or not column.of_gpus)
    ]


def in_order(processes: Iterable[Process], by: str, reverse: bool = False) -> list[Process]:
    """Return processes sorted by a column; those without a value come last either way.

    Equal ones stand by their share of the CPU, then by pid.
    """
    column = BY_NAME[by]
    even = sorted(processes, key=lambda process: (-(process.cpu_pct or 0.0), process.pid))
    known = [process for process in even if column.value(process) is not None]
    known.sort(key=column.value, reverse=column.largest_first != reverse)
    return known + [process for process in even if column.value(process) is None]


def matching(processes: Sequence[Process], typed: str) -> list[Process]:
    """Return the processes that hold every word of `typed`; `gpu:0` is on GPU 0."""
    words = typed.lower().split()
    return [process for process in processes if all(_has(process, word) for word in words)]


def next_column(by: str, step: int, with_gpus: bool) -> str:
    """Return the column after one, or before it; after the last comes the first."""
    names = [column.name for column in COLUMNS if with_gpus or not column.of_gpus]
    return names[(names.index(by) + step) % len(names)] if by in names else names[0]


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
