"""A process that trains, at the other end of a socket: it sends records, and answers requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.protocol.control import peer_of
from dlmon.records import Answer, Epoch, ProcessStack, Profile, Record, RecordError, decode

VERSION = 1
ANSWER_S = 2.0
PROFILE_S = 600.0
ANSWERS = (Answer, ProcessStack, Profile)
"""The records that answer a request."""
LINE_BYTES = 16 << 20
READ_BYTES = 1 << 18
# As much as a pipe or a socket of ours holds when nobody reads it.
HELD_BYTES = 1 << 20


class NotAnswered(Exception):
    """A request that was refused, or not answered in time; the message says why."""


class Reader:
    """Reads what arrives on a pipe, a socket or a terminal, which is its own, up to its end.

    Args:
        fd: of what is read.
        take: is given the bytes.
        ended: called when nothing more is read.
    """

    def __init__(
        self, fd: int, take: Callable[[bytes], None], ended: Callable[[], None] | None = None
    ) -> None:
        self.fd, self._take, self._ended = fd, take, ended
        # It may block: somebody else may read it too.
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> int:
        """Take what one read gives; return how many bytes that were, 0 at the end too."""
        if self.fd < 0 or not self._poll.poll(0):
            return 0
        try:
            data = os.read(self.fd, READ_BYTES)
        except OSError:
            # Of a terminal, EIO: nobody has the other side open any more.
            data = b""
        if data:
            self._take(data)
        else:
            self.close()
        return len(data)

    def drain(self) -> None:
        """Take what is there, and no more: what holds the other end may write for ever."""
        left = HELD_BYTES
        while left > 0 and (count := self.read()):
            left -= count
        self.close()

    def close(self) -> None:
        if self.fd < 0:
            return
        asyncio.get_running_loop().remove_reader(self.fd)
        if self._ended is not None:
            self._ended()
        os.close(self.fd)
        self.fd = -1


class Connection(Reader):
    """One process: what it sends is split into records, and it may be asked.

    Args:
        peer: its socket, which becomes the connection's own.
        kinds: the records that it may send.
        take: is given each of them that is no answer.
        notice: takes, in words, what a person should know.
    """

    def __init__(
        self,
        peer: socket.socket,
        kinds: tuple[type[Record], ...],
        take: Callable[[Record], None],
        notice: Callable[[str], None],
    ) -> None:
        self.pid, _ = peer_of(peer)
        self.rank: int | None = None
        self.number: int | None = None
        """Among those of a script that train; None for one that has none yet, or needs none."""
        self.stacks_at: Path | None = None
        """What its stacks are written to where it can't answer."""
        self._kinds, self._take_record, self._notice = kinds, take, notice
        self._left = b""
        self._has_refused = False
        self._not_numbers: set[str] = set()
        self._asked: dict[tuple[int, bool], asyncio.Future[Any]] = {}
        """By the number of the request, and whether it is its profile that is waited for."""
        self._hello: Answer | None = None
        # Where the process does not read, a request shall not wait.
        peer.setblocking(False)
        super().__init__(peer.detach(), self._feed, self.left)

    @property
    def takes_requests(self) -> bool:
        """Whether it has said that it does; what is older than these never says it."""
        return self._hello is not None

    @property
    def worker(self) -> str | None:
        """What it is called among those that load data; None for one that trains."""
        return None if self._hello is None else self._hello.worker

    def _feed(self, data: bytes) -> None:
        *lines, self._left = (self._left + data).split(b"\n")
        if len(self._left) > LINE_BYTES:
            self._left = b""
            self._refuse(f"a line of more than {LINE_BYTES >> 20} MiB")
        for line in lines:
            try:
                record = decode(line)
            except RecordError as error:
                self._refuse(str(error))
                continue
            if isinstance(record, ANSWERS):
                self._take_answer(record)
            elif isinstance(record, self._kinds):
                self._take_record(record)
            elif record is not None:
                self._refuse(f"a {record.TYPE} record, which it must not send")

    def _refuse(self, reason: str) -> None:
        """Report the first line that is no record."""
        if not self._has_refused:
            self._notice(f"the workload sent something that is not a record: {reason}")
        self._has_refused = True

    def notice_not_numbers(self, epoch: Epoch) -> None:
        """Report once each metric that became NaN or infinite."""
        for name, reason in epoch.why.items():
            if reason in ("NaN", "infinite") and name not in self._not_numbers:
                self._not_numbers.add(name)
                self._notice(f"{name} became {reason} in epoch {epoch.epoch + 1:,}")

    def _take_answer(self, record: Answer | ProcessStack | Profile) -> None:
        if isinstance(record, Answer) and record.request == 0:
            self._hello = record
        # One that comes too late is nobody's.
        future = self._asked.pop((record.request, isinstance(record, Profile)), None)
        if future is not None and not future.done():
            future.set_result(record)

    async def ask(self, number: int, ask: str, **fields: int | str) -> Answer | ProcessStack:
        """Return the answer to a request.

        Raises:
            NotAnswered: there is none in time, or the process refuses.
        """
        if self._hello is None:
            raise NotAnswered("it takes no requests: an older dlmon is in it")
        until = time.monotonic_ns() + int(ANSWER_S * 1e9)
        request = {"v": VERSION, "id": number, "ask": ask, "until": until, **fields}
        line = json.dumps(request).encode() + b"\n"
        future: asyncio.Future[Answer | ProcessStack]
        future = self._asked[number, False] = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        try:
            # Where the process does not read, its connection is full.
            with contextlib.suppress(BlockingIOError):
                os.write(self.fd, line)
            answer = await asyncio.wait_for(future, ANSWER_S)
        except asyncio.TimeoutError:
            waited_s = time.monotonic() - began
            raise NotAnswered(f"it did not answer within {waited_s:.0f} s") from None
        except OSError:
            raise NotAnswered("it has ended") from None
        finally:
            self._asked.pop((number, False), None)
        if isinstance(answer, Answer) and answer.refused is not None:
            raise NotAnswered(answer.refused)
        return answer

    async def ask_profile(self, number: int, steps: int, path: Path) -> Profile:
        """Have its framework's profiler watch its next steps, and return what it sends of them.

        Raises:
            NotAnswered: no profile was made; says why.
        """
        future: asyncio.Future[Profile]
        future = self._asked[number, True] = asyncio.get_running_loop().create_future()
        try:
            await self.ask(number, "profile", steps=steps, path=str(path))
            return await asyncio.wait_for(future, PROFILE_S)
        except asyncio.TimeoutError:
            raise NotAnswered(f"no profile came within {PROFILE_S:.0f} s") from None
        finally:
            self._asked.pop((number, True), None)
            future.cancel()

    def named(self, stack: ProcessStack) -> ProcessStack:
        """Return its stack with what is known of it here: a process says nothing of another."""
        return replace(stack, pid=self.pid, rank=self.rank, worker=self.worker)

    def left(self) -> None:
        """Answer what was asked of it: it has ended, or is heard no more."""
        for (_, is_profile), future in self._asked.items():
            if not future.done():
                ended = "the process ended before its steps were profiled"
                future.set_exception(NotAnswered(ended if is_profile else "it has ended"))
