"""GPUs of AMD and Intel, by the files of their drivers: no vendor's package, no root."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dlmon.records import Gpu, GpuState, MachineFacts, gpu_name
from dlmon.sensors import kernel_files
from dlmon.sensors.drm.card import LOST, Card
from dlmon.sensors.drm.clients import KFD, CardUse, Clients, kfd_nodes
from dlmon.sensors.drm.queries import DRIVERS
from dlmon.sensors.provider import Provider, SensorReading
from dlmon.system.this_host import is_first_pid_namespace

ROOT = Path("/")
_CARD = re.compile(r"card\d+")
_USED = "memory_used_mib"
_OTHERS_HIDDEN = "the kernel tells it of each process, and hides those of other users"


class DrmProvider(Provider):
    """Every card of the drivers amdgpu, i915 and xe.

    Cards are numbered from `first` on: AMD's in the order of ROCm's devices, then Intel's, those
    without memory of their own last.

    Args:
        root: the folder of `sys` and `proc`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or ROOT
        self._same_pids = is_first_pid_namespace(self._root) is True
        self._class = self._root / "sys/class/drm"
        self._clients = Clients(self._root, self._same_pids)
        self._cards: list[Card] = []
        self._lost: set[int] = set()
        self._notices: list[str] = []
        self._names: list[str] = []
        """Those of all cards in /sys/class/drm, when they were last looked at."""
        self.first = 0

    def facts(self) -> MachineFacts:
        self._find_cards()
        return self._facts()

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a card appeared or woke since they were returned, else None."""
        is_due = any(c.state == GpuState.ANSWERS and not c.has_reported_facts for c in self._cards)
        return self._facts() if is_due else None

    def notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def fast(self, t: int) -> SensorReading:
        if not self._cards:
            return SensorReading()
        for card in self._cards:
            card.update_state()
        self._report_losses()
        return self._reading([card.read(t, card.driver.fast) for card in self._cards])

    def slow(self, t: int) -> SensorReading:
        self._find_cards()
        if not self._cards:
            return SensorReading()
        uses = self._clients.read(t, {card.bus_id: card for card in self._cards})
        gpus = [card.read(t, card.driver.slow, slow=True) for card in self._cards]
        gpus = [
            self._with_memory(card, gpu, uses) for card, gpu in zip(self._cards, gpus, strict=True)
        ]
        by_pid, pct_by_pid = self._processes(uses)
        reading = replace(self._reading(gpus), gpu_pids_are_ours=True, gpu_pct=pct_by_pid)
        if by_pid or self._same_pids:
            return replace(reading, gpu_processes=by_pid)
        return replace(reading, why={"gpu_processes": kernel_files.why_processes_hidden()})

    def _with_memory(self, card: Card, gpu: Gpu, uses: Mapping[str, CardUse]) -> Gpu:
        """Return the readings with the sum of the processes' memory if no file tells it."""
        is_told = any(query.name == _USED for query in card.driver.fast)
        if is_told or card.uses_system_memory or card.state != GpuState.ANSWERS:
            return gpu
        if not self._clients.sees_all:
            return replace(gpu, why={**gpu.why, _USED: _OTHERS_HIDDEN})
        why = {name: reason for name, reason in gpu.why.items() if name != _USED}
        return replace(gpu, memory_used_mib=uses[card.bus_id].own_mib, why=why)

    def _processes(
        self, uses: Mapping[str, CardUse]
    ) -> tuple[dict[int, dict[int, int | None]], dict[int, int]]:
        """Return the memory of each process on each card, and its share of engine time."""
        by_pid: dict[int, dict[int, int | None]] = {}
        pct_by_pid: dict[int, int] = {}
        for card in self._cards:
            use = uses[card.bus_id]
            for pid, mib in use.mib_by_pid.items():
                by_pid.setdefault(pid, {})[card.number] = mib
            for pid, pct in use.pct_by_pid.items():
                pct_by_pid[pid] = max(pct, pct_by_pid.get(pid, 0))
        return by_pid, pct_by_pid

    def _reading(self, gpus: list[Gpu]) -> SensorReading:
        return SensorReading(gpus=tuple(gpus), gpus_state=GpuState.ANSWERS)

    def _facts(self) -> MachineFacts:
        if not self._cards:
            return MachineFacts()
        gpus = tuple(card.facts() for card in self._cards)
        facts = MachineFacts(gpus=gpus, gpus_state=GpuState.ANSWERS)
        why = None if self._same_pids else kernel_files.why_processes_hidden()
        if all(card.driver.vendor != "amd" for card in self._cards):
            why = "the kernel lists them for AMD's GPUs alone"
        if why is not None:
            return replace(facts, why={"foreign_gpu_processes": why})
        return replace(facts, foreign_gpu_processes=self._clients.count_kfd_processes())

    def _find_cards(self) -> None:
        """List the cards; one that was lost and is back keeps its number."""
        try:
            names = sorted(filter(_CARD.fullmatch, kernel_files.names(str(self._class))))
        except OSError:
            names = []
        if names == self._names and not self._lost:
            for known in self._cards:
                known.attach(known.folder)
            return
        self._names = names
        by_bus_id = {card.bus_id: card for card in self._cards}
        new: list[Card] = []
        for name in names:
            device = self._class / name / "device"
            driver = DRIVERS.get((device / "driver").resolve().name)
            if driver is None:
                continue
            bus_id = device.resolve().name
            card = by_bus_id.get(bus_id)
            if card is None:
                card = Card(self._root, bus_id, driver, -1)
                new.append(card)
            card.attach(str(self._class / name))
        rocm = [bus_id for _, bus_id in kfd_nodes(str(self._root / KFD))]
        for added in sorted(new, key=lambda card: _order(card, rocm)):
            added.number = self.first + len(self._cards)
            added.rocm_devices = max(1, rocm.count(added.bus_id))
            self._cards.append(added)

    def _report_losses(self) -> None:
        for card in self._cards:
            is_lost = card.state == GpuState.LOST
            if is_lost and card.number not in self._lost:
                self._notices.append(f"{gpu_name([card.number])}: {LOST}; it is tried again")
                self._lost.add(card.number)
            elif not is_lost and card.number in self._lost:
                self._notices.append(f"{gpu_name([card.number])}: back")
                self._lost.discard(card.number)


def _order(card: Card, rocm: list[str]) -> tuple[bool, int, bool, str]:
    """Return the key by which new cards are numbered."""
    place = rocm.index(card.bus_id) if card.bus_id in rocm else len(rocm)
    return card.driver.vendor != "amd", place, card.uses_system_memory, card.bus_id
