"""The energy counters of the CPU's packages, from a tree of files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Cpu, MachineFacts
from dlmon.sensors import kernel_files
from dlmon.sensors.linux import cpu as rapl
from dlmon.sensors.linux.cpu import (
    BEGAN_AGAIN,
    DENIED,
    NO_COUNTER,
    READ_TOO_SELDOM,
    EnergyProvider,
    Package,
    why_no_cpu_energy,
)

SECOND = 1_000_000_000
RANGE_UJ = 262_143_328_850
NO_EARLIER = {"power_w": "no earlier reading yet"}


def unknown(reason: str) -> Cpu:
    return Cpu(why={"energy_j": reason, "power_w": reason})


def zone(root: Path, name: str, label: str, energy_uj: object = 0, range_uj: object = RANGE_UJ):
    folder = root / "sys/class/powercap" / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{label}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return folder / "energy_uj"


def opened(root: Path) -> EnergyProvider:
    provider = EnergyProvider(root)
    assert provider.facts() == MachineFacts()
    return provider


def test_packages_are_added_and_their_parts_and_the_board_are_not(tmp_path: Path):
    first = zone(tmp_path, "intel-rapl:0", "package-0", 1_500_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 900_000)
    zone(tmp_path, "intel-rapl:0:1", "dram", 900_000)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 2_040_000)
    zone(tmp_path, "intel-rapl:2", "psys", 9_000_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1_500_000)
    provider = opened(tmp_path)
    assert provider.fast(0).cpu == Cpu(energy_j=3.5, why=NO_EARLIER)
    assert why_no_cpu_energy(tmp_path) == (None, False)
    # Power is the mean since the reading before.
    first.write_text("91500000\n")
    second.write_text("32540000\n")
    assert provider.fast(2 * SECOND).cpu.power_w == 60.2


@given(st.integers(1, 10**9), st.lists(st.floats(0, 0.999), max_size=20), st.integers(0, 10**12))
def test_however_often_it_begins_again_nothing_is_lost(range_uj, shares, start):
    """Between two readings a counter takes less than its range."""
    package = Package(Path("counter"), range_uj)
    total = start % (range_uj + 1)
    reported = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_files, "read", lambda path: str(total % (range_uj + 1)))
        first = package.total_uj(math.inf)
        for share in shares:
            total += int(share * range_uj)
            reported.append(package.total_uj(math.inf) - first)
    grown = 0
    for share, value in zip(shares, reported, strict=True):
        grown += int(share * range_uj)
        assert value == grown


def test_no_counter_is_reported_as_such(tmp_path: Path):
    assert opened(tmp_path).fast(0).cpu == unknown(NO_COUNTER)
    zone(tmp_path, "intel-rapl:2", "psys")
    assert opened(tmp_path).fast(0).cpu == unknown(NO_COUNTER)
    assert why_no_cpu_energy(tmp_path) == (NO_COUNTER, False)


def test_a_counter_that_only_root_may_read_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counter = zone(tmp_path, "intel-rapl:0", "package-0")
    tries = []

    def refuse(path):
        if path == counter:
            tries.append(path)
            raise PermissionError(13, "Permission denied")
        return Path(path).read_text()

    monkeypatch.setattr(rapl.kernel_files, "read", refuse)
    provider = opened(tmp_path)
    for t in range(3):
        assert provider.fast(t * SECOND).cpu == unknown(DENIED)
    assert len(tries) == 1
    assert "denied" in DENIED


@pytest.mark.parametrize(("energy_uj", "range_uj"), [("x", RANGE_UJ), (1, "x"), (1, 0), ("", 5)])
def test_nonsense_is_a_reason_and_no_reading(tmp_path: Path, energy_uj, range_uj):
    zone(tmp_path, "intel-rapl:0", "package-0", energy_uj, range_uj)
    cpu = opened(tmp_path).fast(0).cpu
    assert cpu.energy_j is None
    assert cpu.power_w is None
    assert cpu.why["energy_j"]
    assert cpu.why["power_w"]


def test_readings_too_far_apart_to_know_the_turns_are_none(tmp_path: Path):
    zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    provider = opened(tmp_path)
    provider.fast(0)
    # 262 kJ are 262 s at the most that a package can draw.
    assert provider.fast(200 * SECOND).cpu == Cpu(energy_j=5.0, power_w=0.0)
    assert provider.fast(500 * SECOND).cpu == unknown(READ_TOO_SELDOM)
    assert provider.fast(501 * SECOND).cpu == Cpu(energy_j=5.0, why=NO_EARLIER)
    assert provider.fast(502 * SECOND).cpu == Cpu(energy_j=5.0, power_w=0.0)


def test_a_counter_that_is_set_back_has_not_gone_around(tmp_path: Path):
    """Nothing takes 262 kJ in a second: it began again by itself."""
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 200_040_000_000)
    provider = opened(tmp_path)
    provider.fast(0)
    counter.write_text("5000000\n")
    assert provider.fast(SECOND).cpu == unknown(BEGAN_AGAIN)
    counter.write_text("25000000\n")
    assert provider.fast(2 * SECOND).cpu == Cpu(energy_j=25.0, why=NO_EARLIER)
    counter.write_text("45000000\n")
    assert provider.fast(3 * SECOND).cpu == Cpu(energy_j=45.0, power_w=20.0)
