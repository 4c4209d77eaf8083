"""What is recorded in a log directory: which logs there are, how each stands, which is meant."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import platformdirs

from dlmon.files import open_regular
from dlmon.host import boot_id, host_name
from dlmon.log.folder import Header, LogError, id_of, log_of
from dlmon.log.follower import LogFollower, RecordFollower
from dlmon.records import Record, RecordError, Result, SessionHeader, Status, SweepHeader, decode
from dlmon.records.record import record
from dlmon.records.sanitize import quoted
from dlmon.stop import BY_COMMAND, signal_that_stops

_TAIL_BYTES = 1 << 16
_MADE_BY = {SessionHeader: "dlmon run", SweepHeader: "dlmon sweep"}


class NoSuchLog(LookupError):
    """No session, or sweep, is meant, or more than one; the message is a sentence for a person."""


class Entry(Protocol):
    """What is listed of one log."""

    @property
    def header(self) -> Header:
        """How the log begins."""


_Entry = TypeVar("_Entry", bound=Entry)


@record(frozen=True)
class SessionEntry:
    """One session of a directory.

    `status` is completed, failed or stopped from its result; without one,
    running while its log is locked, interrupted when it is not, and unknown
    when the log was written on another host.
    """

    header: SessionHeader
    path: Path
    status: Status
    result: Result | None
    pid: int | None


def log_directory(chosen: Path | None = None) -> Path:
    """Return where sessions live: `chosen`, or the platform's state directory.

    Raises:
        LogError: `chosen` is relative to a working directory that was deleted.
    """
    if chosen is not None:
        try:
            # Links stay as given, and so does a ~ that names nobody.
            return Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111
        except FileNotFoundError:
            raise LogError(
                f"the working directory is gone, so {chosen} leads nowhere; "
                "give --log-dir a full path"
            ) from None
    try:
        return Path(platformdirs.user_state_path("dlmon", appauthor=False)) / "sessions"
    except RuntimeError:
        raise LogError("there is no home directory to keep sessions in; use --log-dir") from None


def list_sessions(directory: Path) -> list[SessionEntry]:
    """Return all sessions, oldest first; what is no log, or not ours to read, is passed over."""
    return list_logs(SessionHeader, directory, read_entry)


def list_logs(kind: type[Header], directory: Path, read: Callable[[Path], _Entry]) -> list[_Entry]:
    """Return what `read` makes of all logs of a kind, oldest first, but those it refuses."""
    entries = []
    for path in log_paths(kind, directory):
        try:
            entries.append(read(path))
        except (LogError, OSError):
            continue
    return sorted(entries, key=lambda entry: entry.header.wall)


def read_entry(path: Path) -> SessionEntry:
    """Return how the session of the log at `path` stands.

    Raises:
        LogError: not a log that this version can read.
    """
    follower = LogFollower(path)
    try:
        # The lock first: a result that is written between the two is then found.
        status, pid = status_without_result(follower)
        result = _last_result(path)
        if result is not None:
            status = result.status
        return SessionEntry(follower.header, path, status, result, pid)
    finally:
        follower.close()


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


def find_session(name: str, directory: Path) -> Path:
    """Return the log that an id, a unique prefix of one, a path, or `last` means.

    Raises:
        NoSuchLog: none, or several, are meant.
    """
    return find_log(SessionHeader, name, directory)


def find_log(kind: type[Header], name: str, directory: Path) -> Path:
    """Return the log of a kind that an id, a unique prefix of one, a path, or `last` means.

    Raises:
        NoSuchLog: none, or several, are meant.
    """
    noun = kind.TYPE
    given = Path(os.path.expanduser(name))  # noqa: PTH111 - a ~ that names nobody stays
    if os.sep in name or name.endswith(".jsonl"):
        # Path.exists raises for a name that is too long; this does not.
        path = log_of(given, noun) if os.path.isdir(given) else given  # noqa: PTH112
        if os.path.exists(path):  # noqa: PTH110
            return Path(os.path.abspath(path))  # noqa: PTH100 - links stay as given
        raise NoSuchLog(f"there is no log at {path}")
    paths = {id_of(path): path for path in log_paths(kind, directory)}
    if not paths:
        raise NoSuchLog(f"there are no {noun}s in {directory} yet; {_MADE_BY[kind]} makes one")
    if name == "last":
        return max(paths.values(), key=lambda path: _began(kind, path))
    if name in paths:
        return paths[name]
    meant = [i for i in sorted(paths) if i.startswith(name)] if name else []
    if len(meant) == 1:
        return paths[meant[0]]
    if meant:
        shown = ", ".join(meant[:4]) + (", …" if len(meant) > 4 else "")
        raise NoSuchLog(f"{quoted(name)} could be any of {len(meant)} {noun}s: {shown}")
    raise NoSuchLog(
        f"there is no {noun} {quoted(name)} in {directory}; dlmon sessions lists what there is"
    )


def log_paths(kind: type[Header], directory: Path) -> Iterator[Path]:
    """Yield the logs of a kind, by their ids."""
    try:
        folders = sorted(directory.iterdir())
    except OSError:
        return
    for folder in folders:
        path = log_of(folder, kind.TYPE)
        # Unlike Path.is_file, this says no to a folder that we may not enter.
        if os.path.isfile(path):  # noqa: PTH113
            yield path


def _began(kind: type[Header], path: Path) -> float:
    """Return the wall time at which a log begins; what can't be read began before all."""
    try:
        follower = RecordFollower(path, kind)
    except LogError:
        return -math.inf
    follower.close()
    return follower.header.wall


def stop_session(entry: SessionEntry, asked_by: signal.Signals = BY_COMMAND) -> bool:
    """Ask the supervisor of a running session to stop it; False when none runs here.

    Args:
        entry: the session.
        asked_by: the signal by which the supervisor knows who asks.
    """
    same_machine = entry.header.host == host_name() and entry.header.boot_id == boot_id()
    if entry.pid is None or entry.pid <= 0 or not same_machine:
        return False
    try:
        os.kill(entry.pid, signal_that_stops(entry.pid, asked_by))
    except ProcessLookupError:
        return False
    return True


def _last_result(path: Path) -> Result | None:
    """Read the last whole line that is a record, and return it if it is a result."""
    with os.fdopen(open_regular(path), "rb") as log:
        size = log.seek(0, os.SEEK_END)
        tail_bytes = _TAIL_BYTES
        while True:
            log.seek(max(0, size - tail_bytes))
            lines = log.read(tail_bytes).split(b"\n")
            record = _last_record(lines if tail_bytes >= size else lines[1:])
            if record is not None or tail_bytes >= size:
                return record if isinstance(record, Result) else None
            tail_bytes *= 8


def _last_record(lines: list[bytes]) -> Record | None:
    for line in reversed(lines):
        try:
            record = decode(line)
        except RecordError:
            continue
        if record is not None:
            return record
    return None
