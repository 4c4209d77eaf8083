"""What NVML is asked of a GPU, call by call, and its answers in words.

A reader takes the `pynvml` module and a GPU's handle. It raises NVML's own error,
or ValueError with the reason why an answer is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dlmon.records import LARGEST, GpuState
from dlmon.sensors import kernel_files
from dlmon.sensors.rates import BYTES_IN_MIB

# nvmlReturn_t (NVML API reference, nvml.h).
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 9, 13, 15, 18
ARGUMENT_VERSION_MISMATCH = 25
LIFE_CYCLE = {UNINITIALIZED, DRIVER_NOT_LOADED, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH}
STATES = {
    GPU_IS_LOST: GpuState.LOST,
    DRIVER_NOT_LOADED: GpuState.NO_DRIVER,
    LIB_RM_VERSION_MISMATCH: GpuState.VERSIONS_DIFFER,
}
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

# NVML does not report them for a GPU that is divided (nvml.h, of each of these calls).
NOT_UNDER_MIG = frozenset({"utilization_pct", "encoder_pct", "decoder_pct"})
UNDER_MIG = "not reported while MIG is on"

_MIB_LARGEST = 2**26
_MHZ_LARGEST = 100_000
_W_LARGEST = 100_000

Reader = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Query:
    """A field, the calls that answer it (the newest first), and the range of its true values."""

    name: str
    readers: tuple[Reader, ...]
    largest: float | None = None
    smallest: float = 0

    def check(self, value: Any) -> None:
        """Refuse a number that no hardware shows, such as the all-ones of "not available".

        Raises:
            ValueError: it is one.
        """
        if self.largest is not None and not self.smallest <= value <= self.largest:
            raise ValueError("the driver reported an impossible value")


def words(error: Exception) -> str:
    """Say in words why NVML, or the system, gave no answer."""
    code = getattr(error, "value", None)
    if code is None:
        return kernel_files.reason(error)
    return WORDS.get(code) or f"NVML: {str(error).lower()}"


def cuda_version(number: int) -> str:
    """Return "12.4" for NVML's 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Return in words what holds the clocks down. An idle GPU is not throttled."""
    reasons = tuple(word for bit, word in THROTTLE_WORDS.items() if bits & bit)
    unknown = bits & ~(1 | sum(THROTTLE_WORDS))
    return (*reasons, f"other ({unknown:#x})") if unknown else reasons


def sysfs_bus_id(text: str) -> str:
    """Return Linux's name of a PCI device, `0000:65:00.0`, for NVML's `00000000:65:00.0`.

    Raises:
        ValueError: it is no PCI address.
    """
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _memory_v2(nvml: Any, gpu: Any) -> Any:
    # Version 1 counts what the driver reserves as used; nvidia-smi does not.
    return _own_memory(nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2))


def _memory_v1(nvml: Any, gpu: Any) -> Any:
    return _own_memory(nvml.nvmlDeviceGetMemoryInfo(gpu))


def _own_memory(memory: Any) -> Any:
    """Refuse the zeros that boards sharing the machine's memory report."""
    if not memory.total:
        raise ValueError("this GPU has no memory of its own")
    return memory


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _ecc_errors(nvml: Any, gpu: Any, kind: int) -> Any:
    return nvml.nvmlDeviceGetTotalEccErrors(gpu, kind, nvml.NVML_VOLATILE_ECC)


def _unanswered(name: str, reason: str) -> Query:
    """Return a query that is not sent to NVML; `reason` says why."""

    def refuse(nvml: Any, gpu: Any) -> float:
        raise ValueError(reason)

    return Query(name, (refuse,))


def _pcie_mib_s(nvml: Any, gpu: Any, direction: int) -> float:
    return round(float(nvml.nvmlDeviceGetPcieThroughput(gpu, direction)) / 1024, 1)


FACTS = (
    Query("name", (lambda nvml, gpu: _text(nvml.nvmlDeviceGetName(gpu)),)),
    Query("uuid", (lambda nvml, gpu: _text(nvml.nvmlDeviceGetUUID(gpu)),)),
    Query(
        "memory_mib",
        (
            lambda nvml, gpu: _memory_v2(nvml, gpu).total // BYTES_IN_MIB,
            lambda nvml, gpu: _memory_v1(nvml, gpu).total // BYTES_IN_MIB,
        ),
        largest=_MIB_LARGEST,
    ),
    Query(
        "bus_id",
        (lambda nvml, gpu: sysfs_bus_id(_text(nvml.nvmlDeviceGetPciInfo_v3(gpu).busId)),),
    ),
    Query(
        "slowdown_c",
        (
            lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(
                gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            ),
        ),
        largest=250,
        smallest=1,
    ),
    Query(
        "sm_max_mhz",
        (lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),),
        largest=_MHZ_LARGEST,
        smallest=1,
    ),
    Query(
        "memory_max_mhz",
        (lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_MEM),),
        largest=_MHZ_LARGEST,
        smallest=1,
    ),
    Query(
        "pcie_max_generation",
        (lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),),
        largest=16,
        smallest=1,
    ),
    Query(
        "pcie_max_width",
        (lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),),
        largest=64,
        smallest=1,
    ),
)
FAST = (
    Query(
        "utilization_pct",
        (lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,),
        largest=100,
    ),
    Query(
        "memory_used_mib",
        (
            lambda nvml, gpu: _memory_v2(nvml, gpu).used // BYTES_IN_MIB,
            lambda nvml, gpu: _memory_v1(nvml, gpu).used // BYTES_IN_MIB,
        ),
        largest=_MIB_LARGEST,
    ),
    Query(
        "power_w",
        (lambda nvml, gpu: round(nvml.nvmlDeviceGetPowerUsage(gpu) / 1000, 1),),
        largest=_W_LARGEST,
    ),
    Query(
        "temperature_c",
        (
            lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU),
            lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
        ),
        largest=250,
    ),
    Query(
        "sm_mhz",
        (lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),),
        largest=_MHZ_LARGEST,
    ),
    Query(
        "throttle",
        (
            lambda nvml, gpu: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
            lambda nvml, gpu: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
        ),
    ),
)
ENERGY = (
    Query(
        "energy_j",
        (lambda nvml, gpu: round(nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000, 1),),
        largest=1e13,
    ),
)
MIG = Query(
    "mig",
    (lambda nvml, gpu: nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE,),
)
SLOW = (
    Query(
        "power_limit_w",
        (lambda nvml, gpu: round(nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000, 1),),
        largest=_W_LARGEST,
    ),
    Query(
        "memory_mhz",
        (lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),),
        largest=_MHZ_LARGEST,
    ),
    # In percent of the speed it is meant to run at, which it may exceed.
    Query("fan_pct", (lambda nvml, gpu: nvml.nvmlDeviceGetFanSpeed(gpu),), largest=200),
    Query(
        "ecc_corrected",
        (lambda nvml, gpu: _ecc_errors(nvml, gpu, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),),
        largest=LARGEST,
    ),
    Query(
        "ecc_uncorrected",
        (lambda nvml, gpu: _ecc_errors(nvml, gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),),
        largest=LARGEST,
    ),
    Query(
        "pcie_generation",
        (lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),),
        largest=16,
        smallest=1,
    ),
    Query(
        "pcie_width",
        (lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),),
        largest=64,
        smallest=1,
    ),
    Query(
        "encoder_pct",
        (lambda nvml, gpu: nvml.nvmlDeviceGetEncoderUtilization(gpu)[0],),
        largest=100,
    ),
    Query(
        "decoder_pct",
        (lambda nvml, gpu: nvml.nvmlDeviceGetDecoderUtilization(gpu)[0],),
        largest=100,
    ),
)
# Each of the two holds up its caller for 20 ms (nvml.h).
PCIE = (
    Query(
        "pcie_receive_mib_s",
        (lambda nvml, gpu: _pcie_mib_s(nvml, gpu, nvml.NVML_PCIE_UTIL_RX_BYTES),),
        largest=1e6,
    ),
    Query(
        "pcie_send_mib_s",
        (lambda nvml, gpu: _pcie_mib_s(nvml, gpu, nvml.NVML_PCIE_UTIL_TX_BYTES),),
        largest=1e6,
    ),
)
PCIE_LEFT_OUT = tuple(_unanswered(query.name, "measured only with --pcie") for query in PCIE)
PCIE_LATER = tuple(_unanswered(query.name, "not measured yet") for query in PCIE)
