"""Decide which device a workload may see, from what NVML sees. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dlmon.records import MachineFacts

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ASKED = re.compile(r"auto|cpu|gpu(:\d{1,4})?")


class DeviceError(ValueError):
    """A device that can't be had; the message is one sentence for a person."""


@dataclass(frozen=True)
class DeviceChoice:
    """What the child gets: `wanted` is auto, cpu or gpu; `gpu_index` is NVML's index."""

    wanted: str
    environment: dict[str, str]
    gpu_index: int | None = None
    notice: str | None = None


def check_device_name(asked: str) -> None:
    """Raise `DeviceError` unless `asked` is auto, cpu, gpu or gpu:N."""
    if not _ASKED.fullmatch(asked):
        raise DeviceError(
            f'there is no device "{asked}": use auto, cpu, gpu or gpu:N, such as gpu:0'
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
            reason = "the sensors did not answer"
            if facts is not None:
                reason = facts.why.get("gpus", reason)
        raise DeviceError(f"there is no GPU here: {reason}; use --device cpu")
    if asked in ("auto", "gpu") and own is not None:
        return DeviceChoice(asked, {}, notice=f"{VISIBLE}={own} is set and was left as it is")
    if not gpus:
        return DeviceChoice("auto", {})
    index = int(asked.partition(":")[2] or gpus[0].index)
    for gpu in gpus:
        if gpu.index == index:
            visible = gpu.uuid if gpu.uuid is not None else str(gpu.index)
            notice = None
            if own is not None and own != visible:
                notice = f"{VISIBLE}={own} was set; --device {asked} takes its place"
            wanted = "auto" if asked == "auto" else "gpu"
            return DeviceChoice(wanted, {VISIBLE: visible}, gpu.index, notice)
    there = ", ".join(f"gpu:{gpu.index}" for gpu in gpus)
    raise DeviceError(f"there is no GPU {index} here; there is {there}")
