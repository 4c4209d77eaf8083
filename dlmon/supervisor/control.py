"""Take what viewers ask of a session that runs, and ask its processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.instrument.stacks import MOST_FRAMES, MOST_THREADS, is_of_script, lines_in
from dlmon.protocol.control import LONGEST_BYTES, VERSION, address_of, may_ask
from dlmon.records import (
    Frame,
    ProcessStack,
    Profile,
    Record,
    RecordError,
    Stack,
    ThreadStack,
    decode,
    encode,
)
from dlmon.records.sanitize import clean
from dlmon.supervisor.connection import NotAnswered, ProcessConnection
from dlmon.system.children import answer_in, python_command

STALLED_NS = 30_000_000_000
"""A run that stalls for so long has the stack of each of its processes recorded."""
REQUEST_S = 5.0
SUM_UP_S = 120.0
MOST_AT_ONCE = 16


class Control:
    """Listens for viewers, and asks the processes of a run.

    Args:
        processes: returns those that may be asked now.
        write: takes the records that they answer with.
        notice: takes, in words, what a person should know.
    """

    def __init__(
        self,
        processes: Callable[[], Iterable[ProcessConnection]],
        write: Callable[[Record], None],
        notice: Callable[[str], None],
    ) -> None:
        self._processes, self._write, self._notice = processes, write, notice
        self._server: asyncio.AbstractServer | None = None
        self._number = 0
        self._now: set[asyncio.Task[Any]] = set()
        self._stall_asked_ns = 0
        self._folder = Path()
        self._is_profiling = False

    async def listen(self, session: str, folder: Path) -> None:
        """Listen for viewers of a session; where that can't be, say so.

        Args:
            session: its id.
            folder: where its log lies, and traces beside it.
        """
        self._folder = folder
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
            NotAnswered: there is none that could be asked.
        """
        self._number += 1
        asked = list(self._processes())
        if not asked:
            raise NotAnswered("none of its processes trains yet")
        stacks = await asyncio.gather(*(_stack_of(each, self._number) for each in asked))
        for stack in stacks:
            self._write(stack)
        return list(stacks)

    async def ask_profile(self, steps: object) -> list[Record]:
        """Have the framework's profiler watch the next steps of the first process.

        Write what they come to to the log, and return it.

        Raises:
            NotAnswered: no profile could be made; says why.
        """
        training = (each for each in self._processes() if each.worker is None)
        asked = next(training, None)
        if asked is None:
            raise NotAnswered("none of its processes trains yet")
        if self._is_profiling:
            raise NotAnswered("a profile is being made already")
        if type(steps) is not int:
            raise NotAnswered("that is not a request")
        taken = {path.name for path in self._folder.glob("profile-*")}
        place = next(n for n in range(1, len(taken) + 2) if f"profile-{n}.json.gz" not in taken)
        part = self._folder.resolve() / f"profile-{place}.part.gz"
        self._number += 1
        self._is_profiling = True
        try:
            sent = await asked.ask_profile(self._number, steps, part)
            if "file" in sent.why:
                raise NotAnswered(sent.why["file"])
            target = self._folder / f"profile-{place}.json.gz"
            profile = await _summed_up(replace(sent, trainer=asked.number or None), part, target)
            self._write(profile)
            steps_text = "1 step" if sent.steps == 1 else f"{sent.steps:,} steps"
            kept = "its trace could not be read" if profile.file is None else target.name
            self._notice(f"{steps_text} profiled, which count in no figure: {kept}")
            return [profile]
        finally:
            part.unlink(missing_ok=True)
            self._is_profiling = False

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
        except NotAnswered as error:
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
            raise NotAnswered("that is not a request") from None
        if version == VERSION and ask == "stack":
            return await self.ask_stacks()
        if version == VERSION and ask == "profile":
            return await self.ask_profile(request.get("steps"))
        raise NotAnswered("the dlmon that records it does not know that request")


async def _stack_of(asked: ProcessConnection, number: int) -> ProcessStack:
    try:
        answer = await asked.ask(number, "stack")
        if isinstance(answer, ProcessStack):
            return asked.named(answer)
        raise NotAnswered("it answered something else")
    except NotAnswered as error:
        why, t = {"threads": str(error)}, time.monotonic_ns()
        threads = None if asked.stacks_at is None else held_threads(asked.stacks_at)
        return asked.named(ProcessStack(t, number, asked.pid, threads, why=why))


async def _summed_up(profile: Profile, source: Path, target: Path) -> Profile:
    """Return a profile with what its trace comes to, by a process that reads it."""
    words = [*python_command("dlmon.supervisor.trace"), str(source), str(target)]
    process = await asyncio.create_subprocess_exec(
        *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), SUM_UP_S)
        summary = answer_in(said)
        if "error" in summary:
            return replace(profile, why={"operations": str(summary["error"])})
        known = {**json.loads(encode(profile)), **summary, "file": target.name}
        if summary.get("idle") is None:
            known |= {"idle": None, "why": {"idle": "nothing ran on a device"}}
        made = decode(json.dumps(known))
        assert isinstance(made, Profile)
        return made
    except (asyncio.TimeoutError, ValueError, TypeError, RecordError):
        await asyncio.to_thread(target.unlink, missing_ok=True)
        why = {"operations": "the process that reads the trace failed"}
        return replace(profile, why=why)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


_MOST_BYTES = 1 << 18
# Of an interpreter that isn't this one.
_STANDARD = re.compile(r"/lib(?:64)?/python3\.\d+/|/_dlmon_monitor/")


def held_threads(path: Path) -> tuple[ThreadStack, ...] | None:
    """Return what the threads of a process were doing; None where nothing was written of it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    threads = [
        (f"0x{ident:x}", [Frame(clean(file), line, clean(name)) for file, line, name in lines])
        for ident, lines in lines_in(text)
    ]
    stacks = [
        ThreadStack(name, tuple(frames[:MOST_FRAMES]), _script_in(frames))
        for name, frames in threads
    ]
    stacks.sort(key=lambda stack: stack.script is None)
    return tuple(stacks[:MOST_THREADS]) or None


def _script_in(frames: list[Frame]) -> Frame | None:
    own = (f for f in frames if is_of_script(f.file) and not _STANDARD.search(f.file))
    return next(own, None)
