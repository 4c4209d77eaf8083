"""The table of NVML queries, and NVML's codes in words.

A reader takes the `pynvml` module and a GPU's handle. It raises NVML's own error, or ValueError
with the reason why the answer is unknown.
"""

from __future__ import annotations

from typing import Any

from dlmon.records import LARGEST, GpuState
from dlmon.sensors import kernel_files
from dlmon.sensors.provider import BYTES_IN_MIB
from dlmon.sensors.query import IMPOSSIBLE, Query, Reader

# nvmlReturn_t (NVML API reference, nvml.h).
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
DRIVER_NOT_LOADED, TIMEOUT, FUNCTION_NOT_FOUND, GPU_IS_LOST = 9, 10, 13, 15
NOT_FOUND, LIB_RM_VERSION_MISMATCH = 6, 18
ARGUMENT_VERSION_MISMATCH = 25
LIFE_CYCLE = {UNINITIALIZED, DRIVER_NOT_LOADED, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH}
STATES = {
    GPU_IS_LOST: GpuState.LOST,
    DRIVER_NOT_LOADED: GpuState.NO_DRIVER,
    LIB_RM_VERSION_MISMATCH: GpuState.VERSIONS_DIFFER,
}
# Errors that another call would return again.
SETTLED = {NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH}
WORDS = {
    UNINITIALIZED: "NVML was shut down",
    NOT_SUPPORTED: "not supported",
    NO_PERMISSION: "denied",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    TIMEOUT: "timed out",
    FUNCTION_NOT_FOUND: "not supported by this driver",
    GPU_IS_LOST: "lost",
    16: "the GPU needs a reset",
    LIB_RM_VERSION_MISMATCH: "the NVIDIA driver and its library differ in version",
    21: "no data",
    ARGUMENT_VERSION_MISMATCH: "not supported by this driver",
    999: "unknown NVML error",
}

# nvmlClocksEventReasons (nvml.h). Bit 0, idle, is no throttling.
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

# nvmlGpuVirtualizationMode_t (nvml.h).
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}

# NVML does not report these while MIG is on (nvml.h, at each call).
NOT_UNDER_MIG = frozenset(
    {
        *("utilization_pct", "encoder_pct", "decoder_pct", "memory_busy_pct"),
        *("sm_active_pct", "sm_occupancy_pct", "tensor_pct", "dram_pct"),
    }
)
UNDER_MIG = "not reported while MIG is on"

# A GB10 says a link of one slow lane, and a memory that is never busy (nvtop's issue 426,
# rwlove/home-ops's pull request 13238).
NOT_OF_SYSTEM_MEMORY = frozenset(
    {
        *("memory_busy_pct", "pcie_generation", "pcie_width"),
        *("pcie_max_generation", "pcie_max_width", "pcie_receive_mib_s", "pcie_send_mib_s"),
    }
)
IN_PROCESSOR = "not measured for a GPU that uses the system's memory"

_MIB = (0, 2**26)
_MHZ = _WATTS = (0, 100_000)
_GENERATION, _WIDTH = (1, 16), (1, 64)


def words(error: Exception) -> str:
    """Return in words why NVML or the system gave no answer."""
    code = getattr(error, "value", None)
    if code is None:
        return kernel_files.reason(error)
    return WORDS.get(code) or f"NVML: {str(error).lower()}"


def cuda_version(number: int) -> str:
    """Return "12.4" for NVML's 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Return the throttle reasons in words. An idle GPU is not throttled."""
    reasons = tuple(word for bit, word in THROTTLE_WORDS.items() if bits & bit)
    unknown = bits & ~(1 | sum(THROTTLE_WORDS))
    return (*reasons, f"other ({unknown:#x})") if unknown else reasons


def sysfs_bus_id(text: str) -> str:
    """Return Linux's PCI address `0000:65:00.0` for NVML's `00000000:65:00.0`.

    Raises:
        ValueError: `text` is no PCI address.
    """
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def call(function: str, *constants: str) -> Reader:
    """Return a reader that calls an NVML function with the GPU and the named constants."""

    def read(nvml: Any, gpu: Any) -> Any:
        return getattr(nvml, function)(gpu, *(getattr(nvml, name) for name in constants))

    return read


def _thousandths(function: str) -> Reader:
    return lambda nvml, gpu: round(getattr(nvml, function)(gpu) / 1000, 1)


def _memory(part: str) -> tuple[Reader, Reader]:
    """Return two readers of the total or used memory in MiB: the newer call and the older.

    A GPU without memory of its own answers "not supported" or, with older drivers, a total of 0.
    """

    def mib(nvml: Any, memory: Any) -> int:
        if not memory.total:
            raise nvml.NVMLError(NOT_SUPPORTED)
        return int(getattr(memory, part)) // BYTES_IN_MIB

    return (
        # Version 1 counts the driver's reserved memory as used; nvidia-smi does not.
        lambda nvml, gpu: mib(nvml, nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)),
        lambda nvml, gpu: mib(nvml, nvml.nvmlDeviceGetMemoryInfo(gpu)),
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _ecc_errors(kind: str) -> Reader:
    return call("nvmlDeviceGetTotalEccErrors", kind, "NVML_VOLATILE_ECC")


def _pcie_mib_s(direction: str) -> Reader:
    kib_s = call("nvmlDeviceGetPcieThroughput", direction)
    return lambda nvml, gpu: round(float(kib_s(nvml, gpu)) / 1024, 1)


def _pids(nvml: Any, instance: Any) -> tuple[int, ...]:
    processes = nvml.nvmlDeviceGetComputeRunningProcesses_v3(instance)
    if not processes and not kernel_files.sees_every_process():
        raise ValueError(kernel_files.why_processes_hidden())
    return tuple(sorted({process.pid for process in processes}))


def _virtualization(nvml: Any, gpu: Any) -> str:
    mode = nvml.nvmlDeviceGetVirtualizationMode(gpu)
    if mode not in VIRTUALIZATION:
        raise ValueError(IMPOSSIBLE)
    return VIRTUALIZATION[mode]


def _refused(name: str, reason: str) -> Query:
    """Return a query that is not sent to NVML, with the reason."""

    def refuse(nvml: Any, gpu: Any) -> float:
        raise ValueError(reason)

    return Query(name, refuse)


MEMORY = Query("memory_mib", *_memory("total"), within=_MIB)
FACTS = (
    Query("name", lambda nvml, gpu: _text(nvml.nvmlDeviceGetName(gpu))),
    Query("uuid", lambda nvml, gpu: _text(nvml.nvmlDeviceGetUUID(gpu))),
    MEMORY,
    Query("bus_id", lambda nvml, gpu: sysfs_bus_id(_text(nvml.nvmlDeviceGetPciInfo_v3(gpu).busId))),
    Query(
        "slowdown_c",
        call("nvmlDeviceGetTemperatureThreshold", "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN"),
        within=(1, 250),
    ),
    Query("sm_max_mhz", call("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"), within=(1, 100_000)),
    Query(
        "memory_max_mhz", call("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"), within=(1, 100_000)
    ),
    Query("pcie_max_generation", call("nvmlDeviceGetMaxPcieLinkGeneration"), within=_GENERATION),
    Query("pcie_max_width", call("nvmlDeviceGetMaxPcieLinkWidth"), within=_WIDTH),
    Query("virtualization", _virtualization),
)
FAST = (
    Query("memory_used_mib", *_memory("used"), within=_MIB),
    Query("power_w", _thousandths("nvmlDeviceGetPowerUsage"), within=_WATTS),
    Query(
        "temperature_c",
        call("nvmlDeviceGetTemperatureV", "NVML_TEMPERATURE_GPU"),
        call("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        within=(0, 250),
    ),
    Query("sm_mhz", call("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"), within=_MHZ),
    Query(
        "throttle",
        lambda nvml, gpu: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
        lambda nvml, gpu: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
    ),
)
ENERGY = (Query("energy_j", _thousandths("nvmlDeviceGetTotalEnergyConsumption"), within=(0, 1e13)),)
MIG = Query(
    "mig", lambda nvml, gpu: nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE
)
INSTANCE = (
    Query("name", lambda nvml, instance: _text(nvml.nvmlDeviceGetName(instance))),
    Query("gpu_instance", call("nvmlDeviceGetGpuInstanceId"), within=(0, 1000)),
    Query("compute_instance", call("nvmlDeviceGetComputeInstanceId"), within=(0, 1000)),
    Query("memory_mib", *_memory("total"), within=_MIB),
    Query("memory_used_mib", *_memory("used"), within=_MIB),
    Query("pids", _pids),
)
"""The queries of a MIG instance."""
SLOW = (
    Query("power_limit_w", _thousandths("nvmlDeviceGetEnforcedPowerLimit"), within=_WATTS),
    Query("memory_mhz", call("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"), within=_MHZ),
    # In percent of the nominal maximum, which a fan may exceed.
    Query("fan_pct", call("nvmlDeviceGetFanSpeed"), within=(0, 200)),
    Query("ecc_corrected", _ecc_errors("NVML_MEMORY_ERROR_TYPE_CORRECTED"), within=(0, LARGEST)),
    Query(
        "ecc_uncorrected", _ecc_errors("NVML_MEMORY_ERROR_TYPE_UNCORRECTED"), within=(0, LARGEST)
    ),
    Query("pcie_generation", call("nvmlDeviceGetCurrPcieLinkGeneration"), within=_GENERATION),
    Query("pcie_width", call("nvmlDeviceGetCurrPcieLinkWidth"), within=_WIDTH),
    Query(
        "encoder_pct",
        lambda nvml, gpu: nvml.nvmlDeviceGetEncoderUtilization(gpu)[0],
        within=(0, 100),
    ),
    Query(
        "decoder_pct",
        lambda nvml, gpu: nvml.nvmlDeviceGetDecoderUtilization(gpu)[0],
        within=(0, 100),
    ),
    *(_refused(name, "not read from NVML") for name in ("junction_c", "memory_c", "gtt_used_mib")),
)
# Each of the two calls blocks for 20 ms (nvml.h).
PCIE = (
    Query("pcie_receive_mib_s", _pcie_mib_s("NVML_PCIE_UTIL_RX_BYTES"), within=(0, 1e6)),
    Query("pcie_send_mib_s", _pcie_mib_s("NVML_PCIE_UTIL_TX_BYTES"), within=(0, 1e6)),
)
PCIE_LEFT_OUT = tuple(_refused(query.name, "start with --pcie") for query in PCIE)
PCIE_LATER = tuple(_refused(query.name, "not measured yet") for query in PCIE)
