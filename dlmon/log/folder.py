"""Where logs are: `DIR/<id>/session.jsonl` of a session, `DIR/<id>/sweep.jsonl` of a sweep.

A log is a JSON Lines file that one process appends to and everybody follows.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import time
from pathlib import Path

import platformdirs

from dlmon.records.sanitize import shown_path

LOG_NAME = "session.jsonl"
# Earlier versions went on in the next of these once a log was removed, replaced or cut short.
_NEXT_NAME = "session-{}.jsonl"
_NAME = r"session(?:-(\d{1,6}))?\.jsonl"
_TRACE = r"profile-\d{1,6}\.json\.gz"
MOST_TRACE_BYTES = 256 << 20
"""No trace of a profile is larger."""


class LogError(Exception):
    """A log that can't be read or written; the message is one sentence for a person."""


def log_directory(chosen: Path | None = None) -> Path:
    """Return where sessions live: `chosen`, or the platform's state directory.

    Raises:
        LogError: `chosen` is relative to a working directory that was deleted.
    """
    if chosen is not None:
        try:
            # Links stay as given, and so does a ~ that names nobody.
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


def place_options(log_dir: str | os.PathLike[str] | None, host: str | None = None) -> str:
    """Return with what a command looks where sessions are kept, such as ` --host lab`.

    It is empty for the usual place on this machine.

    Args:
        log_dir: where they are kept; None for the usual place.
        host: on which machine; None for this one.
    """
    machine = "" if host is None else f" --host {shlex.quote(host)}"
    folder = "" if log_dir is None else f" --log-dir {shlex.quote(shown_path(log_dir))}"
    return machine + folder


def is_log(path: Path) -> bool:
    """Return whether a file is called as the log of a session or a sweep is."""
    return path.name == "sweep.jsonl" or _number_of(path) is not None


def is_trace(name: str) -> bool:
    """Return whether a file is called as the trace of a profile is."""
    return re.fullmatch(_TRACE, name) is not None


def log_directory_of(path: Path) -> Path:
    """Return the log directory that the log at `path` is in."""
    return path.parent.parent


def id_of(path: Path) -> str:
    """Return the id of the session or sweep whose log is at `path`."""
    return path.parent.name


def log_of(folder: Path, kind: str = "session") -> Path:
    """Return the log in `folder`: the newest, where a session went on in another file.

    `kind` is the type of its header.
    """
    path = folder / f"{kind}.jsonl"
    # It may be forbidden to look, for which Path.is_file raises.
    while kind == "session" and os.path.isfile(following := _next_log(path)):  # noqa: PTH113
        path = following
    return path


def _next_log(path: Path) -> Path:
    return path.with_name(_NEXT_NAME.format((_number_of(path) or 1) + 1))


def _number_of(path: Path) -> int | None:
    name = re.fullmatch(_NAME, path.name)
    return int(name[1] or 1) if name else None


def new_session_id(workload: str, wall: float) -> str:
    """Return an id such as 20261120-145600-cifar10-cnn-7f3a (local time).

    Without a workload, it is of a machine.
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
    """Return why a file can't be read or written, in a few words."""
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
