"""How much of a log may be copied: by what its host says, by how logs grow, and by the disk."""

import os
from pathlib import Path

import pytest

from dlmon.remote.allowance import (
    GIB,
    GROWTH_BYTES_S,
    KEPT_FREE_BYTES,
    LARGEST_LOG_BYTES,
    MIB,
    SLACK_BYTES,
    Allowance,
    room_in,
)

WHAT, FOLDER = "the log of run-1 on box", Path("/cache/dlmon")


class Disk:
    def __init__(self, room):
        self.room = room
        self.now_s = 100.0

    def allow(self):
        return Allowance(WHAT, FOLDER, lambda: self.now_s, lambda folder: self.room)


def test_a_log_may_take_what_was_announced_and_what_it_can_have_grown_since():
    disk = Disk(room=100 * GIB)
    allowance = disk.allow()
    size = 250 * MIB
    assert allowance.announce(size, size) is None
    most = size + SLACK_BYTES
    assert allowance.take(most, 1) is None
    refusal = allowance.take(most + 1, 1)
    assert refusal.startswith(f"{WHAT} has more than any log can have grown to, 0.3 GiB where")
    assert refusal.endswith("0.2 GiB were announced: it is copied no further")
    disk.now_s += 60
    assert allowance.take(most + 60 * GROWTH_BYTES_S, 1) is None
    assert allowance.take(most + 60 * GROWTH_BYTES_S + 1, 1) is not None


def test_a_log_of_a_month_is_copied_and_no_larger_one():
    allowance = Disk(room=100 * GIB).allow()
    month = 30 * 250_000_000
    assert allowance.announce(month, month) is None
    assert allowance.announce(LARGEST_LOG_BYTES, 1) is None
    assert allowance.take(LARGEST_LOG_BYTES, 1) is None
    assert allowance.take(LARGEST_LOG_BYTES + 1, 1) is not None
    assert "8.0 GiB" in allowance.announce(LARGEST_LOG_BYTES + GIB, 1)


def test_what_the_disk_has_no_room_for_is_refused_before_it_is_sent_and_while_it_is():
    disk = Disk(room=2 * GIB)
    allowance = disk.allow()
    assert allowance.announce(3 * GIB, 3 * GIB) == (
        f"{WHAT} takes 3.0 GiB more, and the disk of {FOLDER} has room for 2.0 GiB: "
        "make room on it, or set XDG_CACHE_HOME"
    )
    # What is here already takes no more room.
    assert allowance.announce(3 * GIB, GIB) is None
    disk.room = 10
    assert allowance.take(2 * GIB, 11) is not None
    assert allowance.take(2 * GIB, 10) is None


@pytest.mark.parametrize(
    ("blocks", "free", "room"),
    [
        (1000 * GIB, 10 * GIB, 10 * GIB - KEPT_FREE_BYTES),
        (1000 * GIB, KEPT_FREE_BYTES - 1, 0),
        (100 * MIB, 20 * MIB, 15 * MIB),
    ],
)
def test_some_of_a_disk_is_left_free_little_of_a_small_one(monkeypatch, blocks, free, room):
    class Statvfs:
        f_frsize = 1
        f_blocks = blocks
        f_bavail = free

    monkeypatch.setattr(os, "statvfs", lambda folder: Statvfs)
    assert room_in(FOLDER) == room
