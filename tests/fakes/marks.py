"""Find what tests have started, by a mark in its environment, and end it.

As a program, it waits for the end of its stdin, which whoever runs the tests holds open, then ends
all that has the mark and removes their folder of temporary files: what is killed removes none, and
tests may be killed too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARKER = "DLMON_E2E_TEST"
MOST_S = 10.0


def marked_processes(mark):
    """Return the processes, but for zombies, whose mark is this one or begins with it."""
    own = f"{MARKER}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            # A zombie has no environment.
            if name.isdigit() and _has(Path(f"/proc/{name}/environ").read_bytes(), own):
                found.append(int(name))
    return found


def _has(environment, mark):
    return any(each.startswith(mark) for each in environment.split(b"\0"))


def end_marked(mark):
    """End all of them, and what they start meanwhile."""
    deadline = time.monotonic() + MOST_S
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


@contextlib.contextmanager
def ended_with_us(mark, folder):
    """End all that has a mark at the end of this context, and of this process, however it ends.

    The folder is removed then.
    """
    command = [sys.executable, "-I", "-S", __file__, mark, folder]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.stdin.close()
        guard.wait()


if __name__ == "__main__":
    sys.stdin.read()
    end_marked(sys.argv[1])
    shutil.rmtree(sys.argv[2], ignore_errors=True)
