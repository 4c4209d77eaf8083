"""Find the process that writes a log, by its lock, and what became of a log that is open."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from os.path import samestat
from pathlib import Path

from dlmon.files import open_regular


def writer_pid(path: Path) -> int | None:
    """Return the pid that writes the log at `path`, None when nobody does."""
    fd = open_regular(path)
    try:
        return lock_holder(fd)
    finally:
        os.close(fd)


# struct flock of <fcntl.h>: type, whence, start, len, pid on Linux.
_FLOCK = "hhqqi4x"


def lock_holder(fd: int) -> int | None:
    """Return the pid that holds the lock of an open log; F_GETLK asks, and takes nothing."""
    if sys.platform != "linux":
        return None
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


MOVED_AWAY = "was moved away"


def is_known_by_inode(path: Path, fd: int) -> bool:
    """Return whether the name and the open file agree: on some network file systems they never do.

    Ask while the one is sure to be the other.
    """
    try:
        return samestat(os.fstat(fd), path.stat())
    except OSError:
        return False


def loss_of(path: Path, fd: int, by_inode: bool) -> str | None:
    """Return what happened to an open log that is no longer under its name; else None."""
    try:
        ours = os.fstat(fd)
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return MOVED_AWAY if ours.st_nlink else "was removed"
    except OSError:
        # A server that doesn't answer says nothing of the file.
        return None
    return "was replaced" if by_inode and not samestat(ours, there) else None
