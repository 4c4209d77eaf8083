"""Find the process that writes a log, by its lock."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
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
