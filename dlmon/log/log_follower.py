"""Read a log as it grows, find its writer by its lock, and notice if it is moved or replaced."""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections import deque
from collections.abc import Iterator
from os.path import samestat
from pathlib import Path
from typing import Generic, TypeVar

from dlmon.log.folder import LogError, reason_of
from dlmon.log.index import CHECKED_BYTES, LogPosition, position_after
from dlmon.records import (
    SCHEMA,
    Record,
    RecordError,
    SessionHeader,
    SweepHeader,
    decode,
    decode_lines,
)
from dlmon.system.files import open_regular
from dlmon.system.this_host import IS_MACOS

LONGEST_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
Header = SessionHeader | SweepHeader
"""The first record of a log; its type is the file's name too."""
_Header = TypeVar("_Header", bound=Header, covariant=True)
_NOT_A_LOG = {
    SessionHeader: "is not a dlmon log",
    SweepHeader: "is not a sweep that dlmon recorded",
}


class RecordFollower(Generic[_Header]):
    """Reads the whole lines of a log as it grows.

    `header` is the first record. Lines that are no records (a torn line after a power loss, say)
    are skipped. `was_cut` means that the log became shorter than the part that was read.

    Args:
        path: the log.
        kind: the type of its header.
        fd: its descriptor, if it is open already.

    Raises:
        LogError: there is no such log, it is empty, or this version can't read its schema.
    """

    def __init__(self, path: Path, kind: type[_Header], fd: int | None = None) -> None:
        self.path = path
        self.was_cut = False
        self._offset = 0
        self._lines: deque[bytes] = deque()
        self._next_offset = 0
        """The offset of the next line to decode."""
        self._at_end = False
        try:
            self._fd = open_regular(path) if fd is None else fd
        except OSError as error:
            raise LogError(f"{path} can't be read: {reason_of(error)}") from None
        self._is_known_by_inode = is_known_by_inode(path, self._fd)
        try:
            self.header = self._read_header(kind)
        except BaseException:
            if fd is None:
                os.close(self._fd)
            raise

    def poll(self, max_bytes: int = 8 << 20) -> list[Record]:
        return list(self.new_records(max_bytes))

    def new_records(self, max_bytes: int = 8 << 20) -> Iterator[Record]:
        """Yield the new records; those that the caller doesn't take come the next time."""
        if not self._lines:
            self._read_lines(max_bytes)
        while self._lines:
            line = self._lines.popleft()
            self._next_offset += len(line) + 1
            yield from decode_lines((line,))

    @property
    def read_share(self) -> float | None:
        """The share of the log that was read, 0 to 1; None once its end was reached."""
        if self._at_end and not self._lines:
            return None
        return max(0.0, min(1.0, self._next_offset / max(1, self.size)))

    def writer_pid(self) -> int | None:
        return lock_holder(self._fd)

    def find_damage(self) -> str | None:
        """Return in words that the log was moved, removed or replaced; else None.

        The open file is still read; `was_cut` tells of a log that became shorter.
        """
        return damage_of(self.path, self._fd, self._is_known_by_inode)

    @property
    def size(self) -> int:
        """The bytes of the open log, even if its file was moved or removed."""
        return os.fstat(self._fd).st_size

    def read_bytes(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from an offset on.

        Raises:
            OSError: the log can't be read any more.
        """
        return os.pread(self._fd, count, offset)

    def last_records(
        self, max_bytes: int = 1 << 16, having: bytes = b"", end: int | None = None
    ) -> Iterator[Record]:
        """Yield the records in the last bytes whose lines contain `having`, newest first.

        `end` is the offset to read up to; None for the end of the log.

        Raises:
            OSError: the log can't be read any more.
        """
        end = self.size if end is None else end
        begin = max(0, end - max_bytes)
        # The first line may be incomplete.
        lines = os.pread(self._fd, end - begin, begin).split(b"\n")[begin > 0 :]
        return decode_lines(line for line in reversed(lines) if having in line)

    @property
    def position(self) -> LogPosition:
        offset = self._next_offset
        checked = min(offset, CHECKED_BYTES)
        return position_after(os.pread(self._fd, checked, offset - checked), offset)

    def knows(self, position: LogPosition) -> bool:
        """Return whether the log before a position is the one that it was taken from."""
        if not 0 < position.checked <= min(position.offset, CHECKED_BYTES):
            return False
        before = os.pread(self._fd, position.checked, position.offset - position.checked)
        return position_after(before, position.offset) == position and before.endswith(b"\n")

    def go_to(self, offset: int | None) -> None:
        """Continue at the offset of a line; None is the line after the header."""
        self._offset = self._next_offset = self._body if offset is None else offset
        self._lines.clear()
        self._at_end = False

    def close(self) -> None:
        """Close the file; a later read raises OSError, even if its descriptor is used again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read_header(self, kind: type[_Header]) -> _Header:
        start = b""
        try:
            while b"\n" not in start and len(start) < (1 << 22):
                chunk = os.pread(self._fd, 1 << 16, len(start))
                if not chunk:
                    break
                start += chunk
        except OSError as error:
            raise LogError(f"{self.path} can't be read: {reason_of(error)}") from None
        if not start:
            raise LogError(f"{self.path} is empty: nothing was recorded in it")
        line, newline, _ = start.partition(b"\n")
        not_a_log = LogError(f"{self.path} {_NOT_A_LOG[kind]}")
        schema = _schema_of(line, kind.TYPE)
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
        if not isinstance(record, kind):
            raise not_a_log
        self._offset = self._next_offset = self._body = len(line) + 1
        return record

    def _read_lines(self, max_bytes: int) -> None:
        lines = self._whole_lines(max_bytes)
        self._next_offset = self._offset - sum(map(len, lines)) - len(lines)
        self._lines.extend(lines)

    def _whole_lines(self, max_bytes: int) -> list[bytes]:
        """Return lines up to about `max_bytes`; an unfinished one is left for the next call."""
        max_bytes = max(max_bytes, _CHUNK_BYTES)
        data = os.pread(self._fd, max_bytes, self._offset)
        self._at_end = len(data) < max_bytes
        whole, newline, _ = data.rpartition(b"\n")
        if not newline and not self._at_end:
            if max_bytes < LONGEST_LINE_BYTES:
                return self._whole_lines(LONGEST_LINE_BYTES)
            # We write no such line: skip this part; the rest of the line is no record either.
            self._offset += len(data)
        if not data and self.size < self._offset:
            # The log became shorter than the part that was read: continue at its end.
            self.was_cut, self._offset = True, self.size
        self._offset += len(whole) + len(newline)
        return whole.split(b"\n") if whole else []


class LogFollower(RecordFollower[SessionHeader]):
    """Reads the log of a session."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SessionHeader)


def _schema_of(line: bytes, kind: str) -> int | None:
    """Return the schema of a header line of any version; None if it is no header."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("type") != kind:
        return None
    schema = fields.get("schema")
    return schema if type(schema) is int else None


def writer_pid(path: Path) -> int | None:
    """Return the pid of the writer of the log at `path`; None if nobody writes it."""
    fd = open_regular(path)
    try:
        return lock_holder(fd)
    finally:
        os.close(fd)


# struct flock of <fcntl.h>: on Linux type, whence, start, len, pid; on a Mac start, len, pid, type,
# whence.
_FLOCK, _FLOCK_OF_MACOS = "hhqqi4x", "qqihh"


def lock_holder(fd: int) -> int | None:
    """Return the pid that holds the lock of an open log; F_GETLK does not take it."""
    if IS_MACOS:
        flock = struct.pack(_FLOCK_OF_MACOS, 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        _, _, pid, kind, _ = struct.unpack(_FLOCK_OF_MACOS, fcntl.fcntl(fd, fcntl.F_GETLK, flock))
        return None if kind == fcntl.F_UNLCK else int(pid)
    flock = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, flock))
    return None if kind == fcntl.F_UNLCK else int(pid)


MOVED_AWAY = "was moved away"


def is_known_by_inode(path: Path, fd: int) -> bool:
    """Return whether inodes identify the file; on some network file systems they never agree.

    Call it while the path is sure to name the open file.
    """
    try:
        return samestat(os.fstat(fd), path.stat())
    except OSError:
        return False


def damage_of(path: Path, fd: int, by_inode: bool) -> str | None:
    """Return in words what happened to an open log whose path has another file or none; else None.

    Args:
        path: its path.
        fd: its descriptor.
        by_inode: see `is_known_by_inode`.
    """
    try:
        open_status = os.fstat(fd)
        path_status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return MOVED_AWAY if open_status.st_nlink else "was removed"
    except OSError:
        # A file server that doesn't answer proves nothing.
        return None
    return "was replaced" if by_inode and not samestat(open_status, path_status) else None
