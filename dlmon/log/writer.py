"""Make a log, and write the log of a session.

The writer holds a POSIX lock from before the file is visible until it ends.
Closing a second descriptor of the file would release that lock, so the writer
opens it once and never reads it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections import deque
from pathlib import Path

from dlmon.log.folder import reason_of, unwritable
from dlmon.log.index import LogPosition, position_after
from dlmon.log.log_follower import Header, damage_of, is_known_by_inode
from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    Machine,
    Output,
    Record,
    Result,
    SessionHeader,
    decode,
    encode,
)
from dlmon.system.private_files import make_new_private_folder, make_private_folder, open_private

# The most lines that wait in memory while the disk is full: epochs, phases, notices, the result.
WAITING_LINES = 20_000
RETRY_S = 1.0


class LogWriter:
    """The only writer of a log.

    `write` never raises for a disk that is full or gone: it cuts the file back to the
    last whole line, keeps what must not be lost (everything but batches,
    samples of the machine and output) in memory, and tries again every second.

    Args:
        log_dir: the log directory.
        header: the first record.
        name: the file's name in the session's existing folder; None makes the folder too.

    Raises:
        LogError: the folder or file can't be made.
    """

    def __init__(self, log_dir: Path, header: SessionHeader, name: str | None = None) -> None:
        self._waiting: deque[bytes] = deque()
        self._retry_at = 0.0
        self.lost_lines = 0
        """Lines of batches, samples and output that the log could not take."""
        self.failing: str | None = None
        """The reason why the log can't be written at present."""
        self._last_line = b""
        self.is_full = False
        """True if the disk or a quota is full, which a person can mend."""
        self.path, self._fd, self._size = make_log(log_dir, header, name)
        self._is_known_by_inode = is_known_by_inode(self.path, self._fd)

    def find_damage(self) -> str | None:
        """Return in words that the log was cut, moved, removed or replaced; else None."""
        with contextlib.suppress(OSError):
            if os.fstat(self._fd).st_size < self._size:
                return "was cut short"
        return damage_of(self.path, self._fd, self._is_known_by_inode)

    def write(self, record: Record) -> None:
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

    @property
    def position(self) -> LogPosition:
        return position_after(self._last_line, self._size)

    def retry(self, at_once: bool = False) -> bool:
        """Try to write the waiting lines, at most once a second; return whether none waits."""
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

    def unwritten(self) -> list[Record]:
        """Return the records that wait in memory."""
        records = map(decode, filter(bytes.strip, self._waiting))
        return [record for record in records if record is not None]

    def close(self) -> None:
        os.close(self._fd)

    def _append(self, line: bytes) -> bool:
        count = 0
        try:
            # A write may take only a part; the next one raises the reason.
            while count < len(line):
                count += os.write(self._fd, line[count:])
        except OSError as error:
            if count:
                self._cut_back(count)
            self.is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self.failing = reason_of(error)
            self._retry_at = time.monotonic() + RETRY_S
            return False
        self._size += count
        self._last_line = line
        return True

    def _cut_back(self, count: int) -> None:
        try:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - count)
        except OSError:
            # The torn line stays; the next record must start on a new line.
            self._size += count
            self._waiting.appendleft(b"\n")

    def _sync(self) -> None:
        # Readers see unsynced lines too; only a power cut could lose them.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)


def make_log(log_dir: Path, header: Header, name: str | None = None) -> tuple[Path, int, int]:
    """Make the folder of a log, unless `name` is given, and the log with its header.

    Return its path, its descriptor, which holds the lock, and its size.

    Raises:
        LogError: it can't be made.
    """
    path, line = log_dir / header.id / (name or f"{header.TYPE}.jsonl"), encode(header)
    try:
        if name is not None:
            return path, _create(path, line), len(line)
        make_private_folder(log_dir)
        make_new_private_folder(path.parent)
        try:
            return path, _create(path, line), len(line)
        except OSError:
            path.parent.rmdir()
            raise
    except OSError as error:
        raise unwritable(log_dir, error) from None


def _create(path: Path, line: bytes) -> int:
    """Make a file with its first line, locked before it becomes visible; return its descriptor."""
    hidden = path.with_name(f".{path.name}")
    fd = open_private(hidden, os.O_WRONLY | os.O_APPEND)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        while line:
            line = line[os.write(fd, line) :]
        hidden.rename(path)
    except OSError:
        os.close(fd)
        hidden.unlink(missing_ok=True)
        raise
    return fd
