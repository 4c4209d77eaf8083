"""Another machine on which runs of a sweep are made, one after another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from dlmon.exit_codes import FAILED, UNREACHABLE
from dlmon.log.directory import NoSuchLog
from dlmon.log.folder import id_of
from dlmon.protocol.job import Job, Refused, Started
from dlmon.records import Status
from dlmon.remote.connection import Connection
from dlmon.remote.host_requests import launch_remote
from dlmon.remote.session_follower import RemoteFollower, follow_remote, listed_sessions
from dlmon.remote.ssh import RefusedRequest, SshError
from dlmon.session.follower import SessionFollower

LOOK_S = 0.2
# How long a machine may take to answer, once it is to be let go of.
CLOSE_S = 5.0

Done = TypeVar("Done")


class OtherMachine:
    """A machine that ssh reaches; what runs there goes on while the connection is lost.

    Args:
        host: the machine, as ssh knows it.
        link: the connection to it.
    """

    def __init__(self, host: str, link: Connection | None = None) -> None:
        self.host: str | None = host
        self.lost: str | None = None
        self.left_running: str | None = None
        self._link = link or Connection(host)
        self._launching: asyncio.Future[str] | None = None
        self._session: str | None = None
        """What may run there."""
        self._follower: RemoteFollower | None = None
        self._stopping = False
        self._stop_asked_on = 0
        self._tries_before: int | None = None

    async def open(self) -> Refused | None:
        self._link.start()
        try:
            await self._link.wait_until_up()
        except SshError as error:
            return Refused(str(error), error.exit_code)
        return None

    async def launch(self, job: Job) -> Started | Refused:
        session = await self._answered(lambda: self._launched(job))
        if isinstance(session, Refused):
            return session
        self._session = session
        return Started(session, "")

    async def _launched(self, job: Job) -> str:
        """Return the session that was started, be it by an earlier request whose answer was lost.

        Raises:
            RefusedRequest: none can be started.
            SshError: the connection was lost.
        """
        if self._launching is not None:
            for listed in await listed_sessions(self._link):
                header = listed.header
                of_job = (header.workload, header.options) == (job.workload, job.options)
                if of_job and listed.status == Status.RUNNING:
                    return id_of(listed.path)
        self._launching = asyncio.ensure_future(launch_remote(self._link, job))
        try:
            # Who gives up waiting has to know what was started, to stop it.
            session = await asyncio.shield(self._launching)
        except RefusedRequest:
            self._launching = None
            raise
        self._launching = None
        return session

    async def follow(self, started: Started) -> SessionFollower | Refused:
        self._session = started.session
        follower = await self._answered(lambda: follow_remote(self._link, started.session))
        if isinstance(follower, RemoteFollower):
            self._follower = follower
        return follower

    async def _answered(self, ask: Callable[[], Coroutine[Any, Any, Done]]) -> Done | Refused:
        """Return what is asked for, or why there is none; a connection that is lost may come back.

        Args:
            ask: asks for it, again where it has to.
        """
        asking: asyncio.Future[Done] | None = None
        try:
            while True:
                self.tend()
                if asking is not None and asking.done():
                    try:
                        return asking.result()
                    except SshError:
                        # The answer may be lost before it is known that the connection is.
                        asking = None
                        await asyncio.sleep(LOOK_S)
                        continue
                    except (RefusedRequest, NoSuchLog) as error:
                        permanent = getattr(error, "permanent", False)
                        return Refused(str(error), getattr(error, "exit_code", FAILED), permanent)
                if self.lost is not None:
                    return Refused(self.lost, UNREACHABLE)
                if asking is None and self._link.is_up:
                    asking = asyncio.ensure_future(ask())
                if asking is None:
                    await asyncio.sleep(LOOK_S)
                else:
                    await asyncio.wait({asking}, timeout=LOOK_S)
        finally:
            if asking is not None:
                asking.cancel()

    def tend(self) -> None:
        """Ask for a stop where it may not have arrived, and notice that the machine is lost."""
        link = self._link
        if link.is_up:
            if self._stopping and self._session and self._stop_asked_on != link.connections:
                self._stop_asked_on = link.connections
                # The log shows whether it stops.
                link.send("stop", lambda answer: None, session=self._session)
            if self._follower is not None and self._follower.running:
                self.lost = self._follower.failure
        elif link.needs_person:
            self.lost = link.problem
        elif self._stopping and link.retry_at_ns is not None:
            # No longer than it takes to try once more.
            if self._tries_before is None:
                self._tries_before = link.tries
                link.retry_now()
            elif link.tries > self._tries_before:
                self.lost = link.problem

    def stop(self) -> None:
        self._stopping = True
        self.tend()

    async def leave(self) -> None:
        follower, self._follower = self._follower, None
        self._session = None
        if follower is not None:
            follower.close()

    async def close(self) -> None:
        follower, self._follower = self._follower, None
        launching, self._launching = self._launching, None
        session, self._session = self._session, None
        if launching is not None and session is None:
            with contextlib.suppress(asyncio.TimeoutError, RefusedRequest, SshError):
                session = await asyncio.wait_for(launching, CLOSE_S)
        if session is not None:
            await self._stop_to_leave(session)
        if follower is not None:
            follower.close()
        await self._link.close()

    async def _stop_to_leave(self, session: str) -> None:
        try:
            await asyncio.wait_for(self._link.ask_one("stop", session=session), CLOSE_S)
        except RefusedRequest:
            # It is over.
            return
        except (asyncio.TimeoutError, SshError):
            self.left_running = session
