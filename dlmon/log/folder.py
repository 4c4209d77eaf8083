"""The paths of logs: `DIR/<id>/session.jsonl` of a session, `DIR/<id>/sweep.jsonl` of a sweep.

A log is a JSON Lines file with one writer and any number of readers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from dlmon.records.sanitize import shown_path

LOG_NAME = "session.jsonl"
STOP_NAME = "stop"
"""The file in a session's folder that asks all its parts to stop."""
# Earlier versions continued in the next of these if a log was removed, replaced or cut short.
_NEXT_NAME = "session-{}.jsonl"
_NAME = r"session(?:-(\d{1,6}))?\.jsonl"
_TRACE = r"profile-\d{1,6}\.json\.gz"
MOST_TRACE_BYTES = 256 << 20
"""The size limit of a profile's trace."""


class LogError(Exception):
    """Raised if a log can't be read or written; the message is one sentence for a person."""


def log_directory(chosen: Path | None = None) -> Path:
    """Return the log directory: `chosen`, or a folder in the platform's state directory.

    Raises:
        LogError: `chosen` is relative to a working directory that was deleted.
    """
    if chosen is not None:
        try:
            # Unlike Path.resolve, this keeps links, and the ~ of an unknown user.
            return Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111
        except FileNotFoundError:
            raise LogError(
                f"the working directory is gone, so {chosen} leads nowhere; "
                "give --log-dir a full path"
            ) from None
    try:
        return Path(platformdirs.user_state_path("dlmon", appauthor=False)) / "sessions"
    except RuntimeError:
        raise LogError("there is no home directory to keep sessions in; use --log-dir") from None


def location_options(log_dir: str | os.PathLike[str] | None, host: str | None = None) -> str:
    """Return the options that select a host and its log directory, such as ` --host lab`.

    None stands for this machine and for the default log directory: both need no option.
    """
    host_option = "" if host is None else f" --host {shlex.quote(host)}"
    folder_option = "" if log_dir is None else f" --log-dir {shlex.quote(shown_path(log_dir))}"
    return host_option + folder_option


def is_log(path: Path) -> bool:
    """Return whether a file is named like the log of a session or a sweep."""
    return path.name == "sweep.jsonl" or _number_of(path) is not None


def is_trace(name: str) -> bool:
    """Return whether a file is named like the trace of a profile."""
    return re.fullmatch(_TRACE, name) is not None


def log_directory_of(path: Path) -> Path:
    """Return the log directory of the log at `path`."""
    return path.parent.parent


def unusual_directory_of(path: Path) -> Path | None:
    """Return the log directory of the log at `path`; None for the default one."""
    directory = log_directory_of(path)
    with contextlib.suppress(LogError):  # there is no default
        return None if directory == log_directory() else directory
    return directory


def id_of(path: Path) -> str:
    """Return the id of the session or sweep whose log is at `path`."""
    return path.parent.name


def log_of(folder: Path, kind: str = "session") -> Path:
    """Return the log in `folder`: the newest, if an earlier version wrote several.

    `kind` is the type of its header.
    """
    path, number = folder / f"{kind}.jsonl", 2
    # Unlike Path.is_file, this returns False for a folder that we may not enter.
    while kind == "session" and os.path.isfile(later := folder / _NEXT_NAME.format(number)):  # noqa: PTH113
        path, number = later, number + 1
    return path


def part_name(number: int) -> str:
    """Return the file name of the log of a further part of a session on several hosts."""
    return f"part-{number}.jsonl"


def parts_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the number and the log of every further part that has begun."""
    for path in folder.glob("part-*.jsonl"):
        number = path.stem.partition("-")[2]
        if number.isascii() and number.isdecimal():
            yield int(number), path


def _number_of(path: Path) -> int | None:
    name = re.fullmatch(_NAME, path.name)
    return int(name[1] or 1) if name else None


def new_session_id(workload: str, wall: float) -> str:
    """Return an id such as 20261120-145600-cifar10-cnn-7f3a (local time).

    An empty workload stands for a recording of the machine.
    """
    started = time.strftime("%Y%m%d-%H%M%S", time.localtime(wall))
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in workload or "machine")[:40]
    return f"{started}-{name}-{os.urandom(2).hex()}"


_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it has reached the file-size limit",
}


def reason_of(error: OSError) -> str:
    """Return the reason of an error in a few words."""
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
