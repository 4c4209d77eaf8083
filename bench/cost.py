"""What processes cost, from /proc: CPU time and memory."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from harness import CannotRun

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A part of their command lines distinguishes dlmon's processes.
PARTS = {"supervisor": "dlmon.supervisor", "sensors": "dlmon.sensors"}


def cpu_s(pid: int) -> float:
    """Return the CPU time, user and system, of all threads of a process so far.

    Raises:
        CannotRun: it has ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        raise CannotRun(f"process {pid} ended while it was measured") from None
    # The name in parentheses may hold anything; state is the first field after it.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def ran_ns(pid: int) -> int:
    """Return the time that all threads of a process have run, by the scheduler's own count.

    It is finer than `cpu_s` (schedstats of proc(5)), and leaves out threads that have ended.

    Raises:
        CannotRun: the process has ended.
    """
    ran = 0
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                ran += int((thread / "schedstat").read_text().split()[0])
    except OSError:
        raise CannotRun(f"process {pid} ended while it was measured") from None
    return ran


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    try:
        statm = Path(f"/proc/{pid}/statm").read_text()
    except OSError:
        statm = ""
    # One that has ended and was not waited for has no pages any more.
    pages = int(statm.split()[1]) if statm else 0
    if not pages:
        raise CannotRun(f"process {pid} ended while it was measured")
    return pages * PAGE_BYTES / (1 << 20)


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
    try:
        for process in psutil.Process(viewer_pid).children(recursive=True):
            command = " ".join(process.cmdline())
            for name, part in wanted.items():
                if part in command:
                    # A child of the workload has the same command line; the first is it.
                    found.setdefault(name, process.pid)
    except psutil.NoSuchProcess as error:
        raise CannotRun(f"process {error.pid} ended while it was looked at") from None
    missing = sorted(wanted.keys() - found.keys())
    if missing:
        raise CannotRun(f"no {' and no '.join(missing)} runs under dlmon")
    return found


@dataclass(frozen=True)
class Reading:
    """CPU time and terminal output of several processes at one moment."""

    at: float
    cpu_s: dict[str, float]
    sent_bytes: dict[str, int]

    def cpu_pct_since(self, before: Reading) -> dict[str, float]:
        """Return each process's CPU since `before`, in percent of one core."""
        took_s = self.at - before.at
        return {
            name: (used_s - before.cpu_s[name]) / took_s * 100
            for name, used_s in self.cpu_s.items()
        }

    def bytes_per_s_since(self, before: Reading) -> dict[str, float]:
        """Return each terminal's bytes a second since `before`."""
        took_s = self.at - before.at
        return {
            name: (count - before.sent_bytes[name]) / took_s
            for name, count in self.sent_bytes.items()
        }


def read(pids: dict[str, int], sent_bytes: dict[str, int] | None = None) -> Reading:
    """Read all processes now; `sent_bytes` is what each terminal was sent so far."""
    return Reading(
        at=time.monotonic(),
        cpu_s={name: cpu_s(pid) for name, pid in pids.items()},
        sent_bytes=dict(sent_bytes or {}),
    )
