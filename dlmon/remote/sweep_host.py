"""Run a sweep's runs on another host, one after another."""

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
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.session.follower import SessionFollower

POLL_S = 0.2
# The time limit for answers to a last request, before the connection is closed.
CLOSE_S = 5.0

Answer = TypeVar("Answer")


class RemoteHost:
    """A host for runs of a sweep, over ssh; a run goes on while the connection is lost."""

    def __init__(self, name: str, connection: Connection | None = None) -> None:
        self.name: str | None = name
        self.lost: str | None = None
        self.left_running: str | None = None
        self._connection = connection or Connection(name)
        self._launching: asyncio.Future[str] | None = None
        self._session: str | None = None
        """The session that may run there."""
        self._follower: RemoteFollower | None = None
        self._stopping = False
        self._stop_sent_on = 0
        self._tries_before: int | None = None

    async def open(self) -> Refused | None:
        self._connection.start()
        try:
            await self._connection.wait_until_up()
        except SshError as error:
            return Refused(str(error), error.exit_code)
        return None

    async def launch(self, job: Job) -> Started | Refused:
        session = await self._ask(lambda: self._launch(job))
        if isinstance(session, Refused):
            return session
        self._session = session
        return Started(session, "")

    async def _launch(self, job: Job) -> str:
        """Start a session, unless an earlier request whose answer was lost did; return its id.

        Raises:
            HostRefusal: the host can't start it.
            SshError: the connection was lost.
        """
        if self._launching is not None:
            for entry in await listed_sessions(self._connection):
                header = entry.header
                is_of_job = (header.workload, header.options) == (job.workload, job.options)
                if is_of_job and entry.status == Status.RUNNING:
                    return id_of(entry.path)
        self._launching = asyncio.ensure_future(launch_remote(self._connection, job))
        try:
            # If we are cancelled, `close` still needs the session's id to stop it.
            session = await asyncio.shield(self._launching)
        except HostRefusal:
            self._launching = None
            raise
        self._launching = None
        return session

    async def follow(self, started: Started) -> SessionFollower | Refused:
        self._session = started.session
        follower = await self._ask(lambda: follow_remote(self._connection, started.session))
        if isinstance(follower, RemoteFollower):
            self._follower = follower
        return follower

    async def _ask(self, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer | Refused:
        """Call `ask`, again after each lost connection; return its answer or why there is none."""
        asking: asyncio.Future[Answer] | None = None
        try:
            while True:
                self.poll()
                if asking is not None and asking.done():
                    try:
                        return asking.result()
                    except SshError:
                        # The request may fail before `is_up` shows that the connection is lost.
                        asking = None
                        await asyncio.sleep(POLL_S)
                        continue
                    except (HostRefusal, NoSuchLog) as error:
                        permanent = getattr(error, "permanent", False)
                        return Refused(str(error), getattr(error, "exit_code", FAILED), permanent)
                if self.lost is not None:
                    return Refused(self.lost, UNREACHABLE)
                if asking is None and self._connection.is_up:
                    asking = asyncio.ensure_future(ask())
                if asking is None:
                    await asyncio.sleep(POLL_S)
                else:
                    await asyncio.wait({asking}, timeout=POLL_S)
        finally:
            if asking is not None:
                asking.cancel()

    def poll(self) -> None:
        """Repeat a stop that may not have arrived, and set `lost` if the host is lost."""
        connection = self._connection
        if connection.is_up:
            if self._stopping and self._session and self._stop_sent_on != connection.connect_count:
                self._stop_sent_on = connection.connect_count
                # The log shows if it stops, so the answer isn't needed.
                connection.send("stop", lambda answer: None, session=self._session)
            if self._follower is not None and self._follower.running:
                self.lost = self._follower.failure
        elif connection.needs_person:
            self.lost = connection.problem
        elif self._stopping and connection.retry_at_ns is not None:
            # Once stopping, one more attempt to connect has to do.
            if self._tries_before is None:
                self._tries_before = connection.tries
                connection.retry_now()
            elif connection.tries > self._tries_before:
                self.lost = connection.problem

    def stop(self) -> None:
        self._stopping = True
        self.poll()

    async def finish_run(self) -> None:
        follower, self._follower = self._follower, None
        self._session = self._tries_before = None
        # A stop was for this run alone: the next one of a pair is stopped by another.
        self._stopping, self._stop_sent_on = False, 0
        if follower is not None:
            follower.close()

    async def close(self) -> None:
        follower, self._follower = self._follower, None
        launching, self._launching = self._launching, None
        session, self._session = self._session, None
        if launching is not None and session is None:
            with contextlib.suppress(asyncio.TimeoutError, HostRefusal, SshError):
                session = await asyncio.wait_for(launching, CLOSE_S)
        if session is not None:
            await self._stop_session(session)
        if follower is not None:
            follower.close()
        await self._connection.close()

    async def _stop_session(self, session: str) -> None:
        try:
            # A session that is over refuses this.
            with contextlib.suppress(HostRefusal):
                await asyncio.wait_for(self._connection.ask_one("stop", session=session), CLOSE_S)
        except (asyncio.TimeoutError, SshError):
            self.left_running = session
