"""A connection to a host over ssh that reconnects by itself, and the requests sent over it.

A lost connection is retried after 1, 3, 15 and 60 s, then every 5 minutes, or when the user asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import time
import zipfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from dlmon.exit_codes import FAILED
from dlmon.launch.bootstrap import hash_of
from dlmon.launch.bundle import BundleError, package_files
from dlmon.records.codec import LARGEST
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.remote.host_names import HostError
from dlmon.remote.ssh import HostRefusal, JobEnded, SshError, agent_command, bootstrap_line, explain
from dlmon.system.children import end_group

_PACKAGES = ("dlmon", "workloads", "platformdirs")
_MODULES = ("pynvml",)

Answer = dict[str, Any]

LONGEST_LINE_BYTES = 16 << 20
START_S = 60.0
"""The time limit for a host from the first byte to its agent's first line."""
_MAX_NOISE_BYTES = 1 << 20
_MAX_ERROR_BYTES = 1 << 14
_EXIT_S = 2.0
# Errors while reading an answer that is not dlmon's.
_UNREADABLE = (AttributeError, RecursionError, TypeError, ValueError)
_NOT_DLMON = (asyncio.LimitOverrunError, KeyError, *_UNREADABLE)
# Fields that are not cleaned here: bytes of a log or trace, and records, which their reader cleans.
_RAW = {"text", "record", "header", "result"}


BACK_OFF_S = (1.0, 3.0, 15.0, 60.0, 300.0)
PING_S = 10.0
# A host that is silent for longer counts as lost, even if its connection looks alive.
SILENCE_S = 20.0
# A connection closes sooner, unless its task has lost the cancellation.
_CANCELLED_S = 5.0
_ROUND_TRIPS = 12


class SshProcess:
    """An ssh process and the agent that it started on the host. `connect` makes it."""

    def __init__(
        self, host: str, process: asyncio.subprocess.Process, start_s: float = START_S
    ) -> None:
        self.host = host
        self.boot_id = self.python = ""
        self.sent_bytes = 0
        """The size of the archive of dlmon that was sent; 0 if the host had it."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._start_s = start_s
        self._errors = b""
        self._reading_errors = asyncio.create_task(self._read_errors())

    async def open(self) -> None:
        """Start our agent on the host.

        Raises:
            SshError: it can't be started.
        """
        mark = f"dlmon-{os.urandom(8).hex()}"
        try:
            await asyncio.wait_for(self._open(mark), self._start_s)
        except asyncio.TimeoutError:
            raise SshError(f"{self.host} did not answer within {self._start_s:.0f} s") from None
        except (ConnectionError, asyncio.IncompleteReadError):
            raise await self._why_ended() from None
        except BundleError as error:
            raise SshError(f"{self.host} can't be sent dlmon: {error}", may_pass=False) from None
        except _NOT_DLMON:
            raise SshError(
                f"{self.host} answers with something else than dlmon", may_pass=False
            ) from None

    async def _open(self, mark: str) -> None:
        files = sent_files()
        bundle = {"mark": mark, "hash": hash_of(files), "bytes": sum(map(len, files.values()))}
        self._write_bytes(bootstrap_line() + json.dumps(bundle).encode() + b"\n")
        answer = await self._read_marked(mark)
        self._check(answer)
        if type(answer["missing"]) is not bool:
            raise ValueError
        archive = packed(files) if answer["missing"] else b""
        if archive:
            self._write_bytes(b"%d\n" % len(archive) + archive)
        await self._stdin.drain()
        ready = await self._read_marked(mark)
        self._check(ready)
        self.boot_id = clean(str(ready["boot_id"]), 64)
        self.python, self.sent_bytes = clean(str(answer["python"]), 40), len(archive)

    async def _read_marked(self, mark: str) -> Answer:
        """Return the next line that begins with our mark; a login shell may print others."""
        start, noise = mark.encode() + b" ", 0
        while noise < _MAX_NOISE_BYTES:
            line = await self._stdout.readuntil(b"\n")
            if line.startswith(start):
                fields = json.loads(line[len(start) :])
                if not isinstance(fields, dict):
                    raise ValueError
                return fields
            noise += len(line)
        raise ValueError

    def _check(self, answer: Answer) -> None:
        lacks = answer.get("lacks")
        if lacks == "python":
            python, where = (clean(str(answer.get(key)), 200) for key in ("python", "executable"))
            raise SshError(
                f"{self.host} has Python {python} ({where}), and dlmon needs 3.10 or newer there",
                may_pass=False,
            )
        if lacks is not None:
            why = clean(str(answer.get("why")), 300)
            raise SshError(f"{self.host} has no room for dlmon's files: {why}", may_pass=False)

    async def _why_ended(self) -> SshError:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading_errors), _EXIT_S)
            await asyncio.wait_for(self._process.wait(), _EXIT_S)
        errors = self._errors.decode("utf-8", "replace")
        return explain(self.host, errors, self._process.returncode)

    async def answers(self) -> AsyncIterator[Answer]:
        """Yield the host's answers, cleaned, until the connection is lost.

        Raises:
            SshError: the connection was lost, as it always is in the end.
        """
        try:
            while line := await self._stdout.readline():
                # The host isn't trusted: lines that can't be read are skipped.
                with contextlib.suppress(*_UNREADABLE):
                    answer = {
                        clean(key, 200): value if key in _RAW else _cleaned(value)
                        for key, value in json.loads(line).items()
                    }
                    # Only we say that the connection is lost.
                    answer.pop("lost", None)
                    yield answer
        except ValueError:
            problem = f"{self.host} sent a line of over 16 MiB and was disconnected"
            raise SshError(problem, may_pass=False) from None
        except ConnectionError:
            pass
        raise await self._why_ended()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while more := await self._process.stderr.read(4096):
            self._errors = (self._errors + more)[-_MAX_ERROR_BYTES:]

    def write(self, request: Answer) -> None:
        self._write_bytes(json.dumps(request).encode() + b"\n")

    def _write_bytes(self, data: bytes) -> None:
        # A lost connection shows as the end of its stdout.
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self) -> None:
        """End the connection; the agent ends with it, but not the sessions on the host."""
        self._reading_errors.cancel()
        self._stdin.close()
        if self._process.returncode is None:
            # Also end ssh's ProxyCommand, which may ignore the end of its input.
            end_group(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), _EXIT_S)


async def connect(host: str, start_s: float = START_S) -> SshProcess:
    """Return an ssh process whose agent answers.

    Args:
        host: the host.
        start_s: the time limit for the start of the agent.

    Raises:
        HostError: the name is not that of a host.
        SshError: the host can't be reached or used.
    """
    process = await asyncio.create_subprocess_exec(
        *agent_command(host),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=LONGEST_LINE_BYTES,
        # Ctrl-C must not reach ssh.
        start_new_session=True,
    )
    ssh = SshProcess(host, process, start_s)
    try:
        await ssh.open()
    except BaseException:
        await ssh.close()
        raise
    return ssh


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value, 1000)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key), 200): _cleaned(item) for key, item in value.items()}
    return value


@cache
def sent_files() -> dict[str, bytes]:
    """Return the files of dlmon that run on a host.

    Raises:
        BundleError: Python doesn't find one of the packages.
    """
    files = package_files(_PACKAGES)
    for module in _MODULES:
        # A host without it reports no GPU, and why.
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            files[f"{module}.py"] = Path(spec.origin).read_bytes()
    return files


def packed(files: dict[str, bytes]) -> bytes:
    """Return a zip archive of the files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@record(frozen=True)
class ClockDifference:
    """The time by which a host's clocks are ahead of ours, measured by a round trip."""

    monotonic_ns: int
    wall_s: float
    round_trip_s: float


class StandingRequest:
    """A request that is sent again on each new connection, until it is removed.

    Args:
        ask: the name of the request.
        fields: returns the fields of the request as it is sent.
        take: is called with each answer.
    """

    def __init__(
        self, ask: str, fields: Callable[[], dict[str, Any]], take: Callable[[Answer], None]
    ) -> None:
        self.ask = ask
        self.fields = fields
        self.take = take
        self.number: int | None = None


class Connection:
    """A connection to a host that reconnects by itself, and its requests.

    Args:
        host: its name, as for ssh.
        connect: starts ssh and the agent.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        host: str,
        connect: Callable[[str], Awaitable[SshProcess]] = connect,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.host = host
        self.boot_id: str | None = None
        """The boot id of the host that answered last: each boot has a clock of its own."""
        self.clock_difference: ClockDifference | None = None
        self.lost_at_ns: int | None = None
        self.retry_at_ns: int | None = None
        self.connect_count = 0
        self.tries = 0
        """The number of attempts to connect, including the current one."""
        self._connect = connect
        self._clock = clock
        self._process: SshProcess | None = None
        self._takers: dict[int, Callable[[Answer], None]] = {}
        self._number = 0
        self._standing: list[StandingRequest] = []
        self._round_trips: deque[ClockDifference] = deque(maxlen=_ROUND_TRIPS)
        self._task: asyncio.Task[None] | None = None
        self._failure: SshError | None = None
        self._changed = asyncio.Event()
        self._retry = asyncio.Event()
        self._answered_at_ns = 0

    @property
    def is_up(self) -> bool:
        return self._process is not None

    @property
    def problem(self) -> str | None:
        """Why the newest attempt failed, as a sentence that names the host; None if it did not."""
        return None if self._failure is None else str(self._failure)

    @property
    def needs_person(self) -> bool:
        """True if the user has to do something before the host can be used."""
        return self._failure is not None and not self._failure.may_pass

    @property
    def has_ended(self) -> bool:
        """True if the connection led into a job that is over: it won't come back."""
        return isinstance(self._failure, JobEnded)

    def start(self) -> None:
        """Connect, and reconnect until closed; call this from the event loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_connected())

    async def close(self) -> None:
        task, self._task = self._task, None
        while task is not None and not task.done():
            # Before Python 3.12, `wait_for` may lose a cancellation that comes as its task ends.
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCELLED_S)
        if task is not None and not task.cancelled():
            task.result()

    def retry_now(self) -> None:
        self._retry.set()

    def add(self, request: StandingRequest) -> None:
        """Send a request now and on each new connection, until `remove`."""
        self._standing.append(request)
        if self._process is not None:
            self._send_standing(request)

    def remove(self, request: StandingRequest) -> None:
        """Cancel a request that was added, if it is still there."""
        if request in self._standing:
            self._standing.remove(request)
            self._cancel(request.number)

    async def wait_until_up(self) -> None:
        """Wait for the first connection.

        Raises:
            SshError: the first attempt failed.
        """
        while not self.is_up:
            self._changed.clear()
            if self._failure is not None:
                raise self._failure
            await self._changed.wait()

    def send(self, ask: str, take: Callable[[Answer], None], **fields: Any) -> int | None:
        """Send a request, call `take` with each answer, and return the number of the request.

        The last answer has `end`, `error` (with `code`), or `lost` if the connection was lost.
        Without a connection, nothing is sent and the number is None.
        """
        if self._process is None:
            return None
        self._number += 1
        self._takers[self._number] = take
        self._process.write({"id": self._number, "ask": ask, **fields})
        return self._number

    async def ask(self, ask: str, **fields: Any) -> AsyncIterator[Answer]:
        """Yield the answers to a request.

        Raises:
            HostRefusal: the host refuses the request.
            SshError: there is no connection, or it was lost.
        """
        answers: asyncio.Queue[Answer] = asyncio.Queue()
        number = self.send(ask, answers.put_nowait, **fields)
        if number is None:
            raise self._failure or SshError(f"{self.host} is not connected")
        try:
            while True:
                answer = await answers.get()
                if "error" in answer:
                    message, code = f"{self.host}: {answer['error']}", answer.get("code")
                    code = code if isinstance(code, int) else FAILED
                    raise HostRefusal(message, code, answer.get("permanent") is True)
                if "lost" in answer:
                    raise self._failure or SshError(f"{self.host}: the connection was closed")
                if "end" in answer:
                    return
                yield answer
        finally:
            self._cancel(number)

    async def ask_one(self, ask: str, **fields: Any) -> Answer:
        """Return the first answer to a request, as `ask` yields it; {} if there is none."""
        answers = [answer async for answer in self.ask(ask, **fields)]
        return answers[0] if answers else {}

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            self.tries += 1
            try:
                process = await self._connect(self.host)
            except SshError as error:
                self._report_lost(error)
            except (HostError, OSError) as error:
                self._report_lost(SshError(str(error), may_pass=isinstance(error, OSError)))
            else:
                began_ns = self._clock()
                try:
                    await self._serve(process)
                finally:
                    self._drop_process()
                    await process.close()
                # A connection that is lost at once doesn't reset the waiting time.
                if self._clock() - began_ns > SILENCE_S * 1e9:
                    failures = 0
            if self.has_ended:
                return
            wait_s = BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)]
            failures += 1
            self.retry_at_ns = self._clock() + int(wait_s * 1e9)
            self._retry.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._retry.wait(), wait_s)
                # The user's retry doesn't lengthen the next wait.
                failures -= 1
            self.retry_at_ns = None

    async def _serve(self, process: SshProcess) -> None:
        self._process = process
        self.connect_count += 1
        if self.boot_id != process.boot_id:
            self._round_trips.clear()
        self.boot_id, self._failure, self.lost_at_ns = process.boot_id, None, None
        self._changed.set()
        self._answered_at_ns = self._clock()
        reading = asyncio.create_task(self._read(process))
        try:
            for request in self._standing:
                self._send_standing(request)
            while not reading.done():
                self._ping()
                await asyncio.wait({reading}, timeout=PING_S)
                if self._clock() - self._answered_at_ns > SILENCE_S * 1e9:
                    raise SshError(f"{self.host} stopped answering")
            reading.result()
        except SshError as error:
            self._report_lost(error)
        finally:
            reading.cancel()

    async def _read(self, process: SshProcess) -> None:
        async for answer in process.answers():
            self._answered_at_ns = self._clock()
            number = answer.pop("id", None)
            take = self._takers.get(number) if isinstance(number, int) else None
            if take is not None:
                if "end" in answer or "error" in answer:
                    del self._takers[number]
                take(answer)

    def _drop_process(self) -> None:
        """Answer `lost` to the open requests that won't be sent again."""
        self._process, takers, self._takers = None, self._takers, {}
        standing = [request.number for request in self._standing]
        for number, take in takers.items():
            if number not in standing:
                take({"lost": True})

    def _report_lost(self, failure: SshError) -> None:
        if self._failure is None:
            self.lost_at_ns = self._clock()
        self._failure = failure
        self._changed.set()

    def _ping(self) -> None:
        sent_ns, sent_wall = self._clock(), time.time()

        def take(answer: Answer) -> None:
            now_ns = self._clock()
            their_ns, their_wall = answer.get("t"), answer.get("wall")
            if not isinstance(their_ns, int) or not isinstance(their_wall, (int, float)):
                return
            # The host isn't trusted: a time that no clock shows would fail in later arithmetic.
            if not (0 <= their_ns <= LARGEST and 0 <= their_wall <= LARGEST):
                return
            half_ns = (now_ns - sent_ns) // 2
            self._round_trips.append(
                ClockDifference(
                    monotonic_ns=their_ns - (sent_ns + half_ns),
                    wall_s=their_wall - (sent_wall + half_ns / 1e9),
                    round_trip_s=(now_ns - sent_ns) / 1e9,
                )
            )
            # The difference is known best from the quickest round trip.
            self.clock_difference = min(self._round_trips, key=lambda trip: trip.round_trip_s)

        self.send("ping", take)

    def _send_standing(self, request: StandingRequest) -> None:
        request.number = self.send(request.ask, request.take, **request.fields())

    def _cancel(self, number: int | None) -> None:
        if self._process is not None and number in self._takers:
            del self._takers[number]
            self._process.write({"id": number, "ask": "cancel"})


@contextlib.asynccontextmanager
async def connected(host: str) -> AsyncIterator[Connection]:
    """Connect to a host for the length of the context.

    Raises:
        SshError: the host can't be reached.
    """
    connection = Connection(host)
    connection.start()
    try:
        await connection.wait_until_up()
        yield connection
    finally:
        await connection.close()
