"""The log of a session: a JSON Lines file that the supervisor appends to and everybody follows."""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path

LOG_NAME = "session.jsonl"
# A log that was removed, replaced or cut short goes on in the next of these.
_NEXT_NAME = "session-{}.jsonl"
_NAME = re.compile(r"session(?:-(\d{1,6}))?\.jsonl")


class LogError(Exception):
    """A log that can't be read or written; the message is one sentence for a person."""


def next_log(path: Path) -> Path | None:
    """Return the log that goes on where the one at `path` ends, if there is one."""
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    following = path.with_name(_NEXT_NAME.format(int(name[1] or 1) + 1))
    return following if os.path.isfile(following) else None  # noqa: PTH113 - it may be forbidden


def log_of(folder: Path) -> Path:
    """Return the log of the session in `folder`: the newest, where it went on in another file."""
    path = folder / LOG_NAME
    while (following := next_log(path)) is not None:
        path = following
    return path


def new_session_id(workload: str, wall: float) -> str:
    """Return an id such as 20261120-145600-cifar10-cnn-7f3a (local time)."""
    started = time.strftime("%Y%m%d-%H%M%S", time.localtime(wall))
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in workload)[:40]
    return f"{started}-{name}-{os.urandom(2).hex()}"


_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it has reached the file-size limit",
}


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
