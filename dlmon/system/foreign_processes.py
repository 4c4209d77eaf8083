"""Processes that others started: check whether one is suspended, and send it a signal."""

from __future__ import annotations

import os
import signal
import time
import weakref
from pathlib import Path
from typing import Any

from dlmon.system.this_host import IS_MACOS

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
            if not IS_MACOS:
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
            if IS_MACOS:
                os.kill(self._pid, number)
            else:
                signal.pidfd_send_signal(self._pidfd, number)
        except PermissionError:
            raise NoSignal(f"process {self._pid} belongs to another user") from None
        except OSError:
            raise NoSignal(f"process {self._pid} has ended") from None


def is_suspended(pid: int) -> bool | None:
    """Return whether a signal or a debugger stopped a process; None if there is no such process."""
    try:
        return _state(pid) in ("T", "t", "stopped")
    except OSError:
        return None


def is_over(pid: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return _state(pid) in ("Z", "X", "zombie", "dead")
    except OSError:
        return True


def _state(pid: int) -> str:
    """Return the state of a process: the letter of proc(5), or psutil's word.

    Raises:
        OSError: there is no such process.
    """
    return str(of_psutil(pid).status()) if IS_MACOS else process_stat(pid)[0]


def of_psutil(pid: int) -> Any:
    """Return psutil's process, for a system without /proc.

    Raises:
        OSError: there is no such process.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        process.status()
    except psutil.Error as error:
        raise ProcessLookupError(None, str(error)) from None
    return process


def process_stat(pid: int) -> list[str]:
    """Return the fields after the name in /proc/PID/stat (proc(5)).

    Raises:
        OSError: there is no such process.
    """
    # The name, which is in parentheses, may hold anything.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _started(pid: int) -> float:
    """Return the start of a process in seconds since 1970."""
    if IS_MACOS:
        return float(of_psutil(pid).create_time())
    ticks = int(process_stat(pid)[19])
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")
