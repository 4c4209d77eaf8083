"""A process that the supervisor starts or watches, and the one that runs a workload of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from functools import partial

from dlmon.launch.children import SAFE_PATH, die_with_parent, end_process
from dlmon.launch.device import DeviceChoice
from dlmon.launch.job import Job
from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    Evaluation,
    Failure,
    FailureKind,
    Metrics,
    Model,
    Notice,
    Phase,
    Record,
    Stack,
)
from dlmon.supervisor.connection import HELD_BYTES, Connection, Reader
from dlmon.supervisor.output import OutputLog


class Child:
    """What a workload and a script have in common.

    Args:
        write: takes the records that it sends, and the lines that it writes.
        notice: takes, in words, what a person should know of it.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        self._write, self._notice = write, notice
        self._lines = OutputLog()
        self._ended_t: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = asyncio.Event()
        """Set once it has ended, or could not be started."""
        self.failure: Failure | None = None
        """Why it gave up, or could not be started, in words."""
        self.why_nothing_trained: str | None = None
        """Why no training was seen in it, once it has ended and that is so, however it ended."""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def reaped(self, exit_code: int) -> None:
        assert self._process is not None
        self._process.returncode = exit_code
        self.ended.set()

    def _fail_to_start(self, what: str, error: OSError) -> None:
        why = f"{what}: {error.strerror or error}"
        self.failure = Failure(time.monotonic_ns(), why, FailureKind.NOT_STARTED)
        self.ended.set()

    def tick(self, now: int, final: bool = False) -> None:
        """Write the lines of output that have waited long enough for their end; at last all."""
        for line in self._lines.tick(now, final=final):
            self._write(line)

    def _take_output(self, stream: str, data: bytes) -> None:
        t = time.monotonic_ns() if self._ended_t is None else self._ended_t
        for line in self._lines.feed(stream, data, t):
            self._write(line)


RECORDS_FD = "DLMON_RECORDS_FD"

# What a workload may send; everything else in a log is the supervisor's own.
WORKLOAD_RECORDS = (
    *(Phase, Model, Batches, BatchSummary),
    *(Metrics, Epoch, Evaluation, Notice, Failure, Stack),
)


class Workload(Child):
    """The process that trains, from its start until its pipes are read."""

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        super().__init__(write, notice)
        self._readers: list[Reader] = []
        self._connection: Connection | None = None

    def processes(self) -> list[Connection]:
        """Return its process, once it may be asked what it does."""
        if self._connection is None or not self._connection.takes_requests:
            return []
        return [self._connection]

    def ask_to_end(self) -> None:
        """Have it end after the batch that it is at."""
        if self.pid is not None:
            end_process(self.pid, signal.SIGUSR1)

    def start(self, command: list[str], job: Job, device: DeviceChoice) -> None:
        """Start it with a connection for its records, and read all that it says."""
        ours, its = socket.socketpair()
        # The kernel grants less where it allows no more.
        its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HELD_BYTES)
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            **SAFE_PATH,
            **job.environment,
            **device.environment,
            RECORDS_FD: str(its.fileno()),
        }
        options = {**job.options, "device": device.wanted, "gpu_index": device.gpu_index}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=(its.fileno(),),
                start_new_session=True,
                preexec_fn=die_with_parent(os.getpid()),
            )
        except OSError as error:
            ours.close()
            self._fail_to_start(f"{command[0]} could not be started", error)
            return
        finally:
            its.close()
        workload = self._process
        assert workload.stdin is not None
        assert workload.stdout is not None
        assert workload.stderr is not None
        # The options fit the pipe's buffer, so this can't block.
        with contextlib.suppress(BrokenPipeError):
            workload.stdin.write(json.dumps(options).encode() + b"\n")
            workload.stdin.close()
        connection = Connection(ours, WORKLOAD_RECORDS, self._take_record, self._notice)
        connection.pid = workload.pid
        self._connection, self._readers = connection, [connection]
        for name, pipe in (("stdout", workload.stdout), ("stderr", workload.stderr)):
            self._readers.append(Reader(os.dup(pipe.fileno()), partial(self._take_output, name)))
            pipe.close()

    def _take_record(self, record: Record) -> None:
        if isinstance(record, Failure):
            self.failure = record
        self._write(record)
        if isinstance(record, Epoch) and self._connection is not None:
            self._connection.notice_not_numbers(record)

    async def drain(self, ended_t: int) -> None:
        """Read what the pipes held when it ended."""
        for reader in self._readers:
            reader.drain()
