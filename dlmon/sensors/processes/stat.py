"""Every process of the machine, from /proc/PID/stat."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dlmon.sensors import kernel_files

BUSY_PCT = 1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# A large machine has thousands of processes that do nothing: so many of them are read at a time,
# those that were not read for the longest time.
MAX_IDLE = 500


class Stat(NamedTuple):
    """The fields of /proc/PID/stat. A process is its pid and `started`: pids are used again."""

    name: str
    running: bool
    blocked: bool
    parent: int
    session: int
    major_faults: int
    ticks: int
    threads: int
    started: int
    rss_pages: int


class CpuSample(NamedTuple):
    """A process at one time, and the percent of a core it took since the sample before, if any."""

    stat: Stat
    t: int
    cpu_pct: int | None


class Scan:
    """All processes as they were read last, the one read longest ago first."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.samples: dict[int, CpuSample] = {}
        self.why: str | None = "not read yet"
        """Why nothing is known of any process, if so."""

    @property
    def stats(self) -> dict[int, Stat]:
        return {pid: sample.stat for pid, sample in self.samples.items()}

    def update(self, t: int, fresh: Mapping[int, Stat]) -> None:
        """Read the processes, but for those that were read just now: these are `fresh`."""
        try:
            there = set(kernel_files.numbered(self.proc))
        except OSError as error:
            self.samples, self.why = {}, kernel_files.reason(error)
            return
        self.why = None
        for pid in self.samples.keys() - there:
            del self.samples[pid]
        for pid in self._due(there - fresh.keys()):
            self.find(pid, t)
        for pid, stat in fresh.items():
            self._note(pid, stat, t)

    def find(self, pid: int, t: int) -> CpuSample | None:
        """Read one process; None when there is none, or it can't be read."""
        try:
            stat = read_stat(self.proc, pid)
        except (OSError, ValueError):
            self.samples.pop(pid, None)
            return None
        return self._note(pid, stat, t)

    def _due(self, pids: set[int]) -> Iterable[int]:
        idle: list[int] = []
        due: list[int] = []
        for pid, sample in self.samples.items():
            if pid in pids:
                is_idle = sample.cpu_pct is not None and sample.cpu_pct < BUSY_PCT
                (idle if is_idle else due).append(pid)
        return [*(pids - self.samples.keys()), *due, *idle[:MAX_IDLE]]

    def _note(self, pid: int, stat: Stat, t: int) -> CpuSample:
        before = self.samples.pop(pid, None)
        cpu_pct = None
        if before is not None and before.stat.started == stat.started and t > before.t:
            spent_s = max(0, stat.ticks - before.stat.ticks) / _TICKS_PER_S
            cpu_pct = round(100 * spent_s / ((t - before.t) / 1e9))
        sample = self.samples[pid] = CpuSample(stat, t, cpu_pct)
        return sample


def wall_at_boot() -> float:
    """Return when this machine was started, by its clock as it goes now, in seconds since 1970."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_at_start(stat: Stat, at_boot: float) -> float:
    """Return when a process started; those are rounded alike that start within a tick."""
    return round(at_boot + stat.started / _TICKS_PER_S, 2)


def read_stat(proc: str, pid: int) -> Stat:
    """Read one process.

    Raises:
        OSError: there is none, or it can't be read.
        ValueError: its text can't be understood.
    """
    return parse_stat(kernel_files.read(f"{proc}/{pid}/stat"))


def parse_stat(text: str) -> Stat:
    """Read one line of /proc/PID/stat (proc(5)); the name in it may hold blanks and brackets.

    Raises:
        ValueError: it is no such line.
    """
    before, _, after = text.rpartition(")")
    columns = after.split()
    if len(columns) < 22:
        raise ValueError("/proc/PID/stat can't be understood")
    return Stat(
        name=before.partition("(")[2],
        running=columns[0] not in ("Z", "X"),
        blocked=columns[0] == "D",
        parent=int(columns[1]),
        session=int(columns[3]),
        major_faults=int(columns[9]),
        ticks=int(columns[11]) + int(columns[12]),
        threads=int(columns[17]),
        started=int(columns[19]),
        rss_pages=int(columns[21]),
    )
