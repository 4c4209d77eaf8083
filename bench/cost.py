"""Measure the CPU time and the memory of processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import psutil
from harness import CannotRun

# Parts of the command lines of dlmon's processes.
PARTS = {"supervisor": "dlmon.supervisor", "sensors": "dlmon.sensors"}

Reading = tuple[float, dict[str, float]]
"""A time in seconds, and the total of each counter at that time: seconds of CPU, or bytes."""


def cpu_s(pid: int) -> float:
    """Return the user and system CPU time of all threads of a process."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def read(pids: dict[str, int]) -> Reading:
    """Return the present CPU times of processes."""
    return time.monotonic(), {name: cpu_s(pid) for name, pid in pids.items()}


def rates(readings: Sequence[Reading]) -> dict[str, list[float]]:
    """Return the increase per second of each counter between successive readings."""
    pairs = list(itertools.pairwise(readings))
    return {
        name: [(after[name] - before[name]) / (t - since) for (since, before), (t, after) in pairs]
        for name in readings[0][1]
    }


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return psutil.Process(pid).memory_info().rss / (1 << 20)


def processes_of(viewer_pid: int, workload: str) -> dict[str, int]:
    """Return the pids of viewer, supervisor, sensors and workload under a viewer.

    Args:
        viewer_pid: the viewer.
        workload: a part of the workload's command line.

    Raises:
        CannotRun: one of them is not running.
    """
    pids = {"viewer": viewer_pid}
    wanted = {**PARTS, "workload": workload}
    for process in psutil.Process(viewer_pid).children(recursive=True):
        command = " ".join(process.cmdline())
        for name, part in wanted.items():
            if part in command:
                # Children of the workload have the same command line; the workload comes first.
                pids.setdefault(name, process.pid)
    missing = sorted(wanted.keys() - pids.keys())
    if missing:
        raise CannotRun(f"no {' and no '.join(missing)} runs under dlmon")
    return pids
