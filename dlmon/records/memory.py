"""The records of frameworks' GPU memory, and the parser of their out-of-memory errors."""

from __future__ import annotations

import re
from math import prod
from typing import Any, ClassVar

from dlmon.records.record import record

MIB = 2**20


@record(frozen=True)
class FrameworkMemory:
    """The memory of a framework's allocator on one GPU; at most once a second, if it changed.

    Attributes:
        framework: torch, jax or tensorflow.
        device: framework's number of the GPU.
        allocated_mib: memory in use by tensors.
        peak_mib: the highest `allocated_mib` since the start, or since a reset.
        reserved_mib: memory that the allocator holds; absent if the framework does not report it.
        limit_mib: the most that it may hold; absent as above.
        retries: how often it freed all unused memory and asked the driver again; absent as above.
        failures: allocations that failed after that; absent as above.
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
    """A failed allocation of GPU memory, which the script may survive.

    The figures are from the error's text; absent if it does not contain them.

    Attributes:
        asked_mib: size of the allocation.
        device: framework's number of the GPU.
        total_mib: GPU's memory.
        free_mib: its free memory.
        others_mib: memory of other processes.
        allocated_mib: tensors of this process.
        unused_mib: memory that its allocator keeps without a tensor.
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
# PyTorch before 2.1 has the amounts in brackets; one version spells capacity "capacty".
_PATTERNS = {
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
# The sizes in bytes of TensorFlow's types.
_BYTES = {"float": 4, "half": 2, "double": 8, "uint8": 1, "bool": 1, "complex64": 8}
_SIZED = re.compile(r"(?:u?int|b?float)(8|16|32|64)")
# In digits: no size in memory is longer.
_LONGEST_NUMBER = 20
_OF_A_GPU = re.compile(r"\bCUDA|\bHIP\b|\bGPU\b|RESOURCE_EXHAUSTED|device ordinal", re.IGNORECASE)


def read_out_of_memory(text: str, t: int = 0) -> OutOfMemory | None:
    """Parse an out-of-memory error of a GPU; return None for any other error.

    Args:
        text: the error's text, by PyTorch, JAX or TensorFlow.
        t: the time of the error.
    """
    amounts: dict[str, Any] = {name: _amount(regex, text) for name, regex in _PATTERNS.items()}
    if (tensor := _TENSOR.search(text)) is not None:
        amounts["asked_mib"] = _tensor_mib(tensor[1], tensor[2])
    if not _OF_A_GPU.search(text) or amounts["asked_mib"] is None:
        return None
    if processes := _OTHER.findall(text):
        amounts["others_mib"] = round(sum(_mib(*amount) or 0.0 for amount in processes), 2)
    reserved, allocated = _RESERVED.search(text), amounts["allocated_mib"]
    reserved_mib = None if reserved is None else _mib(reserved[1], reserved[2])
    if amounts["unused_mib"] is None and reserved_mib is not None and allocated is not None:
        amounts["unused_mib"] = max(0.0, reserved_mib - allocated)
    device = _DEVICE.search(text)
    number = None if device is None else int(device[1] or device[2])
    return OutOfMemory(t, device=number, **amounts)


def _amount(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.IGNORECASE)
    if match is None:
        return None
    number, unit = [group for group in match.groups() if group is not None]
    return _mib(number, unit)


def _mib(number: str, unit: str) -> float | None:
    try:
        value = float(number.replace(",", ""))
    except ValueError:
        return None
    return round(value * _UNITS[unit.lower()], 2) if len(number) <= _LONGEST_NUMBER else None


def _tensor_mib(shape: str, kind: str) -> float | None:
    sized = _SIZED.fullmatch(kind)
    item_bytes = int(sized[1]) // 8 if sized is not None else _BYTES.get(kind)
    sizes = [size for size in shape.split(",") if size]
    if item_bytes is None or any(len(size) > _LONGEST_NUMBER for size in sizes):
        return None
    return round(prod(map(int, sizes)) * item_bytes / MIB, 2)
