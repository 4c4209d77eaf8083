"""ROCm's devices: what the environment hides of them, and which GPUs they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlmon.records.machine import GpuFacts

ROCR_VISIBLE, HIP_VISIBLE = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that hide devices from a program, the last to be applied first.

    HIP takes CUDA's variable if its own is not set (ROCm's "GPU isolation techniques").
    """
    hip = HIP_VISIBLE if HIP_VISIBLE in environment else CUDA_VISIBLE
    return [name for name in (hip, ROCR_VISIBLE) if name in environment]


def device_before_hiding(number: int, environment: Mapping[str, str]) -> str | None:
    """Return the number of a program's device among all, or its uuid; None if there is none."""
    device = str(number)
    for name in visible_variables(environment):
        if device.isdecimal():
            listed = [entry.strip() for entry in environment[name].split(",")]
            if int(device) >= len(listed):
                return None
            device = listed[int(device)]
    return device


def gpus_by_device(gpus: Sequence[GpuFacts]) -> list[GpuFacts]:
    """Return the GPU of each of ROCm's devices; the sensors list AMD's in the order of ROCm."""
    of_amd = [gpu for gpu in gpus if gpu.vendor == "amd"]
    return [gpu for gpu in of_amd for _ in range(gpu.rocm_devices)]


def gpu_of_device(device: str | None, gpus: Sequence[GpuFacts]) -> GpuFacts | None:
    """Return the GPU of the number or the uuid of a device of ROCm's."""
    by_device = gpus_by_device(gpus)
    if device is None or not device.isdecimal():
        return next((gpu for gpu in by_device if gpu.uuid == device), None)
    return by_device[int(device)] if int(device) < len(by_device) else None
