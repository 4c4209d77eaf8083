"""NVIDIA GPUs, through NVML: the `pynvml` module of NVIDIA's own package nvidia-ml-py.

Errors of the driver's life cycle (a GPU fell off the bus, the driver was
unloaded or replaced) make every handle worthless: NVML is then shut down and
begun again, at first at once, later with growing pauses. Any other error is
one reading that is absent, with its reason.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dlmon.records import Gpu, GpuFacts, MachineFacts
from dlmon.sensors import files
from dlmon.sensors.provider import Reading
from dlmon.sensors.rates import BYTES_IN_MIB

LIBRARY = "libnvidia-ml.so.1"
FIRST_PAUSE_NS = 1_000_000_000
LONGEST_PAUSE_NS = 60_000_000_000

# nvmlReturn_t (NVML API reference, nvml.h).
UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED = 1, 3, 4, 9
FUNCTION_NOT_FOUND, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 13, 15, 18
ARGUMENT_VERSION_MISMATCH = 25
LIFE_CYCLE = {UNINITIALIZED, DRIVER_NOT_LOADED, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH}
# What will not be answered differently the next time.
SETTLED = {NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH}
WORDS = {
    UNINITIALIZED: "NVML was shut down",
    NOT_SUPPORTED: "not supported",
    NO_PERMISSION: "denied",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    10: "timed out",
    FUNCTION_NOT_FOUND: "not supported by this driver",
    GPU_IS_LOST: "lost",
    16: "the GPU needs a reset",
    LIB_RM_VERSION_MISMATCH: "the NVIDIA driver and its library differ in version",
    21: "no data",
    ARGUMENT_VERSION_MISMATCH: "not supported by this driver",
    999: "unknown NVML error",
}

# nvmlClocksEventReasons (nvml.h). Bit 0, idle, is no throttle.
THROTTLE_WORDS = {
    0x2: "clock setting",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability limit",
}

# Beyond so many GPUs, their energy each second would make a record too large.
_MOST_ENERGY_EACH_INTERVAL = 4

_Reader = Callable[[Any, Any], Any]


class NoNvml(Exception):
    """NVML can't be asked in this process; the message says why."""


@dataclass(frozen=True)
class _Question:
    """A field of `Gpu`, the calls that answer it (the newest first), and its largest true value."""

    name: str
    readers: tuple[_Reader, ...]
    largest: float | None = None


@dataclass(frozen=True)
class _Missing:
    reason: str


@dataclass
class _Device:
    """A GPU under the index it was first seen by; without a handle it can't be asked."""

    index: int
    uuid: str | None = None
    handle: Any = None
    missing: _Missing = _Missing("lost")
    settled: dict[str, _Reader | _Missing] = field(default_factory=dict)


class NvidiaProvider:
    """Every GPU that NVML tells of."""

    def __init__(self, load: Callable[[], Any] | None = None) -> None:
        self._load = load or load_pynvml
        self._nvml: Any = None
        self._initialised = False
        self._devices: list[_Device] = []
        self._why: str | None = None
        self._reopen_at = 0
        self._pause_ns = FIRST_PAUSE_NS

    def facts(self) -> MachineFacts:
        """Start NVML and tell the GPUs, the driver, and who else uses the GPUs."""
        try:
            self._nvml = self._load()
            self._open()
        except NoNvml as error:
            self._why = str(error)
        if self._why is not None:
            unknown = ("gpus", "driver", "cuda", "foreign_gpu_processes")
            return MachineFacts(why=dict.fromkeys(unknown, self._why))
        values: dict[str, Any] = {"gpus": tuple(self._facts_of(d) for d in self._devices)}
        why: dict[str, str] = {}
        asked: dict[str, Callable[[], Any]] = {
            "driver": lambda: str(self._nvml.nvmlSystemGetDriverVersion()),
            "cuda": lambda: cuda_version(self._nvml.nvmlSystemGetCudaDriverVersion_v2()),
            "foreign_gpu_processes": self._gpu_processes,
        }
        for name, ask in asked.items():
            try:
                values[name] = ask()
            except (self._nvml.NVMLError, OSError, ValueError) as error:
                why[name] = self._words(error)
        return MachineFacts(**values, why=why)

    def fast(self, t: int) -> Reading:
        """Read utilisation, memory, power, temperature, clock, throttle reasons; of few, energy."""
        questions: tuple[_Question, ...] = FAST
        if self._reopen_if_due(t):
            questions += SLOW + ENERGY
        elif self._few():
            questions += ENERGY
        reading = self._read(questions)
        if self._all_answer():
            self._pause_ns = FIRST_PAUSE_NS
        return reading

    def slow(self, t: int) -> Reading:
        """Read the power limit and the memory's clock; of many GPUs, energy too."""
        return self._read(SLOW if self._few() else SLOW + ENERGY)

    def _few(self) -> bool:
        return len(self._devices) <= _MOST_ENERGY_EACH_INTERVAL

    def _read(self, questions: tuple[_Question, ...]) -> Reading:
        if self._why is not None and not self._devices:
            return Reading(why={"gpus": self._why})
        return Reading(gpus=tuple(self._gpu(device, questions) for device in self._devices))

    def _gpu(self, device: _Device, questions: tuple[_Question, ...]) -> Gpu:
        if device.handle is None:
            questions = FAST + SLOW + ENERGY
        values, why = self._answers(device, questions)
        return Gpu(index=device.index, **values, why=why)

    def _answers(
        self, device: _Device, questions: tuple[_Question, ...]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {}
        why: dict[str, str] = {}
        for question in questions:
            answer = self._ask(device, question)
            if isinstance(answer, _Missing):
                why[question.name] = answer.reason
            else:
                values[question.name] = answer
        return values, why

    def _ask(self, device: _Device, question: _Question) -> Any:
        """Return the device's answer; which call answers, if any, is found out once."""
        if device.handle is None:
            return device.missing
        settled = device.settled.get(question.name)
        if isinstance(settled, _Missing):
            return settled
        missing = _Missing("not supported")
        for reader in (settled,) if settled is not None else question.readers:
            try:
                value = reader(self._nvml, device.handle)
                _check(value, question.largest)
            except self._nvml.NVMLError as error:
                missing = _Missing(self._words(error))
                if error.value in LIFE_CYCLE:
                    device.handle, device.missing = None, missing
                    return missing
                if error.value not in SETTLED:
                    return missing
            except AttributeError:  # an older pynvml without this call
                missing = _Missing("not supported by this pynvml")
            except ValueError as error:
                return _Missing(str(error))
            else:
                device.settled[question.name] = reader
                return value
        device.settled[question.name] = missing
        return missing

    def _reopen_if_due(self, t: int) -> bool:
        """Begin anew when something was lost, no sooner than the pause after the last try."""
        if self._nvml is None or t < self._reopen_at or self._all_answer():
            return False
        self._shut_down()
        self._open()
        self._reopen_at = t + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, LONGEST_PAUSE_NS)
        return True

    def _all_answer(self) -> bool:
        return self._why is None and all(device.handle is not None for device in self._devices)

    def _shut_down(self) -> None:
        for device in self._devices:
            device.handle = None
        if self._initialised:
            self._initialised = False
            # A driver that is gone can't be shut down either; starting it again will tell.
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _open(self) -> None:
        """Start NVML and give each device its handle. A device keeps its index by its uuid."""
        self._why = None
        try:
            self._nvml.nvmlInit()
            self._initialised = True
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            self._why = self._words(error)
            for device in self._devices:
                device.missing = _Missing(self._why)
            return
        for device in self._devices:
            device.missing = _Missing("lost")
        for nvml_index in range(count):
            self._attach(nvml_index)

    def _attach(self, nvml_index: int) -> None:
        uuid = None
        handle, missing = None, _Missing("lost")
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(nvml_index) or None
            uuid = str(self._nvml.nvmlDeviceGetUUID(handle)) if handle is not None else None
        except (self._nvml.NVMLError, ValueError) as error:
            missing = _Missing(self._words(error))
            if getattr(error, "value", None) in LIFE_CYCLE:
                handle = None
        device = self._device(nvml_index, uuid, handle)
        if handle is None:
            device.missing = missing
        else:
            device.handle, device.uuid = handle, uuid or device.uuid
            device.settled = {}

    def _device(self, nvml_index: int, uuid: str | None, handle: Any) -> _Device:
        for device in self._devices:
            if uuid is not None and device.uuid == uuid:
                return device
        by_index = {device.index: device for device in self._devices}
        same_place = by_index.get(nvml_index)
        if same_place is not None and (uuid is None or same_place.uuid is None):
            return same_place
        new = _Device(nvml_index if same_place is None else max(by_index) + 1, uuid, handle)
        self._devices.append(new)
        return new

    def _facts_of(self, device: _Device) -> GpuFacts:
        values, why = self._answers(device, FACTS)
        values.setdefault("name", "NVIDIA GPU")
        return GpuFacts(index=device.index, **values, why=why)

    def _gpu_processes(self) -> int:
        pids: set[int] = set()
        for device in self._devices:
            if device.handle is not None:
                found = self._nvml.nvmlDeviceGetComputeRunningProcesses(device.handle)
                pids.update(process.pid for process in found)
        if self._devices and not pids and not files.sees_every_process():
            raise ValueError("a container may hide other processes")
        return len(pids)

    def _words(self, error: Exception) -> str:
        code = getattr(error, "value", None)
        if code is None:
            return files.reason(error)
        return WORDS.get(code) or f"NVML: {str(error).lower()}"


class NoGpus:
    """Stands in where NVML must not be asked, as after it hung."""

    def __init__(self, why: str) -> None:
        self._why = why

    def facts(self) -> MachineFacts:
        """Tell why nothing is known of the GPUs."""
        unknown = ("gpus", "driver", "cuda", "foreign_gpu_processes")
        return MachineFacts(why=dict.fromkeys(unknown, self._why))

    def fast(self, t: int) -> Reading:
        """Tell the same."""
        return Reading(why={"gpus": self._why})

    def slow(self, t: int) -> Reading:
        """Read nothing."""
        return Reading()


def load_pynvml() -> Any:
    """Return the `pynvml` module once its library is known to be there.

    Importing it costs more than the whole rest of a sample, so a machine
    without a driver never does.

    Raises:
        NoNvml: there is no library, or no pynvml.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        if "no such file" in str(error).lower():
            raise NoNvml(f"no NVIDIA driver: {LIBRARY} was not found") from None
        raise NoNvml(f"no NVIDIA driver: {error}") from None
    try:
        import pynvml
    except ImportError:
        raise NoNvml("the Python package nvidia-ml-py is not installed") from None
    return pynvml


def cuda_version(number: int) -> str:
    """Return "12.4" for NVML's 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Return in words what holds the clocks down. An idle GPU is not throttled."""
    words = tuple(word for bit, word in THROTTLE_WORDS.items() if bits & bit)
    unknown = bits & ~(1 | sum(THROTTLE_WORDS))
    return (*words, f"other ({unknown:#x})") if unknown else words


def _check(value: Any, largest: float | None) -> None:
    """Refuse a number that no hardware shows, such as the all-ones of "not available"."""
    if largest is not None and not 0 <= value <= largest:
        raise ValueError("the driver told no possible value")


def _memory_v2(nvml: Any, handle: Any) -> Any:
    # Version 1 counts what the driver reserves as used; nvidia-smi does not.
    return _own_memory(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))


def _memory_v1(nvml: Any, handle: Any) -> Any:
    return _own_memory(nvml.nvmlDeviceGetMemoryInfo(handle))


def _own_memory(memory: Any) -> Any:
    """Refuse the zeros that boards sharing the machine's memory tell."""
    if not memory.total:
        raise ValueError("this GPU has no memory of its own")
    return memory


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


_MIB_LARGEST = 2**26

FACTS = (
    _Question("name", (lambda nvml, gpu: _text(nvml.nvmlDeviceGetName(gpu)),)),
    _Question("uuid", (lambda nvml, gpu: _text(nvml.nvmlDeviceGetUUID(gpu)),)),
    _Question(
        "memory_mib",
        (
            lambda nvml, gpu: _memory_v2(nvml, gpu).total // BYTES_IN_MIB,
            lambda nvml, gpu: _memory_v1(nvml, gpu).total // BYTES_IN_MIB,
        ),
        largest=_MIB_LARGEST,
    ),
)
FAST = (
    _Question(
        "utilization_pct",
        (lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,),
        largest=100,
    ),
    _Question(
        "memory_used_mib",
        (
            lambda nvml, gpu: _memory_v2(nvml, gpu).used // BYTES_IN_MIB,
            lambda nvml, gpu: _memory_v1(nvml, gpu).used // BYTES_IN_MIB,
        ),
        largest=_MIB_LARGEST,
    ),
    _Question(
        "power_w",
        (lambda nvml, gpu: round(nvml.nvmlDeviceGetPowerUsage(gpu) / 1000, 1),),
        largest=100_000,
    ),
    _Question(
        "temperature_c",
        (
            lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU),
            lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
        ),
        largest=250,
    ),
    _Question(
        "sm_mhz",
        (lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),),
        largest=100_000,
    ),
    _Question(
        "throttle",
        (
            lambda nvml, gpu: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
            lambda nvml, gpu: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
        ),
    ),
)
SLOW = (
    _Question(
        "power_limit_w",
        (lambda nvml, gpu: round(nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000, 1),),
        largest=100_000,
    ),
    _Question(
        "memory_mhz",
        (lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),),
        largest=100_000,
    ),
)
ENERGY = (
    _Question(
        "energy_j",
        (lambda nvml, gpu: round(nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000, 1),),
        largest=1e13,
    ),
)
