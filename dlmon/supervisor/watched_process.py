"""A process that runs already, such as a notebook's: what trains in it is recorded until it ends.

It is not ours: a stop ends the session, and never the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from dlmon.instrument.held_lock import HELD
from dlmon.instrument.reporter import SEEN, SOCKET
from dlmon.launch.device import DeviceChoice
from dlmon.launch.job import Job
from dlmon.records import SCRIPT_PHASE, Failure, FailureKind, Phase, Record
from dlmon.supervisor.channel import Asked
from dlmon.supervisor.child import Child
from dlmon.supervisor.script import ENTERED
from dlmon.supervisor.trainers import Trainers


class WatchedProcess(Child):
    """A process that asked to be watched, from then until it ends or a person stops the session.

    What it writes goes where it went before.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        super().__init__(write, notice)
        self._trainers = Trainers(write, notice)
        self._pid: int | None = None
        self._pidfd = -1
        self._place: Path | None = None

    @property
    def pid(self) -> int | None:
        return self._pid

    def start(self, command: list[str], job: Job, device: DeviceChoice) -> None:
        """Hear what it sends, at the place that it has chosen."""
        assert job.process is not None
        self._trainers.gpus = device.gpus
        try:
            self._place = Path(job.environment[SOCKET])
            self._trainers.listen(self._place)
            self._pidfd = os.pidfd_open(job.process)
        except OSError as error:
            why = f"process {job.process} can't be watched: {error.strerror}"
            self.failure = Failure(time.monotonic_ns(), why, FailureKind.NOT_STARTED)
            self.ended.set()
            return
        self._pid = job.process
        asyncio.get_running_loop().add_reader(self._pidfd, self._end)
        self._write(Phase(time.monotonic_ns(), SCRIPT_PHASE))

    def _end(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.ended.set()

    def reaped(self, exit_code: int) -> None:
        """Do nothing: it is no child of ours."""

    def processes(self) -> list[Asked]:
        """Return it, once it may be asked what it does."""
        return self._trainers.processes()

    def ask_to_end(self) -> None:
        self._end()

    async def drain(self, ended_t: int) -> None:
        """Read what it has left behind, and hear no more of it."""
        self._trainers.drain()
        if self._place is not None:
            folder = self._place.parent
            for left in (
                self._place,
                folder / ENTERED,
                *folder.glob(f"{SEEN}*"),
                *folder.glob(f"{HELD}*"),
            ):
                left.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._place.parent.rmdir()
