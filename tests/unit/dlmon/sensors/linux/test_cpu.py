"""CPU utilisation from counters, and what /sys and /proc hold about the CPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Cpu, MachineFacts, Memory
from dlmon.sensors import kernel_files
from dlmon.sensors.linux.cpu import CoreTimes, CpuProvider, core_times, utilisation
from dlmon.sensors.linux.memory import MemoryProvider

STAT = """cpu  300 30 90 6000 6 1 3 9 12 3
cpu0 100 10 30 2000 2 0 1 3 4 1
cpu2 200 20 60 4000 4 1 2 6 8 2 99
intr 123456 0 0 17
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_waiting_is_not_busy_and_guests_count_once():
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    counted = [[round(spent * ticks_per_s) for spent in core] for core in core_times(STAT)]
    assert counted == [[144, 2146, 3], [289, 4293, 6]]


def test_a_machine_without_psutil_is_read_as_with_it(monkeypatch: pytest.MonkeyPatch):
    def read() -> tuple[list[CoreTimes], int | None, MachineFacts]:
        provider = CpuProvider()
        return provider._core_times(), MemoryProvider().fast(0).memory.used_mib, provider.facts()

    cores, used_mib, facts = read()
    monkeypatch.setattr(kernel_files, "psutil", None)
    without, used_without_mib, facts_without = read()
    assert [core.total for core in without] == pytest.approx([c.total for c in cores], abs=2)
    assert used_without_mib == pytest.approx(used_mib, abs=500)
    assert facts_without.physical_cores == facts.physical_cores
    assert facts_without.on_battery == facts.on_battery


@pytest.mark.parametrize("numbers", ["1 2 3 4 5 6 x 8 9 10", "1 2 3", ""])
def test_times_that_are_none_are_a_reason_and_never_0(tmp_path: Path, numbers: str):
    provider = CpuProvider(write(tmp_path, {"proc/stat": f"cpu  1 2\ncpu0 {numbers}\n"}))
    assert set(provider.fast(0).cpu.why) == {"pct", "cores"}


def core(busy: int, total: int) -> CoreTimes:
    return CoreTimes(busy, total, steal=0)


def stat(*cores: tuple[int, int, int]) -> dict[str, str]:
    """Return /proc/stat with each core's user, idle and stolen ticks."""
    lines = [f"cpu{n} {user} 0 0 {idle} 0 0 0 {steal} 0 0" for n, (user, idle, steal) in
             enumerate(cores)]  # fmt: skip
    return {"proc/stat": "\n".join(["cpu  0", *lines, "intr 0"])}


def test_what_the_host_took_is_a_share_of_all_cores_time(tmp_path: Path):
    provider = CpuProvider(tmp_path)
    ticks = os.sysconf("SC_CLK_TCK")
    for t, cores, known in (
        (0, ((100, 1000, 3 * ticks), (100, 1000, 0)), None),
        (5_000_000_000, ((350, 1000, 5 * ticks + ticks // 2), (100, 1500, 0)), 25.0),
    ):
        write(tmp_path, stat(*cores))
        provider.fast(t)
        assert provider.slow(t).cpu.steal_pct == known


@given(
    st.lists(st.tuples(*[st.integers(0, 10**9)] * 2, st.integers(1, 1000), st.integers(-9, 2000)))
)
def test_utilisation_is_never_outside_of_0_to_100(cores):
    last = [core(busy, total) for busy, total, _, _ in [(0, 0, 0, 0), *cores]]
    now = [core(b + worked, total + passed) for b, total, passed, worked in [(1, 0, 2, 0), *cores]]
    pct, each = utilisation(last, now)
    assert 0 <= pct <= 100
    assert all(0 <= share <= 100 for share in each)


@pytest.mark.parametrize(
    ("last", "now", "why"),
    [
        ([], [core(1, 1)], "no earlier reading"),
        ([core(1, 1)], [core(1, 1), core(1, 1)], "number of cores changed"),
        ([core(1, 1)], [core(1, 1)], "no CPU time"),
    ],
)
def test_readings_that_cannot_be_compared_say_why(last, now, why):
    with pytest.raises(ValueError, match=why):
        utilisation(last, now)


def test_a_core_that_comes_is_a_gap_of_one_reading(tmp_path: Path):
    provider = CpuProvider(write(tmp_path, stat((100, 100, 0))))
    provider.fast(0)
    write(tmp_path, stat((200, 200, 0), (900, 900, 0)))
    assert provider.fast(1).cpu == Cpu(
        why=dict.fromkeys(("pct", "cores"), "the number of cores changed")
    )
    write(tmp_path, stat((300, 300, 0), (1000, 900, 0)))
    assert provider.fast(2).cpu == Cpu(pct=66.7, cores=(50, 100))


TOPOLOGY = "sys/devices/system/cpu/cpu{}/topology/{}"


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_threads_of_one_core_are_one_physical_core(tmp_path: Path, name: str):
    for cpu, siblings in enumerate(["0,4", "1,5", "2", "3", "0,4", "1,5"]):
        write(tmp_path, {TOPOLOGY.format(cpu, name): f"{siblings}\n"})
    assert CpuProvider(tmp_path).facts().physical_cores == 4


@pytest.mark.parametrize(
    ("status", "on_battery"),
    [("Discharging", True), ("Full", False), ("Charging", False), ("Unknown", False)],
)
def test_a_battery_says_by_its_status_whether_the_mains_are_there(
    tmp_path: Path, status: str, on_battery: bool
):
    supplies = "sys/class/power_supply"
    write(tmp_path, {f"{supplies}/BAT1/status": f"{status}\n", f"{supplies}/AC/online": "0\n"})
    assert CpuProvider(tmp_path).facts().on_battery is on_battery


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


@pytest.mark.parametrize(
    ("available_mib", "used_mib"),
    [(3 * 1024, 5 * 1024), (9 * 1024, 7 * 1024)],  # more than all there is, as in a container
)
def test_memory_in_use_is_what_is_not_available(tmp_path: Path, available_mib, used_mib):
    text = f"MemTotal: {8 << 20} kB\nMemFree: {1 << 20} kB\nMemAvailable: {available_mib << 10} kB"
    provider = MemoryProvider(write(tmp_path, {"proc/meminfo": text}))
    assert provider.facts().memory_mib == 8 * 1024
    assert provider.fast(0).memory == Memory(used_mib=used_mib)


def test_swap_and_major_faults_are_rates_of_what_the_kernel_counts(tmp_path: Path):
    def count(swap_free_kib: int, pages: int, faults: int):
        meminfo = f"SwapCached: 4 kB\nSwapTotal: 1048576 kB\nSwapFree:{swap_free_kib:>12} kB\n"
        vmstat = f"pswpin {5 + pages}\npswpout {6 + pages}\npgfault 9\npgmajfault {faults}\n"
        write(tmp_path, {"proc/meminfo": meminfo, "proc/vmstat": f"{vmstat}thp_swpout 7\n"})

    count(524_288, 0, 100)
    provider = MemoryProvider(tmp_path)
    no_rate = dict.fromkeys(("swap_mib_s", "major_faults_s"), "no earlier reading yet")
    assert provider.slow(0).memory == Memory(swap_used_mib=512, why=no_rate)
    count(520_192, 3 * 2**20 // os.sysconf("SC_PAGE_SIZE"), 125)
    assert provider.slow(2 * 10**9).memory == Memory(
        swap_used_mib=516, swap_mib_s=3.0, major_faults_s=12.5
    )


def test_memory_that_cannot_be_read_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    provider, slow = MemoryProvider(tmp_path), ("swap_used_mib", "swap_mib_s", "major_faults_s")
    assert provider.slow(0).memory == Memory(why=dict.fromkeys(slow, "not reported here"))
    monkeypatch.setattr(kernel_files, "read", refused)
    assert provider.facts() == MachineFacts(why={"memory_mib": "denied", "swap_mib": "denied"})
    assert provider.fast(0).memory == Memory(why={"used_mib": "denied"})
    assert provider.slow(0).memory == Memory(why=dict.fromkeys(slow, "denied"))
