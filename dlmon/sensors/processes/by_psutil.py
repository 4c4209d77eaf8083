"""Processes as psutil sees them, for a Mac, which has no /proc.

All raise OSError if there is no such process, or if it can't be read, as another user's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlmon.sensors.kernel_files import psutil

NOT_READ = "not read on a Mac"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def pids() -> list[int]:
    """Return the pids of all processes."""
    return list(psutil.pids())


def wall_at_boot() -> float:
    """Return the Unix time of this machine's boot."""
    return float(psutil.boot_time())


def stat(pid: int) -> dict[str, Any]:
    """Return the fields of `Stat`."""
    with _process(pid) as process, process.oneshot():
        memory, cpu, status = process.memory_info(), process.cpu_times(), process.status()
        return {
            "name": process.name(),
            "running": status != psutil.STATUS_ZOMBIE,
            "blocked": status == psutil.STATUS_DISK_SLEEP,
            "parent": process.ppid(),
            "session": os.getsid(pid),
            "major_faults": getattr(memory, "pageins", 0),
            "ticks": int((cpu.user + cpu.system) * _TICKS_PER_S),
            "threads": process.num_threads(),
            "started": int((process.create_time() - wall_at_boot()) * _TICKS_PER_S),
            "rss_pages": memory.rss // _PAGE_BYTES,
        }


def user_id(pid: int) -> int:
    """Return a process's effective user."""
    with _process(pid) as process:
        return int(process.uids().effective)


def command(pid: int) -> bytes:
    """Return a process's command line, with a NUL between words as in /proc."""
    with _process(pid) as process:
        return "\0".join(process.cmdline()).encode("utf-8", "replace")


@contextmanager
def _process(pid: int) -> Iterator[Any]:
    try:
        yield psutil.Process(pid)
    except psutil.Error as error:
        raise ProcessLookupError(None, str(error)) from None
