"""Processes that were found by their pid: whether one is suspended; and send one a signal."""

from __future__ import annotations

import os
import signal
import time
import weakref
from pathlib import Path

# A clock that was set meanwhile may differ by so much; no pid comes back as soon.
SAME_START_S = 2.0


class NoSignal(Exception):
    """A process can't be sent a signal; the message is a sentence for a person."""


class FoundProcess:
    """A process of this machine that was seen before, and still runs.

    Args:
        pid: its number.
        started: when it started, by the machine's clock, as it was seen; None where that isn't
            known.

    Raises:
        NoSignal: it has ended, can't be told from another, or belongs to somebody else.
    """

    def __init__(self, pid: int, started: float | None) -> None:
        if started is None:
            raise NoSignal(f"nothing is known here of process {pid}")
        self._pid = pid
        try:
            # It stays that of this process, whoever gets its number later.
            self._pidfd = os.pidfd_open(pid)
            weakref.finalize(self, os.close, self._pidfd)
            if abs(_started(pid) - started) > SAME_START_S:
                raise NoSignal(f"process {pid} has ended: another one has its number now")
        except OSError:
            raise NoSignal(f"process {pid} has ended") from None
        # That asks whether it may be sent one.
        self.send(0)

    def send(self, number: int) -> None:
        """Send it a signal.

        Raises:
            NoSignal: it has ended, or belongs to somebody else.
        """
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except PermissionError:
            raise NoSignal(f"process {self._pid} belongs to another user") from None
        except OSError:
            raise NoSignal(f"process {self._pid} has ended") from None


def is_suspended(pid: int) -> bool | None:
    """Return whether a process is stopped by a signal or a debugger; None where it isn't found."""
    try:
        return _stat(pid)[0] in ("T", "t")
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process after its name (proc(5), /proc/PID/stat)."""
    # The name, which is in parentheses, may hold anything.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _started(pid: int) -> float:
    """Return when a process started, in seconds since 1970."""
    ticks = int(_stat(pid)[19])
    at_boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return at_boot + ticks / os.sysconf("SC_CLK_TCK")
