"""The processes that use cards: the kernel's `fdinfo` of open cards, and the list of amdkfd.

`fdinfo` has a process's memory and engine time (the kernel's Documentation/gpu/drm-usage-stats.rst,
amdgpu's and xe's own pages). It can be read of one's own processes only, but by root. amdkfd lists
all processes that compute by ROCm, whose engine time the kernel does not count.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dlmon.sensors import kernel_files
from dlmon.sensors.drm.card import Card
from dlmon.sensors.provider import BYTES_IN_MIB

KFD = "sys/class/kfd/kfd"
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
# Of a region's sizes, the first that is there counts; amdgpu's older kernels have only the second.
_MEMORY_KEYS = ("drm-resident-", "drm-memory-", "drm-total-")
_SWAPPED_OUT = "cpu"
# A process may replace one open file by another: list them again after so many readings.
_READINGS_BETWEEN = 12


@dataclass(frozen=True)
class Client:
    """An open card of a process.

    Attributes:
        memory: the bytes in each region.
        engines: by class, the time that the engines worked, and the time that passed; both in
            nanoseconds or both in cycles.
    """

    bus_id: str
    number: str
    memory: Mapping[str, int]
    engines: Mapping[str, tuple[int, int]]


@dataclass
class CardUse:
    """The use of a card by its processes.

    Attributes:
        mib_by_pid: the memory of each process.
        pct_by_pid: the share of time that the busiest engine worked for each process.
        own_mib: the card's own memory in use.
    """

    mib_by_pid: dict[int, int] = field(default_factory=dict)
    pct_by_pid: dict[int, int] = field(default_factory=dict)
    own_mib: int = 0

    def add(self, pid: int, client: Client, card: Card, pct: float | None) -> None:
        """Count a client of a process."""
        regions = {name: size for name, size in client.memory.items() if name != _SWAPPED_OUT}
        prefix = card.driver.own_memory
        own = sum(size for name, size in regions.items() if name.startswith(prefix))
        held = sum(regions.values()) if card.uses_system_memory else own
        # Programs that only look at a card open it, too.
        if held or pct:
            self.mib_by_pid[pid] = self.mib_by_pid.get(pid, 0) + held // BYTES_IN_MIB
        self.own_mib += own // BYTES_IN_MIB
        if pct is not None and pid in self.mib_by_pid:
            self.pct_by_pid[pid] = min(self.pct_by_pid.get(pid, 0) + round(pct), 100)


class Clients:
    """Reads the processes of all cards.

    amdkfd lists the pids of the first pid namespace: without `same_pids` they mean nothing here.

    Attributes:
        sees_all: whether every process could be looked into, at the last reading.
    """

    def __init__(self, root: Path, same_pids: bool) -> None:
        self._same_pids = same_pids
        self._proc, self._kfd = str(root / "proc"), str(root / KFD)
        self.sees_all = False
        self._files: dict[int, tuple[int, tuple[str, ...]]] = {}
        """By pid, the number of open files, and those that are cards."""
        self._readings = 0
        self._before: dict[tuple[str, str], Client] = {}
        self._t = 0

    def read(self, t: int, cards: Mapping[str, Card]) -> dict[str, CardUse]:
        """Return the use of each card by its PCI address; engine time counts since the last call.

        Args:
            t: the time in nanoseconds.
            cards: the cards by PCI address.
        """
        uses = {bus_id: CardUse() for bus_id in cards}
        now: dict[tuple[str, str], Client] = {}
        for pid, client in self._clients():
            key = (client.bus_id, client.number)
            # Forked processes share a client: it counts for the first.
            if client.bus_id in cards and key not in now:
                now[key] = client
                before = self._before.get(key)
                pct = None if before is None else _busiest_pct(before, client, t - self._t)
                uses[client.bus_id].add(pid, client, cards[client.bus_id], pct)
        self._before, self._t = now, t
        if self._same_pids:
            held: Counter[tuple[int, str]] = Counter()
            for pid, bus_id, mib in self._kfd_memory():
                held[pid, bus_id] += mib  # a card that is divided is several of ROCm's devices
            for (pid, bus_id), mib in held.items():
                if bus_id in uses:
                    by_pid = uses[bus_id].mib_by_pid
                    # Older kernels leave ROCm's memory out of `fdinfo`.
                    by_pid[pid] = max(mib, by_pid.get(pid, 0))
        return uses

    def count_kfd_processes(self) -> int:
        """Return the number of processes that compute by ROCm."""
        return len({pid for pid, _, _ in self._kfd_memory()})

    def _kfd_memory(self) -> Iterator[tuple[int, str, int]]:
        """Yield the pid, the PCI address and the MiB of each process that computes by ROCm."""
        try:
            pids = kernel_files.numeric_names(f"{self._kfd}/proc")
        except OSError:
            return
        for gpu_id, bus_id in kfd_nodes(self._kfd) if pids else ():
            for pid in pids:
                with suppress(OSError, ValueError):
                    used = int(kernel_files.read(f"{self._kfd}/proc/{pid}/vram_{gpu_id}"))
                    yield pid, bus_id, used // BYTES_IN_MIB

    def _clients(self) -> Iterator[tuple[int, Client]]:
        """Yield each process's open cards, by pid."""
        list_again = self._readings % _READINGS_BETWEEN == 0
        self._readings += 1
        self.sees_all = self._same_pids
        try:
            pids = sorted(kernel_files.numeric_names(self._proc))
        except OSError:
            self.sees_all = False
            return
        before, self._files = {} if list_again else self._files, {}
        for pid in pids:
            folder = f"{self._proc}/{pid}"
            try:
                # Since Linux 6.2, the size is the number of open files.
                count = os.stat(f"{folder}/fd").st_size  # noqa: PTH116 - a Path costs more
                count_before, files = before.get(pid, (0, ()))
                if not count or count != count_before:
                    files = _cards(folder)
            except OSError as error:
                self.sees_all &= not isinstance(error, PermissionError)
                continue
            self._files[pid] = (count, files)
            for number in files:
                with suppress(OSError, ValueError, KeyError):
                    yield pid, parse_client(kernel_files.read(f"{folder}/fdinfo/{number}"))


def kfd_nodes(kfd: str) -> Iterator[tuple[int, str]]:
    """Yield amdkfd's number and the PCI address of each GPU, in the order of ROCm's devices.

    The parts of a divided MI300 or later (gfx942, gfx950) have their number where that of the PCI
    function is (`kfd_topology_add_device` in drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
    """
    with suppress(OSError):
        for node in sorted(kernel_files.numeric_names(f"{kfd}/topology/nodes")):
            folder = f"{kfd}/topology/nodes/{node}"
            with suppress(OSError, ValueError, KeyError):
                gpu_id = int(kernel_files.read(f"{folder}/gpu_id"))
                lines = kernel_files.read(f"{folder}/properties").splitlines()
                properties = dict(line.split(" ", 1) for line in lines if " " in line)
                place = int(properties["location_id"])
                domain = int(properties.get("domain", "0"))
                if 90400 <= int(properties.get("gfx_target_version", "0")) < 100_000:
                    place &= ~7
                if gpu_id:
                    yield gpu_id, f"{domain:04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"


def _cards(folder: str) -> tuple[str, ...]:
    """Return the numbers of a process's open files that are cards.

    Raises:
        OSError: they can't be listed.
    """
    files = []
    for number in kernel_files.names(f"{folder}/fd"):
        with suppress(OSError):
            if os.readlink(f"{folder}/fd/{number}").startswith("/dev/dri/"):  # noqa: PTH115
                files.append(number)
    return tuple(files)


def parse_client(text: str) -> Client:
    """Parse the text of `fdinfo` of a card.

    Raises:
        KeyError: it is of no card.
        ValueError: it can't be understood.
    """
    pairs = (line.partition(":") for line in text.splitlines() if line.startswith("drm-"))
    values = {key: value.strip() for key, _, value in pairs}
    memory: dict[str, int] = {}
    for prefix in reversed(_MEMORY_KEYS):
        sizes = {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
        memory.update((region, _bytes(size)) for region, size in sizes.items())
    return Client(values["drm-pdev"], values["drm-client-id"], memory, dict(_engines(values)))


def _engines(values: Mapping[str, str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the class, the time worked and the time passed (0 for a clock in nanoseconds)."""
    for key, value in values.items():
        kind = key.removeprefix("drm-engine-").removeprefix("drm-cycles-")
        if kind == key or kind.startswith("capacity-"):
            continue
        number = int(value.split(" ")[0])
        capacity = int(values.get(f"drm-engine-capacity-{kind}", "1")) or 1
        yield kind, (number // capacity, int(values.get(f"drm-total-cycles-{kind}", "0")))


def _bytes(size: str) -> int:
    number, _, unit = size.partition(" ")
    if unit not in _UNITS:
        raise ValueError("the size can't be understood")
    return int(number) * _UNITS[unit]


def _busiest_pct(before: Client, now: Client, elapsed_ns: int) -> float:
    """Return the share of time of the busiest engine; 0 if a reset card counts from 0 again."""
    most = 0.0
    for kind, (worked, passed) in now.engines.items():
        worked_before, passed_before = before.engines.get(kind, (worked, passed))
        elapsed = passed - passed_before if passed else elapsed_ns
        if elapsed > 0:
            most = max(most, 100 * (worked - worked_before) / elapsed)
    return most
