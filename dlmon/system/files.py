"""Read files that anybody may have written: only regular ones, up to a size limit.

Opening a named pipe waits for a writer that may never come, and a device such as /dev/zero
has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MIB = 1 << 20

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open an existing regular file without waiting; return its descriptor.

    Raises:
        OSError: it can't be opened, or is no regular file; `strerror` says what it is.
    """
    # Opening a device or a socket can fail or act on it, so check before, and again afterwards.
    _refuse_special(path.stat())
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _refuse_special(os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`.

    Raises:
        OSError: it can't be read, is no regular file, or is larger.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        is_larger = os.fstat(file.fileno()).st_size > max_bytes
        # Files of /proc report no size, and others may grow meanwhile.
        content = b"" if is_larger else file.read(max_bytes + 1)
    if is_larger or len(content) > max_bytes:
        size = f"{max_bytes // MIB:,} MiB" if max_bytes >= MIB else f"{max_bytes:,} bytes"
        raise OSError(errno.EFBIG, f"it is larger than {size}")
    return content


def _refuse_special(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
