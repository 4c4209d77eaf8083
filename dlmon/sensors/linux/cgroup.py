"""The limits and the usage of the control group (versions 1 and 2), and its pressure (PSI).

Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, scheduler/sched-bwc.rst
and accounting/psi.rst. The limits of all ancestors apply too, so the lowest one counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from dlmon.records import Cpu, MachineFacts, Memory, Pressure
from dlmon.sensors import kernel_files
from dlmon.sensors.kernel_files import ask
from dlmon.sensors.linux.memory import counts
from dlmon.sensors.provider import BYTES_IN_MIB, Provider, Rates, SensorReading, mib_per_second
from dlmon.system.control_groups import UNIFIED, Group, own_group

Limit = TypeVar("Limit", int, float)

MACHINE_ONLY = "reported for the whole machine only"
RESOURCES = ("cpu", "memory", "io")


class CgroupProvider(Provider):
    """The limits and the usage of this process's group, which is the workload's too."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._cpu_directory: Path | None = None
        self._periods = Rates()
        self._cores = 0.0
        self._cpu_time = Rates()
        self._memory: tuple[int, Path] | None = None
        self._why_no_limit = ""
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._swapped = Rates()
        self._faults = Rates()

    def facts(self) -> MachineFacts:
        values, why = ask(
            {"cpu_limit": self._find_cpu_limit, "memory_limit_mib": self._find_memory_limit}
        )
        self._why_no_limit = why.get("cpu_limit", "")
        if "memory_limit_mib" in values:
            values["swap_mib"] = self._swap_allowed()
        return MachineFacts(**values, why=why)

    def fast(self, t: int) -> SensorReading:
        """Read the use of the CPU quota, the throttled periods, and the group's memory."""
        return SensorReading(cpu=self._cpu(t), memory=self._memory_used())

    def slow(self, t: int) -> SensorReading:
        """Read the swap and the major faults of the group that has the memory limit."""
        if self._memory is None:
            return SensorReading()
        version, directory = self._memory

        def swap_used_mib() -> int:
            if version == 1:
                raise ValueError(MACHINE_ONLY)
            return int(kernel_files.read(directory / "memory.swap.current")) // BYTES_IN_MIB

        def swap_mib_s() -> float:
            moved = sum(_memory_counts(version, directory, MACHINE_ONLY, "pswpin", "pswpout"))
            return mib_per_second(self._swapped.per_second(t, moved)[0] * self._page_bytes)

        def major_faults_s() -> float:
            why = "the kernel doesn't count this group's major faults"
            faults = _memory_counts(version, directory, why, "pgmajfault")
            return round(self._faults.per_second(t, *faults)[0], 1)

        values, why = ask(
            {
                "swap_used_mib": swap_used_mib,
                "swap_mib_s": swap_mib_s,
                "major_faults_s": major_faults_s,
            }
        )
        return SensorReading(memory=Memory(**values, why=why))

    def _find_cpu_limit(self) -> float:
        group = own_group("cpu", self._root)
        self._cores, self._cpu_directory = _lowest_limit(group, cpu_limit, "no CPU limit is set")
        return round(self._cores, 2)

    def _find_memory_limit(self) -> int:
        group = own_group("memory", self._root)
        allowed, directory = _lowest_limit(group, memory_limit, "no memory limit is set")
        if allowed >= self._machine_bytes("MemTotal"):
            raise ValueError("no memory limit is set")
        self._memory = (group.version, directory)
        return allowed // BYTES_IN_MIB

    def _swap_allowed(self) -> int | None:
        """Return the group's swap limit in MiB; None if the machine has no more swap than that."""
        with suppress(OSError, ValueError):
            group = own_group("memory", self._root)
            allowed, _ = _lowest_limit(group, swap_limit, "no swap limit is set")
            if allowed < self._machine_bytes("SwapTotal"):
                return allowed // BYTES_IN_MIB
        return None

    def _machine_bytes(self, name: str) -> int:
        meminfo = kernel_files.read(self._root / "proc/meminfo")
        return counts(meminfo, (f"{name}:",))[f"{name}:"] * 1024

    def _cpu(self, t: int) -> Cpu:
        directory = self._cpu_directory
        if directory is None:
            return Cpu(why=dict.fromkeys(("throttled_pct", "limit_used_pct"), self._why_no_limit))
        numbers = cache(lambda: _numbers(kernel_files.read(directory / "cpu.stat")))

        def limit_used_pct() -> float:
            (cpu_us_s,) = self._cpu_time.per_second(t, cpu_time_us(directory, numbers()))
            return round(min(100.0, cpu_us_s / 1e4 / self._cores), 1)

        values, why = ask(
            {
                "throttled_pct": lambda: self._throttled_pct(t, numbers()),
                "limit_used_pct": limit_used_pct,
            }
        )
        return Cpu(**values, why=why)

    def _throttled_pct(self, t: int, counts: dict[str, int]) -> float:
        """Return the percent of quota periods since the last reading that were throttled.

        Periods pass only while the group runs: an idle group is not throttled.
        """
        if "nr_periods" not in counts or "nr_throttled" not in counts:
            raise ValueError("the kernel doesn't count throttled periods")
        numbers = counts["nr_periods"], counts["nr_throttled"]
        periods_s, throttled_s = self._periods.per_second(t, *numbers)
        return min(100.0, round(100 * throttled_s / periods_s, 1)) if periods_s > 0 else 0.0

    def _memory_used(self) -> Memory | None:
        if self._memory is None:
            return None
        version, directory = self._memory
        values, why = ask({"used_mib": lambda: memory_used(version, directory) // BYTES_IN_MIB})
        return Memory(**values, why=why)


def cpu_limit(version: int, directory: Path) -> float | None:
    """Return the cores that a group may use; None for no limit ("max 100000", or -1)."""
    if version == 2:
        quota, _, period = _text_of(directory / "cpu.max", "max 100000").partition(" ")
        return None if quota == "max" else _positive(quota) / _positive(period)
    quota_us = int(_text_of(directory / "cpu.cfs_quota_us", "-1"))
    if quota_us < 0:
        return None
    return quota_us / _positive(_text_of(directory / "cpu.cfs_period_us", ""))


def memory_limit(version: int, directory: Path) -> int | None:
    """Return the bytes that a group may use; None for no limit."""
    return _limit_bytes(directory / ("memory.max" if version == 2 else "memory.limit_in_bytes"))


def swap_limit(version: int, directory: Path) -> int | None:
    """Return the bytes of a group that may be swapped out; None for no limit.

    Version 1 only limits memory and swap together, and few kernels enable that.
    """
    return _limit_bytes(directory / "memory.swap.max") if version == 2 else None


def memory_used(version: int, directory: Path) -> int:
    """Return the bytes in use, without inactive file cache, which the kernel reclaims first."""
    usage = "memory.current" if version == 2 else "memory.usage_in_bytes"
    used = int(kernel_files.read(directory / usage))
    with suppress(ValueError):
        used -= _memory_counts(version, directory, "", "inactive_file")[0]
    return max(0, used)


def cpu_time_us(directory: Path, counts: dict[str, int]) -> int:
    """Return the CPU time of a group in microseconds; version 1 has a separate file for it."""
    usage_us = counts.get("usage_usec")
    if usage_us is not None:
        return usage_us
    return int(kernel_files.read(directory / "cpuacct.usage")) // 1000


def _memory_counts(version: int, directory: Path, why_none: str, *names: str) -> list[int]:
    """Return counters from memory.stat, for a group and its descendants.

    Raises:
        OSError: the file can't be read.
        ValueError: a counter is missing.
    """
    counts = _numbers(kernel_files.read(directory / "memory.stat"))
    prefix = "" if version == 2 else "total_"
    try:
        return [counts[prefix + name] for name in names]
    except KeyError:
        raise ValueError(why_none) from None


def _lowest_limit(
    group: Group, limit: Callable[[int, Path], Limit | None], why_none: str
) -> tuple[Limit, Path]:
    all_limits = [(limit(group.version, directory), directory) for directory in group.directories]
    limits = [(allowed, directory) for allowed, directory in all_limits if allowed is not None]
    if not limits:
        raise ValueError(why_none)
    return min(limits, key=lambda pair: pair[0])


def _text_of(path: Path, absent: str) -> str:
    """Return a file's text, or `absent`: the root group has no limit files."""
    try:
        return kernel_files.read(path).strip()
    except FileNotFoundError:
        return absent


def _limit_bytes(path: Path) -> int | None:
    """Return a limit; None for "max", or for a number near 2**63 in version 1."""
    text = _text_of(path, "max")
    return None if text == "max" or int(text) >= 2**62 else int(text)


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError(f"a limit of {number} can't be understood")
    return number


def _numbers(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


class PressureProvider(Provider):
    """Pressure stall information (PSI): the time in which at least one task waited ("some").

    Read from the control group of this process, which is the workload's too; if it has none, from
    the whole machine.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._files: dict[str, Path] = {}
        self._waited = {resource: Rates() for resource in RESOURCES}

    def facts(self) -> MachineFacts:
        machine = self._root / "proc/pressure"
        self._files = {resource: machine / resource for resource in RESOURCES}
        with suppress(OSError, ValueError):
            group = own_group(UNIFIED, self._root).directories[0]
            for resource in RESOURCES:
                if (file := group / f"{resource}.pressure").exists():
                    self._files[resource] = file
        return MachineFacts()

    def slow(self, t: int) -> SensorReading:
        values, why = ask(
            {f"{resource}_pct": partial(self._pct, resource, t) for resource in RESOURCES}
        )
        return SensorReading(pressure=Pressure(**values, why=why))

    def _pct(self, resource: str, t: int) -> float:
        waited = waited_us(kernel_files.read(self._files[resource]))
        (us_per_s,) = self._waited[resource].per_second(t, waited)
        return min(100.0, round(us_per_s / 1e4, 1))


def waited_us(text: str) -> int:
    """Return the total time in which at least one task waited, from the text of a pressure file.

    Raises:
        ValueError: it is not in the text.
    """
    total = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    if total is None:
        raise ValueError("not reported here")
    return int(total[1])
