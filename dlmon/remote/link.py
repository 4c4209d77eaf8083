"""Keep a connection to a host: connect, connect again when it is lost, and ask again what stands.

A connection that is lost is tried again after 1, 3, 15 and 60 s, then every 5 minutes, or when a
person asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from dlmon.records.codec import LARGEST
from dlmon.records.record import record
from dlmon.remote.connection import Answer, Connection, connect
from dlmon.remote.hosts import HostError
from dlmon.remote.ssh import SshError

BACK_OFF_S = (1.0, 3.0, 15.0, 60.0, 300.0)
PING_S = 10.0
# A host that answers nothing for so long is as good as gone, whatever its connection says.
SILENCE_S = 20.0
# Longer than a connection takes to close.
_CANCELLED_S = 5.0
_ROUND_TRIPS = 12


@record(frozen=True)
class Clock:
    """How far the clocks of a host are ahead of ours, by the quickest round trip of the last."""

    monotonic_ns: int
    wall_s: float
    round_trip_s: float


class Standing:
    """A request that is asked again on each new connection, until it is over.

    Args:
        ask: which.
        fields: returns what goes with it, as things stand then.
        take: is called with each answer.
    """

    def __init__(
        self, ask: str, fields: Callable[[], dict[str, Any]], take: Callable[[Answer], None]
    ) -> None:
        self.ask = ask
        self.fields = fields
        self.take = take
        self.number: int | None = None


class Link:
    """A connection to one host that comes back, and the requests that stand on it.

    Args:
        host: its name, as ssh knows it.
        connect: makes a connection.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        host: str,
        connect: Callable[[str], Awaitable[Connection]] = connect,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.host = host
        self.boot_id: str | None = None
        """By what the clock of the one that answered last is known."""
        self.times: Clock | None = None
        self.lost_at_ns: int | None = None
        self.retry_at_ns: int | None = None
        self.connections = 0
        self.tries = 0
        """How often it was tried to connect, a try that is under way included."""
        self._connect = connect
        self._clock = clock
        self._connection: Connection | None = None
        self._standing: list[Standing] = []
        self._round_trips: deque[Clock] = deque(maxlen=_ROUND_TRIPS)
        self._task: asyncio.Task[None] | None = None
        self._failure: SshError | None = None
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._retry = asyncio.Event()
        self._answered_at_ns = 0

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    @property
    def problem(self) -> str | None:
        """Why there is no connection, where one was tried; a sentence that names the host."""
        return None if self._failure is None else str(self._failure)

    @property
    def needs_person(self) -> bool:
        """Whether a person has to do something before the host can be used."""
        return self._failure is not None and not self._failure.may_pass

    def start(self) -> None:
        """Connect, and go on until closed; call it on the loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        task, self._task = self._task, None
        while task is not None and not task.done():
            # Before Python 3.12, what `wait_for` waits for may end as it is cancelled, and then it
            # goes on as if it had not been.
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCELLED_S)
        if task is not None and not task.cancelled():
            task.result()

    def retry_now(self) -> None:
        self._retry.set()

    def add(self, standing: Standing) -> None:
        """Ask something now and after each loss, until `remove`."""
        self._standing.append(standing)
        if self._connection is not None:
            self._send(self._connection, standing)

    def remove(self, standing: Standing) -> None:
        """Ask it no more, if it is still asked."""
        if standing not in self._standing:
            return
        self._standing.remove(standing)
        if self._connection is not None and standing.number is not None:
            self._connection.cancel(standing.number)

    async def wait_until_up(self) -> None:
        """Wait for the first connection.

        Raises:
            SshError: it could not be made.
        """
        while not self.is_up:
            self._changed.clear()
            if self._failure is not None:
                raise self._failure
            await self._changed.wait()

    def send(self, ask: str, take: Callable[[Answer], None], **fields: Any) -> None:
        """Ask something once, where there is a connection; `take` is called with each answer."""
        if self._connection is not None:
            self._connection.send(ask, take, **fields)

    def ask(self, ask: str, **fields: Any) -> AsyncIterator[Answer]:
        """Return the answers to a request on the connection that there is.

        Raises:
            SshError: there is no connection.
        """
        return self._there.ask(ask, **fields)

    async def ask_one(self, ask: str, **fields: Any) -> Answer:
        """Return the one answer to a request on the connection that there is.

        Raises:
            RefusedRequest: it can't be followed.
            SshError: there is no connection, or it was lost.
        """
        return await self._there.ask_one(ask, **fields)

    @property
    def _there(self) -> Connection:
        if self._connection is None:
            raise self._failure or SshError(f"{self.host} is not connected")
        return self._connection

    async def _keep(self) -> None:
        failures = 0
        while True:
            self.tries += 1
            try:
                connection = await self._connect(self.host)
            except SshError as error:
                self._report_lost(error)
            except (HostError, OSError) as error:
                self._report_lost(SshError(str(error), may_pass=isinstance(error, OSError)))
            else:
                began_ns = self._clock()
                try:
                    await self._serve(connection)
                finally:
                    self._connection = None
                    await connection.close()
                # One that is lost at once, again and again, is tried less and less often too.
                if self._clock() - began_ns > SILENCE_S * 1e9:
                    failures = 0
            wait_s = BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)]
            failures += 1
            self.retry_at_ns = self._clock() + int(wait_s * 1e9)
            self._retry.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._retry.wait(), wait_s)
                # A person who tries again shall not wait longer the next time.
                failures -= 1
            self.retry_at_ns = None

    async def _serve(self, connection: Connection) -> None:
        self._connection = connection
        self.connections += 1
        if self.boot_id != connection.boot_id:
            self._round_trips.clear()
        self.boot_id, self._failure, self.lost_at_ns = connection.boot_id, None, None
        self._ended.clear()
        self._changed.set()
        self._answered_at_ns = self._clock()
        self._ping(connection)
        for standing in self._standing:
            self._send(connection, standing)
        while not self._ended.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), PING_S)
                break
            if self._clock() - self._answered_at_ns > SILENCE_S * 1e9:
                self._report_lost(SshError(f"{self.host} stopped answering"))
                return
            self._ping(connection)
        self._report_lost(connection.lost or SshError(f"{self.host}: the connection was closed"))

    def _report_lost(self, failure: SshError) -> None:
        if self._failure is None:
            self.lost_at_ns = self._clock()
        self._failure = failure
        self._changed.set()

    def _ping(self, connection: Connection) -> None:
        sent_ns, sent_wall = self._clock(), time.time()

        def take(answer: Answer) -> None:
            now_ns = self._clock()
            if "lost" in answer:
                self._ended.set()
                return
            self._answered_at_ns = now_ns
            their_ns, their_wall = answer.get("t"), answer.get("wall")
            if not isinstance(their_ns, int) or not isinstance(their_wall, (int, float)):
                return
            # A box may say anything; what no clock shows would be an error where it is used.
            if not (0 <= their_ns <= LARGEST and 0 <= their_wall <= LARGEST):
                return
            half_ns = (now_ns - sent_ns) // 2
            self._round_trips.append(
                Clock(
                    monotonic_ns=their_ns - (sent_ns + half_ns),
                    wall_s=their_wall - (sent_wall + half_ns / 1e9),
                    round_trip_s=(now_ns - sent_ns) / 1e9,
                )
            )
            self.times = min(self._round_trips, key=lambda each: each.round_trip_s)

        connection.send("ping", take)

    def _send(self, connection: Connection, standing: Standing) -> None:
        def take(answer: Answer) -> None:
            if "lost" in answer:
                self._ended.set()
                return
            self._answered_at_ns = self._clock()
            standing.take(answer)

        standing.number = connection.send(standing.ask, take, **standing.fields())


@contextlib.asynccontextmanager
async def linked(host: str) -> AsyncIterator[Link]:
    """Hold a link to a host that answers, for as long as the context lasts.

    Raises:
        SshError: it can't be reached.
    """
    link = Link(host)
    link.start()
    try:
        await link.wait_until_up()
        yield link
    finally:
        await link.close()
