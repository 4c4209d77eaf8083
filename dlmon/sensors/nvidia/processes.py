"""The processes that NVML finds on a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlmon.sensors.nvidia.queries import Query, call
from dlmon.sensors.rates import BYTES_IN_MIB

_NOT_FOUND = 6
# A process's memory is all ones where the driver does not know it, as under WSL.
_NOT_AVAILABLE = 2**64 - 1


def _of_instances(nvml: Any, gpu: Any) -> list[Any]:
    """Ask each MIG instance: only a privileged user gets those of the whole GPU."""
    found: list[Any] = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError as error:
            if error.value != _NOT_FOUND:
                raise
        else:
            if instance:
                found += nvml.nvmlDeviceGetComputeRunningProcesses_v3(instance)
    return found


# By version: pynvml's calls without one raise an error of another kind on an older driver.
COMPUTE = Query(
    "compute processes",
    call("nvmlDeviceGetComputeRunningProcesses_v3"),
    call("nvmlDeviceGetComputeRunningProcesses_v2"),
)
GRAPHICS = Query(
    "graphics processes",
    call("nvmlDeviceGetGraphicsRunningProcesses_v3"),
    call("nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
OF_INSTANCES = Query("processes of the MIG instances", _of_instances)


def memory_by_pid(processes: Iterable[Any]) -> dict[int, int | None]:
    """Return the MiB that each process holds, None where unknown.

    One that computes and draws stands in both of NVML's lists with all it holds;
    one on several MIG instances stands there once for each.
    """
    held: dict[tuple[int, int, int], int | None] = {}
    for process in processes:
        place = (process.pid, process.gpuInstanceId, process.computeInstanceId)
        used = process.usedGpuMemory
        is_known = used is not None and used < _NOT_AVAILABLE
        held[place] = used if is_known else held.get(place)
    by_pid: dict[int, int | None] = {}
    for (pid, _, _), used in held.items():
        before = by_pid.get(pid, 0)
        by_pid[pid] = None if before is None or used is None else before + used
    return {pid: used and used // BYTES_IN_MIB for pid, used in by_pid.items()}
