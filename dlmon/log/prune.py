"""Remove the files of a recorded session or sweep; one that runs stays, and so do other files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from dlmon.log.folder import LogError, id_of, log_directory_of, reason_of

_LOG = re.compile(r"(?:session(?:-\d{1,6})?|sweep)\.jsonl")
_BESIDE = re.compile(
    r"\.(?:session(?:-\d{1,6})?|sweep)\.jsonl"
    r"|session(?:-\d{1,6})?\.index(?:\.jsonl)?|\.session\.index\.\d{1,10}\.[0-9a-f]{8}"
    r"|part-\d{1,6}\.jsonl|stop"
    r"|profile-\d{1,6}\.(?:json|part)\.gz"
    r"|label\.json|\.label\.json\.\d{1,10}\.[0-9a-f]{8}"
)


def is_link(log: Path) -> bool:
    """Return whether a log or its folder is a link: what it leads to is not ours to remove."""
    return log.is_symlink() or log.parent.is_symlink()


def size_bytes(log: Path) -> int:
    """Return how many bytes go with a log; 0 where nobody knows."""
    try:
        with _folder_of(log) as (_, folder):
            return sum(size for _, size in _made_by_us(folder))
    except OSError:
        return 0


def remove(log: Path) -> None:
    """Remove a log with what dlmon made beside it, and then its folder, if nothing else is there.

    Links are not followed, and what else lies there stays.

    Raises:
        LogError: it runs, it can't be removed, or not the whole folder; says which.
    """
    name = id_of(log)
    try:
        with _folder_of(log) as (directory, folder), contextlib.ExitStack() as stack:
            files = [file for file, _ in _made_by_us(folder)]
            for file in filter(_LOG.fullmatch, files):
                stack.callback(os.close, _locked(file, folder, name))
            # The first log is what makes the folder a recording: it goes last.
            for file in sorted(
                files, key=lambda file: (_LOG.fullmatch(file) is not None, -len(file))
            ):
                os.unlink(file, dir_fd=folder)
            if os.listdir(folder):  # noqa: PTH208 - of an open folder
                raise LogError(f"the folder of {name} stays: it holds files that dlmon didn't make")
            os.rmdir(name, dir_fd=directory)
    except OSError as error:
        raise LogError(f"{name} can't be removed: {reason_of(error)}") from None


@contextlib.contextmanager
def _folder_of(log: Path) -> Iterator[tuple[int, int]]:
    """Open the log directory, and in it the folder of a log, unless that is a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:
        directory = os.open(log_directory_of(log), flags)
        stack.callback(os.close, directory)
        folder = os.open(id_of(log), flags | os.O_NOFOLLOW, dir_fd=directory)
        stack.callback(os.close, folder)
        yield directory, folder


def _made_by_us(folder: int) -> list[tuple[str, int]]:
    """Return the names and sizes of the files that dlmon made in an open folder."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _LOG.fullmatch(entry.name) or _BESIDE.fullmatch(entry.name):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((entry.name, status.st_size))
    return found


def _locked(file: str, folder: int, name: str) -> int:
    """Return the descriptor of a log that nobody writes, and nobody can take up while it is open.

    Raises:
        LogError: somebody writes it.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(file, flags, dir_fd=folder)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(fd)
        raise LogError(f"{name} is running: it is not removed") from None
    except BaseException:
        os.close(fd)
        raise
    return fd
