"""What the sensors ask psutil for, from /proc and /sys with the standard library alone.

The functions, their fields and what they make of a file are psutil's, for
`psutil_or_procfs` puts this module in its place. `root` is where the two folders are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, NamedTuple

from dlmon.sensors import kernel_files

Error = OSError
"""What stands for psutil's own error: every function raises OSError or ValueError."""

_ROOT = Path("/")


class CpuTimes(NamedTuple):
    """One core's time in seconds, by what it was spent on."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float
    guest: float
    guest_nice: float


class VirtualMemory(NamedTuple):
    """The machine's memory, and what of it a new program could have, in bytes."""

    total: int
    available: int


class Battery(NamedTuple):
    """Whether a battery's machine is on the mains; None where that is not reported."""

    power_plugged: bool | None


def cpu_times(*, percpu: Literal[True], root: Path = _ROOT) -> list[CpuTimes]:
    """Return the times of each core that is online.

    Raises:
        OSError, ValueError: they can't be read, or are not those of Linux 3.2 or later.
    """
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    times = []
    for line in kernel_files.read(root / "proc/stat").splitlines()[1:]:
        if line.startswith("cpu"):
            ticks = line.split()[1 : len(CpuTimes._fields) + 1]
            if len(ticks) < len(CpuTimes._fields):
                raise ValueError("/proc/stat can't be understood")
            times.append(CpuTimes(*(float(count) / ticks_per_s for count in ticks)))
    return times


def cpu_count(*, logical: Literal[False], root: Path = _ROOT) -> int | None:
    """Return the number of physical cores that are online, None where it is not reported.

    Raises:
        OSError: it can't be read.
    """
    cpus = root / "sys/devices/system/cpu"
    for name in ("core_cpus_list", "thread_siblings_list"):  # the older name comes second
        if cores := {kernel_files.read(path) for path in cpus.glob(f"cpu[0-9]*/topology/{name}")}:
            return len(cores)
    # Each logical core has a section, ended by an empty line, that says this of its package.
    cores_of_packages: dict[str, str] = dict(
        re.findall(
            r"^physical id\t: (\d+)\n(?:.+\n)*?cpu cores\t: (\d+)$",
            kernel_files.read(root / "proc/cpuinfo"),
            re.MULTILINE,
        )
    )
    return sum(map(int, cores_of_packages.values())) or None


def virtual_memory(root: Path = _ROOT) -> VirtualMemory:
    """Return the memory in total and what is available.

    Raises:
        OSError, ValueError: they can't be read.
    """
    lines = (line.split() for line in kernel_files.read(root / "proc/meminfo").splitlines())
    counted = {name: int(kib) * 1024 for name, kib, *_ in lines}
    if not counted.keys() >= {"MemTotal:", "MemFree:"}:
        raise ValueError("not reported here")
    total, free = counted["MemTotal:"], counted["MemFree:"]
    # It can be 0 where that isn't so (psutil, issue 1915).
    available = counted.get("MemAvailable:") or max(0, _estimated_available(counted, root))
    # A container's total can be less than what its host has available.
    return VirtualMemory(total, available if available <= total else free)


def _estimated_available(counted: dict[str, int], root: Path) -> int:
    """Estimate as Linux 3.14, the first to count it, does: commit 34e431b0ae39."""
    free = counted["MemFree:"]
    try:
        cache = counted["Active(file):"] + counted["Inactive(file):"]
        slab = counted["SReclaimable:"]
        zones = kernel_files.read(root / "proc/zoneinfo")
    except (KeyError, OSError):
        return free + counted.get("Cached:", 0)
    low_pages = sum(map(int, re.findall(r"^\s*low\s+(\d+)", zones, re.MULTILINE)))
    low = low_pages * os.sysconf("SC_PAGE_SIZE")
    return int(free - low + cache - min(cache / 2, low) + slab - min(slab / 2, low))


def sensors_battery(root: Path = _ROOT) -> Battery | None:
    """Return the first battery, None where there is none that tells how full it is.

    Raises:
        OSError, ValueError: it can't be read.
    """
    supplies = root / "sys/class/power_supply"
    batteries = [
        path
        for path in supplies.iterdir()
        if path.name.startswith("BAT") or "battery" in path.name.lower()
    ]
    if not batteries:
        return None
    battery = min(batteries)
    now = _first(battery, "energy_now", "charge_now")
    full = _first(battery, "energy_full", "charge_full")
    if (now is None or full is None) and int(_first(battery, "capacity") or -1) == -1:
        return None
    online = _first(supplies, "AC0/online", "AC/online")
    if online is not None:
        return Battery(online == "1")
    status = (_first(battery, "status") or "").lower()
    return Battery({"discharging": False, "charging": True, "full": True}.get(status))


def _first(folder: Path, *names: str) -> str | None:
    for name in names:
        try:
            return kernel_files.read(folder / name).strip()
        except OSError:
            continue
    return None
