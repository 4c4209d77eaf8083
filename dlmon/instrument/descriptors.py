"""Hold descriptors in the process of a script, which may close any number and open it again.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket

# A file that a script opens gets the lowest number that is free.
_HIGH = 4096


def move_up(fd: int) -> int:
    """Give a descriptor a number that hardly any file of a script's gets, and return that."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, limit - 16))
    except (OSError, ValueError):
        return fd
    os.close(fd)
    return higher


def is_same(fd: int, status: os.stat_result) -> bool:
    """Return whether a descriptor is still of the file that had this status."""
    try:
        return os.path.samestat(os.fstat(fd), status)
    except OSError:
        return False


def connect(path: str, timeout_s: float) -> socket.socket:
    """Connect to the monitor.

    Raises:
        OSError: it does not listen.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return socket.socket(fileno=move_up(connection.detach()))
