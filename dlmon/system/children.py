"""Start our own processes so that none outlives its parent.

Linux only: on other systems the calls that need prctl do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The variable does what `-P` does from Python 3.11 on, also for the Pythons that a child starts:
# it keeps the working directory off the path. Older Pythons ignore it.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}

PACKAGES_VARIABLE = "DLMON_PACKAGES"
"""The folders that hold dlmon and its dependencies on a host without an installed dlmon."""

# Python before 3.11 has no -P, so this removes the working directory, which comes first on the
# path, before it imports anything but `sys` and `os`.
_START = (
    "import os, sys; "
    "sys.path[:1] = sys.argv.pop(1).split(os.pathsep) + [own for own in sys.path[:1] if own]; "
    "import runpy; "
    "runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
)
_MARK = "\x1edlmon "
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def python_command(module: str) -> list[str]:
    """Return the command that runs one of our modules.

    `-P` keeps the working directory off the path, so that a person's own
    `workloads/` folder is never imported.
    """
    folders = os.environ.get(PACKAGES_VARIABLE)
    if folders:
        return command_of_folders(sys.executable, module, folders)
    return [sys.executable, "-P", "-m", module]


def command_of_folders(python: str, module: str, folders: str) -> list[str]:
    """Return the command that runs a module from folders that are separated as in PATH.

    Set `SAFE_PATH` in its environment: Python 3.13 imports modules before it runs this code.
    """
    return [python, "-c", _START.format(module=module), folders]


def print_answer(answer: Any) -> None:
    """Print the single answer of a process of ours, which `answer_in` reads."""
    print(_MARK + json.dumps(answer))


def answer_in(output: bytes) -> Any:
    """Return the answer in a process's output, which may hold start-up messages of Python too.

    Raises:
        ValueError: the output holds no answer.
    """
    return json.loads(output.partition(_MARK.encode())[2].partition(b"\n")[0])


def die_with_parent(parent_pid: int) -> Callable[[], None]:
    """Return a `preexec_fn` that kills the child when its parent ends.

    The kernel sends SIGKILL when the forking *thread* ends, so fork from the
    main thread only. The child checks its parent afterwards, which may have died
    between fork and prctl.
    """

    def tie() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)

    return tie


def become_subreaper() -> None:
    """Make orphaned descendants our children, so that we can find and end them."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_group(leader_pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that a child of ours leads, if it still exists."""
    # A process that runs as another user (sudo) is not ours to end.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, number)


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal; False if that can't be read."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line[:7] == "SigCgt:"), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def end_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process of ours, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
