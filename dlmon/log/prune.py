"""Remove the files of a session or sweep that has ended; files of others stay."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
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
    """Return whether a log or its folder is a link, whose target is not ours to remove."""
    return log.is_symlink() or log.parent.is_symlink()


def size_bytes(log: Path) -> int:
    """Return the bytes that removing a log frees; 0 if its folder can't be read."""
    try:
        with _folder_of(log) as (_, folder):
            return sum(size for _, size in _our_files(folder))
    except OSError:
        return 0


def remove(log: Path) -> None:
    """Remove a log, dlmon's files beside it, and its folder if that is empty then.

    Links are not followed.

    Raises:
        LogError: its session runs, it can't be removed, or the folder holds other files.
    """
    name = id_of(log)
    try:
        with _folder_of(log) as (directory, folder), contextlib.ExitStack() as stack:
            files = [file for file, _ in _our_files(folder)]
            for file in filter(_LOG.fullmatch, files):
                stack.callback(os.close, _locked(file, folder, name))
            # Remove the first log last: with it the folder is still a session that can be removed.
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
    """Open the log directory and the folder of a log in it, unless that is a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:
        directory = os.open(log_directory_of(log), flags)
        stack.callback(os.close, directory)
        folder = os.open(id_of(log), flags | os.O_NOFOLLOW, dir_fd=directory)
        stack.callback(os.close, folder)
        yield directory, folder


def _our_files(folder: int) -> list[tuple[str, int]]:
    """Return the names and sizes of dlmon's files in an open folder."""
    with os.scandir(folder) as entries:
        return [
            (entry.name, entry.stat(follow_symlinks=False).st_size)
            for entry in entries
            if _LOG.fullmatch(entry.name) or _BESIDE.fullmatch(entry.name)
            if entry.is_file(follow_symlinks=False)
        ]


def _locked(file: str, folder: int, name: str) -> int:
    """Open and lock a log, so that nobody writes it; return its descriptor.

    Raises:
        LogError: its writer still runs.
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
