"""Bytes that the physical disks and the network interfaces move."""

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
from dlmon.sensors.provider import Provider, Rates, Reading, mib_per_second

# /proc/diskstats counts sectors of 512 bytes whatever the disk's own are
# (Linux, Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_READ, _WRITTEN = 5, 9
_NVME_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")


class TrafficProvider(Provider):
    """Two rates from a file of counters, of the devices that hardware stands behind."""

    counters: ClassVar[str]
    devices: ClassVar[str]
    part: ClassVar[str]
    """The field of a reading that they are."""
    kind: ClassVar[type[Any]]
    rates: ClassVar[tuple[str, str]]
    """The fields of that kind."""
    none_found = ""
    """Why nothing is known where no hardware was found, if so."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._counters = str(root / self.counters)
        self._devices = root / self.devices
        self._hardware: dict[str, str] = {}
        self._moved = Rates()

    def facts(self) -> MachineFacts:
        self._hardware = self.find(self._devices)
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        try:
            if self.none_found and not self._hardware:
                raise ValueError(self.none_found)
            moved = self.bytes_moved(kernel_files.read(self._counters), self._hardware)
            read = self.kind(*map(mib_per_second, self._moved.per_second(t, *moved)))
        except (OSError, ValueError) as error:
            read = self.kind(why=dict.fromkeys(self.rates, kernel_files.reason(error)))
        return Reading(**{self.part: read})

    def slow(self, t: int) -> Reading:
        hardware = self.find(self._devices)
        if hardware != self._hardware:
            self._hardware, self._moved = hardware, Rates()
        return Reading()

    @staticmethod
    def find(devices: Path) -> dict[str, str]:
        """Return the devices that hardware stands behind, each with the one that it belongs to."""
        try:
            found = [path for path in devices.iterdir() if (path / "device").exists()]
        except OSError:
            return {}
        return {path.name.replace("!", "/"): _owner(path) for path in found}

    @staticmethod
    @abstractmethod
    def bytes_moved(counters: str, hardware: Mapping[str, str]) -> tuple[int, int]:
        """Return what was moved one way and the other since boot.

        Raises:
            ValueError: the text is not that of the counters' file.
        """


class DiskProvider(TrafficProvider):
    """Rates of disks.

    Partitions, loop devices, RAM disks, LVM and RAID volumes only pass on what
    such a disk moves, and would count it twice. So would the paths to an NVMe disk,
    which has a name of its own beside theirs.
    """

    counters, devices = "proc/diskstats", "sys/block"
    part, kind, rates = "disk", Disk, ("read_mib_s", "write_mib_s")
    none_found = "no physical disk was found"

    @staticmethod
    def bytes_moved(counters: str, hardware: Mapping[str, str]) -> tuple[int, int]:
        # Of a disk with paths, kernels count what it moves there, at itself, or at both.
        by_disks: Counter[tuple[str, int]] = Counter()
        by_paths: Counter[tuple[str, int]] = Counter()
        for line in counters.splitlines():
            columns = line.split()
            if len(columns) < 10:
                raise ValueError("/proc/diskstats can't be understood")
            name = columns[2]
            if name not in hardware:
                continue
            counted = by_disks if hardware[name] == name else by_paths
            for column in (_READ, _WRITTEN):
                counted[hardware[name], column] += int(columns[column])
        larger = by_disks | by_paths
        read, written = (
            sum(sectors for (_, counted), sectors in larger.items() if counted == column)
            for column in (_READ, _WRITTEN)
        )
        return read * _SECTOR_BYTES, written * _SECTOR_BYTES


class NetworkProvider(TrafficProvider):
    """Rates of network interfaces.

    Bridges, bonds, tunnels and containers' interfaces pass on what hardware
    moves, and would count it twice. Where no interface is hardware, as in a
    container, all but loopback count.
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
    """Return a device's own name, but for a hidden path to an NVMe disk that disk's (multipath)."""
    name = device.name.replace("!", "/")  # as /sys writes a slash
    path = _NVME_PATH.fullmatch(name)
    with suppress(OSError):
        if path is not None and kernel_files.read(device / "hidden").strip() == "1":
            return f"{path[1]}{path[2]}"
    return name
