"""How long the threads of this process waited for a processor."""

from __future__ import annotations

import contextlib
from pathlib import Path

_TASKS = "/proc/self/task"


def run_delay_ns() -> int:
    """Return how long threads that live now were ready to run, and others ran; 0 where unknown.

    From the second field of Linux's schedstat (Documentation/scheduler/sched-stats.rst).
    """
    try:
        tasks = list(Path(_TASKS).iterdir())
    except OSError:
        return 0
    waited_ns = 0
    for task in tasks:
        # A thread may end between the two calls, and a kernel may keep no such file.
        with contextlib.suppress(OSError, ValueError, IndexError):
            waited_ns += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return waited_ns
