"""Rates from counters, and what disks and interfaces count."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Disk, Network
from dlmon.sensors.linux.traffic import DiskProvider, NetworkProvider
from dlmon.sensors.provider import BYTES_IN_MIB, Rates, mib_per_second

SECOND = 1_000_000_000

DISKSTATS = """\
   7       0 loop0 9 0 9999 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 100 5 2048 30 50 2 4096 20 0 30 50 0 0 0 0 0 0
 259       1 nvme0n1p1 90 5 2000 30 50 2 4000 20 0 30 50 0 0 0 0 0 0
 252       0 dm-0 90 0 2048 30 50 0 4096 20 0 30 50
   8       0 sda 1 0 8 0 0 0 16 0 0 0 0
"""

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:    1000      29    0    0    0     0          0         0     1000      29    0    0
docker0:   2000       1    0    0    0     0          0         0     2000       1    0    0
  eth0: 700       84    0    0    0     0          0         0   80   11227    0    0
"""


def test_a_counter_that_began_again_has_no_rate_once_and_none_without_time():
    rates = Rates()
    for t, count, why in ((0, 100, "no earlier"), (SECOND, 3, "was reset"), (SECOND, 4, "no time")):
        with pytest.raises(ValueError, match=why):
            rates.per_second(t, count)
    assert rates.per_second(2 * SECOND, 5) == (1.0,)
    assert [mib_per_second(mib * BYTES_IN_MIB) for mib in (1.2345, 123.45)] == [1.23, 123.5]


@given(st.lists(st.tuples(st.integers(1, 10**10), st.integers(0, 10**12)), min_size=1, max_size=20))
def test_the_rates_add_up_to_the_whole_growth(steps):
    rates = Rates()
    with pytest.raises(ValueError, match="no earlier"):
        rates.per_second(0, 0)
    t = count = 0
    moved = 0.0
    for elapsed, growth in steps:
        t, count = t + elapsed, count + growth
        moved += rates.per_second(t, count)[0] * elapsed / 1e9
    assert moved == pytest.approx(count)


def test_physical_disks_are_those_with_hardware_behind_them(tmp_path: Path):
    for name in ("nvme0n1", "cciss!c0d0", "loop0", "zram0", "dm-0", "md0"):
        (tmp_path / name).mkdir()
    (tmp_path / "nvme0n1" / "device").mkdir()
    (tmp_path / "cciss!c0d0" / "device").mkdir()
    assert DiskProvider.find(tmp_path) == {"nvme0n1": "nvme0n1", "cciss/c0d0": "cciss/c0d0"}
    assert DiskProvider.find(tmp_path / "absent") == {}


def test_hidden_paths_belong_to_the_disk_that_they_lead_to(tmp_path: Path):
    for name, hidden in (("nvme0n1", "0"), ("nvme0c0n1", "1"), ("nvme0c1n1", "1"), ("sda", None)):
        (tmp_path / name / "device").mkdir(parents=True)
        if hidden is not None:
            (tmp_path / name / "hidden").write_text(f"{hidden}\n")
    assert DiskProvider.find(tmp_path) == {
        "nvme0n1": "nvme0n1",
        "nvme0c0n1": "nvme0n1",
        "nvme0c1n1": "nvme0n1",
        "sda": "sda",
    }


@pytest.mark.parametrize("at_itself", [0, 30])
def test_a_disk_with_several_paths_is_counted_once(at_itself):
    counted = {"nvme0n1": at_itself, "nvme0c0n1": 10, "nvme0c1n1": 20, "sda": 5}
    diskstats = "".join(
        f" 259 0 {name} 1 0 {sectors} 0 1 0 {2 * sectors} 0 0 0 0\n"
        for name, sectors in counted.items()
    )
    disks = {name: "nvme0n1" if name.startswith("nvme") else name for name in counted}
    assert DiskProvider.bytes_moved(diskstats, disks) == (35 * 512, 70 * 512)


def test_only_hardware_is_counted_where_there_is_some():
    disks = {"nvme0n1": "nvme0n1", "sda": "sda"}
    moved = ((2048 + 8) * 512, (4096 + 16) * 512)
    assert DiskProvider.bytes_moved(DISKSTATS, disks) == moved
    assert NetworkProvider.bytes_moved(NET_DEV, {"eth0"}) == (700, 80)
    # All interfaces but loopback where there is none.
    assert NetworkProvider.bytes_moved(NET_DEV, frozenset()) == (2700, 2080)


def machine_with_a_disk(root: Path) -> Path:
    (root / "sys/block/nvme0n1/device").mkdir(parents=True)
    (root / "sys/class/net/eth0/device").mkdir(parents=True)
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/diskstats").write_text(DISKSTATS)
    (root / "proc/net/dev").write_text(NET_DEV)
    return root


def test_disk_rates_are_those_since_the_reading_before(tmp_path: Path):
    provider = DiskProvider(machine_with_a_disk(tmp_path))
    provider.facts()
    first = provider.fast(0).disk
    assert first is not None
    assert first.why == dict.fromkeys(("read_mib_s", "write_mib_s"), "no earlier reading yet")
    moved = DISKSTATS.replace("5 2048", "5 22528").replace("2 4096 20 0", "2 4096 20 0")
    (tmp_path / "proc/diskstats").write_text(moved)
    assert provider.fast(2 * SECOND).disk == Disk(read_mib_s=5.0, write_mib_s=0.0)


def test_a_new_disk_is_no_burst(tmp_path: Path):
    provider = DiskProvider(machine_with_a_disk(tmp_path))
    provider.facts()
    provider.fast(0)
    (tmp_path / "sys/block/sda/device").mkdir(parents=True)
    provider.slow(SECOND)
    reported = provider.fast(SECOND).disk
    assert reported is not None
    assert reported.read_mib_s is None
    assert provider.fast(2 * SECOND).disk == Disk(read_mib_s=0.0, write_mib_s=0.0)


def test_no_disk_is_a_reason_and_not_a_zero(tmp_path: Path):
    provider = DiskProvider(tmp_path)
    provider.facts()
    reported = provider.fast(0).disk
    assert reported == Disk(
        why=dict.fromkeys(("read_mib_s", "write_mib_s"), "no physical disk was found")
    )


def test_network_rates_are_those_since_the_reading_before(tmp_path: Path):
    provider = NetworkProvider(machine_with_a_disk(tmp_path))
    provider.facts()
    provider.fast(0)
    (tmp_path / "proc/net/dev").write_text(NET_DEV.replace("eth0: 700", f"eth0: {700 + 2**21}"))
    assert provider.fast(SECOND).network == Network(receive_mib_s=2.0, send_mib_s=0.0)
