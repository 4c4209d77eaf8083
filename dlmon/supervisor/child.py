"""A process that the supervisor starts or watches: which it is, whether it has ended, and how."""

from __future__ import annotations

import asyncio
import subprocess

from dlmon.records import Failure


class Child:
    """What a workload, a script and a process that asked to be watched have in common."""

    def __init__(self) -> None:
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

    def report_refused_records(self) -> None:
        """Say how many lines were refused, where each process does not say so itself."""
