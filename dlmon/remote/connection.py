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
import zipfile
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Any

from dlmon.exit_codes import FAILED
from dlmon.launch.bootstrap import hash_of
from dlmon.launch.bundle import BundleError, package_files
from dlmon.launch.children import end_group
from dlmon.records.sanitize import clean
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
