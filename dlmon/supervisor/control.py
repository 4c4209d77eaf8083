"""Answer the requests of viewers of a running session by asking its processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
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
    SeenAt,
    SourceLines,
    Stack,
    ThreadStack,
    decode,
    encode,
)
from dlmon.records.sanitize import clean
from dlmon.records.stacks import package_of
from dlmon.supervisor.connection import NotAnswered, ProcessConnection
from dlmon.supervisor.source_lines import read_source_lines
from dlmon.system.children import answer_in, python_command

STALLED_NS = 30_000_000_000
"""After a stall of this length, the stacks of all processes are recorded."""
STANDS_NS = 5_000_000_000
"""After a stall of this length, the lines of source at which it stands are recorded."""
MOST_SOURCES, MOST_ASKED, MOST_CALLERS = 64, 48, 4
"""The lines whose source is read; stalls have the rest of what requests may take."""
SOURCE_S = 1.0
"""An answer waits this long for the source where its processes are."""
SILENT_NS = 15_000_000_000
"""After a stall of this length without a report, the process may be unable to report."""
REQUEST_S = 5.0
SUM_UP_S = 120.0
MOST_AT_ONCE = 16


class Control:
    """Listens for viewers, and asks the processes of a run.

    Args:
        processes: returns the processes that take requests now.
        write: is called with the records of their answers.
        notice: is called with a sentence for a person.
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
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stall_asked_ns = self._reported_ns = 0
        self._began_wall = time.time()
        self._sources: dict[tuple[str, int], asyncio.Future[SourceLines]] = {}
        """The source around a line of a file, read once."""
        self._is_closed = False
        self._folder = Path()
        self._address = "\0"
        self._is_profiling = False

    async def listen(self, session: str, folder: Path) -> None:
        """Listen for viewers of a session; if that fails, send a notice.

        Args:
            session: its id.
            folder: the folder of its log, which takes traces too.
        """
        self._folder = folder
        try:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.setblocking(False)
            self._address = address_of(session)
            listening.bind(self._address)
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listening, limit=LONGEST_BYTES
            )
        except OSError as error:
            self._notice(f"its processes can't be asked what they do: {error.strerror}")

    def close(self) -> None:
        """Close the server, and cancel all requests."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
            if not self._address.startswith("\0"):
                with contextlib.suppress(OSError):
                    Path(self._address).unlink()
        for task in self._tasks:
            task.cancel()

    def take(self, stack: Stack) -> None:
        """In a long stall, read the source where it is, and ask all processes for their stacks."""
        stalled_ns, self._reported_ns = stack.t - stack.begin, stack.t
        if stack.goes_on and stack.places and stalled_ns >= STANDS_NS:
            of_stack = (p for p in self._processes() if (p.number or 0) == (stack.trainer or 0))
            if (process := next(of_stack, None)) is not None:
                place = stack.places[0]
                self._begin_reading(process.peer_pid, place.script or place.inner)
        if stack.goes_on and stalled_ns >= STALLED_NS and self._stall_asked_ns < stack.begin:
            self._ask_once(stack.t)

    def take_silence(self, since: int, now: int) -> None:
        """Ask all processes for their stacks if no step ended `since`, and none reports a stall."""
        if now - since >= SILENT_NS and max(self._stall_asked_ns, self._reported_ns) < since:
            self._ask_once(now, since)

    def _ask_once(self, now: int, silent_since: int | None = None) -> None:
        self._stall_asked_ns = now
        task = asyncio.ensure_future(self.ask_stacks(silent_since))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin_reading(
        self, pid: int, frame: Frame, most: int = MOST_SOURCES
    ) -> asyncio.Future[SourceLines] | None:
        """Read the source around a frame of a process, in a thread: its disk may not answer."""
        place = frame.file, frame.line
        if place in self._sources:
            return self._sources[place]
        if frame.file.startswith("<") or len(self._sources) >= most:
            return None
        loop = asyncio.get_running_loop()
        self._sources[place] = reading = loop.create_future()

        def take(lines: SourceLines) -> None:
            if not self._is_closed:
                self._write(lines)
                reading.set_result(lines)

        def read() -> None:
            lines = read_source_lines(pid, frame, self._began_wall)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(take, lines)

        threading.Thread(target=read, name="source", daemon=True).start()
        return reading

    async def _sources_at(
        self, processes: Sequence[ProcessConnection], stacks: Sequence[ProcessStack]
    ) -> list[Record]:
        """Return the source around the line of the script at which each process is, and callers."""
        frames = [
            (number, process, frame)
            for process, stack in zip(processes, stacks, strict=True)
            if stack.threads
            for number, frame in enumerate(_frames_of_script(stack.threads[0]))
        ]
        begun = (
            self._begin_reading(process.peer_pid, frame, MOST_ASKED)
            for _, process, frame in sorted(frames, key=lambda each: each[0])
        )
        readings = dict.fromkeys(reading for reading in begun if reading is not None)
        if readings:
            await asyncio.wait(readings, timeout=SOURCE_S)
        return [reading.result() for reading in readings if reading.done()]

    async def ask_stacks(self, silent_since: int | None = None) -> list[Record]:
        """Ask all processes for their stacks, write the answers and their source, and return both.

        If the first process has been silent since some time, report its stall in its place.

        Raises:
            NotAnswered: no process takes requests.
        """
        self._number += 1
        processes = list(self._processes())
        stacks = await asyncio.gather(*(_stack_of(p, self._number) for p in processes))
        if not stacks:
            raise NotAnswered("none of its processes trains now")
        for stack in stacks:
            self._write(stack)
        held = next((s for s in stacks if s.threads and s.why), None)
        if silent_since is not None and held is not None and held.threads:
            frames, script = held.threads[0].frames, held.threads[0].script
            places = (SeenAt(1, frames[0], script),) if frames else ()
            self._write(Stack(held.t, silent_since, 1, 1, places, goes_on=True, held=1))
        return [*stacks, *await self._sources_at(processes, stacks)]

    async def ask_profile(self, steps: object) -> list[Record]:
        """Have the framework's profiler record the next steps of the first process.

        Write the profile to the log, and return it.

        Raises:
            NotAnswered: no profile could be made; says why.
        """
        process = next((p for p in self._processes() if p.worker is None), None)
        if process is None:
            raise NotAnswered("none of its processes trains now")
        if self._is_profiling:
            raise NotAnswered("a profile is being made already")
        if type(steps) is not int:
            raise NotAnswered("that is not a request")
        names = {path.name for path in self._folder.glob("profile-*")}
        number = next(n for n in range(1, len(names) + 2) if f"profile-{n}.json.gz" not in names)
        part = self._folder.resolve() / f"profile-{number}.part.gz"
        self._number += 1
        self._is_profiling = True
        try:
            profile = await process.ask_profile(self._number, steps, part)
            if "file" in profile.why:
                raise NotAnswered(profile.why["file"])
            target = self._folder / f"profile-{number}.json.gz"
            profile = replace(profile, trainer=process.number or None)
            profile = await _with_summary(profile, part, target)
            self._write(profile)
            steps_text = "1 step" if profile.steps == 1 else f"{profile.steps:,} steps"
            trace = "its trace could not be read" if profile.file is None else target.name
            self._notice(f"{steps_text} profiled, which count in no figure: {trace}")
            return [profile]
        finally:
            part.unlink(missing_ok=True)
            self._is_profiling = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await self._answer(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._tasks) > MOST_AT_ONCE or not may_ask(writer.get_extra_info("socket")):
                return
            line = await asyncio.wait_for(reader.readline(), REQUEST_S)
            for record in await self._handle(line):
                writer.write(encode(record))
            last: dict[str, Any] = {"end": True}
        except NotAnswered as error:
            last = {"error": str(error)}
        except (ValueError, asyncio.TimeoutError):
            # The line is too long, or none came.
            return
        writer.write(json.dumps(last).encode() + b"\n")
        await writer.drain()

    async def _handle(self, line: bytes) -> list[Record]:
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


def _frames_of_script(thread: ThreadStack) -> Sequence[Frame]:
    """Return the frame of the script at which a thread is, then its callers in the script."""
    frames = [frame for frame in thread.frames if package_of(frame.file) is None]
    return frames[:MOST_CALLERS] if thread.script is not None else ()


async def _stack_of(process: ProcessConnection, number: int) -> ProcessStack:
    try:
        answer = await process.ask(number, "stack")
        if isinstance(answer, ProcessStack):
            return process.named(answer)
        raise NotAnswered("it answered something else")
    except NotAnswered as error:
        why, t = {"threads": str(error)}, time.monotonic_ns()
        threads = None if process.stacks_at is None else held_threads(process.stacks_at)
        return process.named(ProcessStack(t, number, process.pid, threads, why=why))


async def _with_summary(profile: Profile, source: Path, target: Path) -> Profile:
    """Return a profile with the summary of its trace, which a process of its own reads."""
    command = [*python_command("dlmon.supervisor.trace"), str(source), str(target)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), SUM_UP_S)
        summary = answer_in(output)
        if "error" in summary:
            return replace(profile, why={"operations": str(summary["error"])})
        fields = {**json.loads(encode(profile)), **summary, "file": target.name}
        if summary.get("idle") is None:
            fields |= {"idle": None, "why": {"idle": "nothing ran on a device"}}
        record = decode(json.dumps(fields))
        assert isinstance(record, Profile)
        return record
    except (asyncio.TimeoutError, ValueError, TypeError, RecordError):
        await asyncio.to_thread(target.unlink, missing_ok=True)
        why = {"operations": "the process that reads the trace failed"}
        return replace(profile, why=why)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


_MOST_BYTES = 1 << 18


def held_threads(path: Path) -> tuple[ThreadStack, ...] | None:
    """Return the threads' stacks from the file of a process that can't answer; None if empty."""
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
    # The interpreter of the script may be another one.
    in_script = (f for f in frames if is_of_script(f.file) and package_of(f.file) is None)
    return next(in_script, None)
