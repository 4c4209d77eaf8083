"""Take what viewers ask of a session that runs, and ask its processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from dlmon.control import LONGEST_BYTES, VERSION, address_of, may_ask
from dlmon.records import ProcessStack, Record, Stack, encode
from dlmon.supervisor.channel import Asked, NotAnswered

STALLED_NS = 30_000_000_000
"""A run that stalls for so long has the stack of each of its processes recorded."""
REQUEST_S = 5.0
MOST_AT_ONCE = 16


class RefusedAsk(Exception):
    """What can't be done for a viewer; the message says why."""


class Control:
    """Listens for viewers, and asks the processes of a run.

    Args:
        processes: returns those that may be asked now.
        write: takes the records that they answer with.
        notice: takes, in words, what a person should know.
    """

    def __init__(
        self,
        processes: Callable[[], Iterable[Asked]],
        write: Callable[[Record], None],
        notice: Callable[[str], None],
    ) -> None:
        self._processes, self._write, self._notice = processes, write, notice
        self._server: asyncio.AbstractServer | None = None
        self._number = 0
        self._now: set[asyncio.Task[Any]] = set()
        self._stall_asked_ns = 0

    async def listen(self, session: str) -> None:
        """Listen for viewers of a session; where that can't be, say so."""
        try:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            listening.bind(address_of(session))
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listening, limit=LONGEST_BYTES
            )
        except OSError as error:
            self._notice(f"its processes can't be asked what they do: {error.strerror}")

    def close(self) -> None:
        """Hear no viewer, and ask nothing any more."""
        if self._server is not None:
            self._server.close()
        for task in self._now:
            task.cancel()

    def take(self, stack: Stack) -> None:
        """Ask every process what it does once one of them has stalled for long, once a stall."""
        lasted_ns = stack.t - stack.begin
        if stack.goes_on and lasted_ns >= STALLED_NS and self._stall_asked_ns < stack.begin:
            self._stall_asked_ns = stack.t
            self._begin(self.ask_stacks())

    def _begin(self, asking: Any) -> None:
        task = asyncio.ensure_future(asking)
        self._now.add(task)
        task.add_done_callback(self._now.discard)

    async def ask_stacks(self) -> list[Record]:
        """Ask all processes what they do, write what they answer to the log, and return it.

        Raises:
            RefusedAsk: there is none that could be asked.
        """
        self._number += 1
        asked = list(self._processes())
        if not asked:
            raise RefusedAsk("none of its processes trains yet")
        stacks = await asyncio.gather(*(_stack_of(each, self._number) for each in asked))
        for stack in stacks:
            self._write(stack)
        return list(stacks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._now.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await self._answer(reader, writer)
        finally:
            self._now.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._now) > MOST_AT_ONCE or not may_ask(writer.get_extra_info("socket")):
                return
            line = await asyncio.wait_for(reader.readline(), REQUEST_S)
            for record in await self._follow(line):
                writer.write(encode(record))
            last: dict[str, Any] = {"end": True}
        except RefusedAsk as error:
            last = {"error": str(error)}
        except (ValueError, asyncio.TimeoutError):
            # A line without an end, or nothing.
            return
        writer.write(json.dumps(last).encode() + b"\n")
        await writer.drain()

    async def _follow(self, line: bytes) -> list[Record]:
        try:
            request = json.loads(line)
            version, ask = request["v"], request["ask"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise RefusedAsk("that is no request") from None
        if version == VERSION and ask == "stack":
            return await self.ask_stacks()
        raise RefusedAsk("the dlmon that records it does not know that request")


async def _stack_of(asked: Asked, number: int) -> ProcessStack:
    try:
        answer = await asked.channel.ask(number, "stack")
        if isinstance(answer, ProcessStack):
            return asked.named(answer)
        raise NotAnswered("it answered something else")
    except NotAnswered as error:
        why = {"threads": str(error)}
        t = time.monotonic_ns()
        return asked.named(ProcessStack(t, number, asked.pid, threads=None, why=why))
