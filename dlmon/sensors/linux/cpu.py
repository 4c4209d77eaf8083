"""CPU utilisation, load, clock, temperature and energy."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dlmon.records import Cpu, MachineFacts
from dlmon.sensors import kernel_files
from dlmon.sensors.kernel_files import ask, is_read_by_psutil, psutil
from dlmon.sensors.provider import Provider, Rates, SensorReading

# Reading a core's clock can interrupt that core: on a large machine, read a few.
_MAX_CLOCKS = 16
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The drivers of the CPU's own sensors, and the labels of the sensor of the whole package.
_TEMPERATURE_DRIVERS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_TEMPERATURE_LABELS = ("Package id", "Tdie", "Tctl")

DENIED = "denied: only root may read the CPU's energy counter"
NO_COUNTER = "this system has no energy counter of the CPU"
READ_TOO_SELDOM = "read too seldom to know how often the energy counter started over"
BEGAN_AGAIN = "the energy counter was reset, as after a suspend"
# More than any package draws: bounds how soon a counter can wrap around.
_MAX_PACKAGE_W = 1000
_FIELDS = ("energy_j", "power_w")


class CoreTimes(NamedTuple):
    """A core's time since boot, in seconds."""

    busy: float
    total: float
    steal: float


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CpuProvider(Provider):
    """The CPU of the whole machine, from psutil, /proc and /sys."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._stat = str(root / "proc/stat")
        self._last: list[CoreTimes] = []
        self._steal = Rates()
        self._clocks: list[str] = []
        self._temperatures: list[str] = []

    def facts(self) -> MachineFacts:
        governor = self._root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
        values, why = ask(
            {
                "cpu_model": self._model,
                "cores": _cores,
                "physical_cores": self._physical_cores,
                "load_1m": _load_1m,
                "governor": lambda: kernel_files.read(governor).strip(),
                "on_battery": self._on_battery,
            }
        )
        self._clocks = self._clock_files()
        self._temperatures = self._temperature_files()
        return MachineFacts(**values, why=why)

    def fast(self, t: int) -> SensorReading:
        """Read the utilisation of the machine and of each core since the last call."""
        try:
            now = self._core_times()
            last, self._last = self._last, now
            pct, cores = utilisation(last, now)
        except (OSError, ValueError, LookupError) as error:
            return SensorReading(
                cpu=Cpu(why=dict.fromkeys(("pct", "cores"), kernel_files.reason(error)))
            )
        return SensorReading(cpu=Cpu(pct=pct, cores=cores))

    def slow(self, t: int) -> SensorReading:
        """Read the load average, the mean clock, the hottest package, and the steal."""
        values, why = ask(
            {
                "load_1m": _load_1m,
                "mhz": self._mhz,
                "temperature_c": lambda: round(max(_numbers(self._temperatures)) / 1000),
                "steal_pct": lambda: self._steal_pct(t),
            }
        )
        return SensorReading(cpu=Cpu(**values, why=why))

    def _mhz(self) -> int:
        clocks = _numbers(self._clocks)
        return round(sum(clocks) / len(clocks) / 1000)

    def _steal_pct(self, t: int) -> float:
        if not self._last:
            raise ValueError("not reported here")
        steal_ns = round(1e9 * sum(core.steal for core in self._last))
        (ns_per_s,) = self._steal.per_second(t, steal_ns)
        return min(100.0, round(ns_per_s / 1e7 / len(self._last), 1))

    def _core_times(self) -> list[CoreTimes]:
        if is_read_by_psutil(self._root):
            return [_of_psutil(times) for times in psutil.cpu_times(percpu=True)]
        return core_times(kernel_files.read(self._stat))

    def _physical_cores(self) -> int:
        cpus = self._root / "sys/devices/system/cpu"
        for name in ("core_cpus_list", "thread_siblings_list"):  # the older name comes second
            files = cpus.glob(f"cpu[0-9]*/topology/{name}")
            if cores := {kernel_files.read(path) for path in files}:
                return len(cores)
        raise ValueError("not reported here")

    def _on_battery(self) -> bool:
        supplies = self._root / "sys/class/power_supply"
        batteries = [path for path in supplies.iterdir() if path.name.startswith("BAT")]
        states = [kernel_files.read(battery / "status").strip() for battery in batteries]
        return "Discharging" in states

    def _model(self) -> str:
        for line in kernel_files.read(self._root / "proc/cpuinfo").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "cpu model", "cpu") and value.strip():
                return " ".join(value.split())
        raise ValueError("not reported here")

    def _clock_files(self) -> list[str]:
        policies = sorted((self._root / "sys/devices/system/cpu/cpufreq").glob("policy*"))
        step = -(-len(policies) // _MAX_CLOCKS) or 1
        return [str(policy / "scaling_cur_freq") for policy in policies[::step]]

    def _temperature_files(self) -> list[str]:
        """Return the input file of each package: to read every sensor can take long."""
        files: list[str] = []
        for driver in sorted((self._root / "sys/class/hwmon").glob("hwmon*")):
            try:
                if kernel_files.read(driver / "name").strip() not in _TEMPERATURE_DRIVERS:
                    continue
                paths = sorted(driver.glob("temp*_label"))
                labels = {path: kernel_files.read(path) for path in paths}
            except OSError:
                continue
            for label in _TEMPERATURE_LABELS:
                matches = [path for path, text in labels.items() if text.startswith(label)]
                if matches:
                    files.append(str(matches[0]).replace("_label", "_input"))
                    break
            else:
                files.append(str(driver / "temp1_input"))
        return files


def _of_psutil(times: Any) -> CoreTimes:
    # A Mac has the first four.
    waited, irq, softirq, steal = (
        getattr(times, name, 0.0) for name in ("iowait", "irq", "softirq", "steal")
    )
    total = times.user + times.nice + times.system + times.idle
    total += waited + irq + softirq + steal
    return CoreTimes(total - times.idle - waited, total, steal)


def core_times(stat: str) -> list[CoreTimes]:
    """Return the times of each online core, from the text of /proc/stat.

    Waiting for a disk (iowait) is not busy. Guest time is left out: Linux includes it in user time.

    Raises:
        ValueError: the text can't be parsed.
    """
    cores = []
    for line in stat.splitlines():
        if line.startswith("cpu") and line[3:4].isdecimal():
            times_s = [int(ticks) / _TICKS_PER_S for ticks in line.split()[1:9]]
            if len(times_s) < 8:
                raise ValueError("/proc/stat can't be understood")
            total, idle, iowait, steal = sum(times_s), times_s[3], times_s[4], times_s[7]
            cores.append(CoreTimes(total - idle - iowait, total, steal))
    if not cores:
        raise ValueError("/proc/stat can't be understood")
    return cores


def utilisation(
    last: Sequence[CoreTimes], now: Sequence[CoreTimes]
) -> tuple[float, tuple[int, ...]]:
    """Return the utilisation of all cores together and of each core, between two readings.

    Raises:
        ValueError: the readings can't be compared; the message says why.
    """
    if not last:
        raise ValueError("no earlier reading yet")
    if len(last) != len(now):
        raise ValueError("the number of cores changed")
    # The kernel's idle and iowait counters may decrease a little, so busy time can seem negative.
    spans = [
        (max(0, after.busy - before.busy), after.total - before.total)
        for before, after in zip(last, now, strict=True)
    ]
    if min(total for _, total in spans) <= 0:
        raise ValueError("no CPU time was counted")
    cores = tuple(min(100, round(100 * busy / total)) for busy, total in spans)
    whole = 100 * sum(busy for busy, _ in spans) / sum(total for _, total in spans)
    return min(100.0, round(whole, 1)), cores


def _load_1m() -> float:
    return round(os.getloadavg()[0], 2)


def _numbers(paths: Sequence[str]) -> list[int]:
    if not paths:
        raise ValueError("not reported here")
    return [int(kernel_files.read(path)) for path in paths]


@dataclass
class Package:
    """The energy counter of one package in microjoules, which wraps around after `range_uj`."""

    counter: Path
    range_uj: int
    last_uj: int = 0
    wraps: int = 0

    def total_uj(self, most_uj: float) -> int:
        """Read the counter, and add its range for each wraparound since the first reading.

        Args:
            most_uj: an upper bound of the energy used since the last reading.

        Raises:
            OSError, ValueError: it can't be read, it was reset, or the number of wraparounds is
                unknown.
        """
        last_uj, now_uj = self.last_uj, int(kernel_files.read(self.counter))
        self.last_uj = now_uj
        if self.range_uj < most_uj < math.inf:
            raise ValueError(READ_TOO_SELDOM)
        if now_uj < last_uj:
            if now_uj + self.range_uj + 1 - last_uj > most_uj:
                raise ValueError(BEGAN_AGAIN)
            self.wraps += 1
        return self.wraps * (self.range_uj + 1) + now_uj


class EnergyProvider(Provider):
    """The energy of all CPU packages together; unknown if one of them can't be read.

    Read from Linux's powercap (RAPL of Intel and AMD), without memory outside the package. A
    package's counter wraps around after minutes of full load (Documentation/power/powercap).
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._packages: list[Package] = []
        self._why: str | None = NO_COUNTER
        self._last_t: int | None = None
        self._taken = Rates()
        self.is_denied = False
        """True if this user may not read the counter."""

    def facts(self) -> MachineFacts:
        try:
            self._packages = find_packages(self._root)
            self._why = None if self._packages else NO_COUNTER
        except (OSError, ValueError) as error:
            self._why = _words(error)
            self.is_denied = isinstance(error, PermissionError)
        return MachineFacts()

    def fast(self, t: int) -> SensorReading:
        """Read every package's counter, and the mean power since the last reading."""
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
            return SensorReading(cpu=Cpu(energy_j=energy_j, why={"power_w": str(error)}))
        return SensorReading(cpu=Cpu(energy_j=energy_j, power_w=round(uj_s / 1e6, 1)))


def find_packages(root: Path) -> list[Package]:
    """Return the counters of the CPU's packages.

    Raises:
        OSError, ValueError: a package's range can't be read.
    """
    packages = []
    for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        # "intel-rapl:0:1" is a subzone of package 0, and "psys" the whole board.
        if zone.name.count(":") > 1 or not kernel_files.read(zone / "name").startswith("package"):
            continue
        range_uj = int(kernel_files.read(zone / "max_energy_range_uj"))
        if range_uj < 1:
            raise ValueError("the energy counter has no range")
        packages.append(Package(zone / "energy_uj", range_uj))
    return packages


def why_no_cpu_energy(root: Path = Path("/")) -> tuple[str | None, bool]:
    """Return why the CPU's energy can't be read, None if it can, and whether access is denied."""
    provider = EnergyProvider(root)
    provider.facts()
    cpu = provider.fast(0).cpu
    return cpu.why.get("energy_j") if cpu is not None else NO_COUNTER, provider.is_denied


def _unknown(reason: str) -> SensorReading:
    return SensorReading(cpu=Cpu(why=dict.fromkeys(_FIELDS, reason)))


def _words(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return DENIED
    if isinstance(error, FileNotFoundError):
        return NO_COUNTER
    return kernel_files.reason(error)
