"""Notice that the kernel has killed a process because memory ran out."""

from __future__ import annotations

import re
from pathlib import Path

from dlmon.system.control_groups import own_group

_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}


class KernelKills:
    """The kernel's count of processes killed for lack of memory, read once a second."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._counter = root / "proc/vmstat"
        self._counts: tuple[int | None, int | None] = None, None
        """The last two readings."""

    def read(self, pid: int) -> None:
        """Read the count of a process's group, which may have changed since the last reading."""
        counter = self._find_counter(pid)
        # Counts of different groups can't be compared.
        before = self._counts[1] if counter == self._counter else None
        self._counter = counter
        now = self._count()
        self._counts = now if before is None else before, now

    def has_just_killed(self) -> bool:
        """Return whether the count has risen since the last reading but one."""
        before, after = self._counts[0], self._count()
        return before is not None and after is not None and after > before

    def _find_counter(self, pid: int) -> Path:
        """Return the file with the count of a process's group; the last one if it has ended."""
        try:
            group = own_group("memory", self._root, str(pid))
        except OSError:
            return self._counter
        except ValueError:
            return self._root / "proc/vmstat"
        # In version 1, a process that is ending is in the outermost group.
        if group.version == 1 and len(group.directories) == 1 and self._counts[1] is not None:
            return self._counter
        # In version 2, the machine's outermost group has no such file.
        counters = [directory / _COUNTERS[group.version] for directory in group.directories]
        return next((c for c in counters if c.exists()), self._root / "proc/vmstat")

    def _count(self) -> int | None:
        try:
            line = re.search(r"^oom_kill (\d+)$", self._counter.read_text(), re.MULTILINE)
        except OSError:
            return None
        return None if line is None else int(line[1])
