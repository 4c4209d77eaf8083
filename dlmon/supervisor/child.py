"""The process of a session: a workload of ours, a person's script, or a process that runs already.

A script runs as it would without dlmon: it goes on if the supervisor dies, and so do the
processes that it leaves running.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
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
from dlmon.instrument.injections import VARIABLE as INJECTED
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
    handles,
)
from dlmon.system.this_host import IS_MACOS


class Child:
    """The process of a session, a workload or a script.

    Args:
        write: is called with its records and its lines of output.
        notice: is called with a sentence for a person.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        self._write, self._notice = write, notice
        self._lines = OutputLog()
        self._ended_t: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = asyncio.Event()
        """Set once it has ended, or could not be started."""
        self.failure: Failure | None = None
        """The reason why it gave up, or could not be started."""
        self.why_nothing_trained: str | None = None
        """The reason why no training was seen, once it has ended; None if some was."""

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

    def _fail_to_start(self, problem: str, error: OSError) -> None:
        text = f"{problem}: {error.strerror or error}"
        self.failure = Failure(time.monotonic_ns(), text, FailureKind.NOT_STARTED)
        self.ended.set()

    def tick(self, now: int, final: bool = False) -> None:
        """Write the lines of output that are due; all of them if `final`."""
        for line in self._lines.tick(now, final=final):
            self._write(line)

    def _take_output(self, stream: str, data: bytes) -> None:
        t = time.monotonic_ns() if self._ended_t is None else self._ended_t
        for line in self._lines.feed(stream, data, t):
            self._write(line)


RECORDS_FD = "DLMON_RECORDS_FD"

# The records that a workload may send; the supervisor makes all others.
WORKLOAD_RECORDS = (
    *(Phase, Model, Batches, BatchSummary, Metrics, TokenShares, Epoch, Evaluation),
    *(Notice, Failure, Stack, FrameworkMemory, OutOfMemory),
)


class WorkloadProcess(Child):
    """The process of a workload, from its start until its pipes are read to the end."""

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        super().__init__(write, notice)
        self._readers: list[Reader] = []
        self._connection: ProcessConnection | None = None

    def processes(self) -> Sequence[ProcessConnection]:
        """Return the connection to its process once that takes requests."""
        if self._connection is None or not self._connection.takes_requests:
            return []
        return [self._connection]

    def ask_to_end(self) -> bool:
        """Ask it to end after the current batch; return whether it may save first: it doesn't."""
        if self.pid is not None:
            end_process(self.pid, signal.SIGUSR1)
        return False

    def start(self, command: list[str], job: Job, device: DeviceChoice) -> None:
        """Start it with a connection for its records, and read its output."""
        ours, its = socket.socketpair()
        # The kernel may grant less.
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
        """Read what is left in its pipes."""
        for reader in self._readers:
            reader.drain()


REPORTS_ITSELF = "in a loop of your own, import dlmon and call dlmon.step()"

# The longest path of a socket in bytes (unix(7)).
MAX_SOCKET_PATH = 107
UNWATCHED = "unwatched "
"""The text before the error that kept dlmon out of a process."""
ENTERED = "entered"
"""The file beside the socket that the first interpreter with dlmon in it makes."""
# With these options an interpreter ignores PYTHONPATH, or does not import sitecustomize.
_CLOSED_BY = ("I", "E", "S")
# No terminal sends these: a scheduler sends them to the process before its time is up.
_SCHEDULER_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)


class ScriptError(Exception):
    """Raised if a script can't be started; the message is one sentence for a person."""


class ScriptProcess(Child):
    """A person's own command, from its start until its output and records are read to the end.

    Or a running process that asked to be watched, until it ends or a person stops the session;
    its output is not read.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        super().__init__(write, notice)
        self._trainers = TrainingProcesses(write, notice)
        self._output: TerminalOutput | FileOutput | None = None
        self._folder: Path | None = None
        self._command: tuple[str, ...] = ()
        self._watched = self._pidfd = -1
        """The pid and the descriptor of a watched process; -1 for a command."""

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
            problem = f"{command[0]} could not be started"
            if job.process is not None:
                problem = f"process {job.process} can't be watched"
            self._fail_to_start(problem, error)
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
        socket_path = self._folder / "socket"
        self._trainers.listen(socket_path)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if job.stdin_fd is None else job.stdin_fd,
            stdout=self._output.stdout,
            stderr=self._output.stderr,
            env=_environment(job, socket_path),
            cwd=job.directory,
            start_new_session=True,
        )

    def _watch(self, pid: int, socket_path: Path) -> None:
        """Take the records that a running process sends to a socket of its choice."""
        self._folder = socket_path.parent
        if IS_MACOS:
            raise OSError(errno.ENOTSUP, "this needs Linux")
        self._trainers.listen(socket_path)
        self._pidfd = os.pidfd_open(pid)
        self._watched = pid
        asyncio.get_running_loop().add_reader(self._pidfd, self._end_watch)

    def _end_watch(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.ended.set()

    def viewer_left(self) -> None:
        """Copy the output to nobody from now on."""
        if self._output is not None:
            self._output.stop_copying()

    def processes(self) -> Sequence[ProcessConnection]:
        """Return the connections to its processes that take requests."""
        return self._trainers.processes()

    def ask_to_end(self) -> bool:
        """Ask a command to end, and return whether it may save first; a watched process goes on.

        The processes that handle SIGTERM, as those do that save on it, get that. If none does, all
        are interrupted, as by Ctrl-C without dlmon.
        """
        if self._watched >= 0:
            self._end_watch()
        elif self.pid is not None:
            # Within a container of its own, a process knows itself by another number.
            training = [peer.peer_pid for peer in self.processes() if peer.worker is None]
            saving = [pid for pid in training or [self.pid] if handles(pid, signal.SIGTERM)]
            for pid in saving:
                end_process(pid, signal.SIGTERM)
            if saving:
                return True
            end_group(self.pid, signal.SIGINT)
        return False

    def pass_on(self, number: signal.Signals) -> None:
        """Send the script a signal; to its process group, if a terminal would do so."""
        if self._process is None:
            return
        if number in _SCHEDULER_SIGNALS:
            # In the group it would end the loader workers.
            end_process(self._process.pid, number)
        else:
            end_group(self._process.pid, number)

    async def drain(self, ended_t: int) -> None:
        """Read the rest of its records and output, and close its socket."""
        self._ended_t = ended_t
        self._trainers.drain()
        if self._output is not None:
            await self._output.drain()
        if self._folder is not None:
            nothing_trained = not self._trainers.any_trained and self.failure is None
            if nothing_trained and self._watched < 0:
                self.why_nothing_trained = self._why_nothing_trained(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _why_nothing_trained(self, folder: Path) -> str:
        if self._trainers.why_not_watched is not None:
            return f"{NOTHING_SEEN}: {self._trainers.why_not_watched}"
        if (folder / ENTERED).exists():
            return f"{NOTHING_SEEN}: {what_was_missing(read_sightings(folder))}"
        closed = _closing_word(self._command)
        if closed is not None:
            return f"{NOTHING_SEEN}: {closed} keeps dlmon out of the script's Python"
        return f"{NOTHING_SEEN}: no Python was started that looks at PYTHONPATH"


def check_script(job: Job) -> None:
    """Check that a script can be started with dlmon in it.

    Raises:
        BundleError: the code for its process can't be written.
        ScriptError: its command or its directory is missing, or the command can't be run.
    """
    script_folder()
    name, directory = job.command[0], Path(job.directory or ".")
    try:
        exists = directory.is_dir()
        path = {**os.environ, **job.environment}.get("PATH")
        missing = missing_command(name, directory, path)
    except OSError as error:
        raise ScriptError(f"it can't be looked for: {error.strerror}") from None
    if not exists:
        raise ScriptError(f"the directory {directory} is not there")
    if missing is not None:
        raise ScriptError(missing)


def _closing_word(command: tuple[str, ...]) -> str | None:
    """Return the word of a command that keeps dlmon out of its Python, if there is one."""
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


def _environment(job: Job, socket_path: Path) -> dict[str, str]:
    environment = {**os.environ, **job.environment}
    if environment.pop(PACKAGES_VARIABLE, None) is not None:
        # On a host without an installed dlmon, these are for us, not for the script.
        for name in SAFE_PATH:
            environment.pop(name, None)
    entry = str(script_folder() / "entry")
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{entry}{os.pathsep}{path}" if path else entry
    environment[SOCKET] = str(socket_path)
    if job.options.get("count_flops"):
        environment[COUNT_FLOPS] = "1"
    # The script of another session may have started this one.
    environment.pop(INJECTED, None)
    if job.injected:
        environment[INJECTED] = json.dumps(job.injected)
    return environment


def _socket_folder() -> Path:
    """Make a private folder for the socket, with a path that is short enough.

    Raises:
        OSError: no folder can be made.
    """
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if parent and len(f"{parent}/dlmon-12345678/socket") <= MAX_SOCKET_PATH:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="dlmon-", dir=parent))
    return Path(tempfile.mkdtemp(prefix="dlmon-"))


def read_sightings(folder: Path) -> set[str]:
    """Return the frameworks and calls that a script's processes noted beside the socket."""
    return {path.name.removeprefix(SEEN) for path in folder.glob(f"{SEEN}*")}


def what_was_missing(sightings: Collection[str]) -> str:
    """Return in words which frameworks were imported, and which calls were missing.

    Args:
        sightings: the imported packages, and the calls that were seen: see `Reporter.saw`.
    """
    failed = next((word for word in sightings if word.startswith(UNWATCHED)), None)
    if failed is not None:
        return f"dlmon could not be loaded into its process ({failed.removeprefix(UNWATCHED)})"
    titles = list(dict.fromkeys(title for name, title in FRAMEWORKS.items() if name in sightings))
    if not titles:
        return f"no framework that dlmon watches was imported; {REPORTS_ITSELF}"
    *first, last = titles
    imported = f"{', '.join(first)} and {last} were" if first else f"{last} was"
    missing = [*_missing_of_torch(sightings), *_missing_of_keras(sightings)]
    missing += [
        f"train of {FRAMEWORKS[name]} was not called"
        for name in ("xgboost", "lightgbm")
        if name in sightings
    ]
    if not missing and "jax" in sightings:
        missing = ["the steps of JAX run in compiled code, where they can't be seen"]
    elif not missing and "tensorflow" in sightings:
        missing = ["Keras was not"]
    text = f"{imported} imported; {', '.join(missing)}"
    can_report = {"keras", "tf_keras", "jax", "tensorflow"} & set(sightings)
    return f"{text}; {REPORTS_ITSELF}" if can_report else text


def _missing_of_torch(sightings: Collection[str]) -> list[str]:
    if "torch" not in sightings:
        return []
    went_backward = "torch backward" in sightings
    if went_backward and "torch loader" not in sightings:
        return ["backward() was called, but no optimizer stepped and no DataLoader was read"]
    return ["no optimizer stepped" + ("" if went_backward else " and backward() was not called")]


def _missing_of_keras(sightings: Collection[str]) -> list[str]:
    if not {"keras", "tf_keras"} & set(sightings):
        return []
    if "keras replicas" in sightings:
        return ["gradients were applied on several devices at once, which is not counted"]
    if "keras loop in a graph" in sightings:
        return ["a loop within a tf.function, which can't be seen, applied gradients"]
    return ["fit was not called and no optimizer applied gradients"]
