"""Folders and files that nobody but their owner may read or change, whatever the umask is."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


class NotPrivateError(OSError):
    """A folder that others may have put something into; `strerror` says why."""


def make_private_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, for their owner alone; leave what is there.

    Raises:
        OSError: it can't be made.
    """
    if path.is_dir():
        return
    if path.parent != path:
        make_private_folder(path.parent)
    # Somebody else may be faster.
    with contextlib.suppress(FileExistsError):
        make_new_private_folder(path)
        return
    if not path.is_dir():
        raise NotADirectoryError(None, "not a directory", str(path))


def make_new_private_folder(path: Path) -> None:
    """Make a folder that is not there yet, for its owner alone.

    Raises:
        OSError: it can't be made, or is there already.
    """
    path.mkdir(mode=FOLDER_MODE)
    _set_mode(path, FOLDER_MODE)


def own_private_folder(path: Path) -> None:
    """Make a folder of ours for us alone; where it is there, see that it is ours, and close it.

    Raises:
        NotPrivateError: it is a link, or belongs to another user.
        OSError: it can't be made.
    """
    make_private_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        make_new_private_folder(path)
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise NotPrivateError(None, f"{path} is a link")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(None, f"{path} is not a directory")
    if found.st_uid != os.geteuid():
        raise NotPrivateError(None, f"{path} belongs to another user")
    _set_mode(path, FOLDER_MODE)
    if others_may_write(path.lstat()):
        raise NotPrivateError(None, f"{path} can be changed by other users")


def others_may_write(found: os.stat_result) -> bool:
    """Return whether anybody but its owner may change a file or folder."""
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def open_private(path: Path, flags: int) -> int:
    """Make a file that is not there yet, for its owner alone, and return its descriptor.

    Raises:
        OSError: it can't be made, or is there already.
    """
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    _set_mode(fd, FILE_MODE)
    return fd


def write_private(path: Path, content: bytes) -> None:
    """Write a file of ours whole or not at all, in a folder that is ours alone.

    Raises:
        OSError: it can't be written.
    """
    make_private_folder(path.parent)
    if path.parent.stat().st_uid == os.geteuid():
        _set_mode(path.parent, FOLDER_MODE)
    replace_private(path, content)


def replace_private(path: Path, content: bytes) -> None:
    """Write a file of ours whole or not at all, in a folder that stays as it is.

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
    """Set the mode of what is ours: the umask may have taken from it, even its owner's rights."""
    # Some file systems have no modes (a memory stick): what is on them is everybody's.
    with contextlib.suppress(PermissionError):
        os.chmod(path, mode)  # noqa: PTH101 - it takes a descriptor too
