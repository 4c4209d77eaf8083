"""Where logs are: `DIR/<id>/session.jsonl` of a session, `DIR/<id>/sweep.jsonl` of a sweep.

A log is a JSON Lines file that one process appends to and everybody follows.
"""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path

from dlmon.records import SessionHeader, SweepHeader

Header = SessionHeader | SweepHeader
"""How a log begins; which of them it is names its file too."""

LOG_NAME = f"{SessionHeader.TYPE}.jsonl"
# The log of a session that was removed, replaced or cut short goes on in the next of these.
_NEXT_NAME = "session-{}.jsonl"
_NAME = re.compile(r"session(?:-(\d{1,6}))?\.jsonl")


class LogError(Exception):
    """A log that can't be read or written; the message is one sentence for a person."""


def log_path(directory: Path, header: Header) -> Path:
    """Return where the log with this header is made."""
    return directory / header.id / f"{header.TYPE}.jsonl"


def log_directory_of(path: Path) -> Path:
    """Return the log directory that the log at `path` is in."""
    return path.parent.parent


def id_of(path: Path) -> str:
    """Return the id of the session or sweep whose log is at `path`."""
    return path.parent.name


def log_of(folder: Path, kind: str = SessionHeader.TYPE) -> Path:
    """Return the log in `folder`: the newest, where a session went on in another file."""
    path = folder / f"{kind}.jsonl"
    while (following := next_log(path)) is not None:
        path = following
    return path


def next_log(path: Path) -> Path | None:
    """Return the log that goes on where the one at `path` ends, if there is one."""
    number = _number_of(path)
    if number is None:
        return None
    following = path.with_name(_NEXT_NAME.format(number + 1))
    return following if os.path.isfile(following) else None  # noqa: PTH113 - it may be forbidden


def free_log(path: Path) -> Path:
    """Return where the log at `path` can go on: a name that nothing else has taken."""
    number = (_number_of(path) or 1) + 1
    while (following := path.with_name(_NEXT_NAME.format(number))).exists():
        number += 1
    return following


def _number_of(path: Path) -> int | None:
    name = _NAME.fullmatch(path.name)
    return int(name[1] or 1) if name else None


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


def reason_of(error: OSError) -> str:
    """Return why a file can't be read or written, in a few words."""
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
