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
from dlmon.sensors.processes import by_psutil
from dlmon.sensors.processes.tree import (
    BUSY_PCT,
    CpuSample,
    ProcessProvider,
    wall_at_boot,
    wall_at_start,
)
from dlmon.sensors.provider import BYTES_IN_MIB, SensorReading
from dlmon.system.this_host import IS_MACOS

PATIENCE_S = 0.02
# The most threads that may hang in lookups.
MAX_UNANSWERED = 8
Key = TypeVar("Key")
Answer = TypeVar("Answer")

COMMAND_CHARACTERS = 120
_ADDRESS = re.compile(rb"--alert[\0=\s]+[^\0\s]*")
"""An alert address in dlmon's own command line, which may contain a secret."""

HOSTS_PID = "this container can't see the host's pids: start it with --pid=host or hostPID: true"
NOT_SEEN = "the process has ended, or this system hides it"
NO_ANSWER = "the process doesn't answer; it may hang in a driver"
ON_GPUS = ("gpus", "gpu_memory_mib")
FROM_PROC = ("user", "command", "cpu_pct", "rss_mib", "threads")


class ProcessKey(NamedTuple):
    """The key of a command lookup: a change of any part causes another lookup.

    The first sample of a process may come between fork and exec, while it still has its parent's
    command: so it is looked up again at the second sample, and when its name changes.
    """

    pid: int
    started: int
    name: str
    seen_before: bool


class ProcessTableReader:
    """Reads the rows of the process table.

    A driver lists pids of the initial pid namespace. Unless `same_pids`, they mean nothing here:
    the driver's processes get rows without other fields, and the GPUs of all others are unknown.
    With `everything` all processes have a row, for a person who looks at them.
    """

    def __init__(
        self,
        tree: ProcessProvider,
        same_pids: bool | None = None,
        user_name: Callable[[int], str] | None = None,
        at_boot: float | None = None,
        everything: bool = False,
    ) -> None:
        self._everything = everything
        self._tree = tree
        self._scan = tree.scan
        self._same_pids = kernel_files.sees_every_process() if same_pids is None else same_pids
        self._at_boot = wall_at_boot() if at_boot is None else at_boot
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._commands = TimedLookups(self._command)
        self._users = TimedLookups(user_name or _user_name)

    def read(self, t: int, reading: SensorReading) -> SensorReading:
        """Return the rows, from the scan at `t` and the GPU processes in `reading`."""
        if self._scan.why is not None:
            return SensorReading(why={"processes": self._scan.why})
        on_gpus = reading.gpu_processes or {}
        most_memory = sorted(on_gpus, key=lambda pid: (-(total_mib(on_gpus[pid]) or 0), pid))
        shown_on_gpus = most_memory[:MAX_ON_GPUS]
        pids = self._of_run()
        same_pids = self._same_pids or reading.gpu_pids_are_ours
        if same_pids:
            pids += [pid for pid in shown_on_gpus if pid not in pids]
        pids = list(self._scan.samples) if self._everything else [*pids, *self._busiest(pids)]
        rows = self._rows(pids, t)
        if same_pids:
            rows = [
                _with_gpus(row, on_gpus[row.pid], reading.gpu_pct) if row.pid in on_gpus else row
                for row in rows
            ]
        elif on_gpus:
            why = dict.fromkeys((*FROM_PROC, "of_run"), HOSTS_PID)
            rows = _without_gpus(rows, HOSTS_PID)
            rows += [_with_gpus(Process(pid, why=why), on_gpus[pid], {}) for pid in shown_on_gpus]
        unknown = _why_gpus_unknown(reading)
        if unknown is not None:
            rows = _without_gpus(rows, unknown)
        return SensorReading(processes=tuple(rows))

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
            parent=sample.stat.parent,
            why=why,
        )

    def _uid(self, pid: int) -> int | None:
        """Return a process's effective user, who owns its directory in /proc."""
        try:
            if IS_MACOS:
                return by_psutil.user_id(pid)
            return Path(self._scan.proc, str(pid)).stat().st_uid
        except OSError:
            return None

    def _command(self, process: ProcessKey) -> str:
        """Return a process's command line; if it is empty, the name in brackets, as `ps` does.

        Kernel threads and processes that are ending have an empty one.
        """
        try:
            if IS_MACOS:
                cmdline = by_psutil.command(process.pid)
            else:
                with Path(self._scan.proc, str(process.pid), "cmdline").open("rb", 0) as file:
                    cmdline = file.read(8 * COMMAND_CHARACTERS)
        except OSError:
            cmdline = b""
        cmdline = _ADDRESS.sub(b"--alert ...", cmdline)
        text = cmdline.decode("utf-8", "replace").replace("\0", " ").strip()
        return clean(text or f"[{process.name}]", COMMAND_CHARACTERS)


def total_mib(by_gpu: dict[int, int | None]) -> int | None:
    """Return the memory on all GPUs together; None if that of one is unknown."""
    amounts = [mib for mib in by_gpu.values() if mib is not None]
    return sum(amounts) if len(amounts) == len(by_gpu) else None


def _with_gpus(row: Process, by_gpu: dict[int, int | None], gpu_pct: dict[int, int]) -> Process:
    memory_mib = total_mib(by_gpu)
    why = {} if memory_mib is not None else {"gpu_memory_mib": "not reported by the driver"}
    return replace(
        row,
        gpus=tuple(sorted(by_gpu)),
        gpu_memory_mib=memory_mib,
        gpu_pct=gpu_pct.get(row.pid),
        why=row.why | why,
    )


def _why_gpus_unknown(reading: SensorReading) -> str | None:
    """Return why the processes on the GPUs are unknown; None if they are known, or without GPUs."""
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
    """Looks up each key once, in a thread of its own, because a lookup may hang."""

    def __init__(self, ask: Callable[[Key], Answer], patience_s: float = PATIENCE_S) -> None:
        self._ask = ask
        self._patience_s = patience_s
        self._answers: dict[Key, Answer] = {}
        self._unanswered: dict[Key, threading.Thread] = {}

    def get(self, keys: Iterable[Key]) -> dict[Key, Answer]:
        """Return the answers so far; forget those of other keys.

        Waits at most `patience_s` for each new key.
        """
        wanted = set(keys)
        self._unanswered = {
            k: thread for k, thread in self._unanswered.items() if thread.is_alive()
        }
        for key in self._answers.keys() - wanted:
            del self._answers[key]
        for key in wanted - self._answers.keys() - self._unanswered.keys():
            if len(self._unanswered) >= MAX_UNANSWERED:
                break
            thread = threading.Thread(target=self._answer, args=(key,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system allows no more threads now
                break
            thread.join(self._patience_s)
            if thread.is_alive():
                self._unanswered[key] = thread
        return {key: self._answers[key] for key in wanted if key in self._answers}

    def _answer(self, key: Key) -> None:
        self._answers[key] = self._ask(key)
