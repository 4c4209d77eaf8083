"""The table `gpu_metrics` of amdgpu: throttling and energy, which no other file tells.

The layouts are those of the kernel's drivers/gpu/drm/amd/include/kgd_pp_interface.h, and the bits
those of SMU_THROTTLER_* in drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h. Discrete GPUs have tables
of format 1, GPUs in a processor of format 2 and 3.
"""

from __future__ import annotations

import struct

from dlmon.sensors.drm.card_files import CardFiles

PATH = "device/gpu_metrics"
_HEADER = struct.Struct("<HBB")
_IN_A_PROCESSOR = (2, 3)
_POWER, _HEAT, _HOT, _CURRENT = (
    "power cap",
    "thermal slowdown",
    "hardware thermal slowdown",
    "current limit",
)
# The bits of `indep_throttle_status`, the same for all chips.
_BITS = {
    **dict.fromkeys(range(8), _POWER),
    **dict.fromkeys(range(16, 24), _CURRENT),
    **dict.fromkeys((32, 33, 34, 35, 37, 38, 39, 40, 41, 42, 43), _HEAT),
    **dict.fromkeys((44, 45, 46, 47), _HOT),
}
# A card at its highest clock often has this bit far below its limit.
_JUNCTION_BIT, _JUNCTION_NEAR_C = 36, 5
_INDEPENDENT = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
"""The offset of `indep_throttle_status`, by the revisions of format and content."""
_RESIDENCIES = {
    **dict.fromkeys(((1, 6),), (36, (_HOT, _POWER, _HEAT, _HEAT, _HEAT))),
    **dict.fromkeys(((1, 7), (1, 8)), (44, (_HOT, _POWER, _HEAT, _HEAT, _HEAT))),
    (3, 0): (228, (_HOT, _POWER, _POWER, _POWER, _HEAT, _HEAT, _HEAT)),
}
"""The offset of counters of the time throttled, and the reason of each."""
_ENERGY = {(1, 4): 24, (1, 5): 56, (1, 6): 16, (1, 7): 24, (1, 8): 24}
"""The offset of the energy in units of 2⁻¹⁶ J; of older tables the unit is not known."""
_NOT_REPORTED = "not reported here"


def throttle(card: CardFiles) -> tuple[str, ...]:
    """Return the reasons why the clocks are throttled, in NVML's words for the same."""
    table = card.bytes(PATH)
    revision = _revision(table)
    if revision in _INDEPENDENT:
        (bits,) = _numbers(table, _INDEPENDENT[revision], "Q")
        if bits == 2**64 - 1:
            raise ValueError(_NOT_REPORTED)
        return _reasons(bits, card)
    if revision not in _RESIDENCIES:
        raise LookupError(_NOT_REPORTED)
    offset, words = _RESIDENCIES[revision]
    now = _numbers(table, offset, f"{len(words)}I")
    before = card.counters.get(PATH)
    card.counters[PATH] = now
    if before is None:
        raise ValueError("no earlier reading yet")
    grown = (word for word, then, count in zip(words, before, now, strict=True) if count > then)
    return tuple(dict.fromkeys(grown))


def energy_j(card: CardFiles) -> float:
    """Return the energy since the driver was loaded."""
    table = card.bytes(PATH)
    offset = _ENERGY.get(_revision(table))
    if offset is None:
        raise LookupError(_NOT_REPORTED)
    (units,) = _numbers(table, offset, "Q")
    return round(units / 2**16, 1)


def is_in_processor(table: bytes) -> bool:
    """Return whether the table is of a GPU in a processor, which shares the system's memory."""
    return _revision(table)[0] in _IN_A_PROCESSOR


def _revision(table: bytes) -> tuple[int, int]:
    size, format_revision, content_revision = _HEADER.unpack_from(table.ljust(_HEADER.size, b"\0"))
    if size > len(table) or not size:
        raise ValueError("the table can't be understood")
    return format_revision, content_revision


def _numbers(table: bytes, offset: int, format: str) -> tuple[int, ...]:
    try:
        return struct.unpack_from(f"<{format}", table, offset)
    except struct.error:
        raise ValueError("the table can't be understood") from None


def _reasons(bits: int, card: CardFiles) -> tuple[str, ...]:
    words = [word for bit, word in _BITS.items() if bits >> bit & 1]
    if bits >> _JUNCTION_BIT & 1 and card.is_near_junction_limit(_JUNCTION_NEAR_C):
        words.append(_HEAT)
    unknown = bits & ~sum(1 << bit for bit in (*_BITS, _JUNCTION_BIT))
    return tuple(dict.fromkeys([*words, *([f"other ({unknown:#x})"] if unknown else [])]))
