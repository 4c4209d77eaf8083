"""What drivers of Intel's cards are asked of their memory, with a driver of our own."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace

import pytest

from dlmon.sensors.drm import intel_memory
from dlmon.sensors.drm.card_files import CardFiles

GIB = 2**30
SYSTEM, OWN = 0, 1


def regions(head, *sizes):
    parts = (struct.pack("<H6xQ72x", kind, size) for kind, size in sizes)
    return struct.pack(head, len(sizes)) + b"".join(parts)


class Driver:
    """Answers as the kernel does: the length to a request without room, then the answer."""

    def __init__(self, answer):
        self.answer = answer

    def xe(self, descriptor, request, argument):
        assert request == 0xC0286440
        _, query, size, data, *_ = struct.unpack("<QIIQQQ", argument)
        assert query == 1
        if size == 0:
            struct.pack_into("<I", argument, 12, len(self.answer))
        else:
            assert size == len(self.answer)
            ctypes.memmove(data, self.answer, size)

    def i915(self, descriptor, request, argument):
        assert request == 0xC0106479
        count, _, address = struct.unpack("<IIQ", argument)
        query, length, _, data = struct.unpack("<QiIQ", ctypes.string_at(address, 24))
        assert (count, query) == (1, 4)
        if not data:
            ctypes.memmove(address + 8, struct.pack("<i", len(self.answer)), 4)
        else:
            assert length == len(self.answer)
            ctypes.memmove(data, self.answer, length)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Return a function that asks a card's driver for its memory."""
    node = tmp_path / "card0/device/drm/renderD128"
    node.mkdir(parents=True)
    (tmp_path / "renderD128").touch()
    monkeypatch.setattr(intel_memory, "DEVICES", tmp_path)

    def ask(kind, head, *sizes):
        driver = Driver(regions(head, *sizes) if sizes else b"")
        monkeypatch.setattr(intel_memory, "fcntl", SimpleNamespace(ioctl=getattr(driver, kind)))
        return getattr(intel_memory, f"of_{kind}")(CardFiles(str(tmp_path / "card0")))

    return ask


@pytest.mark.parametrize(("kind", "head"), [("xe", "<I4x"), ("i915", "<I12x")])
def test_the_memory_of_a_card_is_that_of_all_its_own_regions(kind, head, ask):
    assert ask(kind, head, (SYSTEM, 64 * GIB), (OWN, 12 * GIB)) == 12 * 1024
    assert ask(kind, head, (OWN, 64 * GIB), (SYSTEM, GIB), (OWN, 64 * GIB)) == 128 * 1024
    assert ask(kind, head, (SYSTEM, 64 * GIB)) == 0


@pytest.mark.parametrize("kind", ["xe", "i915"])
def test_a_driver_that_gives_no_answer_is_a_reason(kind, ask):
    with pytest.raises(LookupError, match="not supported"):
        ask(kind, "")


def test_a_card_without_a_node_to_ask_is_a_reason(tmp_path):
    (tmp_path / "card0/device/drm").mkdir(parents=True)
    with pytest.raises(LookupError, match="not reported here"):
        intel_memory.of_xe(CardFiles(str(tmp_path / "card0")))
