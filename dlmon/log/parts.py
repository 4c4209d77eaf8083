"""The logs of a run on several hosts: one of the whole session, and one of each further part.

Part 0 makes the session and announces it in the log directory, which all hosts share; the other
parts write their own logs into its folder, and part 0 reads these.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from dlmon.log.directory import read_entry
from dlmon.log.folder import LogError, log_of, part_name, reason_of
from dlmon.records import Status
from dlmon.system.files import read_regular
from dlmon.system.private_files import (
    make_new_private_folder,
    make_private_folder,
    open_private,
    replace_private,
)

ANNOUNCED = ".steps"
_MOST_BYTES = 1 << 12
# An older announcement belongs to another step of the same name.
_OLDEST_S = 7 * 86_400.0
# A log without a line for so long has no writer: samples come every few seconds.
_SILENT_S = 300.0
# Part 0 of a joined run announces its session within this time.
_ANNOUNCED_S = 60.0


def announce(log_dir: Path, step: str, session: str) -> Path:
    """Tell the other parts of a step the session's id; return the file that holds it.

    Raises:
        OSError: it can't be written.
    """
    folder = log_dir / ANNOUNCED
    make_private_folder(folder)
    path = folder / step
    replace_private(path, session.encode())
    return path


def joined_step(name: str) -> str:
    """Return the step whose parts are started one by one, on each host, with `--join NAME`."""
    return f"join-{name}/session"


def join(log_dir: Path, name: str) -> int:
    """Return our number in the run that hosts join by this name: 0 for the first to come.

    Raises:
        LogError: the log directory can't be written.
    """
    steps = log_dir / ANNOUNCED
    folder = (steps / joined_step(name)).parent
    try:
        make_private_folder(steps)
        with _locked(steps / "join.lock") as now:
            if folder.is_dir() and _is_over(log_dir, folder, now):
                shutil.rmtree(folder)
            with contextlib.suppress(FileExistsError):
                make_new_private_folder(folder)
                return 0
            number = 1
            while True:
                with contextlib.suppress(FileExistsError):
                    os.close(open_private(folder / str(number), os.O_WRONLY))
                    return number
                number += 1
    except OSError as error:
        raise LogError(
            f"--join needs a log directory that it can write: {reason_of(error)}"
        ) from None


def leave(log_dir: Path, name: str) -> None:
    """End the joined run: who comes with its name from now on begins another."""
    shutil.rmtree((log_dir / ANNOUNCED / joined_step(name)).parent, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[float]:
    """Lock a file on the shared disk; yield the time by that disk's clock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Without locks, only two that find a run of a host that crashed may both begin one.
        with contextlib.suppress(OSError):
            fcntl.lockf(fd, fcntl.LOCK_EX)
        os.utime(path)
        yield os.fstat(fd).st_mtime
    finally:
        os.close(fd)


def _is_over(log_dir: Path, folder: Path, now: float) -> bool:
    """Return whether the session of a joined run has ended, or was never begun."""
    try:
        session = read_regular(folder / "session", _MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return now - folder.stat().st_mtime > _ANNOUNCED_S
    try:
        log = log_of(log_dir / session)
        status = read_entry(log).status
        is_silent = now - log.stat().st_mtime > _SILENT_S
    except (LogError, OSError, ValueError):
        return True
    return status is not Status.RUNNING and (status is not Status.UNKNOWN or is_silent)


def announced(log_dir: Path, step: str, number: int) -> Path | None:
    """Return the folder of the session that part 0 of a step announced; None if it has not yet.

    A folder that has this part's log already is of an earlier run in the same step.
    """
    path = log_dir / ANNOUNCED / step
    with contextlib.suppress(OSError, UnicodeDecodeError, ValueError):
        if time.time() - path.stat().st_mtime < _OLDEST_S:
            session = read_regular(path, _MOST_BYTES).decode()
            folder = log_dir / session
            is_session = folder.parent == log_dir and folder.is_dir()
            if is_session and not (folder / part_name(number)).exists():
                return folder
    return None
