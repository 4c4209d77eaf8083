"""Folders and files that only their owner may read or change, whatever the umask is."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


class NotPrivateError(OSError):
    """Raised for a folder that other users could have written to; `strerror` says why."""


def make_private_folder(path: Path) -> None:
    """Make a folder and its missing parents, for their owner alone; leave existing ones as is.

    Raises:
        OSError: it can't be made.
    """
    if path.is_dir():
        return
    if path.parent != path:
        make_private_folder(path.parent)
    # Another process may be faster.
    with contextlib.suppress(FileExistsError):
        make_new_private_folder(path)
        return
    if not path.is_dir():
        raise NotADirectoryError(None, "not a directory", str(path))


def make_new_private_folder(path: Path) -> None:
    """Make a new folder for its owner alone.

    Raises:
        OSError: it can't be made, or exists already.
    """
    path.mkdir(mode=FOLDER_MODE)
    _set_mode(path, FOLDER_MODE)


def own_private_folder(path: Path) -> None:
    """Make a folder for us alone; if it exists, check that it is ours and deny others access.

    Raises:
        NotPrivateError: it is a link, or belongs to another user.
        OSError: it can't be made.
    """
    make_private_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        make_new_private_folder(path)
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivateError(None, f"{path} is a link")
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(None, f"{path} is not a directory")
    if status.st_uid != os.geteuid():
        raise NotPrivateError(None, f"{path} belongs to another user")
    _set_mode(path, FOLDER_MODE)
    # A file system without modes ignores the one just set.
    if path.lstat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivateError(None, f"{path} can be changed by other users")


def open_private(path: Path, flags: int) -> int:
    """Make a new file for its owner alone; return its descriptor.

    Raises:
        OSError: it can't be made, or exists already.
    """
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    _set_mode(fd, FILE_MODE)
    return fd


def write_private(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, in a folder for its owner alone.

    Raises:
        OSError: it can't be written.
    """
    make_private_folder(path.parent)
    if path.parent.stat().st_uid == os.geteuid():
        _set_mode(path.parent, FOLDER_MODE)
    replace_private(path, content)


def replace_private(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, without changing its folder's mode.

    Raises:
        OSError: it can't be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(open_private(new, os.O_WRONLY), "wb") as file:
            file.write(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _set_mode(path: Path | int, mode: int) -> None:
    """Set a mode explicitly: the umask may have removed even the owner's permissions."""
    # Some file systems have no modes (a memory stick): everybody may read them.
    with contextlib.suppress(PermissionError):
        os.chmod(path, mode)  # noqa: PTH101 - it takes a descriptor too
