"""The size of an Intel card's own memory, which no file tells: its driver is asked.

The requests are DRM_XE_DEVICE_QUERY_MEM_REGIONS and DRM_I915_QUERY_MEMORY_REGIONS of the kernel's
include/uapi/drm/xe_drm.h and i915_drm.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path

from dlmon.sensors import kernel_files
from dlmon.sensors.drm.card_files import CardFiles
from dlmon.sensors.provider import BYTES_IN_MIB

DEVICES = Path("/dev/dri")
_XE_QUERY, _I915_QUERY = 0xC0286440, 0xC0106479
_XE_REGIONS, _I915_REGIONS = 1, 4
# Both answers are a count, and regions: the class, the instance, and the size at byte 8 of 88.
_REGION = struct.Struct("<H6xQ72x")
_XE_HEAD, _I915_HEAD = 8, 16
_OWN_MEMORY = 1
_LONGEST = 1 << 16

Ask = Callable[[int], bytes]


def of_xe(card: CardFiles) -> int:
    """Return the MiB of a card of the driver xe."""
    return _mib(_answer(card, _ask_xe), _XE_HEAD)


def of_i915(card: CardFiles) -> int:
    """Return the MiB of a card of the driver i915."""
    return _mib(_answer(card, _ask_i915), _I915_HEAD)


def _answer(card: CardFiles, ask: Ask) -> bytes:
    nodes = kernel_files.names(card.path("device/drm"))
    node = next((name for name in nodes if name.startswith("renderD")), None)
    if node is None:
        raise LookupError("not reported here")
    descriptor = os.open(DEVICES / node, os.O_RDWR | os.O_CLOEXEC)
    try:
        return ask(descriptor)
    finally:
        os.close(descriptor)


def _ask_xe(descriptor: int) -> bytes:
    """Ask for the answer's length, then for the answer."""
    request = bytearray(struct.pack("<QIIQQQ", 0, _XE_REGIONS, 0, 0, 0, 0))
    fcntl.ioctl(descriptor, _XE_QUERY, request)
    answer = _room(struct.unpack_from("<I", request, 12)[0])
    struct.pack_into("<IQ", request, 12, len(answer), ctypes.addressof(answer))
    fcntl.ioctl(descriptor, _XE_QUERY, request)
    return answer.raw


def _ask_i915(descriptor: int) -> bytes:
    item = ctypes.create_string_buffer(struct.pack("<QiIQ", _I915_REGIONS, 0, 0, 0), 24)
    request = bytearray(struct.pack("<IIQ", 1, 0, ctypes.addressof(item)))
    fcntl.ioctl(descriptor, _I915_QUERY, request)
    answer = _room(struct.unpack_from("<i", item, 8)[0])
    struct.pack_into("<Q", item, 16, ctypes.addressof(answer))
    fcntl.ioctl(descriptor, _I915_QUERY, request)
    return answer.raw


def _room(length: int) -> ctypes.Array[ctypes.c_char]:
    # i915 reports an error as a negative length.
    if not 0 < length <= _LONGEST:
        raise LookupError("not supported")
    return ctypes.create_string_buffer(length)


def _mib(answer: bytes, head: int) -> int:
    (count,) = struct.unpack_from("<I", answer)
    regions = list(_REGION.iter_unpack(answer[head : head + count * _REGION.size]))
    return int(sum(size for kind, size in regions if kind == _OWN_MEMORY)) // BYTES_IN_MIB
