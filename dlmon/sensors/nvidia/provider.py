"""NVIDIA GPUs, through NVML: the `pynvml` module of NVIDIA's package nvidia-ml-py.

Life cycle errors (a GPU fell off the bus, the driver was unloaded or replaced) make all handles
invalid: NVML is then shut down and initialised again, first at once, later after growing pauses.
Any other error is the reason of one unknown field. While all GPUs are asleep, NVML is not called.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.records import GpuState, MachineFacts, gpu_name
from dlmon.records.xid import xid_text
from dlmon.sensors import kernel_files
from dlmon.sensors.kernel_files import text_of
from dlmon.sensors.nvidia.device import LOST, Device, Missing, missing_by
from dlmon.sensors.nvidia.queries import (
    ENERGY,
    FAST,
    LIFE_CYCLE,
    MIG,
    PCIE,
    PCIE_LATER,
    PCIE_LEFT_OUT,
    SLOW,
    cuda_version,
    words,
)
from dlmon.sensors.provider import Provider, SensorReading
from dlmon.sensors.query import Query

ROOT = Path("/")


class RuntimePower:
    """The power state of the display controllers that NVIDIA's driver manages."""

    def __init__(self, root: Path | None = None) -> None:
        self._driver = (root or ROOT) / "sys/bus/pci/drivers/nvidia"
        self._statuses: list[str] = []

    def find_cards(self) -> None:
        """List the cards; a card that Linux may not suspend never has the status "suspended"."""
        try:
            entries = list(self._driver.iterdir())
        except OSError:
            entries = []
        # PCI class 03: display controllers.
        cards = [entry for entry in entries if text_of(entry / "class").startswith("0x03")]
        self._statuses = [str(card / "power/runtime_status") for card in cards]

    @property
    def cards(self) -> int:
        """The number of cards when they were last listed."""
        return len(self._statuses)

    @property
    def all_asleep(self) -> bool:
        """True if there are cards, and none is awake."""
        return bool(self._statuses) and all(text_of(path) == "suspended" for path in self._statuses)


ASLEEP = Missing("asleep (runtime power management)", GpuState.ASLEEP)
LIBRARY = "libnvidia-ml.so.1"
FIRST_PAUSE_NS = 1_000_000_000
LONGEST_PAUSE_NS = 60_000_000_000

# A reading measures at most one GPU's PCIe link, and each GPU's at most once in 5 readings.
_MEASURE_EVERY = 5
# With more GPUs, their energy in every record would make it too large.
_MAX_ENERGY_EACH_INTERVAL = 4
_UNKNOWN_WITHOUT_NVML = ("gpus", "driver", "cuda", "foreign_gpu_processes")


class NvidiaProvider(Provider):
    """Every GPU that NVML reports.

    Args:
        load: returns the `pynvml` module, or the reason why NVML can't be used.
        pcie: measure the PCIe throughput too.
        wake: wake sleeping GPUs at the start, because one is about to be used.
        power: their power states.
    """

    def __init__(
        self,
        load: Callable[[], Any] | None = None,
        *,
        pcie: bool = False,
        wake: bool = False,
        power: RuntimePower | None = None,
    ) -> None:
        self._load = load or load_pynvml
        self._pcie = pcie
        self._wake = wake
        self._power = power or RuntimePower()
        self._nvml: Any = None
        self._initialised = False
        self._devices: list[Device] = []
        self._why: Missing | None = None
        self._is_asleep = False
        self._reopen_at = 0
        self._pause_ns = FIRST_PAUSE_NS
        self._turn = 0
        """The number of readings that could measure a PCIe link."""
        self._unreachable = False
        self._lost: set[int] = set()
        self._notices: list[str] = []

    @property
    def cards(self) -> int:
        """The number of cards that the driver manages, awake or not."""
        return self._power.cards

    def facts(self) -> MachineFacts:
        """Initialise NVML; return the GPUs, the driver, and the number of processes on the GPUs."""
        self._power.find_cards()
        self._is_asleep = self._power.all_asleep and not self._wake
        if self._is_asleep:
            return _no_facts(ASLEEP)
        self._load_and_open()
        if self._why is not None:
            return _no_facts(self._why)
        for device in self._devices:
            device.is_due = False
        facts = self._gpu_facts()
        foreign = self._computing_processes()
        self._report_losses()
        if isinstance(foreign, Missing):
            return replace(facts, why={**facts.why, "foreign_gpu_processes": foreign.reason})
        return replace(facts, foreign_gpu_processes=foreign)

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a GPU appeared since they were last returned, else None."""
        if all(device.has_reported_facts or device.is_lost for device in self._devices):
            return None
        return self._gpu_facts()

    def notices(self) -> list[str]:
        """Return a sentence for each Xid error, loss and return of a GPU since the last call."""
        for device in self._devices:
            for code in device.xid_errors.unreported():
                self._notices.append(f"GPU {device.index}: {xid_text(code)}")
        self._report_losses()
        notices, self._notices = self._notices, []
        return notices

    def fast(self, t: int) -> SensorReading:
        """Read activity, memory, power, temperature, clock and throttling; of few GPUs, energy too.

        With `pcie`, measure the PCIe link of one GPU, each in turn.
        """
        was_asleep, self._is_asleep = self._is_asleep, self._power.all_asleep
        if self._is_asleep:
            return _no_reading(ASLEEP)
        if was_asleep:
            if self._nvml is None:
                self._load_and_open()
            for device in self._devices:
                device.is_due = True
        self._reconnect(t)
        if self._pcie and self._devices:
            turn, self._turn = self._turn % max(_MEASURE_EVERY, len(self._devices)), self._turn + 1
            for device in self._devices[turn : turn + 1]:
                device.measure(self._nvml, PCIE)
        queries = (*FAST, *PCIE_LATER) if self._pcie else FAST
        reading = self._read((*queries, *ENERGY) if self._has_few_gpus() else queries)
        if self._all_answer():
            self._pause_ns = FIRST_PAUSE_NS
        self._report_losses()
        return reading

    def slow(self, t: int) -> SensorReading:
        """Read limits, errors, links and processes; of many GPUs, energy too."""
        self._power.find_cards()
        if self._is_asleep:
            return SensorReading()
        queries = (MIG, *SLOW, *(() if self._pcie else PCIE_LEFT_OUT))
        reading = self._read(queries if self._has_few_gpus() else queries + ENERGY, slow=True)
        if not self._devices:
            return reading
        processes, why = self._processes()
        return replace(reading, gpu_processes=processes, why=why)

    def _has_few_gpus(self) -> bool:
        return len(self._devices) <= _MAX_ENERGY_EACH_INTERVAL

    def _read(self, queries: tuple[Query, ...], slow: bool = False) -> SensorReading:
        if self._why is not None and not self._devices:
            return _no_reading(self._why)
        gpus = tuple(device.read(self._nvml, queries, slow) for device in self._devices)
        return SensorReading(gpus=gpus, gpus_state=GpuState.ANSWERS)

    def _gpu_facts(self) -> MachineFacts:
        values: dict[str, Any] = {"gpus": tuple(d.facts(self._nvml) for d in self._devices)}
        why: dict[str, str] = {}
        readers: dict[str, Callable[[], Any]] = {
            "driver": lambda: str(self._nvml.nvmlSystemGetDriverVersion()),
            "cuda": lambda: cuda_version(self._nvml.nvmlSystemGetCudaDriverVersion_v2()),
        }
        for name, reader in readers.items():
            try:
                values[name] = reader()
            except (self._nvml.NVMLError, ValueError) as error:
                why[name] = words(error)
        return MachineFacts(**values, gpus_state=GpuState.ANSWERS, why=why)

    def _computing_processes(self) -> int | Missing:
        pids: set[int] = set()
        for device in self._devices:
            device_pids = device.computing_pids(self._nvml)
            if not isinstance(device_pids, Missing):
                pids.update(device_pids)
            elif device.handle is not None:
                return device_pids
        if self._devices and _may_be_hidden(pids):
            return Missing(kernel_files.why_processes_hidden())
        return len(pids)

    def _processes(self) -> tuple[dict[int, dict[int, int | None]] | None, dict[str, str]]:
        """Return the processes of the GPUs that report them, or the first reason if none does."""
        by_pid: dict[int, dict[int, int | None]] = {}
        reasons: list[str] = []
        for device in self._devices:
            mib_by_pid = device.processes(self._nvml)
            if isinstance(mib_by_pid, Missing):
                reasons.append(mib_by_pid.reason)
            else:
                for pid, mib in mib_by_pid.items():
                    by_pid.setdefault(pid, {})[device.index] = mib
        if len(reasons) == len(self._devices):
            return None, {"gpu_processes": reasons[0]}
        if _may_be_hidden(by_pid):
            return None, {"gpu_processes": kernel_files.why_processes_hidden()}
        return by_pid, {}

    def _reconnect(self, t: int) -> None:
        """Initialise NVML again if a GPU is lost and the pause is over."""
        if self._nvml is None or self._all_answer() or t < self._reopen_at:
            return
        if self._initialised:
            self._initialised = False
            for device in self._devices:
                device.release()
            # A driver that is gone can't be shut down; `_open` reports it.
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
        self._open()
        self._reopen_at = t + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, LONGEST_PAUSE_NS)

    def _all_answer(self) -> bool:
        return self._why is None and not any(device.is_lost for device in self._devices)

    def _load_and_open(self) -> None:
        nvml = self._load()
        if isinstance(nvml, Missing):
            self._why = nvml
        else:
            self._nvml = nvml
            self._open()

    def _open(self) -> None:
        """Initialise NVML and attach the devices; a device with a known uuid keeps its index."""
        self._why = None
        try:
            self._nvml.nvmlInit()
            self._initialised = True
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            self._why = missing_by(error)
            self._unreachable = not self._devices
            for device in self._devices:
                device.detach(self._why)
            return
        for device in self._devices:
            device.detach(LOST)
        for nvml_index in range(count):
            self._attach(nvml_index)

    def _attach(self, nvml_index: int) -> None:
        handle, uuid, missing = None, None, LOST
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(nvml_index) or None
            uuid = str(self._nvml.nvmlDeviceGetUUID(handle)) if handle is not None else None
        except (self._nvml.NVMLError, ValueError) as error:
            missing = missing_by(error)
            if getattr(error, "value", None) in LIFE_CYCLE:
                handle = None
        device = self._device(nvml_index, uuid)
        if handle is None:
            device.detach(missing)
        else:
            device.attach(self._nvml, handle, uuid)

    def _device(self, nvml_index: int, uuid: str | None) -> Device:
        for device in self._devices:
            if uuid is not None and device.uuid == uuid:
                return device
        by_index = {device.index: device for device in self._devices}
        same_index = by_index.get(nvml_index)
        if same_index is not None and (uuid is None or same_index.uuid is None):
            return same_index
        new = Device(nvml_index if same_index is None else max(by_index) + 1)
        self._devices.append(new)
        return new

    def _report_losses(self) -> None:
        by_reason: dict[str, list[int]] = {}
        for device in self._devices:
            if device.is_lost and device.index not in self._lost:
                by_reason.setdefault(device.missing.reason, []).append(device.index)
        for reason, indexes in by_reason.items():
            again = "it is" if len(indexes) == 1 else "they are"
            self._notices.append(f"{gpu_name(sorted(indexes))}: {reason}; {again} tried again")
            self._lost.update(indexes)
        back = [
            device.index
            for device in self._devices
            if device.answered and (self._unreachable or device.index in self._lost)
        ]
        if back:
            self._unreachable = False
            self._notices.append(f"{gpu_name(sorted(back))}: back")
            self._lost.difference_update(back)


def load_pynvml() -> Any:
    """Return the `pynvml` module, or why NVML can't be used.

    The library is looked for first: the import takes longer than all the rest of a sample.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        is_absent = "no such file" in str(error).lower()
        why = f"{LIBRARY} was not found" if is_absent else str(error)
        return Missing(f"no NVIDIA driver: {why}", GpuState.NO_DRIVER)
    try:
        import pynvml
    except ImportError:
        why = "the Python package nvidia-ml-py is not installed"
        return Missing(why, GpuState.NO_PACKAGE)
    return pynvml


def _no_facts(missing: Missing) -> MachineFacts:
    why = dict.fromkeys(_UNKNOWN_WITHOUT_NVML, missing.reason)
    return MachineFacts(gpus_state=missing.state, why=why)


def _no_reading(missing: Missing) -> SensorReading:
    return SensorReading(gpus_state=missing.state, why={"gpus": missing.reason})


def _may_be_hidden(processes: Collection[object]) -> bool:
    return not processes and not kernel_files.sees_every_process()
