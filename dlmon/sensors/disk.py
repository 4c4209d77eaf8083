"""Bytes that the physical disks move."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dlmon.records import Disk, MachineFacts
from dlmon.sensors import files
from dlmon.sensors.provider import Reading
from dlmon.sensors.rates import Rates, mib_per_second

# /proc/diskstats counts sectors of 512 bytes whatever the disk's own are
# (Linux, Documentation/block/stat.rst).
_SECTOR_BYTES = 512


class DiskProvider:
    """Rates from /proc/diskstats, of disks that are hardware.

    Partitions, loop devices, RAM disks, LVM and RAID volumes only pass on what
    such a disk moves, and would count it twice.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._counters = str(root / "proc/diskstats")
        self._devices = root / "sys/block"
        self._disks: frozenset[str] = frozenset()
        self._moved = Rates()

    def facts(self) -> MachineFacts:
        """Find the disks; there is nothing to tell of them."""
        self._disks = physical_disks(self._devices)
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        """Read the rates since the call before."""
        try:
            if not self._disks:
                raise ValueError("no physical disk was found")
            read, written = bytes_moved(files.read(self._counters), self._disks)
            read_s, written_s = self._moved.per_second(t, read, written)
        except (OSError, ValueError) as error:
            why = dict.fromkeys(("read_mib_s", "write_mib_s"), files.reason(error))
            return Reading(disk=Disk(why=why))
        return Reading(disk=Disk(mib_per_second(read_s), mib_per_second(written_s)))

    def slow(self, t: int) -> Reading:
        """Look for disks that came or went, and begin anew then."""
        disks = physical_disks(self._devices)
        if disks != self._disks:
            self._disks = disks
            self._moved = Rates()
        return Reading()


def physical_disks(devices: Path) -> frozenset[str]:
    """Return the names of the block devices in /sys/block that hardware stands behind."""
    try:
        # A slash in a name is an exclamation mark in /sys.
        return frozenset(
            path.name.replace("!", "/") for path in devices.iterdir() if (path / "device").exists()
        )
    except OSError:
        return frozenset()


def bytes_moved(diskstats: str, disks: Collection[str]) -> tuple[int, int]:
    """Return the bytes that `disks` have read and written since boot.

    Raises:
        ValueError: the text is not that of /proc/diskstats.
    """
    read = written = 0
    for line in diskstats.splitlines():
        columns = line.split()
        if len(columns) < 10:
            raise ValueError("/proc/diskstats can't be understood")
        if columns[2] in disks:
            read += int(columns[5])
            written += int(columns[9])
    return read * _SECTOR_BYTES, written * _SECTOR_BYTES
