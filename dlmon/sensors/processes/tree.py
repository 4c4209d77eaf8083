"""All processes of the machine, from /proc/PID/stat, and the workload's process tree."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from dlmon.records import MachineFacts, ProcessTree
from dlmon.sensors import kernel_files
from dlmon.sensors.processes import by_psutil
from dlmon.sensors.provider import BYTES_IN_MIB, Provider, SensorReading, mib_per_second
from dlmon.system.this_host import IS_MACOS

FIELDS = tuple(spec.name for spec in fields(ProcessTree) if spec.name != "why")
NO_EARLIER = "no earlier reading yet"

BUSY_PCT = 1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# A large machine has thousands of idle processes: a scan reads at most 500, longest unread first.
MAX_IDLE = 500


class Stat(NamedTuple):
    """Fields of /proc/PID/stat. Pids are reused: pid and `started` together identify a process."""

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
    """A process at one time, and its CPU use since the last sample, in percent of a core."""

    stat: Stat
    t: int
    cpu_pct: int | None


class Scan:
    """The last sample of each process, the oldest first."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.samples: dict[int, CpuSample] = {}
        self.why: str | None = "not read yet"
        """The reason why all processes are unknown, if they are."""

    @property
    def stats(self) -> dict[int, Stat]:
        return {pid: sample.stat for pid, sample in self.samples.items()}

    def update(self, t: int, fresh: Mapping[int, Stat]) -> None:
        """Read the processes, but for those in `fresh`, which were read just now."""
        try:
            pids = set(by_psutil.pids() if IS_MACOS else kernel_files.numeric_names(self.proc))
        except OSError as error:
            self.samples, self.why = {}, kernel_files.reason(error)
            return
        self.why = None
        for pid in self.samples.keys() - pids:
            del self.samples[pid]
        for pid in self._due(pids - fresh.keys()):
            self.find(pid, t)
        for pid, stat in fresh.items():
            self._note(pid, stat, t)

    def find(self, pid: int, t: int) -> CpuSample | None:
        """Read one process; return None if there is none, or it can't be read."""
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
    """Return the Unix time of this machine's boot, by its current clock."""
    if IS_MACOS:
        return by_psutil.wall_at_boot()
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_at_start(stat: Stat, at_boot: float) -> float:
    """Return the Unix time of a process's start, rounded to the kernel's clock ticks."""
    return round(at_boot + stat.started / _TICKS_PER_S, 2)


def read_stat(proc: str, pid: int) -> Stat:
    """Read /proc/PID/stat.

    Raises:
        OSError: there is no such process, or it can't be read.
        ValueError: the text can't be parsed.
    """
    if IS_MACOS:
        return Stat(**by_psutil.stat(pid))
    return parse_stat(kernel_files.read(f"{proc}/{pid}/stat"))


def parse_stat(text: str) -> Stat:
    """Parse the text of /proc/PID/stat (proc(5)); the name may contain blanks and brackets.

    Raises:
        ValueError: the text can't be parsed.
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


class ProcessProvider(Provider):
    """A process and its descendants, which are looked up in the slow tier.

    A descendant stays in the tree when its parent ends. If the process leads a session (setsid),
    the rest of that session belongs to the tree too: the parent of a descendant may end before the
    first scan. The other ranks of a run join the tree by `watch_too`.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.scan = Scan(str(proc))
        self.watching = False
        self._proc = str(proc)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._sessions: set[int] = set()
        """The sessions that a member leads."""
        self._members: dict[int, Stat] = {}
        self._thread_ticks: dict[tuple[int, int], int] = {}
        self._thread_delays: dict[tuple[int, int], int] = {}
        self._threads_t: int | None = None
        self._read_bytes: dict[int, int] = {}
        self._counts_delays = False
        """True if the kernel reports how long a thread waits for a CPU."""
        with suppress(OSError, ValueError):
            _delay_ns(kernel_files.read(proc / "self/schedstat"))
            self._counts_delays = True
        self._t = 0
        self._nothing = SensorReading()

    @property
    def members(self) -> Mapping[int, Stat]:
        return self._members

    def facts(self) -> MachineFacts:
        """Return whether every process of the machine is seen."""
        if kernel_files.sees_every_process():
            return MachineFacts(sees_every_process=True)
        why = {"sees_every_process": kernel_files.why_processes_hidden()}
        return MachineFacts(sees_every_process=False, why=why)

    def watch(self, pid: int, t: int) -> None:
        """Make `pid` the root of the tree."""
        self._forget()
        self.watching = True
        try:
            root = read_stat(self._proc, pid)
        except (OSError, ValueError) as error:
            is_absent = isinstance(error, (FileNotFoundError, ProcessLookupError))
            is_absent = is_absent and Path(self._proc).is_dir()
            self._nothing = _unknown("no such process" if is_absent else kernel_files.reason(error))
            return
        self._nothing = _unknown("the process has ended")
        self._sessions = {pid} if root.session == pid else set()
        self._members = {pid: root}
        self._t = t
        # Not `self.scan`: an update so soon after another would have no window for rates.
        scan = Scan(self._proc)
        scan.update(t, self._members)
        self._find_members(scan.stats)
        self._read_threads(t)

    def watch_too(self, pid: int) -> None:
        """Add another process, and its descendants, to the tree."""
        with suppress(OSError, ValueError):
            stat = read_stat(self._proc, pid)
            self._members.setdefault(pid, stat)
            if stat.session == pid:
                self._sessions.add(pid)

    def fast(self, t: int) -> SensorReading:
        """Read the CPU time and memory of the current members."""
        ticks, faults = self._refresh()
        if not self._members:
            return self._nothing
        window_s, self._t = (t - self._t) / 1e9, t
        cpu_s = ticks / _TICKS_PER_S
        stats = self._members.values()
        return SensorReading(
            process=ProcessTree(
                cpu_pct=round(100 * cpu_s / window_s, 1) if window_s > 0 else None,
                rss_mib=sum(stat.rss_pages for stat in stats) * self._page_bytes // BYTES_IN_MIB,
                processes=len(stats),
                threads=sum(stat.threads for stat in stats),
                blocked=sum(stat.blocked for stat in stats),
                major_faults_s=round(faults / window_s, 1) if window_s > 0 else None,
            )
        )

    def slow(self, t: int) -> SensorReading:
        """Find new descendants, and read the threads' activity since the last call."""
        self.scan.update(t, self._members)
        if not self._members:
            return SensorReading()
        self._find_members(self.scan.stats)
        return SensorReading(process=self._read_threads(t))

    def _forget(self) -> None:
        self._members = {}
        self._thread_ticks, self._thread_delays, self._threads_t = {}, {}, None
        self._read_bytes = {}

    def _refresh(self) -> tuple[int, int]:
        """Read the members, drop those that ended; return the new CPU ticks and major faults."""
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
        """Add the processes in `stats` that descend from members, or are in their sessions."""
        candidates = {
            pid: stat for pid, stat in stats.items() if pid not in self._members and stat.running
        }
        parents = {pid: stat.parent for pid, stat in candidates.items()}
        # While a session has members, the pid of its leader is not reused.
        sessions = self._sessions & {member.session for member in self._members.values()}
        if sessions:
            member = next(iter(self._members))
            in_sessions = [pid for pid, stat in candidates.items() if stat.session in sessions]
            parents.update(dict.fromkeys(in_sessions, member))
        for pid in descendants(self._members, parents):
            self._members[pid] = candidates[pid]

    def _read_threads(self, t: int) -> ProcessTree:
        """Return the CPU use of the busiest thread and process, and the longest wait for a CPU.

        Each is a share of the time since the last call.
        """
        ticks: dict[tuple[int, int], int] = {}
        delays: dict[tuple[int, int], int] = {}
        processes: dict[tuple[int, int], int] = {}
        for pid in self._members:
            try:
                threads = kernel_files.numeric_names(f"{self._proc}/{pid}/task")
            except OSError:
                continue
            for number in threads:
                folder = f"{self._proc}/{pid}/task/{number}"
                try:
                    stat = parse_stat(kernel_files.read(f"{folder}/stat"))
                    thread = (number, stat.started)
                    ticks[thread] = stat.ticks
                    processes[thread] = pid
                    # Skip threads that did not run: there may be thousands.
                    if self._counts_delays and stat.ticks != self._thread_ticks.get(thread):
                        delays[thread] = _delay_ns(kernel_files.read(f"{folder}/schedstat"))
                except (OSError, ValueError):
                    continue
        ticks_before, delays_before = self._thread_ticks, self._thread_delays
        window_ns = 0 if self._threads_t is None else t - self._threads_t
        self._thread_ticks, self._thread_delays, self._threads_t = ticks, delays, t
        read_bytes = self._count_read()
        slow = ("busiest_thread_pct", "busiest_process_pct", "cpu_wait_pct", "read_mib_s")
        if IS_MACOS:
            return ProcessTree(why=dict.fromkeys(slow, by_psutil.NOT_READ))
        if window_ns <= 0:
            return ProcessTree(why=dict.fromkeys(slow, NO_EARLIER))
        by_thread = {thread: count - ticks_before.get(thread, 0) for thread, count in ticks.items()}
        by_process: Counter[int] = Counter()
        for thread, count in by_thread.items():
            by_process[processes[thread]] += count
        # The wait of a thread that is not new is known only if its last delay was read.
        waited = [
            delay - delays_before.get(thread, 0)
            for thread, delay in delays.items()
            if thread in delays_before or thread not in ticks_before
        ]
        why = {}
        if not self._counts_delays:
            why["cpu_wait_pct"] = "the kernel does not say how long a thread waits for a CPU"
        if read_bytes is None:
            why["read_mib_s"] = "the kernel does not say what a process reads from disks"
        return ProcessTree(
            busiest_thread_pct=min(100.0, _pct(max(by_thread.values(), default=0), window_ns)),
            busiest_process_pct=_pct(max(by_process.values(), default=0), window_ns),
            cpu_wait_pct=min(100.0, round(100 * max((0, *waited)) / window_ns, 1))
            if self._counts_delays
            else None,
            read_mib_s=None if read_bytes is None else mib_per_second(read_bytes * 1e9 / window_ns),
            why=why,
        )

    def _count_read(self) -> int | None:
        """Return the bytes read from disks since the last call; None if no process reports them."""
        before, self._read_bytes = self._read_bytes, {}
        for pid in self._members:
            try:
                self._read_bytes[pid] = _read_bytes(kernel_files.read(f"{self._proc}/{pid}/io"))
            except (OSError, ValueError):
                continue
        if self._members and not self._read_bytes:
            return None
        return sum(max(0, count - before.get(pid, 0)) for pid, count in self._read_bytes.items())


def _pct(ticks: int, window_ns: int) -> float:
    return round(100 * max(0, ticks) * 1e9 / _TICKS_PER_S / window_ns, 1)


def _read_bytes(io: str) -> int:
    """Return the bytes that a process has read from disks, from the text of /proc/PID/io.

    Raises:
        ValueError: the text doesn't contain it.
    """
    _, _, after = io.partition("\nread_bytes: ")
    return int(after.partition("\n")[0])


def _delay_ns(schedstat: str) -> int:
    """Return how long a thread has waited for a CPU while ready to run.

    Raises:
        ValueError: the kernel does not count it.
    """
    ran, waited, *_ = map(int, schedstat.split())
    if ran == 0:
        raise ValueError("a thread that was never on a CPU")
    return waited


def descendants(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """Return the pids in `parents` (pid to parent pid) that descend from `roots`."""
    tree = set(roots)
    descended: set[int] = set()
    while children := {pid for pid in parents.keys() - descended if parents[pid] in tree}:
        descended |= children
        tree |= children
    return descended


def _unknown(reason: str) -> SensorReading:
    return SensorReading(process=ProcessTree(why=dict.fromkeys(FIELDS, reason)))
