"""The log of a session: one JSON Lines file that the supervisor appends to and everybody follows.

The writer holds a POSIX lock from before the file is visible until it ends.
Closing any second descriptor of the file would drop that lock, so the writer
opens it once and never reads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import sys
import time
from collections import deque
from pathlib import Path

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
# Lines that may wait in memory for a full disk: epochs, phases, notices, the result.
WAITING_LINES = 20_000
RETRY_S = 1.0
LONGEST_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


class LogError(Exception):
    """A log that can't be read or written; the message is one sentence for a person."""


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
        hidden = folder / f".{LOG_NAME}"
        self.path = folder / LOG_NAME
        try:
            log_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            self._fd = os.open(
                hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise LogError(
                f"the log directory {log_dir} can't be written ({_reason(error)}); "
                "choose another with --log-dir"
            ) from None
        self._size = 0
        self._waiting: deque[bytes] = deque()
        self._retry_at = 0.0
        self.lost_lines = 0
        """Lines of batches, samples and output that a full disk cost."""
        self.failing: str | None = None
        """Why the disk takes nothing at present."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._append(encode(header)):
                raise OSError(self.failing)
            hidden.rename(self.path)
        except OSError as error:
            os.close(self._fd)
            hidden.unlink(missing_ok=True)
            folder.rmdir()
            raise LogError(
                f"the log can't be written in {log_dir} ({_reason(error)}); "
                "choose another with --log-dir"
            ) from None

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
        self.failing = None
        self._sync()
        return True

    def close(self) -> None:
        """Close the file and drop the lock."""
        os.close(self._fd)

    def _append(self, line: bytes) -> bool:
        try:
            written = os.write(self._fd, line)
            reason = "the disk is full"
        except OSError as error:
            written, reason = 0, _reason(error)
        if written == len(line):
            self._size += written
            return True
        if written:
            self._cut_back(written)
        self.failing = reason
        self._retry_at = time.monotonic() + RETRY_S
        return False

    def _cut_back(self, written: int) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            # A torn line stays; what follows must at least start on a line of its own.
            self._size += written
            self._waiting.appendleft(b"\n")

    def _sync(self) -> None:
        # What can't be synced is still there for every reader; only a power cut could cost it.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)


class LogFollower:
    """Reads a log from an offset, whole lines only, as often as asked.

    `header` is the first record. `skipped` counts lines that no record could
    be made of (a torn line after a power loss, say).

    Raises:
        LogError: not a log, empty, or of a schema that this version can't read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self._offset = 0
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LogError(f"{path} can't be read: {_reason(error)}") from None
        try:
            self.header = self._read_header()
        except BaseException:
            os.close(self._fd)
            raise

    def poll(self, most_bytes: int = 8 << 20) -> list[Record]:
        """Return the records that were appended since the last call."""
        records: list[Record] = []
        for line in self._whole_lines(most_bytes):
            try:
                record = decode(line)
            except RecordError:
                self.skipped += 1
                continue
            if record is not None:
                records.append(record)
        return records

    def writer_pid(self) -> int | None:
        """Return the pid that holds the log's lock, None when nobody does."""
        return _lock_holder(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

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
        data = b""
        while len(data) < most_bytes:
            chunk = os.pread(self._fd, _CHUNK_BYTES, self._offset + len(data))
            data += chunk
            if len(chunk) < _CHUNK_BYTES:
                break
        while data and b"\n" not in data:
            chunk = os.pread(self._fd, _CHUNK_BYTES, self._offset + len(data))
            if not chunk:
                return []
            data += chunk
            if len(data) > LONGEST_LINE_BYTES:
                # Nothing that we wrote: leave it out, and what is left of it is no record.
                self._offset += len(data)
                return []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [line for line in whole.split(b"\n") if line]


def writer_pid(path: Path) -> int | None:
    """Return the pid that writes the log at `path`, None when nobody does."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
