"""A process that the supervisor starts or watches: which it is, whether it has ended, and how."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable

from dlmon.records import Failure, Record
from dlmon.supervisor.output import OutputLog


class Child:
    """What a workload, a script and a process that asked to be watched have in common.

    Args:
        write: takes the records that it sends, and the lines that it writes.
        notice: takes, in words, what a person should know of it.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        self._write, self._notice = write, notice
        self._lines = OutputLog()
        self._ended_t: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = asyncio.Event()
        """Set once it has ended, or could not be started."""
        self.failure: Failure | None = None
        """Why it gave up, or could not be started, in words."""
        self.why_nothing_trained: str | None = None
        """Why no training was seen in it, once it has ended and that is so, however it ended."""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def reaped(self, exit_code: int) -> None:
        assert self._process is not None
        self._process.returncode = exit_code
        self.ended.set()

    def tick(self, now: int, final: bool = False) -> None:
        """Write the lines of output that have waited long enough for their end; at last all."""
        for line in self._lines.tick(now, final=final):
            self._write(line)

    def _take_output(self, stream: str, data: bytes) -> None:
        t = time.monotonic_ns() if self._ended_t is None else self._ended_t
        for line in self._lines.feed(stream, data, t):
            self._write(line)
