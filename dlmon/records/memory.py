"""What frameworks hold of a GPU's memory, and how they say that it ran out."""

from __future__ import annotations

import re
from math import prod
from typing import Any, ClassVar

from dlmon.records.record import record

MIB = 2**20


@record(frozen=True)
class FrameworkMemory:
    """What a framework's allocator holds of one GPU: at most once a second, when it changed.

    Attributes:
        framework: torch, jax or tensorflow.
        device: the framework's number of the GPU.
        allocated_mib: what tensors take.
        peak_mib: the most that they took, since the start or since the script set it back.
        reserved_mib: what the allocator took from the driver, and keeps for later tensors; absent
            where the framework does not say it.
        limit_mib: what the allocator may take in all; of PyTorch the GPU's memory; absent as above.
        retries: how often it freed all that it kept and asked the driver again; absent as above.
        failures: how often an allocation failed after that; absent as above.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "framework_memory"
    t: int
    framework: str
    device: int
    allocated_mib: int
    peak_mib: int
    reserved_mib: int | None = None
    limit_mib: int | None = None
    retries: int | None = None
    failures: int | None = None
    trainer: int | None = None


@record(frozen=True)
class OutOfMemory:
    """An allocation failed; whether the script goes on shows in what follows.

    Each figure is as the error says it, and absent where it does not.

    Attributes:
        asked_mib: how much was asked for.
        device: the framework's number of the GPU.
        total_mib: the GPU's memory.
        free_mib: what was free of it.
        others_mib: what other processes held.
        allocated_mib: what the tensors of this process took.
        unused_mib: what its allocator kept and no tensor took.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "out_of_memory"
    t: int
    asked_mib: float | None = None
    device: int | None = None
    total_mib: float | None = None
    free_mib: float | None = None
    others_mib: float | None = None
    allocated_mib: float | None = None
    unused_mib: float | None = None
    trainer: int | None = None


_UNITS = {"b": 1 / MIB, "bytes": 1 / MIB, "kib": 2**-10, "mib": 1.0, "gib": 1024.0, "tib": 2.0**20}
_AMOUNT = r"([\d.,]*\d) ?(bytes|[KMGT]iB|B)\b"
# PyTorch before 2.1 has them in brackets, and one version spells capacity without its second a.
_SAID = {
    "asked_mib": rf"(?:tried|trying) to allocate {_AMOUNT}|(?:allocating|request for) {_AMOUNT}",
    "total_mib": rf"total capac\w+ of {_AMOUNT}|{_AMOUNT} total capacity",
    "free_mib": rf"of which {_AMOUNT} is free|{_AMOUNT} free\b",
    "allocated_mib": rf"{_AMOUNT} is allocated by PyTorch|{_AMOUNT} already allocated",
    "unused_mib": rf"{_AMOUNT} is reserved by PyTorch but unallocated",
}
_RESERVED = re.compile(rf"{_AMOUNT} reserved in total by PyTorch", re.IGNORECASE)
_OTHER = re.compile(rf"Process \d+ has {_AMOUNT} memory in use", re.IGNORECASE)
_DEVICE = re.compile(r"\bGPU[ :](\d{1,3})\b|\bdevice ordinal (\d{1,3})\b", re.IGNORECASE)
_TENSOR = re.compile(r"OOM when allocating tensor with shape ?\[([\d,]+)\] and type (\w+)")
# TensorFlow's names of types, by how many bytes each number takes.
_BYTES = {"float": 4, "half": 2, "double": 8, "uint8": 1, "bool": 1, "complex64": 8}
_SIZED = re.compile(r"(?:u?int|b?float)(8|16|32|64)")
# Longer numbers are none of a machine's.
_LONGEST_NUMBER = 20
_OF_A_GPU = re.compile(r"\bCUDA|\bHIP\b|\bGPU\b|RESOURCE_EXHAUSTED|device ordinal", re.IGNORECASE)


def read_out_of_memory(text: str, t: int = 0) -> OutOfMemory | None:
    """Return what an error says of a GPU's memory that ran out; None where it says nothing of it.

    Args:
        text: as PyTorch, JAX or TensorFlow writes it.
        t: when it was raised.
    """
    found: dict[str, Any] = {name: _first(each, text) for name, each in _SAID.items()}
    if (tensor := _TENSOR.search(text)) is not None:
        found["asked_mib"] = _of_tensor(tensor[1], tensor[2])
    if not _OF_A_GPU.search(text) or found["asked_mib"] is None:
        return None
    if others := _OTHER.findall(text):
        found["others_mib"] = round(sum(_mib(*amount) or 0.0 for amount in others), 2)
    reserved, allocated = _RESERVED.search(text), found["allocated_mib"]
    reserved_mib = None if reserved is None else _mib(reserved[1], reserved[2])
    if found["unused_mib"] is None and reserved_mib is not None and allocated is not None:
        found["unused_mib"] = max(0.0, reserved_mib - allocated)
    device = _DEVICE.search(text)
    number = None if device is None else int(device[1] or device[2])
    return OutOfMemory(t, device=number, **found)


def _first(pattern: str, text: str) -> float | None:
    said = re.search(pattern, text, re.IGNORECASE)
    if said is None:
        return None
    number, unit = [group for group in said.groups() if group is not None]
    return _mib(number, unit)


def _mib(number: str, unit: str) -> float | None:
    try:
        value = float(number.replace(",", ""))
    except ValueError:
        return None
    return round(value * _UNITS[unit.lower()], 2) if len(number) <= _LONGEST_NUMBER else None


def _of_tensor(shape: str, kind: str) -> float | None:
    sized = _SIZED.fullmatch(kind)
    each = int(sized[1]) // 8 if sized is not None else _BYTES.get(kind)
    sizes = [size for size in shape.split(",") if size]
    if each is None or any(len(size) > _LONGEST_NUMBER for size in sizes):
        return None
    return round(prod(map(int, sizes)) * each / MIB, 2)
