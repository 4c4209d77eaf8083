"""The log of a session: one JSON Lines file that the supervisor appends to and everybody follows.

The writer holds a POSIX lock from before the file is visible until it ends.
Closing any second descriptor of the file would drop that lock, so the writer
opens it once and never reads it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from os.path import samestat
from pathlib import Path

from dlmon.files import open_regular
from dlmon.private_files import make_new_private_folder, make_private_folder, open_private
from dlmon.records import (
    SCHEMA,
    Batches,
    BatchSummary,
    Epoch,
    Machine,
    Output,
    Record,
    RecordError,
    Result,
    SessionHeader,
    decode,
    encode,
)

LOG_NAME = "session.jsonl"
# A log that was removed, replaced or cut short goes on in the next of these.
_NEXT_NAME = "session-{}.jsonl"
_NAME = re.compile(r"session(?:-(\d{1,6}))?\.jsonl")
# Lines that may wait in memory for a full disk: epochs, phases, notices, the result.
WAITING_LINES = 20_000
RETRY_S = 1.0
LONGEST_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


class LogError(Exception):
    """A log that can't be read or written; the message is one sentence for a person."""


def next_log(path: Path) -> Path | None:
    """Return the log that goes on where the one at `path` ends, if there is one."""
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    following = path.with_name(_NEXT_NAME.format(int(name[1] or 1) + 1))
    return following if os.path.isfile(following) else None  # noqa: PTH113 - it may be forbidden


def log_of(folder: Path) -> Path:
    """Return the log of the session in `folder`: the newest, where it went on in another file."""
    path = folder / LOG_NAME
    while (following := next_log(path)) is not None:
        path = following
    return path


def new_session_id(workload: str, wall: float) -> str:
    """Return an id such as 20261120-145600-cifar10-cnn-7f3a (local time)."""
    started = time.strftime("%Y%m%d-%H%M%S", time.localtime(wall))
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in workload)[:40]
    return f"{started}-{name}-{os.urandom(2).hex()}"


class LogWriter:
    """The one writer of a log.

    `write` never raises for a disk that is full or gone: it cuts back to the
    last whole line, keeps what must not be lost (everything but batches,
    samples of the machine and output) in memory, and tries again each second.

    Raises:
        LogError: the folder or file can't be made.
    """

    def __init__(self, log_dir: Path, header: SessionHeader) -> None:
        folder = log_dir / header.id
        self.path = folder / LOG_NAME
        self._header = encode(header)
        self._waiting: deque[bytes] = deque()
        self._retry_at = 0.0
        self.lost_lines = 0
        """Lines of batches, samples and output that the log could not take."""
        self.failing: str | None = None
        """Why the log takes nothing at present."""
        self.is_full = False
        """Whether it takes nothing for want of room, which somebody may make."""
        try:
            make_private_folder(log_dir)
            make_new_private_folder(folder)
            try:
                self._take(*_create(self.path, self._header), self.path)
            except OSError:
                folder.rmdir()
                raise
        except OSError as error:
            raise LogError(
                f"the log directory {log_dir} can't be written ({_reason(error)}); "
                "choose another with --log-dir"
            ) from None

    def find_loss(self) -> str | None:
        """Return what became of the file, where it is no longer the whole log at `path`."""
        try:
            ours = os.fstat(self._fd)
            if ours.st_size < self._size:
                return "was cut short"
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "was moved away" if ours.st_nlink else "was removed"
        except OSError:
            # A server that doesn't answer says nothing of the file.
            return None
        return "was replaced" if self._is_known_by_inode and not samestat(ours, there) else None

    def go_on_in_next(self, records: Sequence[Record]) -> None:
        """Write from now on to a new file beside the old one, which is a log of its own.

        Args:
            records: what it has to begin with, behind the header.

        Raises:
            LogError: it can't be made; the old file is kept.
        """
        number = int((_NAME.fullmatch(self.path.name) or ("", "1"))[1] or 1) + 1
        try:
            # A name that somebody else has taken there is theirs.
            while (path := self.path.with_name(_NEXT_NAME.format(number))).exists():
                number += 1
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fd, size = _create(path, self._header + b"".join(map(encode, records)))
        except OSError as error:
            raise LogError(_reason(error)) from None
        # The new one is there before the lock of the old one is dropped: a viewer finds one.
        os.close(self._fd)
        self._take(fd, size, path)

    def _take(self, fd: int, size: int, path: Path) -> None:
        self._fd, self._size, self.path = fd, size, path
        # On some network file systems a name and an open file never agree.
        self._is_known_by_inode = False
        with contextlib.suppress(OSError):
            self._is_known_by_inode = samestat(os.fstat(fd), path.stat())

    def write(self, record: Record) -> None:
        """Append a record."""
        line = encode(record)
        expendable = isinstance(record, (Batches, BatchSummary, Machine, Output))
        if self._waiting or self.failing:
            self.retry()
        if self._waiting or self.failing or not self._append(line):
            full = len(self._waiting) >= WAITING_LINES and not isinstance(record, Result)
            if expendable or full:
                self.lost_lines += 1
            else:
                self._waiting.append(line)
        elif isinstance(record, (Epoch, Result)):
            self._sync()

    def retry(self, at_once: bool = False) -> bool:
        """Try to write what waits, once a second at most; return whether nothing waits."""
        if not self._waiting and not self.failing:
            return True
        if not at_once and time.monotonic() < self._retry_at:
            return False
        while self._waiting:
            if not self._append(self._waiting[0]):
                return False
            self._waiting.popleft()
        self.failing, self.is_full = None, False
        self._sync()
        return True

    def close(self) -> None:
        """Close the file and drop the lock."""
        os.close(self._fd)

    def _append(self, line: bytes) -> bool:
        written = 0
        try:
            # What is written in part is tried again for its rest, to hear why.
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            if written:
                self._cut_back(written)
            self.failing, self.is_full = _reason(error), error.errno in _FULL
            self._retry_at = time.monotonic() + RETRY_S
            return False
        self._size += written
        return True

    def _cut_back(self, written: int) -> None:
        try:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
        except OSError:
            # A torn line stays; what follows must at least start on a line of its own.
            self._size += written
            self._waiting.appendleft(b"\n")

    def _sync(self) -> None:
        # What can't be synced is still there for every reader; only a power cut could cost it.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)


def _create(path: Path, lines: bytes) -> tuple[int, int]:
    """Make a log that begins with these lines and is locked before it can be seen.

    Return its descriptor and its size.
    """
    hidden = path.with_name(f".{path.name}")
    fd = open_private(hidden, os.O_WRONLY | os.O_APPEND)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        written = 0
        while written < len(lines):
            written += os.write(fd, lines[written:])
        hidden.rename(path)
    except OSError:
        os.close(fd)
        hidden.unlink(missing_ok=True)
        raise
    return fd, len(lines)


class LogFollower:
    """Reads a log from an offset, whole lines only, as often as asked.

    `header` is the first record. `skipped` counts lines that no record could
    be made of (a torn line after a power loss, say). `was_cut` says that what
    had been read is no longer there.

    Raises:
        LogError: not a log, empty, or of a schema that this version can't read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.was_cut = False
        self._offset = 0
        self._searched = 0
        """So many bytes from the offset on are the start of a line that has no end yet."""
        self._lines: deque[bytes] = deque()
        self._at_end = False
        try:
            self._fd = open_regular(path)
        except OSError as error:
            raise LogError(f"{path} can't be read: {_reason(error)}") from None
        try:
            self.header = self._read_header()
        except BaseException:
            os.close(self._fd)
            raise

    def poll(self, most_bytes: int = 8 << 20) -> list[Record]:
        """Return the records that were appended since the last call."""
        return list(self.new_records(most_bytes))

    def new_records(self, most_bytes: int = 8 << 20) -> Iterator[Record]:
        """Yield the records that `poll` returns; those that aren't taken come the next time."""
        if not self._lines:
            self._lines.extend(self._whole_lines(most_bytes))
        while self._lines:
            line = self._lines.popleft()
            if not line:
                continue
            try:
                record = decode(line)
            except RecordError:
                self.skipped += 1
                continue
            if record is not None:
                yield record

    @property
    def read_share(self) -> float | None:
        """How much of the log is read, 0 to 1; None once its end was reached."""
        if self._at_end and not self._lines:
            return None
        ahead = sum(map(len, self._lines)) + len(self._lines)
        return max(0.0, min(1.0, (self._offset - ahead) / max(1, os.fstat(self._fd).st_size)))

    def writer_pid(self) -> int | None:
        """Return the pid that holds the log's lock, None when nobody does."""
        return _lock_holder(self._fd)

    def close(self) -> None:
        """Close the file; a later call finds nothing, and no other file of that number."""
        os.close(self._fd)
        self._fd = -1

    def _read_header(self) -> SessionHeader:
        try:
            start = os.pread(self._fd, 1 << 16, 0)
        except OSError as error:
            raise LogError(f"{self.path} can't be read: {_reason(error)}") from None
        if not start:
            raise LogError(f"{self.path} is empty: nothing was recorded in it")
        line, newline, _ = start.partition(b"\n")
        while not newline and len(line) < (1 << 22):
            more = os.pread(self._fd, 1 << 16, len(line))
            if not more:
                break
            head, newline, _ = more.partition(b"\n")
            line += head
        not_a_log = LogError(f"{self.path} is not a dlmon log")
        schema = _schema_of(line)
        if schema is None or not newline:
            raise not_a_log
        if schema != SCHEMA:
            raise LogError(
                f"{self.path} has schema {schema} and this dlmon reads schema {SCHEMA}: "
                "use the version of dlmon that wrote it"
            )
        try:
            record = decode(line)
        except RecordError:
            raise not_a_log from None
        if not isinstance(record, SessionHeader):
            raise not_a_log
        self._offset = len(line) + 1
        return record

    def _whole_lines(self, most_bytes: int) -> list[bytes]:
        """Return lines up to about `most_bytes`, leaving an unfinished one for the next call."""
        if self._searched and not self._line_has_ended():
            self._find_cut()
            self._at_end = True
            return []
        most_bytes = max(most_bytes, self._searched + _CHUNK_BYTES)
        data = b""
        self._at_end = False
        while len(data) < most_bytes:
            chunk = os.pread(self._fd, _CHUNK_BYTES, self._offset + len(data))
            data += chunk
            if len(chunk) < _CHUNK_BYTES:
                self._at_end = True
                break
        if not data:
            self._find_cut()
        elif b"\n" not in data:
            self._searched = len(data)
            return self._whole_lines(most_bytes) if self._line_has_ended() else []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        self._searched = 0
        return whole.split(b"\n") if whole else []

    def _find_cut(self) -> None:
        """Go on behind the end of a log that is shorter than what was read of it."""
        size = os.fstat(self._fd).st_size
        if size < self._offset + self._searched:
            self._searched = 0
        if size < self._offset:
            self.was_cut, self._offset = True, size

    def _line_has_ended(self) -> bool:
        """Tell whether the line at the offset has its end by now, reading only what is new."""
        while chunk := os.pread(self._fd, _CHUNK_BYTES, self._offset + self._searched):
            if b"\n" in chunk:
                return True
            self._searched += len(chunk)
            if self._searched > LONGEST_LINE_BYTES:
                # Nothing that we wrote: leave it out, and what is left of it is no record.
                self._offset += self._searched
                self._searched = 0
                return False
        return False


def writer_pid(path: Path) -> int | None:
    """Return the pid that writes the log at `path`, None when nobody does."""
    fd = open_regular(path)
    try:
        return _lock_holder(fd)
    finally:
        os.close(fd)


def _schema_of(line: bytes) -> int | None:
    """Return the schema of a header line of any version, None if it is no header."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("type") != "session":
        return None
    schema = told.get("schema")
    return schema if type(schema) is int else None


# struct flock of <fcntl.h>: type, whence, start, len, pid on Linux.
_FLOCK = "hhqqi4x"


def _lock_holder(fd: int) -> int | None:
    """Probe the lock with F_GETLK, which takes nothing."""
    if sys.platform != "linux":
        return None
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


# What may be over once somebody has made room.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it has reached the file-size limit",
}


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
