"""CPU utilisation from counters, and what /sys and /proc hold about the CPU."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Cpu, MachineFacts, Memory
from dlmon.sensors import kernel_files
from dlmon.sensors.linux.cpu import CpuProvider, busy_and_total, utilisation
from dlmon.sensors.linux.memory import MemoryProvider

Times = namedtuple("Times", "user system idle iowait guest")


def test_waiting_is_not_busy_and_guests_count_once():
    assert busy_and_total(Times(user=5, system=1, idle=3, iowait=1, guest=2)) == (6, 10)


def test_utilisation_is_per_core_and_over_all():
    last = [(10.0, 100.0), (10.0, 100.0)]
    now = [(11.0, 101.0), (10.25, 101.0)]
    assert utilisation(last, now) == (62.5, (100, 25))


def readings(*readings):
    """Return a provider's `cpu_times` that returns one of these after the other."""
    following = iter(readings)
    return lambda: next(following)


def test_what_the_host_took_is_a_share_of_all_cores_time(tmp_path: Path):
    guest = namedtuple("Guest", "user idle iowait steal")
    before = [guest(1.0, 10.0, 0.0, 3.0), guest(1.0, 10.0, 0.0, 0.0)]
    after = [guest(3.5, 10.0, 0.0, 5.5), guest(1.0, 15.0, 0.0, 0.0)]
    provider = CpuProvider(tmp_path, readings(before, after))
    for t, known in ((0, None), (5_000_000_000, 25.0)):
        provider.fast(t)
        assert provider.slow(t).cpu.steal_pct == known


def test_a_system_that_counts_no_steal_says_so(tmp_path: Path):
    times = Times(1.0, 0.0, 1.0, 0.0, 0.0)
    provider = CpuProvider(tmp_path, readings([times], [times]))
    for t in (0, 5_000_000_000):
        provider.fast(t)
        cpu = provider.slow(t).cpu
    assert (cpu.steal_pct, cpu.why["steal_pct"]) == (None, "not reported here")


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.001, 10), st.floats(-1, 20)),
        min_size=1,
        max_size=8,
    )
)
def test_utilisation_is_never_outside_of_0_to_100(cores):
    last = [(busy, total) for busy, total, _, _ in cores]
    now = [(busy + worked, total + passed) for busy, total, passed, worked in cores]
    pct, each = utilisation(last, now)
    assert 0 <= pct <= 100
    assert all(0 <= core <= 100 for core in each)


@pytest.mark.parametrize(
    ("last", "now", "why"),
    [
        ([], [(1.0, 1.0)], "no earlier reading"),
        ([(1.0, 1.0)], [(1.0, 1.0), (1.0, 1.0)], "number of cores changed"),
        ([(1.0, 1.0)], [(1.0, 1.0)], "no CPU time"),
    ],
)
def test_readings_that_cannot_be_compared_say_why(last, now, why):
    with pytest.raises(ValueError, match=why):
        utilisation(last, now)


def test_a_core_that_comes_is_a_gap_of_one_reading(tmp_path: Path):
    readings = iter(
        [
            [Times(1, 0, 1, 0, 0)],
            [Times(2, 0, 2, 0, 0), Times(9, 0, 9, 0, 0)],
            [Times(3, 0, 3, 0, 0), Times(10, 0, 9, 0, 0)],
        ]
    )
    provider = CpuProvider(tmp_path, cpu_times=lambda: next(readings))
    provider.fast(0)
    assert provider.fast(1).cpu == Cpu(
        why=dict.fromkeys(("pct", "cores"), "the number of cores changed")
    )
    assert provider.fast(2).cpu == Cpu(pct=66.7, cores=(50, 100))


def test_a_failing_psutil_is_a_reason_and_no_error(tmp_path: Path):
    def refused():
        raise psutil.AccessDenied(1)

    reported = CpuProvider(tmp_path, cpu_times=refused).fast(0).cpu
    assert reported is not None
    assert set(reported.why) == {"pct", "cores"}


def cpu_tree(root: Path) -> Path:
    cpufreq = root / "sys/devices/system/cpu/cpufreq"
    for core in range(40):
        policy = cpufreq / f"policy{core}"
        policy.mkdir(parents=True)
        (policy / "scaling_cur_freq").write_text("2400000\n")
    governor = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    governor.parent.mkdir(parents=True)
    governor.write_text("performance\n")
    for number, (name, sensors) in enumerate(
        [
            ("nvme", {"temp1_input": "99000"}),
            ("coretemp", {"temp1_label": "Core 0", "temp1_input": "80000"}
             | {"temp2_label": "Package id 0", "temp2_input": "61500"}),
            ("coretemp", {"temp1_label": "Package id 1", "temp1_input": "55000"}),
        ]
    ):  # fmt: skip
        driver = root / f"sys/class/hwmon/hwmon{number}"
        driver.mkdir(parents=True)
        for file, text in {"name": name, **sensors}.items():
            (driver / file).write_text(text + "\n")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text("processor : 0\nmodel name\t: Some   CPU  @ 3GHz\n")
    return root


def test_model_governor_clock_and_temperature_come_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "getloadavg", lambda: (3.4567, 2.0, 1.0))
    provider = CpuProvider(cpu_tree(tmp_path))
    facts = provider.facts()
    assert facts.cpu_model == "Some CPU @ 3GHz"
    assert facts.governor == "performance"
    cpu = provider.slow(0).cpu
    assert cpu is not None
    assert cpu.load_1m == 3.46
    assert cpu.temperature_c == 62
    assert cpu.mhz == 2400


def test_only_some_clocks_of_a_large_machine_are_read(tmp_path: Path):
    provider = CpuProvider(cpu_tree(tmp_path))
    provider.facts()
    assert len(provider._clocks) <= 16


def test_what_is_not_there_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def unobtainable():
        raise OSError("the load average was unobtainable")

    monkeypatch.setattr(os, "getloadavg", unobtainable)
    provider = CpuProvider(tmp_path)
    facts = provider.facts()
    assert facts.why["cpu_model"] == facts.why["governor"] == "not reported here"
    assert provider.slow(0).cpu == Cpu(
        why={
            **dict.fromkeys(("mhz", "temperature_c", "steal_pct"), "not reported here"),
            "load_1m": "the load average was unobtainable",
        }
    )


def test_a_sensor_that_reports_nonsense_has_its_reason(tmp_path: Path):
    provider = CpuProvider(cpu_tree(tmp_path))
    provider.facts()
    (tmp_path / "sys/class/hwmon/hwmon2/temp1_input").write_text("hot\n")
    cpu = provider.slow(0).cpu
    assert cpu is not None
    assert cpu.temperature_c is None
    assert "temperature_c" in cpu.why
    assert cpu.mhz is not None


def memory_tree(root: Path, swap_free_kib: int, swapped: tuple[int, int], faults: int) -> Path:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/meminfo").write_text(
        f"MemTotal: 8388608 kB\nSwapCached: 4 kB\nSwapTotal: 1048576 kB\n"
        f"SwapFree:{swap_free_kib:>12} kB\nHugePages_Total:       0\n"
    )
    (root / "proc/vmstat").write_text(
        f"nr_free_pages 1\npswpin {swapped[0]}\npswpout {swapped[1]}\n"
        f"pgfault 99999\npgmajfault {faults}\nthp_swpout 7\n"
    )
    return root


def test_memory_in_use_is_what_is_not_available(monkeypatch: pytest.MonkeyPatch):
    memory = namedtuple("memory", "total available")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(8 * 2**30, 3 * 2**30))
    assert MemoryProvider().fast(0).memory == Memory(used_mib=5 * 1024)


def test_swap_and_major_faults_are_rates_of_what_the_kernel_counts(tmp_path: Path):
    provider = MemoryProvider(memory_tree(tmp_path, 524_288, (5, 6), 100))
    no_rate = dict.fromkeys(("swap_mib_s", "major_faults_s"), "no earlier reading yet")
    assert provider.slow(0).memory == Memory(swap_used_mib=512, why=no_rate)
    pages = 3 * 2**20 // os.sysconf("SC_PAGE_SIZE")
    memory_tree(tmp_path, 520_192, (5 + pages, 6 + pages), 125)
    assert provider.slow(2 * 10**9).memory == Memory(
        swap_used_mib=516, swap_mib_s=3.0, major_faults_s=12.5
    )


def test_the_swaps_size_is_reported_where_nothing_but_meminfo_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    memory_tree(tmp_path, 524_288, (5, 6), 100)
    (tmp_path / "proc/vmstat").unlink()
    assert MemoryProvider(tmp_path).facts().swap_mib == 1024
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    with pytest.warns(RuntimeWarning, match="swap memory stats"):
        assert psutil.swap_memory().total == 2**30


def test_a_machine_that_does_not_tell_its_swap_is_not_one_without(tmp_path: Path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8388608 kB\n")
    facts = MemoryProvider(tmp_path).facts()
    assert (facts.swap_mib, facts.why["swap_mib"]) == (None, "not reported here")


def test_the_swap_of_this_machine_is_as_large_as_psutil_says():
    assert MemoryProvider().facts().swap_mib == psutil.swap_memory().total // 2**20


def test_memory_that_cannot_be_read_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    provider = MemoryProvider(tmp_path)
    reported = provider.slow(0).memory
    assert reported == Memory(
        why=dict.fromkeys(("swap_used_mib", "swap_mib_s", "major_faults_s"), "not reported here")
    )
    monkeypatch.setattr(psutil, "virtual_memory", refused)
    monkeypatch.setattr(kernel_files, "read", refused)
    assert provider.facts() == MachineFacts(why={"memory_mib": "denied", "swap_mib": "denied"})
    assert provider.fast(0).memory == Memory(why={"used_mib": "denied"})
    assert provider.slow(0).memory == Memory(
        why=dict.fromkeys(("swap_used_mib", "swap_mib_s", "major_faults_s"), "denied")
    )


@pytest.mark.parametrize("vmstat", ["", "pswpin 1\npswpout 2\n", "pswpin\npswpout 2\npgmajfault 3"])
def test_counts_that_are_not_there_are_a_reason_and_not_a_zero(tmp_path: Path, vmstat: str):
    provider = MemoryProvider(memory_tree(tmp_path, 0, (0, 0), 0))
    (tmp_path / "proc/vmstat").write_text(vmstat)
    reported = provider.slow(0).memory
    assert reported is not None
    assert reported.swap_used_mib == 1024
    assert reported.major_faults_s is None
    assert reported.why["major_faults_s"]
