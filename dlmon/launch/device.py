"""Decide which device a workload may see, from what NVML sees, and how many CPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from dlmon.records import GpuFacts, MachineFacts
from dlmon.records.record import record
from dlmon.records.sanitize import quoted

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ASKED = re.compile(r"auto|cpu|gpu(:\d{1,4})?", re.ASCII)


class DeviceError(ValueError):
    """A device that can't be had; the message is one sentence for a person."""


@record(frozen=True)
class DeviceChoice:
    """What the child gets: `wanted` is auto, cpu or gpu; `gpu_index` is NVML's index.

    A script chooses itself among `gpus`, those that NVML sees.
    """

    wanted: str
    environment: dict[str, str]
    gpu_index: int | None = None
    notice: str | None = None
    gpus: tuple[GpuFacts, ...] = ()


def check_device_name(asked: str) -> None:
    """Raise `DeviceError` unless `asked` is auto, cpu, gpu or gpu:N."""
    if not _ASKED.fullmatch(asked):
        raise DeviceError(
            f"there is no device {quoted(asked)}: use auto, cpu, gpu or gpu:N, such as gpu:0"
        )


def may_wake(asked: str, environment: Mapping[str, str]) -> bool:
    """Return whether `--device` may use a GPU, which a `CUDA_VISIBLE_DEVICES` may have hidden."""
    return asked != "cpu" and not (asked == "auto" and VISIBLE in environment)


def check_cpus(asked: int | None, allowed: Collection[int]) -> None:
    """Raise `DeviceError` unless `asked` of the CPUs that are allowed can be had; None is all."""
    if asked is not None and not 1 <= asked <= len(allowed):
        raise DeviceError(
            f"the number of CPUs must be from 1 to {len(allowed):,}, those that this process may "
            f"use, not {asked:,}"
        )


def choose_device(
    asked: str, facts: MachineFacts | None, environment: Mapping[str, str]
) -> DeviceChoice:
    """Return what to hand to the child for `--device`.

    A GPU is handed over by its uuid, because CUDA counts GPUs in another order
    than NVML. A `CUDA_VISIBLE_DEVICES` of the user's own is left as it is,
    except where the CPU or one GPU by number is asked for.

    Raises:
        DeviceError: NVML doesn't see the GPU that is asked for.
    """
    check_device_name(asked)
    own = environment.get(VISIBLE)
    if asked == "cpu":
        return DeviceChoice("cpu", {VISIBLE: "-1"})
    gpus = facts.gpus if facts is not None else None
    if asked != "auto" and not gpus:
        reason = "NVML found none"
        if gpus is None:
            reason = (facts or MachineFacts()).why.get("gpus", "the sensors did not answer")
        raise DeviceError(f"there is no GPU here: {reason}; use --device cpu")
    if asked in ("auto", "gpu") and own is not None:
        kept = f"{VISIBLE}={own} is set and was left as it is"
        return DeviceChoice(asked, {}, _index_of(own, gpus or ()), kept)
    # A GPU without a uuid is one that NVML has lost.
    usable = [gpu for gpu in gpus or () if gpu.uuid is not None]
    if asked == "auto" and not usable:
        return DeviceChoice("auto", {})
    first = (usable or list(gpus or ()))[0].index
    gpu = _gpu_numbered(int(asked.partition(":")[2] or first), gpus or ())
    notice = None
    if own is not None and own != gpu.uuid:
        notice = f"{VISIBLE}={own} was set; --device {asked} takes its place"
    wanted = "auto" if asked == "auto" else "gpu"
    return DeviceChoice(wanted, {VISIBLE: str(gpu.uuid)}, gpu.index, notice)


def _gpu_numbered(index: int, gpus: Sequence[GpuFacts]) -> GpuFacts:
    """Return a GPU by NVML's number, or say why it can't be had."""
    gpu = next((gpu for gpu in gpus if gpu.index == index), None)
    if gpu is None:
        there = ", ".join(f"gpu:{gpu.index}" for gpu in gpus)
        verb = "is" if len(gpus) == 1 else "are"
        raise DeviceError(f"there is no GPU {index} here; there {verb} {there}")
    if gpu.uuid is None:
        reason = gpu.why.get("uuid", "it does not answer")
        raise DeviceError(f"GPU {index} can't be used: {reason}; use --device cpu")
    return gpu


def _index_of(visible: str, gpus: Sequence[GpuFacts]) -> int | None:
    """Return NVML's number of the one GPU that `CUDA_VISIBLE_DEVICES` leaves; None if unsure.

    CUDA counts in another order than NVML, so a number is sure only where there is but one GPU.
    """
    if len(gpus) == 1 and visible == "0":
        return gpus[0].index
    matches = [gpu.index for gpu in gpus if gpu.uuid and visible and gpu.uuid.startswith(visible)]
    return matches[0] if len(matches) == 1 else None
