"""Choose a workload's devices and CPUs by its options and the GPUs that NVML reports."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from dlmon.records import GpuFacts, MachineFacts
from dlmon.records.record import record
from dlmon.records.rocm import (
    HIP_VISIBLE,
    ROCR_VISIBLE,
    device_before_hiding,
    gpu_of_device,
    gpus_by_device,
    visible_variables,
)
from dlmon.records.sanitize import quoted

VISIBLE = "CUDA_VISIBLE_DEVICES"
ALL = "all"
MOST_DEVICES = 1024
_DEVICE = re.compile(r"auto|cpu|gpu(:(\d{1,4}(\+\d{1,4})*|all))?", re.ASCII)


class DeviceError(ValueError):
    """Raised for a device that can't be used; the message is one sentence for a person."""


@record(frozen=True)
class DeviceChoice:
    """The devices that a workload may use.

    Attributes:
        wanted: auto, cpu or gpu.
        environment: the variables that select them.
        numbers: NVML's numbers of the GPUs; empty if unknown.
        notice: a sentence for the person, if there is anything to say.
        gpus: all GPUs that NVML reports, for a script, which chooses itself.
        devices: how many devices share each batch; None for all visible ones.
    """

    wanted: str
    environment: dict[str, str]
    numbers: tuple[int, ...] = ()
    notice: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
    devices: int | None = 1


def check_device_name(device: str) -> None:
    """Raise `DeviceError` unless `device` is auto, cpu, gpu, gpu:N, gpu:N+M or gpu:all."""
    if not _DEVICE.fullmatch(device):
        raise DeviceError(
            f"there is no device {quoted(device)}: use auto, cpu, gpu, gpu:all or gpu:N, such as "
            "gpu:0, or several, such as gpu:0+1"
        )
    numbers = gpu_numbers(device)
    if len(set(numbers)) < len(numbers):
        raise DeviceError(f"--device {device} names a GPU twice")


def gpu_numbers(device: str) -> tuple[int, ...]:
    """Return the GPU numbers of a device such as gpu:0+1; none for any other device."""
    _, _, numbers = device.partition(":")
    return () if numbers in ("", ALL) else tuple(map(int, numbers.split("+")))


def check_devices(count: int, device: str = "auto") -> None:
    """Raise `DeviceError` if `--devices` is out of range or contradicts `--device`."""
    if not 1 <= count <= MOST_DEVICES:
        raise DeviceError(
            f"the number of devices must be from 1 to {MOST_DEVICES:,}, not {count:,}"
        )
    named = len(gpu_numbers(device))
    if named and named != count:
        gpus = "one GPU" if named == 1 else f"{named} GPUs"
        raise DeviceError(
            f"--device {device} names {gpus} and --devices asks for {count:,}: leave one of them "
            "out"
        )


def may_wake(device: str, environment: Mapping[str, str]) -> bool:
    """Return whether `--device` may use a GPU; `CUDA_VISIBLE_DEVICES` may hide them from auto."""
    return device != "cpu" and not (device == "auto" and VISIBLE in environment)


def check_cpus(count: int | None, allowed: Collection[int]) -> None:
    """Raise `DeviceError` unless there are `count` allowed CPUs; None stands for all."""
    if count is not None and not 1 <= count <= len(allowed):
        raise DeviceError(
            f"the number of CPUs must be from 1 to {len(allowed):,}, those that this process may "
            f"use, not {count:,}"
        )


def choose_device(
    device: str,
    facts: MachineFacts | None,
    environment: Mapping[str, str],
    devices: int | None = None,
) -> DeviceChoice:
    """Return the devices for `--device` and `--devices`.

    NVIDIA's GPUs are selected by uuid, because CUDA numbers GPUs in another order than NVML; AMD's,
    which count if there are none of NVIDIA's, by ROCm's numbers. The user's own
    `CUDA_VISIBLE_DEVICES`, or `HIP_VISIBLE_DEVICES` and `ROCR_VISIBLE_DEVICES`, is kept, unless
    `--device` is the CPU or names GPUs by number. The CPU stands for any number of devices.

    Raises:
        DeviceError: no driver reports the requested GPUs, or they can't be used together.
    """
    check_device_name(device)
    if devices is not None:
        check_devices(devices, device)
    count = devices or 1
    gpus = (facts.gpus if facts is not None else None) or ()
    if device == "cpu":
        hidden = {VISIBLE: "-1"} | ({HIP_VISIBLE: "-1"} if _has(gpus, "amd") else {})
        return DeviceChoice("cpu", hidden, devices=count)
    if gpus and not gpu_numbers(device):
        vendor = "nvidia" if _has(gpus, "nvidia") else "amd"
        gpus = tuple(gpu for gpu in gpus if gpu.vendor == vendor)
    chosen = [_gpu_numbered(number, gpus) for number in gpu_numbers(device)] if gpus else []
    if len({gpu.vendor for gpu in chosen}) > 1:
        raise DeviceError(f"--device {device} names GPUs of several vendors")
    is_amd = _has(chosen or gpus, "amd") and not _has(chosen or gpus, "nvidia")
    variable = next(iter(visible_variables(environment)), "") if is_amd else VISIBLE
    visible_before = environment.get(variable)
    if device != "auto" and not gpus:
        reason = "NVML found none"
        if facts is not None and facts.gpus:
            reason = "dlmon run does not train on Intel's"
        elif facts is None or facts.gpus is None:
            reason = (facts or MachineFacts()).why.get("gpus", "the sensors did not answer")
        raise DeviceError(f"there is no GPU here: {reason}; use --device cpu")
    wants_all = device == f"gpu:{ALL}" and devices is None
    wanted = "auto" if device == "auto" else "gpu"
    if not gpu_numbers(device) and visible_before is not None:
        notice: str | None = f"{variable}={visible_before} is set and was left as it is"
        numbers = _numbers_of(visible_before, gpus)
        if is_amd:
            numbers = _numbers_by_rocm(len(visible_before.split(",")), environment, gpus)
        if not wants_all:
            numbers = numbers[:count] if len(numbers) >= count else ()
        return DeviceChoice(wanted, {}, numbers, notice, devices=None if wants_all else count)
    # NVML has lost a GPU if it has no uuid.
    usable = [gpu for gpu in gpus if gpu.uuid is not None]
    if device == "auto" and not usable:
        return DeviceChoice("auto", {}, devices=count)
    if wants_all and usable:
        count = len(usable)
    if not chosen and len(usable or gpus) < count:
        there = "one GPU" if len(usable or gpus) == 1 else f"{len(usable or gpus)} GPUs"
        raise DeviceError(f"--devices {count:,} asks for more GPUs than there are: {there}")
    chosen = chosen or [_gpu_numbered(gpu.index, gpus) for gpu in (usable or gpus)[:count]]
    visible = {VISIBLE: ",".join(str(gpu.uuid) for gpu in chosen)}
    if is_amd:
        by_device = [gpu.index for gpu in gpus_by_device(facts.gpus or ())] if facts else []
        # The first device of a GPU that is divided into several.
        shown = ",".join(str(by_device.index(gpu.index)) for gpu in chosen)
        visible = {ROCR_VISIBLE: shown, HIP_VISIBLE: ",".join(map(str, range(len(chosen))))}
    notice = None
    if visible_before is not None and visible_before != visible.get(variable):
        notice = f"{variable}={visible_before} was set; --device {device} takes its place"
    numbers = tuple(gpu.index for gpu in chosen)
    return DeviceChoice(wanted, visible, numbers, notice, devices=len(chosen))


def _has(gpus: Sequence[GpuFacts], vendor: str) -> bool:
    return any(gpu.vendor == vendor for gpu in gpus)


def _gpu_numbered(index: int, gpus: Sequence[GpuFacts]) -> GpuFacts:
    """Return the GPU with NVML's number `index`.

    Raises:
        DeviceError: there is none, or it can't be used.
    """
    gpu = next((gpu for gpu in gpus if gpu.index == index), None)
    if gpu is None:
        there = ", ".join(f"gpu:{gpu.index}" for gpu in gpus)
        verb = "is" if len(gpus) == 1 else "are"
        raise DeviceError(f"there is no GPU {index} here; there {verb} {there}")
    if gpu.vendor == "intel":
        raise DeviceError(f"GPU {index} is Intel's: dlmon run trains on those of NVIDIA and AMD")
    if gpu.uuid is None:
        reason = gpu.why.get("uuid", "it does not answer")
        raise DeviceError(f"GPU {index} can't be used: {reason}; use --device cpu")
    return gpu


def _numbers_of(visible: str, gpus: Sequence[GpuFacts]) -> tuple[int, ...]:
    """Return NVML's numbers of the GPUs in `CUDA_VISIBLE_DEVICES`; none if that is uncertain.

    CUDA numbers GPUs in another order than NVML, so a number is certain only for a single GPU.
    """
    if len(gpus) == 1 and visible == "0":
        return (gpus[0].index,)
    numbers = []
    for uuid in visible.split(","):
        matches = [gpu.index for gpu in gpus if gpu.uuid and uuid and gpu.uuid.startswith(uuid)]
        if len(matches) != 1:
            return ()
        numbers += matches
    return tuple(numbers)


def _numbers_by_rocm(
    count: int, environment: Mapping[str, str], gpus: Sequence[GpuFacts]
) -> tuple[int, ...]:
    """Return the numbers of the GPUs that ROCm shows a program; none if that is uncertain."""
    devices = (device_before_hiding(place, environment) for place in range(count))
    shown = [gpu_of_device(device, gpus) for device in devices]
    return tuple(gpu.index for gpu in shown if gpu is not None) if all(shown) else ()
