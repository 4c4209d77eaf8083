"""Bytes that the physical disks move."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from dlmon.records import Disk, MachineFacts
from dlmon.sensors import kernel_files
from dlmon.sensors.provider import Provider, Reading
from dlmon.sensors.rates import Rates, mib_per_second

# /proc/diskstats counts sectors of 512 bytes whatever the disk's own are
# (Linux, Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_READ, _WRITTEN = 5, 9
_NVME_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")


class DiskProvider(Provider):
    """Rates from /proc/diskstats, of disks that are hardware.

    Partitions, loop devices, RAM disks, LVM and RAID volumes only pass on what
    such a disk moves, and would count it twice. So would the paths to an NVMe disk,
    which has a name of its own beside theirs.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._counters = str(root / "proc/diskstats")
        self._devices = root / "sys/block"
        self._disks: dict[str, str] = {}
        self._moved = Rates()

    def facts(self) -> MachineFacts:
        self._disks = physical_disks(self._devices)
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        try:
            if not self._disks:
                raise ValueError("no physical disk was found")
            read, written = bytes_moved(kernel_files.read(self._counters), self._disks)
            read_s, written_s = self._moved.per_second(t, read, written)
        except (OSError, ValueError) as error:
            why = dict.fromkeys(("read_mib_s", "write_mib_s"), kernel_files.reason(error))
            return Reading(disk=Disk(why=why))
        return Reading(disk=Disk(mib_per_second(read_s), mib_per_second(written_s)))

    def slow(self, t: int) -> Reading:
        disks = physical_disks(self._devices)
        if disks != self._disks:
            self._disks = disks
            self._moved = Rates()
        return Reading()


def physical_disks(devices: Path) -> dict[str, str]:
    """Return the block devices in /sys/block that hardware stands behind, each with its disk.

    That is itself, but for a path to a disk that has several (Linux, NVMe multipath).
    """
    try:
        found = [path for path in devices.iterdir() if (path / "device").exists()]
    except OSError:
        return {}
    disks = {}
    for path in found:
        name = path.name.replace("!", "/")  # as /sys writes a slash
        is_path = _NVME_PATH.fullmatch(name) if _is_hidden(path) else None
        disks[name] = f"{is_path[1]}{is_path[2]}" if is_path else name
    return disks


def bytes_moved(diskstats: str, disks: Mapping[str, str]) -> tuple[int, int]:
    """Return the bytes that `disks` have read and written since boot.

    Of a disk with paths, kernels count what it moves there, at itself, or at both.

    Raises:
        ValueError: the text is not that of /proc/diskstats.
    """
    by_disks: Counter[tuple[str, int]] = Counter()
    by_paths: Counter[tuple[str, int]] = Counter()
    for line in diskstats.splitlines():
        columns = line.split()
        if len(columns) < 10:
            raise ValueError("/proc/diskstats can't be understood")
        name = columns[2]
        if name not in disks:
            continue
        counted = by_disks if disks[name] == name else by_paths
        for column in (_READ, _WRITTEN):
            counted[disks[name], column] += int(columns[column])
    larger = by_disks | by_paths
    read, written = (
        sum(sectors for (_, counted), sectors in larger.items() if counted == column)
        for column in (_READ, _WRITTEN)
    )
    return read * _SECTOR_BYTES, written * _SECTOR_BYTES


def _is_hidden(device: Path) -> bool:
    try:
        return kernel_files.read(device / "hidden").strip() == "1"
    except OSError:
        return False
