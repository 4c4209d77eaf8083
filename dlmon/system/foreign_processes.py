"""Processes that others started: check whether one is suspended, and send it a signal."""

from __future__ import annotations

import os
import signal
import time
import weakref
from pathlib import Path

# The clock may have been adjusted by this much meanwhile; no pid is used again as soon.
SAME_START_S = 2.0


class NoSignal(Exception):
    """Raised if a process can't be sent a signal; the message is a sentence for a person."""


class FoundProcess:
    """A process of this machine that still runs, identified by its pid and start time.

    Args:
        pid: its process id.
        started: its start in seconds since 1970; None if unknown.

    Raises:
        NoSignal: it has ended, its start time is unknown, or it belongs to another user.
    """

    def __init__(self, pid: int, started: float | None) -> None:
        if started is None:
            raise NoSignal(f"nothing is known here of process {pid}")
        self._pid = pid
        try:
            # The pidfd stays with this process, even if another gets its pid.
            self._pidfd = os.pidfd_open(pid)
            weakref.finalize(self, os.close, self._pidfd)
            if abs(_started(pid) - started) > SAME_START_S:
                raise NoSignal(f"process {pid} has ended: another one has its number now")
        except OSError:
            raise NoSignal(f"process {pid} has ended") from None
        # Signal 0 only checks the permission.
        self.send(0)

    def send(self, number: int) -> None:
        """Send the process a signal.

        Raises:
            NoSignal: it has ended, or belongs to another user.
        """
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except PermissionError:
            raise NoSignal(f"process {self._pid} belongs to another user") from None
        except OSError:
            raise NoSignal(f"process {self._pid} has ended") from None


def is_suspended(pid: int) -> bool | None:
    """Return whether a signal or a debugger stopped a process; None if there is no such process."""
    try:
        return _stat(pid)[0] in ("T", "t")
    except OSError:
        return None


def is_over(pid: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return _stat(pid)[0] in ("Z", "X")
    except OSError:
        return True


def _stat(pid: int) -> list[str]:
    """Return the fields after the name in /proc/PID/stat (proc(5))."""
    # The name, which is in parentheses, may hold anything.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _started(pid: int) -> float:
    """Return the start of a process in seconds since 1970."""
    ticks = int(_stat(pid)[19])
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")
