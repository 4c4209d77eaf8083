"""One card of a DRM driver: its folders in /sys, and its answers to queries."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from dlmon.records import Gpu, GpuFacts, GpuState
from dlmon.sensors import kernel_files
from dlmon.sensors.drm import gpu_metrics
from dlmon.sensors.drm.card_files import CardFiles
from dlmon.sensors.drm.names import product_name
from dlmon.sensors.drm.queries import Driver
from dlmon.sensors.query import Query, Reader

# Errors that another reading would return again.
_SETTLED = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EOPNOTSUPP}
_INTEL_INTEGRATED = "0000:00:02.0"
_KNOWN = {
    *("index", "name", "uuid", "bus_id", "state", "memory_kind", "vendor", "rocm_devices"),
    "why",
}
_FACTS, _READINGS = (
    [spec.name for spec in fields(record) if spec.name not in _KNOWN] for record in (GpuFacts, Gpu)
)
ASLEEP = "asleep (runtime power management)"
LOST = "lost"


class Card:
    """A card, by the PCI address under which it was first found.

    Attributes:
        bus_id: the PCI address.
        state: answers, asleep or lost.
    """

    def __init__(self, root: Path, bus_id: str, driver: Driver, number: int) -> None:
        self._root = root
        self.bus_id, self.driver, self.number = bus_id, driver, number
        self._files = CardFiles("")
        self.state = GpuState.LOST
        self.has_reported_facts = False
        self.uses_system_memory = False
        self.rocm_devices = 1
        self._settled: dict[str, Reader | str] = {}

    @property
    def folder(self) -> str:
        return self._files.folder

    def attach(self, folder: str) -> None:
        """Read the card in this folder from now on; its sensors may have new numbers."""
        if self._files.are_at(folder):
            return
        self._files, self._settled = CardFiles(folder), {}
        self.uses_system_memory = self._is_integrated()
        if self.uses_system_memory:
            self._files.names.pop("link", None)

    def _is_integrated(self) -> bool:
        """Return whether it allocates in the system's memory, as a GPU in a processor does.

        amdgpu does so if the part of the memory that the firmware sets aside is the smaller one
        (`apu_prefer_gtt` in drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c).
        """
        if self.driver.vendor == "intel":
            return self.bus_id == _INTEL_INTEGRATED
        with suppress(OSError, ValueError, LookupError):
            set_aside, shared = (
                int(self._files.text(f"device/mem_info_{kind}_total")) for kind in ("vram", "gtt")
            )
            # An MI300A sets nothing aside (ollama's pull request 13463).
            return set_aside < shared and (not set_aside or self._is_in_processor())
        return False

    def _is_in_processor(self) -> bool:
        # Only these report the voltage of the northbridge (Documentation/gpu/amdgpu/thermal.rst).
        if "in_vddnb" in self._files.names:
            return True
        return gpu_metrics.is_in_processor(self._files.bytes(gpu_metrics.PATH))

    def update_state(self) -> None:
        """Find whether the card is there and awake; reading most files would wake it."""
        try:
            is_asleep = self._files.text("device/power/runtime_status") == "suspended"
        except OSError:
            is_there = Path(self.folder, "device").exists()
            self.state = GpuState.ANSWERS if is_there else GpuState.LOST
        else:
            self.state = GpuState.ASLEEP if is_asleep else GpuState.ANSWERS

    def facts(self) -> GpuFacts:
        """Return the facts; those of a card that is asleep are reported when it is awake."""
        self.update_state()
        self.has_reported_facts = self.state == GpuState.ANSWERS
        values: dict[str, Any] = {}
        why = dict.fromkeys((*_FACTS, "uuid") if self.state == GpuState.LOST else _FACTS, self._why)
        if self.state == GpuState.ANSWERS:
            asked = self.driver.facts
            if self.uses_system_memory:
                asked = tuple(query for query in asked if query.name != "memory_mib")
            values, why = self._answers(asked)
            why |= self._not_asked(_FACTS, self.driver.facts)
        if self.uses_system_memory:
            why.pop("memory_mib", None)
            values["memory_kind"] = "system"
        return GpuFacts(
            self.number,
            product_name(self._root, self.folder, self.driver.vendor),
            uuid=None if self.state == GpuState.LOST else self._unique_id(),
            bus_id=self.bus_id,
            state=self.state,
            vendor=self.driver.vendor,
            rocm_devices=self.rocm_devices,
            **values,
            why=why,
        )

    def read(self, t: int, queries: Iterable[Query], slow: bool = False) -> Gpu:
        """Ask the queries; if `slow`, also say of each other field that it is not reported."""
        self._files.t = t
        if self.state != GpuState.ANSWERS:
            why = dict.fromkeys(_READINGS, self._why)
            return Gpu(self.number, state=self.state, why=why)
        values, why = self._answers(queries)
        if slow:
            why |= self._not_asked(_READINGS, (*self.driver.fast, *self.driver.slow))
        if self.uses_system_memory:
            # The sampler says how much of the system's memory is used.
            values.pop("memory_used_mib", None)
            why.pop("memory_used_mib", None)
        return Gpu(self.number, **values, state=self.state, why=why)

    def _not_asked(self, names: Iterable[str], queries: Iterable[Query]) -> dict[str, str]:
        asked = {query.name for query in queries}
        why = f"{self.driver.name} does not report it"
        return dict.fromkeys((name for name in names if name not in asked), why)

    @property
    def _why(self) -> str:
        return ASLEEP if self.state == GpuState.ASLEEP else LOST

    def _unique_id(self) -> str:
        """Return ROCm's name of the card if it has one, else one by its PCI address."""
        with suppress(OSError, ValueError):
            if number := int(self._files.text("device/unique_id"), 16):
                return f"GPU-{number:016x}"
        return f"PCI-{self.bus_id}"

    def _answers(self, queries: Iterable[Query]) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {}
        why: dict[str, str] = {}
        for query in queries:
            settled = self._settled.get(query.name)
            if isinstance(settled, str):
                why[query.name] = settled
                continue
            try:
                values[query.name] = self._ask(query, settled)
            except (OSError, LookupError, ValueError) as error:
                why[query.name] = _reason(error)
        return values, why

    def _ask(self, query: Query, settled: Reader | None) -> Any:
        """Return the answer; remember which of its readers works, or why none ever does."""
        failures: list[Exception] = []
        for reader in query.readers if settled is None else (settled,):
            try:
                value = reader(self._files)
            except (OSError, LookupError) as error:
                failures.append(error)
                continue
            query.check(value)
            self._settled[query.name] = reader
            return value
        if settled is None and all(map(_is_settled, failures)):
            self._settled[query.name] = _reason(failures[0])
        raise failures[0]


def _is_settled(error: Exception) -> bool:
    return isinstance(error, LookupError) or getattr(error, "errno", None) in _SETTLED


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
        return "not supported"
    if isinstance(error, KeyError):
        return "not reported here"
    if isinstance(error, LookupError) and str(error):
        return str(error)
    return kernel_files.reason(error)
