"""Decide which devices a workload may see, from what NVML sees, and how many CPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from dlmon.records import GpuFacts, MachineFacts
from dlmon.records.record import record
from dlmon.records.sanitize import quoted

VISIBLE = "CUDA_VISIBLE_DEVICES"
ALL = "all"
MOST_DEVICES = 1024
_ASKED = re.compile(r"auto|cpu|gpu(:(\d{1,4}(\+\d{1,4})*|all))?", re.ASCII)


class DeviceError(ValueError):
    """A device that can't be had; the message is one sentence for a person."""


@record(frozen=True)
class DeviceChoice:
    """What the child gets.

    Attributes:
        wanted: auto, cpu or gpu.
        environment: what is set in its environment.
        numbers: NVML's numbers of the GPUs that it trains on; none where they aren't known.
        notice: what a person should know of it.
        gpus: those that NVML sees, among which a script chooses itself.
        devices: over how many devices each batch is divided; None for all that it sees.
    """

    wanted: str
    environment: dict[str, str]
    numbers: tuple[int, ...] = ()
    notice: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
    devices: int | None = 1


def check_device_name(asked: str) -> None:
    """Raise `DeviceError` unless `asked` is auto, cpu, gpu, gpu:N, gpu:N+M or gpu:all."""
    if not _ASKED.fullmatch(asked):
        raise DeviceError(
            f"there is no device {quoted(asked)}: use auto, cpu, gpu, gpu:all or gpu:N, such as "
            "gpu:0, or several, such as gpu:0+1"
        )
    numbers = numbered(asked)
    if len(set(numbers)) < len(numbers):
        raise DeviceError(f"--device {asked} names a GPU twice")


def numbered(asked: str) -> tuple[int, ...]:
    """Return the GPUs that a device names by NVML's number; none for any other."""
    _, _, named = asked.partition(":")
    return () if named in ("", ALL) else tuple(map(int, named.split("+")))


def check_devices(count: int, asked: str = "auto") -> None:
    """Raise `DeviceError` unless a batch can be divided among so many devices.

    Args:
        count: how many are asked for.
        asked: which device; what names some GPUs says how many itself.
    """
    if not 1 <= count <= MOST_DEVICES:
        raise DeviceError(
            f"the number of devices must be from 1 to {MOST_DEVICES:,}, not {count:,}"
        )
    named = len(numbered(asked))
    if named and named != count:
        what = "one GPU" if named == 1 else f"{named} GPUs"
        raise DeviceError(
            f"--device {asked} names {what} and --devices asks for {count:,}: leave one of them out"
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
    asked: str,
    facts: MachineFacts | None,
    environment: Mapping[str, str],
    devices: int | None = None,
) -> DeviceChoice:
    """Return what to hand to the child for `--device` and `--devices`.

    A GPU is handed over by its uuid, because CUDA counts GPUs in another order
    than NVML. A `CUDA_VISIBLE_DEVICES` of the user's own is left as it is,
    except where the CPU or GPUs by number are asked for. The CPU stands for any number of devices.

    Raises:
        DeviceError: NVML doesn't see the GPUs that are asked for.
    """
    check_device_name(asked)
    if devices is not None:
        check_devices(devices, asked)
    own = environment.get(VISIBLE)
    count = devices or 1
    if asked == "cpu":
        return DeviceChoice("cpu", {VISIBLE: "-1"}, devices=count)
    gpus = (facts.gpus if facts is not None else None) or ()
    if asked != "auto" and not gpus:
        reason = "NVML found none"
        if facts is None or facts.gpus is None:
            reason = (facts or MachineFacts()).why.get("gpus", "the sensors did not answer")
        raise DeviceError(f"there is no GPU here: {reason}; use --device cpu")
    wants_all = asked == f"gpu:{ALL}" and devices is None
    wanted = "auto" if asked == "auto" else "gpu"
    if not numbered(asked) and own is not None:
        kept = f"{VISIBLE}={own} is set and was left as it is"
        known = _numbers_of(own, gpus)
        if not wants_all:
            known = known[:count] if len(known) >= count else ()
        return DeviceChoice(wanted, {}, known, kept, devices=None if wants_all else count)
    # A GPU without a uuid is one that NVML has lost.
    usable = [gpu for gpu in gpus if gpu.uuid is not None]
    if asked == "auto" and not usable:
        return DeviceChoice("auto", {}, devices=count)
    if wants_all and usable:
        count = len(usable)
    if numbered(asked):
        chosen = [_gpu_numbered(number, gpus) for number in numbered(asked)]
    elif len(usable or gpus) < count:
        there = "one GPU" if len(usable or gpus) == 1 else f"{len(usable or gpus)} GPUs"
        raise DeviceError(f"--devices {count:,} asks for more GPUs than there are: {there}")
    else:
        chosen = [_gpu_numbered(gpu.index, gpus) for gpu in (usable or gpus)[:count]]
    visible = ",".join(str(gpu.uuid) for gpu in chosen)
    notice = None
    if own is not None and own != visible:
        notice = f"{VISIBLE}={own} was set; --device {asked} takes its place"
    numbers = tuple(gpu.index for gpu in chosen)
    return DeviceChoice(wanted, {VISIBLE: visible}, numbers, notice, devices=len(chosen))


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


def _numbers_of(visible: str, gpus: Sequence[GpuFacts]) -> tuple[int, ...]:
    """Return NVML's numbers of the GPUs that `CUDA_VISIBLE_DEVICES` leaves; none if unsure.

    CUDA counts in another order than NVML, so a number is sure only where there is but one GPU.
    """
    if len(gpus) == 1 and visible == "0":
        return (gpus[0].index,)
    found = []
    for named in visible.split(","):
        matches = [gpu.index for gpu in gpus if gpu.uuid and named and gpu.uuid.startswith(named)]
        if len(matches) != 1:
            return ()
        found += matches
    return tuple(found)
