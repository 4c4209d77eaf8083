"""What became of a log under a process that has it open."""

from __future__ import annotations

import os
from os.path import samestat
from pathlib import Path

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
