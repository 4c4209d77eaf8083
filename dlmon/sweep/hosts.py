"""The hosts for the runs of a sweep, and a run that is under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dlmon.launch.supervisor_process import SupervisorProcess, launch
from dlmon.protocol.job import Job, Refused, Started
from dlmon.protocol.stop import BY_SWEEP
from dlmon.records import Slot
from dlmon.session.follower import SessionFollower

# A supervisor ends its sensors after the session; if it hangs, it is waited for at most 10 s.
END_POLL_S, END_POLLS = 0.05, 200


class SweepHost(Protocol):
    """A host for runs of a sweep, one at a time: `launch`, `follow`, `finish_run`."""

    name: str | None
    """The name of the host for ssh; None for this host."""
    lost: str | None
    """Why the host is lost for good, as a sentence that names it."""
    left_running: str | None
    """The session that may still run there because it could not be stopped."""

    async def open(self) -> Refused | None:
        """Connect to the host, or return why it can't be used."""

    async def launch(self, job: Job) -> Started | Refused:
        """Start a run; return its session, or why there is none."""

    async def follow(self, started: Started) -> SessionFollower | Refused:
        """Return the session of the run, or why it can't be followed."""

    def poll(self) -> None:
        """Do what is due; this is called regularly during a run."""

    def stop(self) -> None:
        """Stop the run, or the one that is being started."""

    async def finish_run(self) -> None:
        """Wait until no process of a finished run is left: it would slow the next one."""

    async def close(self) -> None:
        """Stop a run that is not over, and disconnect."""


class LocalHost:
    """This host; its run stops when it is closed."""

    def __init__(self, start: Callable[[Job], SupervisorProcess] = launch) -> None:
        self.name: str | None = None
        self.lost: str | None = None
        self.left_running: str | None = None
        self._start = start
        self._supervisor: SupervisorProcess | None = None
        self._follower: SessionFollower | None = None

    async def open(self) -> Refused | None:
        return None

    async def launch(self, job: Job) -> Started | Refused:
        self._supervisor = started = self._start(job)
        return await asyncio.to_thread(started.answer)

    async def follow(self, started: Started) -> SessionFollower | Refused:
        self._follower = SessionFollower(Path(started.log), supervisor=self._supervisor)
        return self._follower

    def poll(self) -> None:
        """Do nothing: the supervisor works alone."""

    def stop(self) -> None:
        self.send(BY_SWEEP)

    def send(self, word: str) -> None:
        """Send a word to the supervisor of the run, if there is one."""
        if self._supervisor is not None:
            self._supervisor.send(word)

    async def finish_run(self) -> None:
        supervisor = self._supervisor
        await self.close()
        for _ in range(END_POLLS):
            if supervisor is None or supervisor.process.poll() is not None:
                return
            await asyncio.sleep(END_POLL_S)

    async def close(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
        if supervisor is not None:
            supervisor.release()


@dataclass
class CurrentRun:
    """A run that is under way.

    Attributes:
        slot: its slot in the plan.
        host: the name of its host for ssh; None for this host.
        follower: its session; None until that has begun.
        launched_at: the time of its launch, by CLOCK_MONOTONIC.
    """

    slot: Slot
    host: str | None
    follower: SessionFollower | None = None
    launched_at: float = field(default_factory=time.monotonic)

    @property
    def is_lost(self) -> bool:
        """Whether its host can't be reached, so that nobody knows how it is now."""
        follower = self.follower
        return self.host is not None and follower is not None and follower.problem is not None

    @property
    def running_for_s(self) -> float:
        return time.monotonic() - self.launched_at
