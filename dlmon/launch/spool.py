"""Files without a name for a script's output, whose beginning is freed once it was read."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def make_spool() -> int:
    """Return the descriptor of a new file that nobody else can open; closing it removes the file.

    Raises:
        OSError: the file can't be made.
    """
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def free_beginning(fd: int, length: int) -> None:
    """Free the disk blocks of a file's first `length` bytes, if its file system can."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # If this fails, the file only takes more room.
    libc.fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_longlong(0), ctypes.c_longlong(length))
