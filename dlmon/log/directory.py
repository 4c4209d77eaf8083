"""What is recorded in a log directory: which logs there are, how each stands, which is meant."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dlmon.log.folder import LogError, id_of, log_of
from dlmon.log.label import Label, read_label, runs_before_last
from dlmon.log.log_follower import Header, LogFollower, RecordFollower
from dlmon.log.submitted import read_submitted, submitted_beside
from dlmon.protocol.control import ANSWER_S, WAIT_S, NotControlled, ask
from dlmon.protocol.stop import BY_COMMAND
from dlmon.records import Epoch, Metrics, Record, Result, SessionHeader, Status, SweepHeader
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_PATH_LENGTH, clean, quoted
from dlmon.system.foreign_processes import is_suspended
from dlmon.system.this_host import boot_id, host_name

_Entry = TypeVar("_Entry")

_TAIL_BYTES = 1 << 16
_SHOWN_IDS = 4
_MADE_BY = {SessionHeader: "dlmon run", SweepHeader: "dlmon sweep"}


class NoSuchLog(LookupError):
    """A name means no log, or several; the message is a sentence for a person."""


class SeveralLogs(NoSuchLog):
    """A name means several logs, where one is wanted."""


@record(frozen=True)
class SessionEntry:
    """One session of a directory.

    `status` is completed, failed or stopped from its result; queued while Slurm has yet to begin
    its log, of which `header` says what was submitted; without a result,
    running while its log is locked, interrupted when it is not, and unknown
    when the log was written on another host. `label` is what a person calls it.
    `loss` is the newest one of training that stands near the end of the log.
    """

    header: SessionHeader
    path: Path
    status: Status
    result: Result | None
    pid: int | None
    label: Label = Label()
    loss: float | None = None


def list_sessions(directory: Path) -> list[SessionEntry]:
    """Return all sessions, oldest first; what is no log, or not ours to read, is passed over."""
    entries = read_logs(SessionHeader, directory, read_entry)
    return sorted(entries, key=lambda entry: entry.header.wall)


def read_logs(kind: type[Header], directory: Path, read: Callable[[Path], _Entry]) -> list[_Entry]:
    """Return what `read` makes of all logs of a kind, but those it refuses."""
    entries = []
    for path in log_paths(kind, directory):
        with contextlib.suppress(LogError, OSError):
            entries.append(read(path))
    return entries


def read_entry(path: Path) -> SessionEntry:
    """Return how the session of the log at `path` stands.

    Raises:
        LogError: not a log that this version can read.
    """
    # Its job may begin the log meanwhile.
    submitted = None if os.path.exists(path) else read_submitted(path)  # noqa: PTH110
    if submitted is not None:
        return SessionEntry(submitted.header, path, Status.QUEUED, None, None, read_label(path))
    with contextlib.closing(LogFollower(path)) as log:
        status, result, pid = standing_of(log)
        label = read_label(path)
        return SessionEntry(log.header, path, status, result, pid, label, _last_loss(log))


def standing_of(log: LogFollower) -> tuple[Status, Result | None, int | None]:
    """Return how the session of an open log stands, its result and its writer.

    Raises:
        OSError: the log can't be read any more.
    """
    # The lock first: a result that is written between the two is then found.
    status, pid = status_without_result(log)
    result = _last_result(log)
    return (status if result is None else result.status), result, pid


def status_without_result(follower: RecordFollower[Header]) -> tuple[Status, int | None]:
    """Return running, interrupted or unknown for a log without an end, and its writer."""
    try:
        pid = follower.writer_pid()
    except OSError:
        # A file system without locks, or a server that is gone.
        return Status.UNKNOWN, None
    if pid is not None:
        return Status.RUNNING, pid
    if follower.header.host != host_name():
        # A lock taken on another host may not show here (a shared home).
        return Status.UNKNOWN, None
    return Status.INTERRUPTED, None


def running_session(directory: Path, where: str = "") -> Path:
    """Return the log of the one session that runs; `where` as for `find_log`.

    Raises:
        NoSuchLog: none runs, or several do.
    """
    running = [e for e in list_sessions(directory) if e.status is Status.RUNNING]
    if len(running) == 1:
        return running[0].path
    if not running:
        raise NoSuchLog(f"no session is running; dlmon attach{where} last shows the newest")
    names = ", ".join(entry.label.name or entry.header.id for entry in running)
    raise NoSuchLog(f"{len(running)} sessions are running, say which: {names}")


def find_sessions(text: str, directory: Path, where: str = "") -> list[Path]:
    """Return the logs that a list means, oldest first, each once; `where` as for `find_log`.

    Its parts, with commas between them, are what `find_log` takes; a name means all that bear it,
    a script all runs of it, and a glob such as `base*` all whose name or id it matches.

    Raises:
        NoSuchLog: a part means none, or is a prefix of several ids.
    """
    # A path may have a comma.
    parts = [text] if _is_path(text) and os.path.exists(text) else text.split(",")  # noqa: PTH110
    meant = (_meant_by(SessionHeader, part.strip(), directory, where) for part in parts)
    found = {path: None for paths in meant for path in paths}
    return sorted(found, key=lambda path: (_began(SessionHeader, path), path))


def find_log(kind: type[Header], text: str, directory: Path, where: str = "") -> Path:
    """Return the log that an id, a name, a unique prefix of an id, a path, or `last` means.

    So does the workload or script that it is listed by, where nothing else is called that.
    `last~2` is the one that began two before the last.

    Args:
        kind: a session or a sweep.
        text: what a person calls it.
        directory: where it is looked for.
        where: as `place_options` returns it: with what a command looks there.

    Raises:
        NoSuchLog: none, or several, are meant.
    """
    found = _meant_by(kind, text, directory, where)
    if len(found) > 1:
        ids = _some(map(id_of, reversed(found)))
        raise SeveralLogs(
            f"{len(found)} {kind.TYPE}s are called {quoted(text)}, the newest first: {ids}"
        )
    return found[0]


find_session = partial(find_log, SessionHeader)


def _meant_by(kind: type[Header], text: str, directory: Path, where: str) -> list[Path]:
    """Return the logs that a word means: several only where it is a name or a glob.

    Raises:
        NoSuchLog: it means none, or is a prefix of several ids.
    """
    noun = kind.TYPE
    if _is_path(text):
        given = Path(os.path.expanduser(text))  # noqa: PTH111 - a ~ that names nobody stays
        # Path.exists raises for a name that is too long; this does not.
        path = log_of(given, noun) if os.path.isdir(given) else given  # noqa: PTH112
        if os.path.exists(path):  # noqa: PTH110
            return [Path(os.path.abspath(path))]  # noqa: PTH100 - links stay as given
        raise NoSuchLog(f"there is no log at {clean(str(path), SHOWN_PATH_LENGTH)}")
    paths = {id_of(path): path for path in log_paths(kind, directory)}
    if not paths:
        raise NoSuchLog(
            f"there are no {noun}s in {directory} yet; {_MADE_BY[kind]}{where} makes one"
        )
    before_last = runs_before_last(text)
    if before_last is not None:
        by_start = sorted(paths.values(), key=lambda path: _began(kind, path), reverse=True)
        if before_last < len(by_start):
            return [by_start[before_last]]
        raise NoSuchLog(f"{text} matches none of the {len(by_start):,} in {directory}")
    if text in paths:
        return [paths[text]]
    # No name has a character of globs.
    names = {id: (read_label(path).name or "") for id, path in paths.items()}
    found = [
        paths[id]
        for id, name in names.items()
        if (name and fnmatchcase(name, text)) or fnmatchcase(id, text)
    ]
    if found:
        return found
    likely = [id for id in sorted(paths) if id.startswith(text)] if text else []
    if len(likely) == 1:
        return [paths[likely[0]]]
    if likely:
        raise SeveralLogs(f"{quoted(text)} could be any of {len(likely)} {noun}s: {_some(likely)}")
    titles = {path: _title_of(kind, path) for path in paths.values()}
    titled = [path for path, title in titles.items() if title and fnmatchcase(title, text)]
    if titled:
        return titled
    raise NoSuchLog(
        f"there is no {noun} {quoted(text)} in {directory}; dlmon sessions{where} lists what there "
        "is"
    )


def _is_path(text: str) -> bool:
    return os.sep in text or text.endswith(".jsonl")


def _some(ids: Iterable[str]) -> str:
    first = list(islice(ids, _SHOWN_IDS + 1))
    return ", ".join(first[:_SHOWN_IDS]) + (", …" if len(first) > _SHOWN_IDS else "")


def log_paths(kind: type[Header], directory: Path) -> Iterator[Path]:
    """Yield the logs of a kind, by their ids; of sessions also where Slurm has yet to begin one."""
    try:
        folders = sorted(directory.iterdir())
    except OSError:
        return
    for folder in folders:
        path = log_of(folder, kind.TYPE)
        # Unlike Path.is_file, this says no to a folder that we may not enter.
        is_file = os.path.isfile(path)  # noqa: PTH113
        if is_file or (kind is SessionHeader and os.path.isfile(submitted_beside(path))):  # noqa: PTH113
            yield path


def _began(kind: type[Header], path: Path) -> float:
    """Return the wall time at which a log begins; what can't be read began before all."""
    header = _header_of(kind, path)
    return -math.inf if header is None else header.wall


def _title_of(kind: type[Header], path: Path) -> str:
    """Return the workload or script that a list names a session by; empty for a sweep."""
    header = _header_of(kind, path)
    return header.workload if isinstance(header, SessionHeader) else ""


def _header_of(kind: type[Header], path: Path) -> SessionHeader | SweepHeader | None:
    """Return how a log begins, or will once Slurm starts it; None where that can't be read."""
    try:
        with contextlib.closing(RecordFollower(path, kind)) as follower:
            return follower.header
    except LogError:
        submitted = read_submitted(path) if kind is SessionHeader else None
        return None if submitted is None else submitted.header


def stop_session(entry: SessionEntry, asked_by: signal.Signals = BY_COMMAND) -> None:
    """Ask the supervisor of a session that runs to stop it.

    Args:
        entry: the session.
        asked_by: the signal by which the supervisor knows who asks.

    Raises:
        NotControlled: it does not run here, or belongs to another user.
    """
    id, header, pid = entry.header.id, entry.header, entry.pid or 0
    if entry.status == Status.UNKNOWN:
        where = "whether it still runs can't be seen from here; stop it there"
        raise NotControlled(f"{id} was recorded on {header.host}: {where}")
    if entry.status != Status.RUNNING:
        raise NotControlled(f"{id} is not running: it is {entry.status}")
    if header.host != host_name() or header.boot_id != boot_id() or pid <= 0:
        raise NotControlled(f"{id} runs on {header.host}: stop it there")
    try:
        os.kill(pid, asked_by)
    except PermissionError:
        raise NotControlled(f"{id} belongs to another user") from None
    except ProcessLookupError:
        raise NotControlled(f"{id} is not running any more") from None


async def ask_session(entry: SessionEntry, request: Mapping[str, Any]) -> list[Record]:
    """Return what a session of this machine that runs answers to a request.

    Raises:
        NotControlled: it does not run here, refuses or does not answer.
    """
    id, header = entry.header.id, entry.header
    if header.host != host_name() or header.boot_id != boot_id():
        raise NotControlled(f"{id} was recorded on {header.host}: ask there")
    if entry.status != Status.RUNNING or entry.pid is None:
        raise NotControlled(f"{id} is not running: it is {entry.status}")
    if is_suspended(entry.pid):
        raise NotControlled(f"{id}: the process that records it is suspended")
    try:
        return await ask(id, entry.pid, request, WAIT_S.get(str(request.get("ask")), ANSWER_S))
    except NotControlled as error:
        raise NotControlled(f"{id}: {error}") from None


def _last_loss(log: LogFollower) -> float | None:
    """Return the newest loss of training among the last records."""
    for said in log.last_records(having=b'"loss"'):
        if isinstance(said, (Epoch, Metrics)):
            metrics = said.metrics if isinstance(said, Epoch) else said.values
            if "loss" in metrics:
                return metrics["loss"]
    return None


def _last_result(log: LogFollower) -> Result | None:
    """Return the last record of a log if it is a result."""
    tail_bytes = _TAIL_BYTES
    while True:
        record = next(log.last_records(tail_bytes), None)
        if record is not None or tail_bytes >= log.size:
            return record if isinstance(record, Result) else None
        tail_bytes *= 8
