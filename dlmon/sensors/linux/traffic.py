"""The traffic of the physical disks and the network interfaces."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from dlmon.records import Disk, MachineFacts, Network
from dlmon.sensors import kernel_files
from dlmon.sensors.provider import Provider, Rates, SensorReading, mib_per_second

# /proc/diskstats counts 512-byte sectors on every disk (Linux, Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_READ, _WRITTEN = 5, 9
_NVME_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")


class TrafficProvider(Provider):
    """Two rates from a file of counters, summed over hardware devices."""

    counters: ClassVar[str]
    devices: ClassVar[str]
    part: ClassVar[str]
    """The field of `SensorReading`."""
    kind: ClassVar[type[Any]]
    rates: ClassVar[tuple[str, str]]
    """The fields of `kind`."""
    none_found = ""
    """The reason if there is no hardware; empty if the rates are known even then."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._counters = str(root / self.counters)
        self._devices = root / self.devices
        self._hardware: dict[str, str] = {}
        self._moved = Rates()

    def facts(self) -> MachineFacts:
        self._hardware = self.find(self._devices)
        return MachineFacts()

    def fast(self, t: int) -> SensorReading:
        try:
            if self.none_found and not self._hardware:
                raise ValueError(self.none_found)
            moved = self.bytes_moved(kernel_files.read(self._counters), self._hardware)
            rates = self.kind(*map(mib_per_second, self._moved.per_second(t, *moved)))
        except (OSError, ValueError) as error:
            rates = self.kind(why=dict.fromkeys(self.rates, kernel_files.reason(error)))
        return SensorReading(**{self.part: rates})

    def slow(self, t: int) -> SensorReading:
        hardware = self.find(self._devices)
        if hardware != self._hardware:
            self._hardware, self._moved = hardware, Rates()
        return SensorReading()

    @staticmethod
    def find(devices: Path) -> dict[str, str]:
        """Return the names of the hardware devices, each with the device that it is a path to."""
        try:
            paths = [path for path in devices.iterdir() if (path / "device").exists()]
        except OSError:
            return {}
        return {path.name.replace("!", "/"): _owner(path) for path in paths}

    @staticmethod
    @abstractmethod
    def bytes_moved(counters: str, hardware: Mapping[str, str]) -> tuple[int, int]:
        """Return the bytes moved in each direction since boot.

        Raises:
            ValueError: the text can't be parsed.
        """


class DiskProvider(TrafficProvider):
    """The rates of physical disks.

    Partitions, loop devices, RAM disks, LVM and RAID volumes are left out: their traffic is counted
    at the disk. An NVMe disk with several paths (multipath) is counted once.
    """

    counters, devices = "proc/diskstats", "sys/block"
    part, kind, rates = "disk", Disk, ("read_mib_s", "write_mib_s")
    none_found = "no physical disk was found"

    @staticmethod
    def bytes_moved(counters: str, hardware: Mapping[str, str]) -> tuple[int, int]:
        # Depending on the kernel, multipath traffic is counted at the disk, at its paths, or both.
        by_disks: Counter[tuple[str, int]] = Counter()
        by_paths: Counter[tuple[str, int]] = Counter()
        for line in counters.splitlines():
            columns = line.split()
            if len(columns) < 10:
                raise ValueError("/proc/diskstats can't be understood")
            name = columns[2]
            if name not in hardware:
                continue
            sectors = by_disks if hardware[name] == name else by_paths
            for column in (_READ, _WRITTEN):
                sectors[hardware[name], column] += int(columns[column])
        totals: Counter[int] = Counter()
        for (_, column), count in (by_disks | by_paths).items():
            totals[column] += count * _SECTOR_BYTES
        return totals[_READ], totals[_WRITTEN]


class NetworkProvider(TrafficProvider):
    """The rates of physical network interfaces.

    Bridges, bonds, tunnels and interfaces of containers are left out: their traffic is counted at
    the hardware. If no interface is hardware, as in a container, all but loopback count.
    """

    counters, devices = "proc/net/dev", "sys/class/net"
    part, kind, rates = "network", Network, ("receive_mib_s", "send_mib_s")

    @staticmethod
    def bytes_moved(counters: str, hardware: Collection[str]) -> tuple[int, int]:
        received = sent = 0
        for line in counters.splitlines()[2:]:
            name, colon, rest = line.partition(":")
            columns = rest.split()
            if not colon or len(columns) < 9:
                raise ValueError("/proc/net/dev can't be understood")
            if name.strip() in hardware or (not hardware and name.strip() != "lo"):
                received += int(columns[0])
                sent += int(columns[8])
        return received, sent


def _owner(device: Path) -> str:
    """Return the name of a device; for a hidden path to an NVMe disk (multipath), the disk's."""
    name = device.name.replace("!", "/")  # /sys writes a slash so
    path = _NVME_PATH.fullmatch(name)
    with suppress(OSError):
        if path is not None and kernel_files.read(device / "hidden").strip() == "1":
            return f"{path[1]}{path[2]}"
    return name
