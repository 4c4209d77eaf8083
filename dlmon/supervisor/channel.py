"""Ask a process that trains, over the connection that its records come in on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from dlmon.records import Answer, ProcessStack, Profile, Record

VERSION = 1
ANSWER_S = 2.0
PROFILE_S = 600.0
ANSWERS = (Answer, ProcessStack, Profile)
"""The records that answer a request."""


class NotAnswered(Exception):
    """A request that was refused, or not answered in time; the message says why."""


class Channel:
    """One process that may be asked.

    Args:
        fd: its connection, on which its records come in.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        # Where the process does not read, a request shall not wait.
        os.set_blocking(fd, False)
        self._asked: dict[int, asyncio.Future[Answer | ProcessStack]] = {}
        self._hello: Answer | None = None
        self._profile: asyncio.Future[Profile] | None = None
        self._profile_number = 0

    @property
    def takes_requests(self) -> bool:
        """Whether it has said that it does; what is older than these never says it."""
        return self._hello is not None

    @property
    def worker(self) -> str | None:
        """What it is called among those that load data; None for one that trains."""
        return None if self._hello is None else self._hello.worker

    def take(self, record: Record) -> bool:
        """Return whether a record answers a request, or says that requests are taken."""
        if not isinstance(record, ANSWERS):
            return False
        if isinstance(record, Profile):
            waits = self._profile is not None and not self._profile.done()
            if self._profile is not None and waits and record.request == self._profile_number:
                self._profile.set_result(record)
            return True
        if isinstance(record, Answer) and record.request == 0:
            self._hello = record
        # One that comes too late is nobody's.
        future = self._asked.pop(record.request, None)
        if future is not None and not future.done():
            future.set_result(record)
        return True

    async def ask(self, number: int, ask: str, **fields: int | str) -> Answer | ProcessStack:
        """Return the answer to a request.

        Raises:
            NotAnswered: there is none in time, or the process refuses.
        """
        if self._hello is None:
            raise NotAnswered("it takes no requests: an older dlmon is in it")
        line = json.dumps({"v": VERSION, "id": number, "ask": ask, **fields}).encode() + b"\n"
        future: asyncio.Future[Answer | ProcessStack]
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        try:
            # Where the process does not read, its connection is full.
            with contextlib.suppress(BlockingIOError):
                os.write(self._fd, line)
            answer = await asyncio.wait_for(future, ANSWER_S)
        except asyncio.TimeoutError:
            waited_s = time.monotonic() - began
            raise NotAnswered(f"it did not answer within {waited_s:.0f} s") from None
        except OSError:
            raise NotAnswered("it has ended") from None
        finally:
            self._asked.pop(number, None)
        if isinstance(answer, Answer) and answer.refused is not None:
            raise NotAnswered(answer.refused)
        return answer

    async def ask_profile(self, number: int, steps: int, path: Path) -> Profile:
        """Have its framework's profiler watch its next steps, and return what it sends of them.

        Raises:
            NotAnswered: no profile was made; says why.
        """
        self._profile = asyncio.get_running_loop().create_future()
        self._profile_number = number
        try:
            await self.ask(number, "profile", steps=steps, path=str(path))
            return await asyncio.wait_for(self._profile, PROFILE_S)
        except asyncio.TimeoutError:
            raise NotAnswered(f"no profile came within {PROFILE_S:.0f} s") from None
        finally:
            self._profile.cancel()

    def close(self) -> None:
        if self._profile is not None and not self._profile.done():
            ended = "the process ended before its steps were profiled"
            self._profile.set_exception(NotAnswered(ended))
        for future in self._asked.values():
            if not future.done():
                future.set_exception(NotAnswered("it has ended"))


@dataclass(frozen=True)
class Asked:
    """A process of the run that may be asked: what its supervisor knows of it."""

    channel: Channel
    pid: int
    rank: int | None = None
    number: int | None = None
    """Among those of a script that train; None for the first of them."""
    held: Path | None = None
    """What its stacks are written to where it can't answer."""

    def named(self, stack: ProcessStack) -> ProcessStack:
        """Return its stack with what its supervisor knows: a process says nothing of another."""
        return replace(stack, pid=self.pid, rank=self.rank, worker=self.channel.worker)
