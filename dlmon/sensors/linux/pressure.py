"""How much of the time programs waited for the CPU, memory or a disk (PSI).

Linux, Documentation/accounting/psi.rst. Counted is the time in which at least one task waited
("some"), by the control group of this process where that counts it, else by the machine.
"""

from __future__ import annotations

from pathlib import Path

from dlmon.records import MachineFacts, Pressure
from dlmon.sensors import kernel_files
from dlmon.sensors.linux.cgroup import UNIFIED, find_group, parse_membership, parse_mounts
from dlmon.sensors.provider import Reading
from dlmon.sensors.rates import Rates

RESOURCES = ("cpu", "memory", "io")
_US_PER_PCT = 1e4


class PressureProvider:
    """The pressure of this process's own group, which is the workload's too."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._files: dict[str, str] = {}
        self._waited = {resource: Rates() for resource in RESOURCES}

    def facts(self) -> MachineFacts:
        """Find the files; there is no fact to report."""
        group = self._group()
        for resource in RESOURCES:
            of_group = group / f"{resource}.pressure" if group is not None else None
            has_own = of_group is not None and of_group.exists()
            path = of_group if has_own else self._root / "proc/pressure" / resource
            self._files[resource] = str(path)
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        return Reading()

    def slow(self, t: int) -> Reading:
        values: dict[str, float] = {}
        why: dict[str, str] = {}
        for resource, path in self._files.items():
            name = f"{resource}_pct"
            try:
                (us_per_s,) = self._waited[resource].per_second(
                    t, waited_us(kernel_files.read(path))
                )
                values[name] = min(100.0, round(us_per_s / _US_PER_PCT, 1))
            except (OSError, ValueError) as error:
                why[name] = kernel_files.reason(error)
        return Reading(pressure=Pressure(**values, why=why))

    def _group(self) -> Path | None:
        try:
            mounts = parse_mounts(kernel_files.read(self._root / "proc/self/mountinfo"))
            paths = parse_membership(kernel_files.read(self._root / "proc/self/cgroup"))
            return find_group(UNIFIED, mounts, paths, self._root).directories[0]
        except (OSError, ValueError):
            return None


def waited_us(text: str) -> int:
    """Return the time in microseconds in which at least one task waited, from a pressure file.

    Raises:
        ValueError: it isn't there.
    """
    for line in text.splitlines():
        if line.startswith("some "):
            counts = dict(pair.split("=", 1) for pair in line.split()[1:])
            if "total" in counts:
                return int(counts["total"])
    raise ValueError("not reported here")
