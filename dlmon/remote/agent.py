"""Answer a viewer's requests on a host: `dlmon.launch.bootstrap` starts this over ssh.

Each line of stdin is a request (JSON with `id`, `ask` and its fields). Each line of stdout is an
answer with the `id` of its request; the last answer to a request has `end` or `error`. Several
requests can be open at once. The agent ends with its stdin; sessions on the host go on.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from dlmon.exit_codes import FAILED, WRONG_ARGUMENTS
from dlmon.launch.sensors_process import SensorsProcess
from dlmon.launch.supervisor_process import launch
from dlmon.log.directory import (
    NoSuchLog,
    ask_session,
    find_sessions,
    list_sessions,
    log_paths,
    read_entry,
    standing_of,
    status_without_result,
    stop_session,
)
from dlmon.log.folder import LOG_NAME, LogError, id_of, is_trace, log_directory
from dlmon.log.index import LogPosition
from dlmon.log.label import Label, read_label, write_label
from dlmon.log.log_follower import LogFollower, RecordFollower
from dlmon.log.metric_file_names import metric_files_in
from dlmon.log.submitted import is_of_slurm, read_submitted
from dlmon.protocol.control import NotControlled
from dlmon.protocol.job import Job, Refused
from dlmon.protocol.stop import BY_OTHER_SCREEN
from dlmon.records import Notice, RateNow, Record, Status, SweepHeader, encode, to_json
from dlmon.records.sanitize import shown_path
from dlmon.remote.ssh import HostRefusal
from dlmon.session.follower import SessionFollower
from dlmon.session.running_sessions import RunningSessions, running_logs
from dlmon.session.source import SLICE_S
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.ending import job_of
from dlmon.slurm.job_follower import SessionJob, WaitingSession
from dlmon.slurm.standing import stop_submitted, with_queue
from dlmon.slurm.step import logs_of_job
from dlmon.slurm.submit import read_slurm_options
from dlmon.slurm.submit_session import submit_session
from dlmon.system.children import answer_in, end_group, python_command
from dlmon.system.files import open_regular
from dlmon.system.this_host import boot_id, host_name

Answer = dict[str, Any]
Answers = AsyncIterator[Answer]

# With its JSON escapes, a chunk must fit into the longest line that a viewer reads.
CHUNK_BYTES = 128 * 1024
# A run takes less than 1 KiB of a sweep's log.
MOST_SWEEP_BYTES = 4 << 20
TRACE_CHUNK_BYTES = 512 * 1024
POLL_S = 0.25
# The time between two searches for logs of the job that the agent runs in.
JOB_LOOK_S = 5.0
# A viewer sends a ping every ten seconds; if it is silent for this long it is gone, even if its
# connection looks alive.
SILENCE_S = 120.0
LONGEST_REQUEST_BYTES = 1 << 20
_REFUSALS = (HostRefusal, NoSuchLog, LogError, SlurmError)


class Agent:
    """Reads requests and answers them concurrently."""

    def __init__(self, requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        self._requests = requests
        self._answers = answers
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError, ConnectionError, ValueError):
            while line := await asyncio.wait_for(self._requests.readline(), SILENCE_S):
                self._take(line)
        # Let the last request begin: a viewer may ask for a stop as it ends.
        await asyncio.sleep(0)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            number, ask = int(request.pop("id")), str(request.pop("ask"))
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        if ask == "cancel":
            if number in self._tasks:
                self._tasks[number].cancel()
            return
        task = asyncio.create_task(self._answer(number, ask, request))
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, ask: str, request: dict[str, Any]) -> None:
        try:
            if ask not in _ASKS:
                raise HostRefusal(f'this version of dlmon knows no "{ask}"')
            async for answer in _ASKS[ask](**request):
                await self._send({"id": number, **answer})
            await self._send({"id": number, "end": True})
        except (*_REFUSALS, OSError, TypeError, ValueError) as error:
            code = getattr(error, "exit_code", WRONG_ARGUMENTS)
            permanent = isinstance(error, HostRefusal) and error.permanent
            answer = {"error": str(error), "code": code, "permanent": permanent}
            with contextlib.suppress(ConnectionError):
                await self._send({"id": number, **answer})

    async def _send(self, answer: Answer) -> None:
        record = answer.pop("record", None)
        line = json.dumps(answer, separators=(",", ":")).encode()
        if record is not None:
            # A record is a line of JSON already.
            line = line[:-1] + b',"record":' + record.rstrip(b"\n") + b"}"
        self._answers.write(line + b"\n")
        await self._answers.drain()


async def _ping() -> Answers:
    yield {"t": time.monotonic_ns(), "wall": time.time()}


async def _watch(interval_s: float = 1.0, pcie: bool = False) -> Answers:
    """Yield the machine's facts, then a sample at each interval, with only the changed readings."""
    records: asyncio.Queue[Record] = asyncio.Queue()
    put = records.put_nowait

    def notice(text: str) -> None:
        put(Notice(time.monotonic_ns(), text))

    sensors = SensorsProcess(interval_s, put, put, notice, pcie=pcie, at_once=True)
    sensors.start()
    try:
        while True:
            yield {"record": encode(await records.get())}
    finally:
        sensors.close()


async def _running(log_dir: str | None = None, interval_s: float = 1.0) -> Answers:
    """Yield the running sessions and their throughput, whenever they change."""
    sessions, over = RunningSessions(), set[Path]()
    job_logs, looked_at = list[Path](), -JOB_LOOK_S
    sent: list[Answer] | None = None
    try:
        while True:
            running = await asyncio.to_thread(running_logs, _directory(log_dir), over)
            if time.monotonic() - looked_at >= JOB_LOOK_S:
                looked_at = time.monotonic()
                job_logs = await asyncio.to_thread(logs_of_job, os.environ)
            ids = {id_of(path) for path in running}
            sessions.follow([*running, *(path for path in job_logs if id_of(path) not in ids)])
            progress = [_progress_of(follower) for follower in sessions.followers]
            if progress != sent:
                sent = progress
                yield {"sessions": progress}
            await asyncio.sleep(interval_s if sessions.are_read else SLICE_S)
    finally:
        sessions.close()


def _progress_of(follower: SessionFollower) -> Answer:
    """Return a session's progress; only its identity until its log is read to the end."""
    header = follower.session.header
    identity = {
        "session": header.id,
        "workload": header.workload,
        "name": read_label(follower.path).name,
    }
    if follower.read_share is not None:
        return {**identity, "phase": "reading the log"}
    snapshot = follower.snapshot()
    progress, model = snapshot.progress, snapshot.model
    if model is not None and model.has_epochs is False:
        progress = None
    return {
        **identity,
        "phase": "suspended" if snapshot.is_suspended else snapshot.phase,
        "epoch": None if progress is None else progress.epoch + 1,
        "epochs": None if progress is None else progress.epochs,
        "mode": None if model is None else model.mode,
        "rates": _rounded(snapshot.samples_per_second_now, snapshot.tokens_per_second_now),
        "gpus": list(snapshot.gpus),
        "overdue_s": None if snapshot.overdue_s is None else round(snapshot.overdue_s),
    }


def _rounded(*rates: RateNow | None) -> list[Any]:
    """Return the known rates to three digits, so that noise sends no new answer."""
    return [
        to_json(replace(rate, per_second=float(f"{rate.per_second:.3g}")))
        for rate in rates
        if rate is not None
    ]


async def _sessions(
    log_dir: str | None = None, meant: str | None = None, where: str = ""
) -> Answers:
    """Yield the sessions that a name fits, or all of them if there is no name.

    `where` has the options, as from `location_options`, that make the viewer's commands look here.
    """
    directory = _directory(log_dir)
    if meant is None:
        entries = await asyncio.to_thread(list_sessions, directory)
    else:
        entries = [read_entry(path) for path in _logs_named(meant, directory, where)]
    for entry in await asyncio.to_thread(with_queue, entries):
        result = {} if entry.result is None else {"result": to_json(entry.result)}
        header = to_json(entry.header)
        yield {**_entry(entry.path, entry.status), "loss": entry.loss, "header": header, **result}


def _entry(path: Path, status: Status) -> Answer:
    label = read_label(path)
    file = {"folder": path.parent.name, "file": path.name}
    return {**file, "status": str(status), "name": label.name, "note": label.note}


async def _sweeps(log_dir: str | None = None) -> Answers:
    """Yield the status and the log of each sweep."""
    for path in log_paths(SweepHeader, _directory(log_dir)):
        with (
            contextlib.suppress(LogError),
            contextlib.closing(RecordFollower(path, SweepHeader)) as log,
        ):
            # The lock is read first: if the sweep ends in between, the log has its end.
            status, _ = status_without_result(log)
            text = log.read_bytes(0, MOST_SWEEP_BYTES).decode("latin-1")
            yield {**_entry(path, status), "text": text}


def _logs_named(text: str, directory: Path, where: str = "") -> list[Path]:
    """Return the logs of the sessions that a name fits; a viewer can't name them by a path."""
    if os.sep in text or text.endswith(".jsonl"):
        raise HostRefusal(f"a session of {host_name()} is named by its id or name, not by a path")
    try:
        return find_sessions(text, directory, where)
    except NoSuchLog:
        # A restarted job may not have begun its log, or the log may lie in another directory.
        next_log = directory / text / LOG_NAME
        logs = [next_log] if read_submitted(next_log) is not None else []
        logs += [log for log in logs_of_job(os.environ) if id_of(log) == text]
        if not logs:
            raise
        return logs


def _log_of(session: str, log_dir: str | None) -> Path:
    """Return the log of the newest session that a name fits."""
    return _logs_named(session, _directory(log_dir))[-1]


async def _follow(
    session: str,
    file: str,
    offset: int = 0,
    checked: int = 0,
    digest: str = "",
    log_dir: str | None = None,
) -> Answers:
    """Yield a session's log as it grows, and its status, until the session is over.

    If the viewer's copy is right up to `offset`, the log is sent from there, else from its start.
    For a submitted session, yield its state in the queue until the log begins, and the id of the
    next session if Slurm requeues the job.
    """
    path, session_job = _log_of(session, log_dir), None
    submitted = read_submitted(path)
    if submitted is not None:
        waiting = WaitingSession(path, submitted)
        async for answer in _queued(waiting):
            yield answer
        path = waiting.poll() or path
    number = job_of(os.environ)
    if submitted is not None or number is not None:
        session_job = SessionJob(path, number=number)
    log = LogFollower(path)
    at = offset if file == path.name and log.knows(LogPosition(offset, checked, digest)) else 0
    sent: Answer = {}
    yield {"file": path.name, "at": at, "size": log.size}
    try:
        while True:
            # Read the status first: all that was written before the lock's release is then sent.
            size = log.size
            status, result, _ = standing_of(log)
            if session_job is not None and result is None:
                status = session_job.status(status, log.header.host)
            if session_job is not None and status != Status.RUNNING:
                # Send this before the result, after which the viewer stops reading.
                next_session = await asyncio.to_thread(session_job.next, result)
                if next_session is not None:
                    yield {"next": id_of(next_session.log)}
            if session_job is None or status != Status.RUNNING:
                size = log.size
            while data := log.read_bytes(at, min(CHUNK_BYTES, max(0, size - at))):
                yield {"at": at, "text": data.decode("latin-1")}
                at += len(data)
            loss = log.find_damage()
            now: Answer = {"status": str(status), "loss": loss}
            if now != sent:
                sent = now
                yield now
            if status != Status.RUNNING:
                break
            await asyncio.sleep(POLL_S)
    finally:
        log.close()


async def _queued(waiting: WaitingSession) -> Answers:
    """Yield a session's state in Slurm's queue, whenever it changes, until the log begins."""
    sent: Answer = {}
    while waiting.poll() is None:
        if waiting.failure is not None:
            raise HostRefusal(waiting.failure, FAILED)
        now = {"queued": to_json(waiting.queued)}
        if now != sent:
            sent = now
            yield now
        await asyncio.sleep(POLL_S)


async def _launch(job: dict[str, Any], slurm: str | None = None) -> Answers:
    """Start a session that goes on without us; yield its id and log.

    `slurm` has options for Slurm, which then runs the session; None for a run on this host.
    """
    new_job = Job(**{**job, "command": (), "stdin_fd": None, "copy_fds": None, "process": None})
    new_job = replace(new_job, log_dir=str(_directory(new_job.log_dir or None)))
    if new_job.script:
        terminal = new_job.terminal
        new_job = replace(
            new_job,
            command=tuple(job["command"]),
            terminal=terminal and (terminal[0], terminal[1]),
            directory=str(Path.home() / (new_job.directory or ".")),
        )
    elif new_job.workload:
        is_here = slurm is None and new_job.options.get("python") is None
        if is_here and importlib.util.find_spec("keras") is None:
            raise HostRefusal(
                f"{sys.executable} on {host_name()} has no Keras: name a Python there that has it, "
                "with --python PATH",
                permanent=True,
            )
        new_job = replace(new_job, command=tuple(python_command("workloads")))
    if slurm is not None:
        options = read_slurm_options(slurm)
        log = await asyncio.to_thread(submit_session, new_job, options, slurm)
        yield {"session": id_of(log), "log": str(log)}
        return
    # The session may outlive us only once the viewer is about to know of it: after "detach".
    supervisor = launch(replace(new_job, outlives_viewer=False))
    try:
        answer = await asyncio.to_thread(supervisor.answer)
    except asyncio.CancelledError:
        # The viewer gave up: without "detach", the session ends when the pipe is closed.
        supervisor.release()
        raise
    if isinstance(answer, Refused):
        raise HostRefusal(answer.reason, answer.exit_code, answer.permanent)
    supervisor.detach()
    supervisor.release()
    yield asdict(answer)


async def _stop(session: str, log_dir: str | None = None) -> Answers:
    entry = read_entry(_log_of(session, log_dir))
    try:
        if is_of_slurm(entry.path):
            phrase = await asyncio.to_thread(stop_submitted, entry, BY_OTHER_SCREEN)
        else:
            # Not in a thread: this must be done even if the viewer ends right after its request.
            phrase = stop_session(entry, BY_OTHER_SCREEN)
    except NotControlled as error:
        raise HostRefusal(str(error)) from None
    yield {"session": entry.header.id, "said": phrase}


async def _control(session: str, request: dict[str, Any], log_dir: str | None = None) -> Answers:
    """Yield the records with which a running session answers a request, such as its stacks."""
    path = _log_of(session, log_dir)
    try:
        for record in await ask_session(read_entry(path), request):
            yield {"record": encode(record)}
    except NotControlled as error:
        raise HostRefusal(str(error)) from None


async def _traces(
    session: str, have: dict[str, int] | None = None, log_dir: str | None = None
) -> Answers:
    """Yield the traces of a session, in pieces, except those that the viewer has."""
    path = _log_of(session, log_dir)
    for file in sorted(path.parent.iterdir()):
        size = file.stat().st_size
        if not is_trace(file.name) or (have or {}).get(file.name) == size:
            continue
        with os.fdopen(open_regular(file), "rb") as trace:
            while data := trace.read(TRACE_CHUNK_BYTES):
                text = base64.b64encode(data).decode()
                yield {"file": file.name, "size": size, "text": text}


async def _metric_files(path: str) -> Answers:
    """Yield the files of metrics in a file or a folder, in pieces."""
    for name, file in _named_metric_files(Path(path)):
        with os.fdopen(open_regular(file), "rb") as opened:
            while data := opened.read(TRACE_CHUNK_BYTES):
                yield {"file": name, "text": base64.b64encode(data).decode()}


def _named_metric_files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of metrics in a path with their names in it; a file has its own."""
    path = path.expanduser()
    if path.is_dir():
        for file in metric_files_in(path):
            yield file.relative_to(path).as_posix(), file
    elif path.exists():
        yield path.name, path
    else:
        raise HostRefusal(f"there is no {shown_path(path)}")


async def _name(
    session: str, name: str | None = None, note: str | None = None, log_dir: str | None = None
) -> Answers:
    path = _log_of(session, log_dir)
    write_label(path, Label(name, note))
    yield {"session": path.parent.name}


async def _doctor(quick: bool = False, log_dir: str | None = None) -> Answers:
    words = [*(["--quick"] if quick else []), *([log_dir] if log_dir is not None else [])]
    process = await asyncio.create_subprocess_exec(
        *python_command("dlmon.doctor"),
        *words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = await process.communicate()
    finally:
        # If the request was cancelled, the doctor may still wait for a framework or a driver.
        if process.returncode is None:
            end_group(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise HostRefusal(f"the doctor failed: {' '.join(last)}", FAILED)
    for finding in answer_in(output):
        yield {"finding": finding}


def _directory(log_dir: str | None) -> Path:
    return log_directory(None if log_dir is None else Path(log_dir))


_ASKS: dict[str, Callable[..., Answers]] = {
    function.__name__[1:]: function
    for function in (
        *(_ping, _watch, _running, _sessions, _sweeps, _follow),
        *(_launch, _stop, _traces, _metric_files, _name, _control, _doctor),
    )
}


async def _serve(requests: int, answers: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_REQUEST_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(requests, "rb", 0)
    )
    transport, protocol = await loop.connect_write_pipe(
        partial(asyncio.streams.FlowControlMixin, loop), os.fdopen(answers, "wb", 0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    await Agent(reader, writer).run()


def main() -> None:
    """Write the line that says the agent is ready, then answer requests."""
    # Libraries may write to stdout: only answers may reach the viewer.
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    ready = {"agent": host_name(), "boot_id": boot_id(), "pid": os.getpid()}
    os.write(answers, f"\n{sys.argv[1]} {json.dumps(ready)}\n".encode())
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_serve(requests, answers))


if __name__ == "__main__":
    main()
