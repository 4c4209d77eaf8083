"""The connection to a training process, which sends records and answers requests."""

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
from dlmon.records import (
    NOT_NUMBERS,
    Answer,
    Epoch,
    ProcessStack,
    Profile,
    Record,
    RecordError,
    decode,
)

VERSION = 1
ANSWER_S = 2.0
PROFILE_S = 600.0
ANSWERS = (Answer, ProcessStack, Profile)
"""The records that answer a request."""
LINE_BYTES = 16 << 20
READ_BYTES = 1 << 18
# The most bytes that a pipe or a socket of ours buffers.
HELD_BYTES = 1 << 20


class NotAnswered(Exception):
    """Raised if a request was refused, or not answered in time; the message says why."""


class Reader:
    """Reads a pipe, a socket or a terminal up to its end, and closes it."""

    def __init__(
        self, fd: int, take: Callable[[bytes], None], on_close: Callable[[], None] | None = None
    ) -> None:
        self.fd, self._take, self._on_close = fd, take, on_close
        # The descriptor may be blocking: another process may read it too.
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> int:
        """Read once; return the number of bytes, 0 if there are none or at the end."""
        if self.fd < 0 or not self._poll.poll(0):
            return 0
        try:
            data = os.read(self.fd, READ_BYTES)
        except OSError:
            # A terminal gives EIO once nobody has its other side open.
            data = b""
        if data:
            self._take(data)
        else:
            self.close()
        return len(data)

    def drain(self) -> None:
        """Read the buffered bytes and close: a process with the other end may write for ever."""
        remaining = HELD_BYTES
        while remaining > 0 and (count := self.read()):
            remaining -= count
        self.close()

    def close(self) -> None:
        if self.fd < 0:
            return
        asyncio.get_running_loop().remove_reader(self.fd)
        if self._on_close is not None:
            self._on_close()
        os.close(self.fd)
        self.fd = -1


class ProcessConnection(Reader):
    """The connection to one process: takes its records, and sends it requests.

    Args:
        peer: its socket, which the connection closes.
        kinds: the types of records that it may send.
        take: is called with every record that is no answer.
        notice: is called with a sentence for a person.
    """

    def __init__(
        self,
        peer: socket.socket,
        kinds: tuple[type[Record], ...],
        take: Callable[[Record], None],
        notice: Callable[[str], None],
    ) -> None:
        self.peer_pid, _ = peer_of(peer)
        self.pid = self.peer_pid
        """As `peer_pid`, or as the process itself sees it in its container."""
        self.rank: int | None = None
        self.number: int | None = None
        """Its number among a script's training processes; None if it has none."""
        self.stacks_at: Path | None = None
        """The file with its stacks in case it can't answer."""
        self._kinds, self._take_record, self._notice = kinds, take, notice
        self._unfinished = b""
        self._has_refused = False
        self._not_numbers: set[str] = set()
        self._pending: dict[tuple[int, bool], asyncio.Future[Any]] = {}
        """The requests without an answer, by their number and whether a profile is awaited."""
        self._hello: Answer | None = None
        # A request must not block if the process does not read.
        peer.setblocking(False)
        super().__init__(peer.detach(), self._feed, self.disconnected)

    @property
    def takes_requests(self) -> bool:
        """True once the process has sent that it does; an older dlmon in it never does."""
        return self._hello is not None

    @property
    def worker(self) -> str | None:
        """The name of a loader worker; None for a training process."""
        return None if self._hello is None else self._hello.worker

    def _feed(self, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        if len(self._unfinished) > LINE_BYTES:
            self._unfinished = b""
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
        """Report a line that is no record, but only the first."""
        if not self._has_refused:
            self._notice(f"the workload sent something that is not a record: {reason}")
        self._has_refused = True

    def notice_not_numbers(self, epoch: Epoch) -> None:
        """Report every metric that became NaN or infinite, once."""
        for name, reason in epoch.why.items():
            if reason in NOT_NUMBERS and name not in self._not_numbers:
                self._not_numbers.add(name)
                self._notice(f"{name} became {reason} in epoch {epoch.epoch + 1:,}")

    def _take_answer(self, record: Answer | ProcessStack | Profile) -> None:
        if isinstance(record, Answer) and record.request == 0:
            self._hello = record
        # Nobody waits for an answer that comes too late.
        future = self._pending.pop((record.request, isinstance(record, Profile)), None)
        if future is not None and not future.done():
            future.set_result(record)

    async def ask(self, number: int, ask: str, **fields: int | str) -> Answer | ProcessStack:
        """Send a request and return the answer.

        Raises:
            NotAnswered: there is none in time, or the process refuses.
        """
        if self._hello is None:
            raise NotAnswered("it takes no requests: an older dlmon is in it")
        until = time.monotonic_ns() + int(ANSWER_S * 1e9)
        request = {"v": VERSION, "id": number, "ask": ask, "until": until, **fields}
        line = json.dumps(request).encode() + b"\n"
        future: asyncio.Future[Answer | ProcessStack]
        future = self._pending[number, False] = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        try:
            # The socket is full if the process does not read.
            with contextlib.suppress(BlockingIOError):
                os.write(self.fd, line)
            answer = await asyncio.wait_for(future, ANSWER_S)
        except asyncio.TimeoutError:
            waited_s = time.monotonic() - began
            raise NotAnswered(f"it did not answer within {waited_s:.0f} s") from None
        except OSError:
            raise NotAnswered("it has ended") from None
        finally:
            self._pending.pop((number, False), None)
        if isinstance(answer, Answer) and answer.refused is not None:
            raise NotAnswered(answer.refused)
        return answer

    async def ask_profile(self, number: int, steps: int, path: Path) -> Profile:
        """Have the framework's profiler record the next steps, and return the profile.

        Raises:
            NotAnswered: no profile was made; says why.
        """
        future: asyncio.Future[Profile]
        future = self._pending[number, True] = asyncio.get_running_loop().create_future()
        try:
            await self.ask(number, "profile", steps=steps, path=str(path))
            return await asyncio.wait_for(future, PROFILE_S)
        except asyncio.TimeoutError:
            raise NotAnswered(f"no profile came within {PROFILE_S:.0f} s") from None
        finally:
            self._pending.pop((number, True), None)
            future.cancel()

    def named(self, stack: ProcessStack) -> ProcessStack:
        """Return a stack with the pid, rank and worker that we know, not those that it claims."""
        return replace(stack, pid=self.pid, rank=self.rank, worker=self.worker)

    def disconnected(self) -> None:
        """Fail the pending requests: the process has ended, or is not read any more."""
        for (_, is_profile), future in self._pending.items():
            if not future.done():
                reason = "the process ended before its steps were profiled"
                future.set_exception(NotAnswered(reason if is_profile else "it has ended"))
