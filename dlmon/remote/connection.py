"""One connection to a box: an ssh process, and the requests that its agent answers."""

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
from dlmon.launch.children import end_group
from dlmon.records.codec import LARGEST
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.remote.hosts import HostError
from dlmon.remote.ssh import RefusedRequest, SshError, bootstrap_line, explain, ssh_command

_PACKAGES = ("dlmon", "workloads", "platformdirs")
_MODULES = ("pynvml",)

Answer = dict[str, Any]

LONGEST_LINE_BYTES = 16 << 20
START_S = 60.0
"""How long a box may take from the first byte to its agent's first word."""
_MAX_NOISE_BYTES = 1 << 20
_MAX_ERROR_BYTES = 1 << 14
_EXIT_S = 2.0
# What comes of an answer that no dlmon gives.
_NOT_DLMON = (
    asyncio.LimitOverrunError,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
# Kept as they are: bytes of a log or trace, and records, which are cleaned where they are read.
_RAW = {"text", "record", "header", "result"}


class Connection:
    """An ssh process, and the requests that are under way on it. Made by `connect`."""

    def __init__(
        self, host: str, process: asyncio.subprocess.Process, start_s: float = START_S
    ) -> None:
        self.host = host
        self.boot_id = self.python = ""
        """By what its clock is known, and the Python that it runs."""
        self.sent_bytes = 0
        """How much of dlmon had to be sent there first."""
        self.lost: SshError | None = None
        self._process = process
        self._start_s = start_s
        self._takers: dict[int, Callable[[Answer], None]] = {}
        self._next_id = 1
        self._errors = b""
        self._reading_errors = asyncio.create_task(self._read_errors())
        self._reading: asyncio.Task[None] | None = None

    def send(self, ask: str, take: Callable[[Answer], None], **fields: Any) -> int:
        """Send a request and return its number; `take` is called with each answer.

        The last one has `end`, `error` (with `code`), or `lost` where the connection was.
        """
        number, self._next_id = self._next_id, self._next_id + 1
        if self.lost is not None:
            asyncio.get_running_loop().call_soon(take, {"lost": True})
            return number
        self._takers[number] = take
        self._write({"id": number, "ask": ask, **fields})
        return number

    def cancel(self, number: int) -> None:
        if self._takers.pop(number, None) is not None:
            self._write({"id": number, "ask": "cancel"})

    async def ask(self, ask: str, **fields: Any) -> AsyncIterator[Answer]:
        """Yield the answers to a request.

        Raises:
            RefusedRequest: it can't be followed.
            SshError: the connection was lost.
        """
        arrived: asyncio.Queue[Answer] = asyncio.Queue()
        number = self.send(ask, arrived.put_nowait, **fields)
        try:
            while True:
                answer = await arrived.get()
                if "error" in answer:
                    message, permanent = f"{self.host}: {answer['error']}", answer.get("permanent")
                    raise RefusedRequest(message, _code_of(answer), permanent is True)
                if "lost" in answer:
                    assert self.lost is not None
                    raise self.lost
                if "end" in answer:
                    return
                yield answer
        finally:
            if number in self._takers:
                self.cancel(number)

    async def ask_one(self, ask: str, **fields: Any) -> Answer:
        """Return the one answer to a request.

        Raises:
            RefusedRequest: it can't be followed.
            SshError: the connection was lost.
        """
        answers = [answer async for answer in self.ask(ask, **fields)]
        return answers[0] if answers else {}

    async def open(self) -> None:
        """Have the box become our agent.

        Raises:
            SshError: it can't.
        """
        mark = f"dlmon-{os.urandom(8).hex()}"
        try:
            await asyncio.wait_for(self._open(mark), self._start_s)
        except asyncio.TimeoutError:
            raise SshError(f"{self.host} did not answer within {self._start_s:.0f} s") from None
        except (ConnectionError, asyncio.IncompleteReadError):
            raise await self._why_ended() from None
        except BundleError as error:
            raise SshError(f"{self.host} can't be sent dlmon: {error}", False) from None
        except _NOT_DLMON:
            raise SshError(f"{self.host} answers with something else than dlmon", False) from None
        self._reading = asyncio.create_task(self._read())

    async def _open(self, mark: str) -> None:
        files = sent_files()
        asked = {"mark": mark, "hash": hash_of(files), "bytes": sum(map(len, files.values()))}
        self._write_bytes(bootstrap_line() + json.dumps(asked).encode() + b"\n")
        answer = await self._marked(mark)
        self._check(answer)
        if type(answer["missing"]) is not bool:
            raise ValueError
        archive = packed(files) if answer["missing"] else b""
        if archive:
            self._write_bytes(b"%d\n" % len(archive) + archive)
        await self._stdin.drain()
        ready = await self._marked(mark)
        self._check(ready)
        self.boot_id = clean(str(ready["boot_id"]), 64)
        self.python, self.sent_bytes = clean(str(answer["python"]), 40), len(archive)

    async def _marked(self, mark: str) -> Answer:
        """Return the next line that bears our mark; a login shell may print others."""
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
                False,
            )
        if lacks is not None:
            why = clean(str(answer.get("why")), 300)
            raise SshError(f"{self.host} has no room for dlmon's files: {why}", False)

    async def _why_ended(self) -> SshError:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading_errors), _EXIT_S)
            await asyncio.wait_for(self._process.wait(), _EXIT_S)
        errors = self._errors.decode("utf-8", "replace")
        return explain(self.host, errors, self._process.returncode)

    async def _read(self) -> None:
        lost: SshError | None = None
        try:
            while line := await self._stdout.readline():
                self._take(line)
        except ValueError:
            lost = SshError(f"{self.host} sent a line of over 16 MiB and was disconnected", False)
        except ConnectionError:
            lost = None
        self._report_lost(lost or await self._why_ended())

    def _report_lost(self, lost: SshError) -> None:
        self.lost = lost
        takers, self._takers = list(self._takers.values()), {}
        for take in takers:
            take({"lost": True})

    def _take(self, line: bytes) -> None:
        # What a box sends is foreign: what can't be read is passed over.
        try:
            answer = json.loads(line)
            number = answer.pop("id")
            take = self._takers[number]
            # That a connection is lost is ours to say.
            answer.pop("lost", None)
            cleaned = {
                clean(key, 200): value if key in _RAW else _cleaned(value)
                for key, value in answer.items()
            }
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return
        if "end" in answer or "error" in answer:
            del self._takers[number]
        take(cleaned)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while more := await self._process.stderr.read(4096):
            self._errors = (self._errors + more)[-_MAX_ERROR_BYTES:]

    def _write(self, request: Answer) -> None:
        self._write_bytes(json.dumps(request).encode() + b"\n")

    def _write_bytes(self, data: bytes) -> None:
        # A connection that is gone is found by the end of what it sends.
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self) -> None:
        """End the connection; the agent there ends by itself, and what runs there goes on."""
        for task in (self._reading, self._reading_errors):
            if task is not None:
                task.cancel()
        self._stdin.close()
        if self.lost is None:
            self._report_lost(SshError(f"{self.host}: the connection was closed"))
        if self._process.returncode is None:
            # Its ProxyCommand as well, which may wait for something else than the end of its input.
            end_group(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), _EXIT_S)

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout


async def connect(host: str, start_s: float = START_S) -> Connection:
    """Return a connection to a host whose agent answers.

    Args:
        host: where to.
        start_s: how long it may take until then.

    Raises:
        HostError: what is named can't be a host.
        SshError: it can't be reached, or used.
    """
    process = await asyncio.create_subprocess_exec(
        *ssh_command(host),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=LONGEST_LINE_BYTES,
        # Ctrl-C is for us.
        start_new_session=True,
    )
    connection = Connection(host, process, start_s)
    try:
        await connection.open()
    except BaseException:
        await connection.close()
        raise
    return connection


def _code_of(answer: Answer) -> int:
    code = answer.get("code")
    return code if isinstance(code, int) else FAILED


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
    """Return all that may have to be sent, which runs anywhere.

    Raises:
        BundleError: a package of ours is not where Python finds packages.
    """
    files = package_files(_PACKAGES)
    for module in _MODULES:
        # Without it a box reports no GPU, and says why.
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None:
            files[f"{module}.py"] = Path(found.origin).read_bytes()
    return files


def packed(files: dict[str, bytes]) -> bytes:
    """Return files as the archive that a box unpacks."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


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
