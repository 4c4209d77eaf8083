"""List the sessions of another host, and follow one by copying its log as it grows."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from dlmon.exit_codes import FAILED
from dlmon.log.directory import NoSuchLog, SessionEntry, SeveralLogs
from dlmon.log.folder import LogError, id_of, is_log, location_options, reason_of
from dlmon.log.index import CHECKED_BYTES, position_after
from dlmon.log.label import Label, refuse_name, write_label
from dlmon.protocol.control import NotControlled
from dlmon.records import (
    Record,
    Result,
    SessionHeader,
    Status,
    SweepHeader,
    decode_lines,
    read_object,
    read_record,
)
from dlmon.remote.connection import Answer, Connection, StandingRequest
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.session.follower import SessionFollower
from dlmon.slurm.queue import Queued
from dlmon.system.private_files import FILE_MODE, own_private_folder

# Limits for a host that isn't trusted. A session of a day takes 250 MB, at a sample a second.
LARGEST_LOG_BYTES = 8 << 30
MOST_SWEEPS = 1_000
POLL_S = 0.05
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
_ID = re.compile(r"[\w-][\w.-]{0,119}", re.ASCII)

ListedSweep = tuple[SweepHeader, list[Record], Path, Status, Label]
"""The arguments of `dlmon.sweep.log.entry_of`."""


def _show_nothing(progress: object) -> None:
    pass


async def listed_sessions(
    host: Connection,
    log_dir: str | None = None,
    meant: str | None = None,
    where: str = "",
    directory: Path = Path(),
) -> list[SessionEntry]:
    """Return the sessions of a host, oldest first.

    Args:
        host: the connection to the host.
        log_dir: the log directory there; None for the default one.
        meant: a name as for `find_sessions`; None for all sessions.
        where: as for `find_log`.
        directory: the directory for copies of their logs.

    Raises:
        HostRefusal: the name fits no session, or is a prefix of several.
        SshError: the connection was lost.
    """
    entries = []
    async for answer in host.ask("sessions", log_dir=log_dir, meant=meant, where=where):
        # The host isn't trusted: skip answers that are no session.
        with contextlib.suppress(ValueError, RecursionError):
            path, status, label = _log_of(answer, directory)
            result = answer.get("result")
            result = None if result is None else read_object(Result, result)
            header = read_object(SessionHeader, answer.get("header"))
            loss = answer.get("loss")
            loss = loss if isinstance(loss, float) else None
            entries.append(SessionEntry(header, path, status, result, None, label, loss))
    return entries


async def listed_sweeps(
    host: Connection, log_dir: str | None = None, directory: Path = Path()
) -> list[ListedSweep]:
    """Return the sweeps of a host, by their ids.

    Raises:
        HostRefusal: the host can't list them.
        SshError: the connection was lost.
    """
    listed: list[ListedSweep] = []
    async for answer in host.ask("sweeps", log_dir=log_dir):
        with contextlib.suppress(ValueError):
            path, status, label = _log_of(answer, directory)
            lines = str(answer.get("text")).encode("latin-1").splitlines()
            header, *records = decode_lines(lines)
            if isinstance(header, SweepHeader) and len(listed) < MOST_SWEEPS:
                listed.append((header, records, path, status, label))
    return listed


def _log_of(answer: Answer, directory: Path) -> tuple[Path, Status, Label]:
    """Return the path for a copy of a log, its session's status, and its label.

    Raises:
        ValueError: the answer has no valid file name.
    """
    folder, file, name, note = (answer.get(key) for key in ("folder", "file", "name", "note"))
    if not isinstance(folder, str) or not isinstance(file, str) or "/" in file:
        raise ValueError
    if not _ID.fullmatch(folder) or not is_log(Path(file)):
        raise ValueError
    has_name = isinstance(name, str) and refuse_name(name) is None
    label = Label(name if has_name else None, note if isinstance(note, str) else None)
    return directory / folder / file, Status(str(answer.get("status", Status.UNKNOWN))), label


def copies_directory(host: str) -> Path:
    """Return the log directory that holds copies of a host's sessions.

    Raises:
        LogError: there is no home directory, or other users could change the copies.
    """
    # The digest tells apart hosts whose names become equal.
    digest = hashlib.sha256(host.encode()).hexdigest()[:8]
    name = f"{_NOT_IN_FILE_NAMES.sub('-', host)[:60]}-{digest}"
    try:
        cache = Path(platformdirs.user_cache_path("dlmon", appauthor=False))
        for folder in (cache, cache / "hosts", cache / "hosts" / name):
            own_private_folder(folder)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "there is no home directory"
        raise LogError(f"copies of logs can't be kept: {why}; set XDG_CACHE_HOME") from None
    return cache / "hosts" / name


class LogCopy:
    """A copy of a session's log, which grows as the log does.

    Args:
        connection: the connection to the session's host.
        listed: the session as its host lists it.
        log_dir: the log directory there; None for the default one.
        folder: the folder of the copy; None for one in `copies_directory`.

    Raises:
        LogError: the copy can't be written.
    """

    def __init__(
        self,
        connection: Connection,
        listed: SessionEntry,
        log_dir: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self.connection = connection
        self.status: Status | None = None
        """The status of the session; None until the log as it was at the start is copied."""
        self.loss: str | None = None
        """A sentence that says what happened to the log, if the host lost it."""
        self.problem: str | None = None
        """Why the log can't be copied."""
        self.refusal: str | None = None
        """Why the session could not be stopped."""
        self.queued: Queued | None = None
        """The state of the session in its host's Slurm, until its log begins."""
        self.next_session: str | None = None
        """The session that follows this one, if Slurm requeued its job."""
        self._session = id_of(listed.path)
        self.log_dir = log_dir
        self._size = 0
        self._folder = folder or copies_directory(connection.host) / self._session
        self._request = StandingRequest("follow", self._fields, self._take)
        try:
            own_private_folder(self._folder)
            self.path = self._folder / listed.path.name
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, FILE_MODE)
        except OSError as error:
            raise LogError(f"it can't be copied to {self._folder}: {reason_of(error)}") from None
        self._at = os.fstat(self._fd).st_size
        if folder is None:
            write_label(self.path, listed.label)

    @property
    def share(self) -> float | None:
        """The share of the log that is copied, 0 to 1; None once it is complete or failed."""
        if self.status is not None or self.problem is not None:
            return None
        return min(1.0, self._at / self._size) if self._size else 0.0

    def start(self) -> None:
        self.connection.add(self._request)

    def close(self) -> None:
        self.connection.remove(self._request)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def stop_session(self) -> None:
        """Ask the host to stop the session; `refusal` says why it could not."""
        self.refusal = None
        self.connection.send("stop", self._take_stop, session=self._session, log_dir=self.log_dir)

    def _take_stop(self, answer: Answer) -> None:
        if "lost" in answer:
            self.refusal = f"{self.connection.host}: the connection was lost; stop it again"
        elif "error" in answer:
            self.refusal = f"{self.connection.host}: {answer['error']}"

    async def wait_until_copied(
        self,
        show: Callable[[float], None] = _show_nothing,
        show_queued: Callable[[Queued], None] = _show_nothing,
    ) -> Path:
        """Wait until the log, as it was at the start, is copied; return the path of the copy.

        Args:
            show: is called with the copied share, 0 to 1.
            show_queued: is called with the state of the session's job until the log begins.

        Raises:
            HostRefusal: the log can't be copied.
            SshError: the connection was lost, and the user has to do something.
        """
        while (share := self.share) is not None:
            if self.connection.needs_person:
                raise SshError(self.connection.problem or "", may_pass=False)
            if self.queued is None:
                show(share)
            else:
                show_queued(self.queued)
            await asyncio.sleep(POLL_S)
        if self.problem is not None:
            raise HostRefusal(self.problem, FAILED)
        return self.path

    def _fields(self) -> dict[str, Any]:
        checked = min(self._at, CHECKED_BYTES)
        position = position_after(os.pread(self._fd, checked, self._at - checked), self._at)
        fields = {"session": self._session, "log_dir": self.log_dir, "file": self.path.name}
        return {**fields, **position._asdict()}

    def _take(self, answer: Answer) -> None:
        if self.problem is not None:
            # The host sent this before the request was cancelled.
            return
        try:
            self._take_valid(answer)
        except OSError as error:
            self._fail(f"the copy of the log can't be written: {reason_of(error)}")
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            self._fail(f"{self.connection.host} sent no log that can be copied")

    def _take_valid(self, answer: Answer) -> None:
        if "error" in answer:
            self._fail(f"{self.connection.host}: {answer['error']}")
        elif "file" in answer:
            at, size = int(answer["at"]), int(answer["size"])
            # The host sends the log from the end of our copy if that is right, else from its start.
            is_copied = 0 <= at <= min(size, os.fstat(self._fd).st_size)
            if answer["file"] != self.path.name or not is_copied:
                raise ValueError
            self._at, self._size, self.queued = at, size, None
            if size > LARGEST_LOG_BYTES:
                self._fail(
                    f"the log of {self._session} on {self.connection.host} has "
                    f"{size / (1 << 30):.1f} GiB, and no more than "
                    f"{LARGEST_LOG_BYTES >> 30} GiB of a log are copied: replay or report it there"
                )
        elif "text" in answer:
            self._write(int(answer["at"]), answer["text"].encode("latin-1"))
        elif "queued" in answer:
            self.queued = read_object(Queued, answer["queued"])
        elif "next" in answer:
            next_session = str(answer["next"])
            self.next_session = next_session if _ID.fullmatch(next_session) else None
        elif "status" in answer:
            self.status = Status(str(answer["status"]))
            loss = answer.get("loss")
            self.loss = None if loss is None else str(loss)
            if self.status != Status.RUNNING:
                self.refusal = None

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self.connection.remove(self._request)

    def _write(self, at: int, data: bytes) -> None:
        """Append to the copy; if the file goes on with other bytes, cut them off first."""
        if at != self._at or at > os.fstat(self._fd).st_size or at + len(data) > LARGEST_LOG_BYTES:
            raise ValueError
        existing = os.pread(self._fd, len(data), at)
        if existing != data:
            # Another viewer may be writing the same copy, ahead of us or behind.
            if not data.startswith(existing):
                os.ftruncate(self._fd, at)
            offset = 0
            while offset < len(data):
                offset += os.pwrite(self._fd, data[offset:], at + offset)
        self._at = at + len(data)


class RemoteFollower(SessionFollower):
    """A session of another host, followed by the copy of its log.

    Args:
        copy: the copy, with at least the first record.
        clock: this machine's CLOCK_MONOTONIC in nanoseconds.

    Raises:
        LogError: the copy can't be read as a log.
    """

    def __init__(self, copy: LogCopy, clock: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__(copy.path, clock, by_index=True)
        self._copy, self.connection = copy, copy.connection
        self.host = copy.connection.host
        self.log_dir_there = copy.log_dir

    @property
    def next_session(self) -> str | None:
        """The session that follows this one, if Slurm requeued its job."""
        return self._copy.next_session

    @property
    def failure(self) -> str | None:
        """Why the log can't be copied any further, even if the connection comes back."""
        return self._copy.problem

    def status_without_result(self) -> Status:
        # The copy has no lock; while the connection is lost, the last known status stands.
        return self._copy.status or Status.RUNNING

    def now(self) -> int:
        ahead = self.connection.clock_difference
        if self.running and self.read_share is None and self.connection.is_up and ahead is not None:
            now = self.session.running_time.at(self._clock() + ahead.monotonic_ns)
            return max(self.session.last_t, now)
        return self.session.last_t

    def stop(self) -> bool:
        """Ask the host to stop the session; `why_not_stopped` says why it could not."""
        if not self.connection.is_up:
            return False
        self._copy.stop_session()
        return True

    async def ask(self, request: Mapping[str, Any]) -> Sequence[Record]:
        if not self.running:
            return await super().ask(request)
        try:
            session = self.session.header.id
            return await asked_records(self.connection, session, request, self.log_dir_there)
        except (HostRefusal, SshError) as error:
            raise NotControlled(f"{self.host}: {error}") from None

    @property
    def why_not_stopped(self) -> str | None:
        return self._copy.refusal

    def close(self) -> None:
        self._copy.close()
        super().close()

    def _find_problem(self) -> str | None:
        if self.running and self._copy.problem is not None:
            return self._copy.problem
        if self.running and not self.connection.is_up:
            self._without_seconds = _connection_problem(self.connection)
            return lost_text(self.connection, self._clock())
        self.loss = self._copy.loss
        return super()._find_problem() or self._copy.refusal


def lost_text(connection: Connection, now_ns: int) -> str:
    """Return a sentence that says how long a connection is lost and when it is retried."""
    problem = _connection_problem(connection)
    lost_s = 0 if connection.lost_at_ns is None else round((now_ns - connection.lost_at_ns) / 1e9)
    if lost_s > 0:
        problem += f", for {lost_s} s"
    if connection.retry_at_ns is None:
        return f"{problem}; connecting"
    return f"{problem}; next try in {max(0.0, (connection.retry_at_ns - now_ns) / 1e9):.0f} s"


def _connection_problem(connection: Connection) -> str:
    return connection.problem or f"{connection.host} is not connected yet"


async def asked_records(
    connection: Connection, session: str, request: Mapping[str, Any], log_dir: str | None = None
) -> list[Record]:
    """Return the records with which a running session of a host answers a request.

    Raises:
        HostRefusal: the session refuses the request, or can't be asked.
        SshError: there is no connection, or it was lost.
    """
    answers = connection.ask("control", session=session, request=request, log_dir=log_dir)
    records = [read_record(answer["record"]) async for answer in answers if "record" in answer]
    return [record for record in records if record is not None]


async def find_remote(
    connection: Connection, meant: str, log_dir: str | None = None
) -> SessionEntry:
    """Return the session of a host that a name fits.

    Raises:
        NoSuchLog: the name fits several sessions, or none that can be copied.
        HostRefusal: the name fits no session.
        SshError: the connection was lost.
    """
    where = location_options(log_dir, connection.host)
    sessions = await listed_sessions(connection, log_dir, meant, where)
    if not sessions:
        raise NoSuchLog(f"{connection.host} lists no session of that name that can be copied")
    if len(sessions) > 1:
        ids = ", ".join(id_of(session.path) for session in sessions[:4])
        raise SeveralLogs(f"{len(sessions)} sessions of {connection.host} match: {ids}")
    return sessions[0]


async def follow_remote(
    connection: Connection,
    meant: str,
    log_dir: str | None = None,
    show: Callable[[float], None] = _show_nothing,
    show_queued: Callable[[Queued], None] = _show_nothing,
) -> RemoteFollower:
    """Return a follower for a session of a host, once its log as it is now is copied.

    Args:
        connection: the connection to the host.
        meant: the session's id, its name, a unique prefix of the id, or last.
        log_dir: the log directory there; None for the default one.
        show: is called with the copied share, 0 to 1.
        show_queued: is called with the session's state in the host's Slurm, until its log begins.

    Raises:
        NoSuchLog: the name fits several sessions, or none that can be copied.
        HostRefusal: the name fits no session, or the log can't be copied.
        LogError: the copy can't be written, or is no log.
        SshError: the connection was lost.
    """
    copy = LogCopy(connection, await find_remote(connection, meant, log_dir), log_dir)
    copy.start()
    try:
        await copy.wait_until_copied(show, show_queued)
        return RemoteFollower(copy)
    except BaseException:
        copy.close()
        raise
