"""The workload's tree of processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dlmon.records import ProcessTree
from dlmon.sensors import kernel_files
from dlmon.sensors.processes.stat import Scan, Stat, parse_stat, read_all, read_stat
from dlmon.sensors.provider import Provider, Reading
from dlmon.sensors.rates import BYTES_IN_MIB

FIELDS = ("cpu_pct", "busiest_thread_pct", "rss_mib", "processes", "threads", "major_faults_s")


class ProcessProvider(Provider):
    """One process and its descendants: which they are is looked up in the slow tier.

    A descendant stays in the tree when its parent ends. Where the process leads a
    session (setsid), what else is in that session belongs to it too: a descendant
    whose parent ended before it was seen. The scan that finds them sees every
    process of the machine, watched or not.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.scan = Scan(str(proc))
        self.watching = False
        self._proc = str(proc)
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._root = 0
        self._leads_session = False
        self._members: dict[int, Stat] = {}
        self._thread_ticks: dict[tuple[int, int], int] = {}
        self._threads_t: int | None = None
        self._t = 0
        self._nothing = Reading()

    @property
    def members(self) -> Mapping[int, Stat]:
        return self._members

    def watch(self, pid: int, t: int) -> None:
        """Make `pid` the root of the tree that is read from now on."""
        self._forget()
        self.watching = True
        try:
            root = read_stat(self._proc, pid)
        except (OSError, ValueError) as error:
            gone = isinstance(error, (FileNotFoundError, ProcessLookupError))
            no_such = gone and Path(self._proc).is_dir()
            self._nothing = _unknown("no such process" if no_such else kernel_files.reason(error))
            return
        self._nothing = _unknown("the process has ended")
        self._root, self._leads_session = pid, root.session == pid
        self._members = {pid: root}
        self._t = t
        # Not by an update of the scan: one so soon after another has no window to take a rate over.
        self._find_members(read_all(self._proc))
        self._find_busiest(t)

    def unwatch(self) -> None:
        self._forget()
        self.watching = False
        self._nothing = Reading(why={"process": "no process is watched"})

    def fast(self, t: int) -> Reading:
        """Read the CPU time and memory of the processes known so far."""
        spent, faults = self._refresh()
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
                major_faults_s=round(faults / window_s, 1) if window_s > 0 else None,
            )
        )

    def slow(self, t: int) -> Reading:
        """Look for new descendants, and for the thread that was busiest since the call before."""
        self.scan.update(t, self._members)
        if not self._members:
            return Reading()
        self._find_members({pid: sample.stat for pid, sample in self.scan.samples.items()})
        busiest = self._find_busiest(t)
        if busiest is None:
            why = {"busiest_thread_pct": "no earlier reading yet"}
            return Reading(process=ProcessTree(why=why))
        return Reading(process=ProcessTree(busiest_thread_pct=busiest))

    def _forget(self) -> None:
        self._members = {}
        self._thread_ticks, self._threads_t = {}, None

    def _refresh(self) -> tuple[int, int]:
        """Read the members again, drop those that ended, return their clock ticks and faults."""
        ticks = faults = 0
        for pid, before in list(self._members.items()):
            try:
                now = read_stat(self._proc, pid)
            except (OSError, ValueError):
                del self._members[pid]
                continue
            if now.started != before.started or not now.running:
                del self._members[pid]
                continue
            ticks += max(0, now.ticks - before.ticks)
            faults += max(0, now.major_faults - before.major_faults)
            self._members[pid] = now
        return ticks, faults

    def _find_members(self, stats: Mapping[int, Stat]) -> None:
        """Add those of `stats` that descend from the members, or share the session."""
        others = {
            pid: stat for pid, stat in stats.items() if pid not in self._members and stat.running
        }
        parents = {pid: stat.parent for pid, stat in others.items()}
        # While somebody is left in a session, its leader's pid is not used again.
        if self._leads_session and any(m.session == self._root for m in self._members.values()):
            mate = next(iter(self._members))
            parents.update(
                {pid: mate for pid, stat in others.items() if stat.session == self._root}
            )
        found = descendants(self._members, parents)
        self._members.update({pid: others[pid] for pid in found})

    def _find_busiest(self, t: int) -> float | None:
        """Return the busiest thread's percent of a core since the last call, or None at first."""
        ticks: dict[tuple[int, int], int] = {}
        for pid in self._members:
            try:
                threads = kernel_files.numbered(f"{self._proc}/{pid}/task")
            except OSError:
                continue
            for thread in threads:
                try:
                    stat = parse_stat(kernel_files.read(f"{self._proc}/{pid}/task/{thread}/stat"))
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
