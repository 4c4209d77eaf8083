"""Read files that anybody may have written: only regular ones, up to a size limit.

Opening a named pipe waits for a writer that may never come, and a device such as /dev/zero
has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

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


def open_to_read(path: Path, max_bytes: int) -> BinaryIO:
    """Open a regular file of at most `max_bytes` for reading.

    Raises:
        OSError: it can't be opened, is no regular file, or is larger.
    """
    file = os.fdopen(open_regular(path), "rb")
    if os.fstat(file.fileno()).st_size > max_bytes:
        file.close()
        raise _too_large(max_bytes)
    return file


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`.

    Raises:
        OSError: it can't be read, is no regular file, or is larger.
    """
    with open_to_read(path, max_bytes) as file:
        # It may grow meanwhile, and files of /proc report no size.
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _too_large(max_bytes)
    return content


def _refuse_special(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")


def _too_large(max_bytes: int) -> OSError:
    size = f"{max_bytes // MIB:,} MiB" if max_bytes >= MIB else f"{max_bytes:,} bytes"
    return OSError(errno.EFBIG, f"it is larger than {size}")
