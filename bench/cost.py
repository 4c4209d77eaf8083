"""What processes cost: CPU time and memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import psutil
from harness import CannotRun

# A part of their command lines distinguishes dlmon's processes.
PARTS = {"supervisor": "dlmon.supervisor", "sensors": "dlmon.sensors"}

Reading = tuple[float, dict[str, float]]
"""A moment, and what had been counted of each thing by then: seconds of CPU, or bytes."""


def cpu_s(pid: int) -> float:
    """Return the CPU time, user and system, of all threads of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def read(pids: dict[str, int]) -> Reading:
    """Return the CPU time of processes by now."""
    return time.monotonic(), {name: cpu_s(pid) for name, pid in pids.items()}


def rates(readings: Sequence[Reading]) -> dict[str, list[float]]:
    """Return by how much each count grew a second, from each reading to the next."""
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
        CannotRun: one of them does not run.
    """
    found = {"viewer": viewer_pid}
    wanted = {**PARTS, "workload": workload}
    for process in psutil.Process(viewer_pid).children(recursive=True):
        command = " ".join(process.cmdline())
        for name, part in wanted.items():
            if part in command:
                # A child of the workload has the same command line; the first is it.
                found.setdefault(name, process.pid)
    missing = sorted(wanted.keys() - found.keys())
    if missing:
        raise CannotRun(f"no {' and no '.join(missing)} runs under dlmon")
    return found
