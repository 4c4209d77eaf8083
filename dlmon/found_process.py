"""Send a signal to a process that was seen before, and to no other that has its pid by now."""

from __future__ import annotations

import psutil

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
            self._process = psutil.Process(pid)
            if abs(self._process.create_time() - started) > SAME_START_S:
                raise NoSignal(f"process {pid} has ended: another one has its number now")
        except psutil.Error:
            raise NoSignal(f"process {pid} has ended") from None
        # That asks whether it may be sent one.
        self.send(0)

    def send(self, number: int) -> None:
        """Send it a signal.

        Raises:
            NoSignal: it has ended, or belongs to somebody else.
        """
        try:
            # This sees too whether another one has its number.
            self._process.send_signal(number)
        except psutil.AccessDenied:
            raise NoSignal(f"process {self._pid} belongs to another user") from None
        except psutil.Error:
            raise NoSignal(f"process {self._pid} has ended") from None
