"""A lock that lets a person run one experiment at a time on a machine, wherever it is recorded."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import platformdirs

from dlmon.log.log_follower import lock_holder
from dlmon.system.private_files import FILE_MODE, make_private_folder
from dlmon.system.this_host import host_name

_LONGEST_ID = 200


class MachineInUse(Exception):
    """Raised while another process runs an experiment: its id, and the pid if that is known."""

    def __init__(self, id: str, pid: int | None) -> None:
        super().__init__(id)
        self.id, self.pid = id, pid


def lock_machine(id: str) -> int | None:
    """Take the lock for an experiment; return its descriptor, None if no file can hold it.

    The kernel releases it as this process ends. The file has the name of this host, as others may
    share the home directory.

    Raises:
        MachineInUse: another process holds it.
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
        raise MachineInUse(running, pid) from None
    except OSError:
        # A file system without locks, or a full disk.
        os.close(fd)
        return None
    return fd
