"""The energy that the CPU's packages have taken, from Linux's powercap (Intel's and AMD's RAPL).

The kernel's counter of each package begins again at its range, after minutes
of full load, so the turns are counted here (Documentation/power/powercap).
Memory outside of the package is not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dlmon.records import Cpu, MachineFacts
from dlmon.sensors import kernel_files
from dlmon.sensors.provider import Provider, Rates, Reading

DENIED = "denied: only root may read the CPU's energy counter"
NO_COUNTER = "this system has no energy counter of the CPU"
READ_TOO_SELDOM = "read too seldom to know how often the energy counter started over"
BEGAN_AGAIN = "the energy counter was reset, as after a suspend"
# More than any package draws; a counter can't have gone around sooner than at this power.
_MAX_PACKAGE_W = 1000
_FIELDS = ("energy_j", "power_w")


@dataclass
class Package:
    """One package's counter in microjoules, which begins again after `range_uj`."""

    counter: Path
    range_uj: int
    last_uj: int = 0
    turns: int = 0

    def total_uj(self, most_uj: float) -> int:
        """Read the counter and add the turns that it has made since it was first read.

        Args:
            most_uj: more than it can have taken since it was last read.

        Raises:
            OSError, ValueError: it can't be read, holds no number, or began again by itself, or how
                often is not known.
        """
        last_uj, now_uj = self.last_uj, int(kernel_files.read(self.counter))
        self.last_uj = now_uj
        if self.range_uj < most_uj < math.inf:
            raise ValueError(READ_TOO_SELDOM)
        if now_uj < last_uj:
            if now_uj + self.range_uj + 1 - last_uj > most_uj:
                raise ValueError(BEGAN_AGAIN)
            self.turns += 1
        return self.turns * (self.range_uj + 1) + now_uj


class EnergyProvider(Provider):
    """All packages' energy together, None with its reason where one of them can't be read."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._packages: list[Package] = []
        self._why: str | None = NO_COUNTER
        self._last_t: int | None = None
        self._taken = Rates()
        self.is_denied = False
        """Whether it can't be read for want of a right."""

    def facts(self) -> MachineFacts:
        try:
            self._packages = find_packages(self._root)
            self._why = None if self._packages else NO_COUNTER
        except (OSError, ValueError) as error:
            self._why = _words(error)
            self.is_denied = isinstance(error, PermissionError)
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        """Read every package's counter; their power is the mean since the reading before."""
        if self._why is not None:
            return _unknown(self._why)
        most_uj = math.inf if self._last_t is None else (t - self._last_t) / 1e3 * _MAX_PACKAGE_W
        self._last_t = t
        try:
            energy_uj = sum(package.total_uj(most_uj) for package in self._packages)
        except (OSError, ValueError) as error:
            if isinstance(error, PermissionError):
                self._why, self.is_denied = DENIED, True
            self._taken = Rates()
            return _unknown(_words(error))
        energy_j = round(energy_uj / 1e6, 1)
        try:
            (uj_s,) = self._taken.per_second(t, energy_uj)
        except ValueError as error:
            return Reading(cpu=Cpu(energy_j=energy_j, why={"power_w": str(error)}))
        return Reading(cpu=Cpu(energy_j=energy_j, power_w=round(uj_s / 1e6, 1)))


def find_packages(root: Path) -> list[Package]:
    """Return the counters of the CPU's packages, and of none of their parts.

    Raises:
        OSError, ValueError: a package's range can't be read.
    """
    packages = []
    for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        # "intel-rapl:0:1" is a part of package 0, and "psys" the whole board.
        if zone.name.count(":") > 1 or not kernel_files.read(zone / "name").startswith("package"):
            continue
        range_uj = int(kernel_files.read(zone / "max_energy_range_uj"))
        if range_uj < 1:
            raise ValueError("the energy counter has no range")
        packages.append(Package(zone / "energy_uj", range_uj))
    return packages


def why_no_cpu_energy(root: Path = Path("/")) -> tuple[str | None, bool]:
    """Say why the CPU's energy can't be read, None when it can; and whether that is denied."""
    provider = EnergyProvider(root)
    provider.facts()
    cpu = provider.fast(0).cpu
    return cpu.why.get("energy_j") if cpu is not None else NO_COUNTER, provider.is_denied


def _unknown(reason: str) -> Reading:
    return Reading(cpu=Cpu(why=dict.fromkeys(_FIELDS, reason)))


def _words(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return DENIED
    if isinstance(error, FileNotFoundError):
        return NO_COUNTER
    return kernel_files.reason(error)
