"""Write a report where somebody asked for it: whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from dlmon.log.folder import reason_of
from dlmon.records.sanitize import SHOWN_PATH_LENGTH, clean


class ReportError(Exception):
    """A report that can't be made or written; the message is one sentence for a person."""


_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}


def refuse_unwritable(path: Path, read: Iterable[Path] = ()) -> None:
    """Refuse a path at which no report of what is `read` can be written, before one is made.

    Raises:
        ReportError: it is there and no file, or no file can be made beside it.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise _unwritable(path, error) from None
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise ReportError(f"{_shown(path)} is {kind}: a report isn't written over it")
    if found is not None and any(os.path.samestat(found, log.stat()) for log in read):
        raise ReportError(f"{_shown(path)} is the log itself: a report isn't written over it")
    folder = path.parent
    if not folder.is_dir():
        raise ReportError(f"there is no folder {_shown(folder)} to write a report in")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ReportError(f"{_shown(path)} can't be written: permission denied")


def write_file(path: Path, parts: Iterable[str | bytes]) -> None:
    """Write a file beside its place and move it there, so that it is whole or as it was.

    Raises:
        ReportError: it can't be written.
    """
    refuse_unwritable(path)
    new = path.with_name(f".dlmon-report.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(fd, "wb") as file:
                for part in parts:
                    file.write(part if isinstance(part, bytes) else part.encode())
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path, error) from None


def make_folder(path: Path) -> None:
    """Make a folder for pictures, where it isn't there.

    Raises:
        ReportError: it can't be made, or is a link.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{_shown(path)} can't be made: {reason_of(error)}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise ReportError(f"{_shown(path)} can't be written: permission denied")


def _unwritable(path: Path, error: OSError) -> ReportError:
    return ReportError(f"{_shown(path)} can't be written: {reason_of(error)}")


def _shown(path: Path) -> str:
    return clean(str(path), SHOWN_PATH_LENGTH)
