"""The workload's tree of processes, from /proc/PID/stat."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlmon.records import MachineFacts, ProcessTree
from dlmon.sensors import files
from dlmon.sensors.provider import Reading
from dlmon.sensors.rates import BYTES_IN_MIB

FIELDS = ("cpu_pct", "busiest_thread_pct", "rss_mib", "processes", "threads")


@dataclass(frozen=True)
class Stat:
    """What /proc/PID/stat tells. A process is its pid and `started`: pids are used again."""

    running: bool
    parent: int
    ticks: int
    threads: int
    started: int
    rss_pages: int


class ProcessProvider:
    """One process and its descendants: which they are is looked up in the slow tier.

    A descendant stays in the tree when its parent ends.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._members: dict[int, Stat] = {}
        self._strangers: set[int] = set()
        self._thread_ticks: dict[tuple[int, int], int] = {}
        self._threads_t: int | None = None
        self._t = 0
        self._nothing = Reading()

    def watch(self, pid: int, t: int) -> None:
        """Make `pid` the root of the tree that is read from now on."""
        self._forget()
        try:
            self._members = {pid: self._stat(pid)}
        except (OSError, ValueError) as error:
            gone = isinstance(error, (FileNotFoundError, ProcessLookupError))
            no_such = gone and Path(self._proc).is_dir()
            self._nothing = _unknown("no such process" if no_such else files.reason(error))
            return
        self._nothing = _unknown("the process has ended")
        self._t = t
        self._find_members()
        self._find_busiest(t)

    def unwatch(self) -> None:
        """Read no tree any more."""
        self._forget()
        self._nothing = Reading(why={"process": "no process is watched"})

    def facts(self) -> MachineFacts:
        """Tell nothing: no process is known before `watch`."""
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        """Read the CPU time and memory of the processes known so far."""
        spent = self._refresh()
        if not self._members:
            return self._nothing
        window_s, self._t = (t - self._t) / 1e9, t
        cpu_s = spent / self._ticks_per_s
        stats = self._members.values()
        return Reading(
            process=ProcessTree(
                cpu_pct=round(100 * cpu_s / window_s, 1) if window_s > 0 else None,
                rss_mib=sum(stat.rss_pages for stat in stats) * self._page_bytes // BYTES_IN_MIB,
                processes=len(stats),
                threads=sum(stat.threads for stat in stats),
            )
        )

    def slow(self, t: int) -> Reading:
        """Look for new descendants, and for the thread that was busiest since the call before."""
        if not self._members:
            return Reading()
        self._find_members()
        busiest = self._find_busiest(t)
        if busiest is None:
            return Reading()
        return Reading(process=ProcessTree(busiest_thread_pct=busiest))

    def _forget(self) -> None:
        self._members, self._strangers = {}, set()
        self._thread_ticks, self._threads_t = {}, None

    def _refresh(self) -> int:
        """Read the members again, drop those that ended, return the clock ticks they spent."""
        spent = 0
        for pid, before in list(self._members.items()):
            try:
                now = self._stat(pid)
            except (OSError, ValueError):
                del self._members[pid]
                continue
            if now.started != before.started or not now.running:
                del self._members[pid]
                continue
            spent += max(0, now.ticks - before.ticks)
            self._members[pid] = now
        return spent

    def _find_members(self) -> None:
        """Add the members' descendants. A process seen once and found foreign stays so."""
        try:
            there = set(files.numbered(self._proc))
        except OSError:
            return
        self._strangers &= there
        new: dict[int, Stat] = {}
        for pid in there - self._strangers - self._members.keys():
            try:
                stat = self._stat(pid)
            except (OSError, ValueError):
                continue
            if stat.running:
                new[pid] = stat
        found = descendants(self._members, {pid: stat.parent for pid, stat in new.items()})
        self._members.update({pid: new[pid] for pid in found})
        self._strangers |= new.keys() - found

    def _find_busiest(self, t: int) -> float | None:
        """Return the busiest thread's percent of a core since the last look, or None at first."""
        ticks: dict[tuple[int, int], int] = {}
        for pid in self._members:
            try:
                threads = files.numbered(f"{self._proc}/{pid}/task")
            except OSError:
                continue
            for thread in threads:
                try:
                    stat = parse_stat(files.read(f"{self._proc}/{pid}/task/{thread}/stat"))
                except (OSError, ValueError):
                    continue
                ticks[thread, stat.started] = stat.ticks
        before, before_t = self._thread_ticks, self._threads_t
        self._thread_ticks, self._threads_t = ticks, t
        if before_t is None or t <= before_t:
            return None
        most = max((spent - before.get(thread, 0) for thread, spent in ticks.items()), default=0)
        window_s = (t - before_t) / 1e9
        return min(100.0, round(100 * max(0, most) / self._ticks_per_s / window_s, 1))

    def _stat(self, pid: int) -> Stat:
        return parse_stat(files.read(f"{self._proc}/{pid}/stat"))


def parse_stat(text: str) -> Stat:
    """Read one line of /proc/PID/stat (proc(5)); the name in it may hold blanks and brackets.

    Raises:
        ValueError: it is no such line.
    """
    columns = text.rpartition(")")[2].split()
    if len(columns) < 22:
        raise ValueError("/proc/PID/stat can't be understood")
    return Stat(
        running=columns[0] not in ("Z", "X"),
        parent=int(columns[1]),
        ticks=int(columns[11]) + int(columns[12]),
        threads=int(columns[17]),
        started=int(columns[19]),
        rss_pages=int(columns[21]),
    )


def descendants(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """Return those of `parents` (pid to its parent's pid) that descend from `roots`."""
    tree = set(roots)
    found: set[int] = set()
    waiting = set(parents)
    while children := {pid for pid in waiting if parents[pid] in tree}:
        found |= children
        tree |= children
        waiting -= children
    return found


def _unknown(reason: str) -> Reading:
    return Reading(process=ProcessTree(why=dict.fromkeys(FIELDS, reason)))
