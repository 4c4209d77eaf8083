"""Bytes that the network interfaces move."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dlmon.records import MachineFacts, Network
from dlmon.sensors import kernel_files
from dlmon.sensors.provider import Provider, Reading
from dlmon.sensors.rates import Rates, mib_per_second


class NetworkProvider(Provider):
    """Rates from /proc/net/dev, of interfaces that are hardware.

    Bridges, bonds, tunnels and containers' interfaces pass on what such a one
    moves, and would count it twice. Where no interface is hardware, as in a
    container, all but loopback count.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._counters = str(root / "proc/net/dev")
        self._devices = root / "sys/class/net"
        self._hardware: frozenset[str] = frozenset()
        self._moved = Rates()

    def facts(self) -> MachineFacts:
        self._hardware = hardware_interfaces(self._devices)
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        try:
            received, sent = bytes_moved(kernel_files.read(self._counters), self._hardware)
            received_s, sent_s = self._moved.per_second(t, received, sent)
        except (OSError, ValueError) as error:
            why = dict.fromkeys(("receive_mib_s", "send_mib_s"), kernel_files.reason(error))
            return Reading(network=Network(why=why))
        return Reading(network=Network(mib_per_second(received_s), mib_per_second(sent_s)))

    def slow(self, t: int) -> Reading:
        hardware = hardware_interfaces(self._devices)
        if hardware != self._hardware:
            self._hardware = hardware
            self._moved = Rates()
        return Reading()


def hardware_interfaces(devices: Path) -> frozenset[str]:
    """Return the names of the interfaces in /sys/class/net that hardware stands behind."""
    try:
        return frozenset(path.name for path in devices.iterdir() if (path / "device").exists())
    except OSError:
        return frozenset()


def bytes_moved(net_dev: str, hardware: Collection[str]) -> tuple[int, int]:
    """Return the bytes received and sent by `hardware`, or by all but loopback if it is empty.

    Raises:
        ValueError: the text is not that of /proc/net/dev.
    """
    received = sent = 0
    for line in net_dev.splitlines()[2:]:
        name, colon, counters = line.partition(":")
        columns = counters.split()
        if not colon or len(columns) < 9:
            raise ValueError("/proc/net/dev can't be understood")
        if name.strip() in hardware or (not hardware and name.strip() != "lo"):
            received += int(columns[0])
            sent += int(columns[8])
    return received, sent
