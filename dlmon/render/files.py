"""Write the files of a report: whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from dlmon.log.folder import reason_of
from dlmon.records.sanitize import SHOWN_PATH_LENGTH, clean


class ReportError(Exception):
    """A report can't be made or written; the message is one sentence for a person."""


_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}


def refuse_unwritable(path: Path, logs: Iterable[Path] = ()) -> None:
    """Refuse a path to which no report of `logs` can be written, before the report is made.

    Raises:
        ReportError: it exists and is no regular file, or no file can be made beside it.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise _unwritable(path, error) from None
    if status is not None and not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
        raise ReportError(f"{_shown(path)} is {kind}: a report isn't written over it")
    if status is not None and any(os.path.samestat(status, log.stat()) for log in logs):
        raise ReportError(f"{_shown(path)} is the log itself: a report isn't written over it")
    folder = path.parent
    if not folder.is_dir():
        raise ReportError(f"there is no folder {_shown(folder)} to write a report in")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ReportError(f"{_shown(path)} can't be written: permission denied")


def write_file(path: Path, parts: Iterable[str | bytes]) -> None:
    """Write a file under a temporary name and move it, so that it is whole or as before.

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
    """Make a folder for pictures, unless it exists.

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
