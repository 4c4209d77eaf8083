"""A lock that lets a person run one experiment at a time on a machine, wherever it is recorded."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import platformdirs

from dlmon.log.log_follower import lock_holder
from dlmon.sweep.plan import SweepError
from dlmon.system.private_files import FILE_MODE, make_private_folder
from dlmon.system.this_host import host_name

_LONGEST_ID = 200


def running_sentence(id: str, pid: int | None) -> str:
    """Say that an experiment is running, and why no other may begin."""
    process = "" if pid is None else f" (process {pid})"
    return (
        f"{id} is running already{process}: two sweeps at once would spoil each other's "
        "figures, so wait for it or stop it"
    )


def lock_machine(id: str) -> int | None:
    """Take the lock for an experiment; return its descriptor, None if no file can hold it.

    The kernel releases it as this process ends. The file has the name of this host, as others may
    share the home directory.

    Raises:
        SweepError: another process holds it.
    """
    try:
        folder = Path(platformdirs.user_state_path("dlmon", appauthor=False))
        make_private_folder(folder)
        path = folder / f"experiment-{host_name()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    except (OSError, RuntimeError):
        return None
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, id.encode()[:_LONGEST_ID], 0)
    except (BlockingIOError, PermissionError):
        running, pid = os.pread(fd, _LONGEST_ID, 0).decode(errors="replace"), lock_holder(fd)
        os.close(fd)
        raise SweepError(running_sentence(running, pid)) from None
    except OSError:
        # A file system without locks, or a full disk.
        os.close(fd)
        return None
    return fd


def unlock(fd: int | None) -> None:
    """Release the lock."""
    if fd is not None:
        os.close(fd)


def refuse_another_experiment() -> None:
    """Check that no other process runs an experiment of ours on this machine.

    Raises:
        SweepError: one does.
    """
    unlock(lock_machine("an experiment"))
