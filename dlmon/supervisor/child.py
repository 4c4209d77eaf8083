"""The process of a session: a workload of ours, a person's script, or one that runs already.

A script runs as it would alone. Nothing of ours ends it where the supervisor dies, and nothing
that it leaves running is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from dlmon.instrument.flop_count import VARIABLE as COUNT_FLOPS
from dlmon.instrument.reporter import SEEN, SOCKET
from dlmon.launch.bundle import script_folder
from dlmon.launch.device import DeviceChoice
from dlmon.protocol.job import Job
from dlmon.records import (
    FRAMEWORKS,
    SCRIPT_PHASE,
    Batches,
    BatchSummary,
    Epoch,
    Evaluation,
    Failure,
    FailureKind,
    FrameworkMemory,
    Metrics,
    Model,
    Notice,
    OutOfMemory,
    Phase,
    Record,
    Stack,
    TokenShares,
)
from dlmon.script_name import missing_command
from dlmon.session.reasons import NOTHING_SEEN
from dlmon.supervisor.connection import HELD_BYTES, ProcessConnection, Reader
from dlmon.supervisor.output import FileOutput, OutputLog, TerminalOutput
from dlmon.supervisor.training_processes import TrainingProcesses
from dlmon.system.children import (
    PACKAGES_VARIABLE,
    SAFE_PATH,
    die_with_parent,
    end_group,
    end_process,
)
from dlmon.system.control_groups import own_group


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
    *(
        Metrics,
        TokenShares,
        Epoch,
        Evaluation,
        Notice,
        Failure,
        Stack,
        FrameworkMemory,
        OutOfMemory,
    ),
)


class WorkloadProcess(Child):
    """The process that trains, from its start until its pipes are read."""

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        super().__init__(write, notice)
        self._readers: list[Reader] = []
        self._connection: ProcessConnection | None = None

    def processes(self) -> Sequence[ProcessConnection]:
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
        chosen = {"device": device.wanted, "devices": device.devices, "gpus": device.numbers}
        options = {**job.options, **chosen}
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
        connection = ProcessConnection(ours, WORKLOAD_RECORDS, self._take_record, self._notice)
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


REPORTS_ITSELF = "in a loop of your own, import dlmon and call dlmon.step()"

# What a path of a socket may have, with its end.
MAX_SOCKET_PATH = 107
UNWATCHED = "unwatched "
"""What is left before the error that kept dlmon out of a process."""
ENTERED = "entered"
"""What the first interpreter that could be entered leaves beside the socket."""
# These keep an interpreter from looking at PYTHONPATH, or for what it imports first.
_CLOSED_BY = ("I", "E", "S")
# No terminal sends these: a scheduler does, to say that time is nearly up.
_OF_THE_PROCESS = (signal.SIGUSR1, signal.SIGUSR2)


class ScriptError(Exception):
    """A script can't be started; the message is one sentence for a person."""


class ScriptProcess(Child):
    """A person's own command, from its start until all that it sent is read.

    Or a process that asked to be watched, from then until it ends or a person stops the session:
    what that one writes goes where it went before.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        super().__init__(write, notice)
        self._trainers = TrainingProcesses(write, notice)
        self._output: TerminalOutput | FileOutput | None = None
        self._folder: Path | None = None
        self._command: tuple[str, ...] = ()
        self._watched = self._pidfd = -1
        """The process that was there before, where it is one."""

    @property
    def pid(self) -> int | None:
        return super().pid if self._watched < 0 else self._watched

    def start(self, command: list[str], job: Job, device: DeviceChoice) -> None:
        self._command = tuple(command)
        self._trainers.gpus = device.gpus
        self._trainers.options = job.options
        try:
            if job.process is None:
                self._run(command, job)
            else:
                self._watch(job.process, Path(job.environment[SOCKET]))
        except OSError as error:
            what = f"{command[0]} could not be started"
            if job.process is not None:
                what = f"process {job.process} can't be watched"
            self._fail_to_start(what, error)
        finally:
            if job.stdin_fd is not None:
                os.close(job.stdin_fd)
        self._write(Phase(time.monotonic_ns(), SCRIPT_PHASE))
        if self._output is not None:
            self._output.started()

    def _run(self, command: list[str], job: Job) -> None:
        copies = job.copy_fds
        if job.terminal is not None:
            self._output = TerminalOutput(job.terminal, copies and copies[0], self._take_output)
        else:
            self._output = FileOutput(copies, self._take_output)
        self._folder = _socket_folder()
        place = self._folder / "socket"
        self._trainers.listen(place)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if job.stdin_fd is None else job.stdin_fd,
            stdout=self._output.stdout,
            stderr=self._output.stderr,
            env=_environment(job, place),
            cwd=job.directory,
            start_new_session=True,
        )

    def _watch(self, pid: int, place: Path) -> None:
        """Hear what a process sends, at the place that it has chosen, until it ends."""
        self._folder = place.parent
        self._trainers.listen(place)
        self._pidfd = os.pidfd_open(pid)
        self._watched = pid
        asyncio.get_running_loop().add_reader(self._pidfd, self._end_watch)

    def _end_watch(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.ended.set()

    def processes(self) -> Sequence[ProcessConnection]:
        """Return those of its processes that may be asked what they do."""
        return self._trainers.processes()

    def ask_to_end(self) -> None:
        """Interrupt it, as Ctrl-C does where it runs alone; one that was there before goes on."""
        if self._watched >= 0:
            self._end_watch()
        elif self.pid is not None:
            end_group(self.pid, signal.SIGINT)

    def pass_on(self, number: signal.Signals) -> None:
        """Send it a signal that was meant for it; to its group what a terminal would send there."""
        if self._process is None:
            return
        if number in _OF_THE_PROCESS:
            # It would end those that load its data.
            end_process(self._process.pid, number)
        else:
            end_group(self._process.pid, number)

    async def drain(self, ended_t: int) -> None:
        """Read what it has left behind, and hear no more of it."""
        self._ended_t = ended_t
        self._trainers.drain()
        if self._output is not None:
            await self._output.drain()
        if self._folder is not None:
            is_known = self._trainers.any_trained or self.failure is not None
            if not is_known and self._watched < 0:
                self.why_nothing_trained = self._why_nothing_trained(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _why_nothing_trained(self, folder: Path) -> str:
        if self._trainers.why_not_watched is not None:
            return f"{NOTHING_SEEN}: {self._trainers.why_not_watched}"
        if (folder / ENTERED).exists():
            return f"{NOTHING_SEEN}: {what_was_missing(sightings(folder))}"
        closed = _closing_word(self._command)
        if closed is not None:
            return f"{NOTHING_SEEN}: {closed} keeps dlmon out of the script's Python"
        return f"{NOTHING_SEEN}: no Python was started that looks at PYTHONPATH"


def check_script(job: Job) -> None:
    """See that a script can be started, and entered.

    Raises:
        BundleError: what enters it can't be written.
        ScriptError: its command isn't there or can't be run, or its directory isn't there.
    """
    script_folder()
    name, directory = job.command[0], Path(job.directory or ".")
    try:
        is_there = directory.is_dir()
        path = {**os.environ, **job.environment}.get("PATH")
        missing = missing_command(name, directory, path)
    except OSError as error:
        raise ScriptError(f"it can't be looked for: {error.strerror}") from None
    if not is_there:
        raise ScriptError(f"the directory {directory} is not there")
    if missing is not None:
        raise ScriptError(missing)


def _closing_word(command: tuple[str, ...]) -> str | None:
    """Return the word of a command that keeps its Python from being entered."""
    if Path(command[0]).name == "env":
        return next((word for word in command[1:] if word.startswith("PYTHONPATH=")), None)
    if "python" not in Path(command[0]).name:
        return None
    for word in command[1:]:
        if not word.startswith("-") or word in ("-c", "-m", "-"):
            return None
        if not word.startswith("--") and any(letter in word for letter in _CLOSED_BY):
            return word
    return None


def _environment(job: Job, place: Path) -> dict[str, str]:
    environment = {**os.environ, **job.environment}
    if environment.pop(PACKAGES_VARIABLE, None) is not None:
        # On a box where dlmon isn't installed, these are ours.
        for name in SAFE_PATH:
            environment.pop(name, None)
    entry = str(script_folder() / "entry")
    above = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{entry}{os.pathsep}{above}" if above else entry
    environment[SOCKET] = str(place)
    if job.options.get("count_flops"):
        environment[COUNT_FLOPS] = "1"
    return environment


def _socket_folder() -> Path:
    """Make a folder for the socket, for us alone, where its path isn't too long.

    Raises:
        OSError: there is no room for one.
    """
    places = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]
    for place in places:
        if place and len(f"{place}/dlmon-12345678/socket") <= MAX_SOCKET_PATH:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="dlmon-", dir=place))
    return Path(tempfile.mkdtemp(prefix="dlmon-"))


def sightings(folder: Path) -> set[str]:
    """Return what the processes of a script left beside the socket."""
    return {path.name.removeprefix(SEEN) for path in folder.glob(f"{SEEN}*")}


def what_was_missing(seen: Collection[str]) -> str:
    """Say which frameworks were imported, and what was not done with them.

    Args:
        seen: the packages that were imported, and what was done: see `Reporter.saw`.
    """
    failed = next((word for word in seen if word.startswith(UNWATCHED)), None)
    if failed is not None:
        return f"dlmon could not be loaded into its process ({failed.removeprefix(UNWATCHED)})"
    titles = list(dict.fromkeys(title for name, title in FRAMEWORKS.items() if name in seen))
    if not titles:
        return f"no framework that dlmon watches was imported; {REPORTS_ITSELF}"
    *others, last = titles
    imported = f"{', '.join(others)} and {last} were" if others else f"{last} was"
    missing = [*_missing_of_torch(seen), *_missing_of_keras(seen)]
    missing += [
        f"train of {FRAMEWORKS[name]} was not called"
        for name in ("xgboost", "lightgbm")
        if name in seen
    ]
    if not missing and "jax" in seen:
        missing = ["the steps of JAX run in compiled code, where they can't be seen"]
    elif not missing and "tensorflow" in seen:
        missing = ["Keras was not"]
    said = f"{imported} imported; {', '.join(missing)}"
    by_itself = {"keras", "tf_keras", "jax", "tensorflow"} & set(seen)
    return f"{said}; {REPORTS_ITSELF}" if by_itself else said


def _missing_of_torch(seen: Collection[str]) -> list[str]:
    if "torch" not in seen:
        return []
    went_backward = "torch backward" in seen
    if went_backward and "torch loader" not in seen:
        return ["backward() was called, but no optimizer stepped and no DataLoader was read"]
    return ["no optimizer stepped" + ("" if went_backward else " and backward() was not called")]


def _missing_of_keras(seen: Collection[str]) -> list[str]:
    if not {"keras", "tf_keras"} & set(seen):
        return []
    if "keras replicas" in seen:
        return ["gradients were applied on several devices at once, which is not counted"]
    if "keras loop in a graph" in seen:
        return ["a loop within a tf.function, which can't be seen, applied gradients"]
    return ["fit was not called and no optimizer applied gradients"]


_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}


class KernelKills:
    """The kernel's count of processes killed for want of memory, read once a second."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._counter = root / "proc/vmstat"
        self._counts: tuple[int | None, int | None] = None, None
        """Those of the last two readings."""

    def read(self, pid: int) -> None:
        """Read the count where a process is, which may have moved since the last time."""
        counter = self._find_counter(pid)
        # What another group has counted says nothing of this one.
        before = self._counts[1] if counter == self._counter else None
        self._counter = counter
        now = self._count()
        self._counts = now if before is None else before, now

    def has_just_killed(self) -> bool:
        """Return whether the count has risen since the last reading but one."""
        before, after = self._counts[0], self._count()
        return before is not None and after is not None and after > before

    def _find_counter(self, pid: int) -> Path:
        """Return where its group's count is; where it was, once the process is gone."""
        try:
            group = own_group("memory", self._root, str(pid))
        except OSError:
            return self._counter
        except ValueError:
            return self._root / "proc/vmstat"
        # Version 1 shows a process that is ending in the outermost group.
        if group.version == 1 and len(group.directories) == 1 and self._counts[1] is not None:
            return self._counter
        # In version 2 the machine's outermost group has no such file.
        counters = [directory / _COUNTERS[group.version] for directory in group.directories]
        return next((c for c in counters if c.exists()), self._root / "proc/vmstat")

    def _count(self) -> int | None:
        try:
            found = re.search(r"^oom_kill (\d+)$", self._counter.read_text(), re.MULTILINE)
        except OSError:
            return None
        return None if found is None else int(found[1])
