"""A connection to a host that comes back: an ssh process at a time, and what is asked there.

One that is lost is tried again after 1, 3, 15 and 60 s, then every 5 minutes, or when a
person asks for it.
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
from dlmon.remote.ssh import (
    JobEnded,
    RefusedRequest,
    SshError,
    agent_command,
    bootstrap_line,
    explain,
)
from dlmon.system.children import end_group

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
_UNREADABLE = (AttributeError, RecursionError, TypeError, ValueError)
# Kept as they are: bytes of a log or trace, and records, which are cleaned where they are read.
_RAW = {"text", "record", "header", "result"}


BACK_OFF_S = (1.0, 3.0, 15.0, 60.0, 300.0)
PING_S = 10.0
# A host that answers nothing for so long is as good as gone, whatever its connection says.
SILENCE_S = 20.0
# Longer than a connection takes to close.
_CANCELLED_S = 5.0
_ROUND_TRIPS = 12


class SshProcess:
    """One ssh process and the agent that answers on it. Made by `connect`."""

    def __init__(
        self, host: str, process: asyncio.subprocess.Process, start_s: float = START_S
    ) -> None:
        self.host = host
        self.boot_id = self.python = ""
        """By what its clock is known, and the Python that it runs."""
        self.sent_bytes = 0
        """How much of dlmon had to be sent there first."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._start_s = start_s
        self._errors = b""
        self._reading_errors = asyncio.create_task(self._read_errors())

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

    async def answers(self) -> AsyncIterator[Answer]:
        """Yield what the host sends, cleaned, until the connection is lost.

        Raises:
            SshError: in the end; why it was lost.
        """
        try:
            while line := await self._stdout.readline():
                # What a box sends is foreign: what can't be read is passed over.
                with contextlib.suppress(*_UNREADABLE):
                    answer = {
                        clean(key, 200): value if key in _RAW else _cleaned(value)
                        for key, value in json.loads(line).items()
                    }
                    # That a connection is lost is ours to say.
                    answer.pop("lost", None)
                    yield answer
        except ValueError:
            what = f"{self.host} sent a line of over 16 MiB and was disconnected"
            raise SshError(what, False) from None
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
        # A connection that is gone is found by the end of what it sends.
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self) -> None:
        """End the connection; the agent there ends by itself, and what runs there goes on."""
        self._reading_errors.cancel()
        self._stdin.close()
        if self._process.returncode is None:
            # Its ProxyCommand as well, which may wait for something else than the end of its input.
            end_group(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), _EXIT_S)


async def connect(host: str, start_s: float = START_S) -> SshProcess:
    """Return an ssh process whose agent answers.

    Args:
        host: where to.
        start_s: how long it may take until then.

    Raises:
        HostError: what is named can't be a host.
        SshError: it can't be reached, or used.
    """
    process = await asyncio.create_subprocess_exec(
        *agent_command(host),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=LONGEST_LINE_BYTES,
        # Ctrl-C is for us.
        start_new_session=True,
    )
    opened = SshProcess(host, process, start_s)
    try:
        await opened.open()
    except BaseException:
        await opened.close()
        raise
    return opened


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


class Connection:
    """A connection to one host that comes back, and the requests that stand on it.

    Args:
        host: its name, as ssh knows it.
        connect: makes a connection.
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
        """By what the clock of the one that answered last is known."""
        self.times: Clock | None = None
        self.lost_at_ns: int | None = None
        self.retry_at_ns: int | None = None
        self.connections = 0
        self.tries = 0
        """How often it was tried to connect, a try that is under way included."""
        self._connect = connect
        self._clock = clock
        self._process: SshProcess | None = None
        self._takers: dict[int, Callable[[Answer], None]] = {}
        self._number = 0
        self._standing: list[Standing] = []
        self._round_trips: deque[Clock] = deque(maxlen=_ROUND_TRIPS)
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
        """Why there is no connection, where one was tried; a sentence that names the host."""
        return None if self._failure is None else str(self._failure)

    @property
    def needs_person(self) -> bool:
        """Whether a person has to do something before the host can be used."""
        return self._failure is not None and not self._failure.may_pass

    @property
    def has_ended(self) -> bool:
        """Whether it is over for good, with the job that it led into."""
        return isinstance(self._failure, JobEnded)

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
        if self._process is not None:
            self._ask_again(standing)

    def remove(self, standing: Standing) -> None:
        """Ask it no more, if it is still asked."""
        if standing in self._standing:
            self._standing.remove(standing)
            self._cancel(standing.number)

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

    def send(self, ask: str, take: Callable[[Answer], None], **fields: Any) -> int | None:
        """Ask something once, where there is a connection; `take` is called with each answer.

        The last one has `end`, `error` (with `code`), or `lost` where the connection was.
        """
        if self._process is None:
            return None
        self._number += 1
        self._takers[self._number] = take
        self._process.write({"id": self._number, "ask": ask, **fields})
        return self._number

    async def ask(self, ask: str, **fields: Any) -> AsyncIterator[Answer]:
        """Yield the answers to a request on the connection that there is.

        Raises:
            RefusedRequest: it can't be followed.
            SshError: there is no connection, or it was lost.
        """
        arrived: asyncio.Queue[Answer] = asyncio.Queue()
        number = self.send(ask, arrived.put_nowait, **fields)
        if number is None:
            raise self._failure or SshError(f"{self.host} is not connected")
        try:
            while True:
                answer = await arrived.get()
                if "error" in answer:
                    message, permanent = f"{self.host}: {answer['error']}", answer.get("permanent")
                    raise RefusedRequest(message, _code_of(answer), permanent is True)
                if "lost" in answer:
                    raise self._failure or SshError(f"{self.host}: the connection was closed")
                if "end" in answer:
                    return
                yield answer
        finally:
            self._cancel(number)

    async def ask_one(self, ask: str, **fields: Any) -> Answer:
        """Return the one answer to a request on the connection that there is.

        Raises:
            RefusedRequest: it can't be followed.
            SshError: there is no connection, or it was lost.
        """
        answers = [answer async for answer in self.ask(ask, **fields)]
        return answers[0] if answers else {}

    async def _keep(self) -> None:
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
                    self._lose()
                    await process.close()
                # One that is lost at once, again and again, is tried less and less often too.
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
                # A person who tries again shall not wait longer the next time.
                failures -= 1
            self.retry_at_ns = None

    async def _serve(self, process: SshProcess) -> None:
        self._process = process
        self.connections += 1
        if self.boot_id != process.boot_id:
            self._round_trips.clear()
        self.boot_id, self._failure, self.lost_at_ns = process.boot_id, None, None
        self._changed.set()
        self._answered_at_ns = self._clock()
        reading = asyncio.create_task(self._read(process))
        try:
            for standing in self._standing:
                self._ask_again(standing)
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

    def _lose(self) -> None:
        """Tell all that wait for answers, but for what is asked again, that none will come."""
        self._process, takers, self._takers = None, self._takers, {}
        standing = [each.number for each in self._standing]
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

        self.send("ping", take)

    def _ask_again(self, standing: Standing) -> None:
        standing.number = self.send(standing.ask, standing.take, **standing.fields())

    def _cancel(self, number: int | None) -> None:
        if self._process is not None and number in self._takers:
            del self._takers[number]
            self._process.write({"id": number, "ask": "cancel"})


@contextlib.asynccontextmanager
async def connected(host: str) -> AsyncIterator[Connection]:
    """Hold a connection to a host that answers, for as long as the context lasts.

    Raises:
        SshError: it can't be reached.
    """
    connection = Connection(host)
    connection.start()
    try:
        await connection.wait_until_up()
        yield connection
    finally:
        await connection.close()
