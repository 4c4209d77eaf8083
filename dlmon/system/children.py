"""Start our own processes so that none outlives the one that wants it.

Linux only, like everything that starts a workload; elsewhere the calls that
need prctl do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

# What `-P` is for Python, from 3.11 on, and for the Python that it starts in turn: the working
# directory stays off the path. Older ones don't know the option, and pass over the variable.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}

PACKAGES_VARIABLE = "DLMON_PACKAGES"
"""Names the folders that dlmon and what it needs lie in, where it isn't installed: on a box."""

# Python before 3.11 has no -P, so the working directory, which stands first, makes way here,
# before anything but `sys` and `os` is imported.
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


def python_command(module: str, python: str = sys.executable) -> list[str]:
    """Return the command that runs one of our modules.

    `-P` keeps the working directory off the path, so that somebody's own
    `workloads/` folder is never picked up.
    """
    folders = os.environ.get(PACKAGES_VARIABLE)
    if folders:
        return command_of_folders(python, module, folders)
    return [python, "-P", "-m", module]


def command_of_folders(python: str, module: str, folders: str) -> list[str]:
    """Return the command that runs a module of packages that lie in folders, not installed.

    Its environment needs `SAFE_PATH`: Python 3.13 imports modules before it runs any of this.

    Args:
        python: the interpreter.
        module: the module.
        folders: what holds the packages, as in PATH.
    """
    return [python, "-c", _START.format(module=module), folders]


def print_answer(answer: Any) -> None:
    """Print the one answer of a process of ours, for `answer_in`."""
    print(_MARK + json.dumps(answer))


def answer_in(output: bytes) -> Any:
    """Return the answer in the output of a process, beside what Python prints as it starts.

    Raises:
        ValueError: there is none.
    """
    return json.loads(output.partition(_MARK.encode())[2].partition(b"\n")[0])


def die_with_parent(parent_pid: int) -> Callable[[], None]:
    """Return a `preexec_fn` that ties the child to its parent.

    The kernel sends SIGKILL when the forking *thread* ends, so fork from the
    main thread only. The parent is checked again afterwards: it may have died
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
    """Send a signal to the process group that a child of ours leads, if it is still there."""
    # A process that took another user's rights (sudo) is not ours to end.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, number)


def end_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to one child of ours, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
