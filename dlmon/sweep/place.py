"""Where the runs of a sweep are made: what a machine is to a sweep, and this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dlmon.launch.job import Job, Refused, Started
from dlmon.launch.lifeline import Lifeline, launch
from dlmon.session.follower import SessionFollower
from dlmon.stop import BY_SWEEP

# A supervisor ends its sensors after the session; one that hangs is waited for 10 s.
LOOK_FOR_END_S, LOOKS_FOR_END = 0.05, 200


class Place(Protocol):
    """A machine on which runs are made, one at a time: `launch`, `follow`, `leave`."""

    host: str | None
    """The machine, as ssh knows it; None for this one."""
    lost: str | None
    """Why nothing can be known of the machine any more; a sentence that names it."""
    left_running: str | None
    """The session that may go on there, for it could not be stopped."""

    async def open(self) -> Refused | None:
        """Make the machine ready for runs, or return why that can't be."""

    async def launch(self, job: Job) -> Started | Refused:
        """Start a run; return its session, or why there is none."""

    async def follow(self, started: Started) -> SessionFollower | Refused:
        """Return the session of the run, or why it can't be followed."""

    def tend(self) -> None:
        """See to what is due; whoever waits for the run calls it again and again."""

    def stop(self) -> None:
        """Have the run stopped, or the one that is being started."""

    async def leave(self) -> None:
        """Wait until nothing of a run that is over runs any more: the next one would suffer."""

    async def close(self) -> None:
        """Have a run that is not over stopped, and let go of the machine."""


class ThisMachine:
    """This machine; a run of it stops when we let go of it.

    Args:
        start: starts a supervisor.
    """

    def __init__(self, start: Callable[[Job], Lifeline] = launch) -> None:
        self.host: str | None = None
        self.lost: str | None = None
        self.left_running: str | None = None
        self._start = start
        self._lifeline: Lifeline | None = None
        self._follower: SessionFollower | None = None

    async def open(self) -> Refused | None:
        return None

    async def launch(self, job: Job) -> Started | Refused:
        self._lifeline = started = self._start(job)
        return await asyncio.to_thread(started.answer)

    async def follow(self, started: Started) -> SessionFollower | Refused:
        self._follower = SessionFollower(Path(started.log), launch=self._lifeline)
        return self._follower

    def tend(self) -> None:
        """Do nothing: a supervisor needs nothing of us."""

    def stop(self) -> None:
        if self._lifeline is not None:
            self._lifeline.send(BY_SWEEP)

    async def leave(self) -> None:
        started = self._lifeline
        await self.close()
        for _ in range(LOOKS_FOR_END if started is not None else 0):
            if started is None or started.process.poll() is not None:
                return
            await asyncio.sleep(LOOK_FOR_END_S)

    async def close(self) -> None:
        lifeline, self._lifeline = self._lifeline, None
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
        if lifeline is not None:
            lifeline.release()
