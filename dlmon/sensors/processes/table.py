"""The table of processes: the run's own, those on GPUs, and the machine's busiest."""

from __future__ import annotations

import os
import pwd
import re
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from dlmon.records import MAX_BUSIEST, MAX_OF_RUN, MAX_ON_GPUS, GpuState, Process
from dlmon.records.sanitize import clean
from dlmon.sensors import kernel_files
from dlmon.sensors.processes.tree import (
    BUSY_PCT,
    CpuSample,
    ProcessProvider,
    wall_at_boot,
    wall_at_start,
)
from dlmon.sensors.provider import BYTES_IN_MIB, Reading

PATIENCE_S = 0.02
# No more threads than these are given to questions that nobody answers.
MAX_UNANSWERED = 8
Key = TypeVar("Key")
Answer = TypeVar("Answer")

COMMAND_CHARACTERS = 120
_ADDRESS = re.compile(rb"--alert[\0=\s]+[^\0\s]*")
"""Where dlmon sends alerts to, which may hold a secret, in its command line."""

HOSTS_PID = "the driver reports the host's pid, which this container can't see"
NOT_SEEN = "the process has ended, or this system hides it"
NO_ANSWER = "the process doesn't answer; it may hang in a driver"
ON_GPUS = ("gpus", "gpu_memory_mib")
FROM_PROC = ("user", "command", "cpu_pct", "rss_mib", "threads")


class ProcessKey(NamedTuple):
    """The key of a command lookup: what differs in any part is looked up again.

    A process may first be seen between fork and exec, when it has its parent's
    command still: so it is asked at its second sample too, and when its name changed.
    """

    pid: int
    started: int
    name: str
    seen_before: bool


class ProcessTableReader:
    """Reads the rows of the process table.

    A driver lists pids of the first namespace. Where `same_pids` is false, they mean
    nothing here: a row of the driver's then has nothing else, and which of the processes
    seen here use a GPU is unknown.
    """

    def __init__(
        self,
        tree: ProcessProvider,
        same_pids: bool | None = None,
        user_name: Callable[[int], str] | None = None,
        at_boot: float | None = None,
    ) -> None:
        self._tree = tree
        self._scan = tree.scan
        self._same_pids = kernel_files.sees_every_process() if same_pids is None else same_pids
        self._at_boot = wall_at_boot() if at_boot is None else at_boot
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._commands = TimedLookups(self._command)
        self._users = TimedLookups(user_name or _user_name)

    def read(self, t: int, reading: Reading) -> Reading:
        """Return the rows, from the scan at `t` and the GPU processes in `reading`."""
        if self._scan.why is not None:
            return Reading(why={"processes": self._scan.why})
        on_gpus = reading.gpu_processes or {}
        most_memory = sorted(on_gpus, key=lambda pid: (-(total_mib(on_gpus[pid]) or 0), pid))
        shown_on_gpus = most_memory[:MAX_ON_GPUS]
        here = self._of_run()
        if self._same_pids:
            here += [pid for pid in shown_on_gpus if pid not in here]
        here += self._busiest(here)
        rows = self._rows(here, t)
        if self._same_pids:
            rows = [_holding(row, on_gpus[row.pid]) if row.pid in on_gpus else row for row in rows]
        elif on_gpus:
            why = dict.fromkeys((*FROM_PROC, "of_run"), HOSTS_PID)
            rows = _without_gpus(rows, HOSTS_PID)
            rows += [_holding(Process(pid, why=why), on_gpus[pid]) for pid in shown_on_gpus]
        unknown = _why_gpus_unknown(reading)
        if unknown is not None:
            rows = _without_gpus(rows, unknown)
        return Reading(processes=tuple(rows))

    def _of_run(self) -> list[int]:
        members = [pid for pid in self._tree.members if pid in self._scan.samples]
        return sorted(members, key=self._most_cpu)[:MAX_OF_RUN]

    def _busiest(self, chosen: Collection[int]) -> list[int]:
        busy = [
            pid
            for pid, sample in self._scan.samples.items()
            if sample.stat.running
            and (sample.cpu_pct or 0) >= BUSY_PCT
            and pid not in chosen
            and pid not in self._tree.members
        ]
        return sorted(busy, key=self._most_cpu)[:MAX_BUSIEST]

    def _most_cpu(self, pid: int) -> tuple[int, int]:
        return -(self._scan.samples[pid].cpu_pct or 0), pid

    def _rows(self, pids: Collection[int], t: int) -> list[Process]:
        samples = {pid: self._scan.samples.get(pid) or self._scan.find(pid, t) for pid in pids}
        named = {
            pid: ProcessKey(pid, sample.stat.started, sample.stat.name, sample.cpu_pct is not None)
            for pid, sample in samples.items()
            if sample is not None
        }
        uids = {pid: uid for pid in named if (uid := self._uid(pid)) is not None}
        commands = self._commands.get(named.values())
        users = self._users.get(uids.values())
        return [
            Process(pid, why=dict.fromkeys((*FROM_PROC, "of_run"), NOT_SEEN))
            if sample is None
            else self._row(pid, sample, uids.get(pid), users, commands.get(named[pid]))
            for pid, sample in samples.items()
        ]

    def _row(
        self,
        pid: int,
        sample: CpuSample,
        uid: int | None,
        users: dict[int, str],
        command: str | None,
    ) -> Process:
        why: dict[str, str] = {}
        if command is None:
            why["command"] = NO_ANSWER
        if sample.cpu_pct is None:
            why["cpu_pct"] = "no earlier reading yet"
        if uid is None:
            why["user"] = "the process has ended"
        return Process(
            pid=pid,
            user=None if uid is None else users.get(uid, str(uid)),
            command=command,
            cpu_pct=sample.cpu_pct,
            rss_mib=sample.stat.rss_pages * self._page_bytes // BYTES_IN_MIB,
            threads=sample.stat.threads,
            of_run=pid in self._tree.members if self._tree.watching else None,
            started=wall_at_start(sample.stat, self._at_boot),
            why=why,
        )

    def _uid(self, pid: int) -> int | None:
        """Return the user that a process acts as: its directory belongs to that one."""
        try:
            return Path(self._scan.proc, str(pid)).stat().st_uid
        except OSError:
            return None

    def _command(self, process: ProcessKey) -> str:
        """Read a process's command line; where that is empty, its name in brackets, as `ps` does.

        It is empty for kernel threads and processes that are ending.
        """
        try:
            with Path(self._scan.proc, str(process.pid), "cmdline").open("rb", 0) as file:
                cmdline = file.read(8 * COMMAND_CHARACTERS)
        except OSError:
            cmdline = b""
        cmdline = _ADDRESS.sub(b"--alert ...", cmdline)
        text = cmdline.decode("utf-8", "replace").replace("\0", " ").strip()
        return clean(text or f"[{process.name}]", COMMAND_CHARACTERS)


def total_mib(held: dict[int, int | None]) -> int | None:
    """Return the memory on all GPUs together; None where that of one isn't known."""
    known = [mib for mib in held.values() if mib is not None]
    return sum(known) if len(known) == len(held) else None


def _holding(row: Process, held: dict[int, int | None]) -> Process:
    memory_mib = total_mib(held)
    why = {} if memory_mib is not None else {"gpu_memory_mib": "not reported by the driver"}
    return replace(row, gpus=tuple(sorted(held)), gpu_memory_mib=memory_mib, why=row.why | why)


def _why_gpus_unknown(reading: Reading) -> str | None:
    """Return why it is unknown who is on the GPUs; None where that is known, or there is none."""
    if reading.gpus:
        return None if reading.gpu_processes is not None else reading.why.get("gpu_processes")
    return None if reading.gpus_state == GpuState.NO_DRIVER else reading.why.get("gpus")


def _without_gpus(rows: Iterable[Process], reason: str) -> list[Process]:
    why = dict.fromkeys(ON_GPUS, reason)
    return [replace(row, why=row.why | why) for row in rows]


def _user_name(uid: int) -> str:
    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return str(uid)


class TimedLookups(Generic[Key, Answer]):
    """Looks up each key once, in a thread of its own."""

    def __init__(self, ask: Callable[[Key], Answer], patience_s: float = PATIENCE_S) -> None:
        self._ask = ask
        self._patience_s = patience_s
        self._known: dict[Key, Answer] = {}
        self._unanswered: dict[Key, threading.Thread] = {}

    def get(self, keys: Iterable[Key]) -> dict[Key, Answer]:
        """Return the answers known so far; those of keys that are not in `keys` are forgotten.

        Waits for each new key no longer than `patience_s`.
        """
        wanted = set(keys)
        for key, thread in list(self._unanswered.items()):
            if not thread.is_alive():
                del self._unanswered[key]
        for key in self._known.keys() - wanted:
            del self._known[key]
        for key in wanted - self._known.keys() - self._unanswered.keys():
            if len(self._unanswered) >= MAX_UNANSWERED:
                break
            thread = threading.Thread(target=self._answer, args=(key,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads for us just now
                break
            thread.join(self._patience_s)
            if thread.is_alive():
                self._unanswered[key] = thread
        return {key: self._known[key] for key in wanted if key in self._known}

    def _answer(self, key: Key) -> None:
        self._known[key] = self._ask(key)
