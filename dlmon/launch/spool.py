"""Files without a name that pass on what a script writes, and give back the disk behind."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def make_spool() -> int:
    """Return the descriptor of a new file that nobody else can open, and that ends with it.

    Raises:
        OSError: there is no room for one.
    """
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def free_beginning(fd: int, length: int) -> None:
    """Give the disk back what a file holds before `length`, where its file system can."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # One that can't leaves the file as it is: that costs room, and nothing else.
    libc.fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_longlong(0), ctypes.c_longlong(length))
