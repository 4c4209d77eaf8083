"""Whether the kernel has just killed something for want of memory where a process runs.

What was killed has nobody to say so. The count is that of the process's own
control group where there is one (memory.events in version 2, memory.oom_control
in version 1; Linux, Documentation/admin-guide/cgroup-v2.rst), else of the
machine (oom_kill in /proc/vmstat): in another container, memory runs out too.
"""

from __future__ import annotations

import re
from pathlib import Path

from dlmon.control_groups import own_group

_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}


class KernelKills:
    """The kernel's count of processes killed for want of memory, read once a second."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._counter = root / "proc/vmstat"
        self._counts: tuple[int | None, int | None] = None, None
        """Those of the last two readings."""

    def read(self, pid: int) -> None:
        """Read the count where a process is, which may have moved since the last time."""
        counter = self._find_counter(pid)
        # What another group has counted says nothing of this one.
        before = self._counts[1] if counter == self._counter else None
        self._counter = counter
        now = self._count()
        self._counts = now if before is None else before, now

    def has_just_killed(self) -> bool:
        """Return whether the count has risen since the last reading but one."""
        before, after = self._counts[0], self._count()
        return before is not None and after is not None and after > before

    def _find_counter(self, pid: int) -> Path:
        """Return where its group's count is; where it was, once the process is gone."""
        try:
            group = own_group("memory", self._root, str(pid))
        except OSError:
            return self._counter
        except ValueError:
            return self._root / "proc/vmstat"
        # Version 1 shows a process that is ending in the outermost group.
        if group.version == 1 and len(group.directories) == 1 and self._counts[1] is not None:
            return self._counter
        # In version 2 the machine's outermost group has no such file.
        counters = [directory / _COUNTERS[group.version] for directory in group.directories]
        return next((c for c in counters if c.exists()), self._root / "proc/vmstat")

    def _count(self) -> int | None:
        try:
            found = re.search(r"^oom_kill (\d+)$", self._counter.read_text(), re.MULTILINE)
        except OSError:
            return None
        return None if found is None else int(found[1])
