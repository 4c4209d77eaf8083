"""Suspend all processes of a run with SIGSTOP, and never leave them stopped."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path

from dlmon.system.children import end_group, end_process
from dlmon.system.foreign_processes import process_stat

# When we die, the shell reads the end of its input, and continues the last line's processes.
_CONTINUE_AT_THE_END = "while read -r line; do pids=$line; done; kill -s CONT -- $pids"

_LOOK_EVERY_NS = 1_000_000_000
"""To find processes among thousands takes a tenth of a second, as long as a turn of a pair."""


class Suspension:
    """Suspends the processes of a run, and continues them.

    A shell waits for the end of this process, however it ends, and then continues them.

    Args:
        leader_pid: the process that leads the session and the process group of the run.

    Raises:
        OSError: the shell can't be started.
    """

    def __init__(self, leader_pid: int) -> None:
        self._leader = leader_pid
        self._others: set[int] = set()
        """The processes of the run outside of the leader's process group."""
        self._look_ns = 0
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _CONTINUE_AT_THE_END],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def suspend(self) -> int:
        """Send SIGSTOP to all processes of the run; return when, by CLOCK_MONOTONIC in ns."""
        is_to_look = time.monotonic_ns() >= self._look_ns
        if is_to_look:
            self._others.clear()
        self._to_continue(-self._leader, *self._others)
        end_group(self._leader, signal.SIGSTOP)
        for pid in self._others:
            end_process(pid, signal.SIGSTOP)
        t = time.monotonic_ns()
        if is_to_look:
            self._look_ns = t + _LOOK_EVERY_NS
            self._suspend_others()
        return t

    def resume(self) -> None:
        """Send them SIGCONT."""
        for pid in self._others:
            end_process(pid, signal.SIGCONT)
        end_group(self._leader, signal.SIGCONT)
        self._to_continue()

    def _suspend_others(self) -> None:
        """Find the processes outside of the leader's group, and suspend them."""
        # Until they stop, they may start more.
        while new := _outside_of_group(self._leader) - self._others:
            self._others |= new
            self._to_continue(-self._leader, *self._others)
            for pid in new:
                end_process(pid, signal.SIGSTOP)

    def _to_continue(self, *pids: int) -> None:
        """Tell the shell whom to continue: processes, and groups as negative numbers."""
        assert self._guard.stdin is not None
        # Somebody may have killed the shell.
        with contextlib.suppress(OSError):
            self._guard.stdin.write(f"{' '.join(map(str, pids))}\n".encode())
            self._guard.stdin.flush()


def _outside_of_group(leader: int) -> set[int]:
    """Return the processes of the leader's session, and its descendants, of other groups."""
    parents, groups, members = {}, {}, {leader}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        # It may have ended.
        with contextlib.suppress(OSError):
            parents[pid], groups[pid], session = map(int, process_stat(pid)[1:4])
            if session == leader:
                members.add(pid)
    while new := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= new
    return {pid for pid in members & groups.keys() if groups[pid] != leader}
