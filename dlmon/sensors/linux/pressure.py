"""How much of the time programs waited for the CPU, memory or a disk (PSI).

Linux, Documentation/accounting/psi.rst. Counted is the time in which at least one task waited
("some"), by the control group of this process where that counts it, else by the machine.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path

from dlmon.control_groups import UNIFIED, own_group
from dlmon.records import MachineFacts, Pressure
from dlmon.sensors import kernel_files
from dlmon.sensors.kernel_files import ask
from dlmon.sensors.provider import Provider, Rates, Reading

RESOURCES = ("cpu", "memory", "io")
_US_PER_PCT = 1e4


class PressureProvider(Provider):
    """The pressure of this process's own group, which is the workload's too."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._files: dict[str, Path] = {}
        self._waited = {resource: Rates() for resource in RESOURCES}

    def facts(self) -> MachineFacts:
        of_machine = self._root / "proc/pressure"
        self._files = {resource: of_machine / resource for resource in RESOURCES}
        with suppress(OSError, ValueError):
            group = own_group(UNIFIED, self._root).directories[0]
            for resource in RESOURCES:
                if (of_group := group / f"{resource}.pressure").exists():
                    self._files[resource] = of_group
        return MachineFacts()

    def slow(self, t: int) -> Reading:
        values, why = ask(
            {f"{resource}_pct": partial(self._pct, resource, t) for resource in RESOURCES}
        )
        return Reading(pressure=Pressure(**values, why=why))

    def _pct(self, resource: str, t: int) -> float:
        waited = waited_us(kernel_files.read(self._files[resource]))
        (us_per_s,) = self._waited[resource].per_second(t, waited)
        return min(100.0, round(us_per_s / _US_PER_PCT, 1))


def waited_us(text: str) -> int:
    """Return the time in microseconds in which at least one task waited, from a pressure file.

    Raises:
        ValueError: it isn't there.
    """
    total = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    if total is None:
        raise ValueError("not reported here")
    return int(total[1])
