"""Keep descriptors in a script's process, which may close any descriptor and reuse its number.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket

# Far above a script's files, which get the lowest free numbers.
_HIGH = 4096


def move_up(fd: int) -> int:
    """Move a descriptor to a number that a script's files hardly reach, and return it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, limit - 16))
    except (OSError, ValueError):
        return fd
    os.close(fd)
    return higher


def is_same(fd: int, status: os.stat_result) -> bool:
    """Return whether a descriptor still belongs to the file that had this status."""
    try:
        return os.path.samestat(os.fstat(fd), status)
    except OSError:
        return False


def connect(path: str, timeout_s: float) -> socket.socket:
    """Connect to the monitor.

    Raises:
        OSError: the monitor does not listen.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return socket.socket(fileno=move_up(connection.detach()))
