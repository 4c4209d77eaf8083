"""What stands in for psutil, beside psutil on the same files and on this machine."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from dlmon.sensors.linux import procfs, psutil_or_procfs

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
KIB = 1024
SUPPLY = "sys/class/power_supply"
TOPOLOGY = "sys/devices/system/cpu/cpu{}/topology/{}"
STAT = """cpu  300 30 90 6000 6 1 3 9 12 3
cpu0 100 10 30 2000 2 0 1 3 4 1
cpu2 200 20 60 4000 4 1 2 6 8 2
intr 123456 0 0 17
ctxt 99
"""
# Two packages of two cores of two threads, as x86 writes them; the second has a core offline.
CPUINFO = "".join(
    f"processor\t: {number}\nphysical id\t: {package}\nsiblings\t: 4\ncpu cores\t: {cores}\n"
    f"power management:\n\n"
    for number, (package, cores) in enumerate([(0, 2)] * 4 + [(1, 1)] * 2)
)
ZONES = """Node 0, zone    DMA
  pages free     3840
        boost    0
        min      100
        low      200
        high     300
Node 0, zone   Normal
        low      800
      nr_slow  7
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the made-up /proc and /sys are: without a file yet, and without a power supply."""
    (tmp_path / "proc").mkdir()
    (tmp_path / SUPPLY).mkdir(parents=True)
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(params=["psutil", "procfs"])
def system(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each of the two, reading the made-up files: what a test expects holds of both."""
    if request.param == "psutil":
        in_root = SimpleNamespace(glob=lambda pattern: list(map(str, root.glob(pattern[1:]))))
        monkeypatch.setattr(psutil, "PROCFS_PATH", str(root / "proc"))
        monkeypatch.setattr(psutil._pslinux, "POWER_SUPPLY_PATH", str(root / SUPPLY))
        monkeypatch.setattr(psutil._pslinux, "glob", in_root)
        return psutil
    return SimpleNamespace(
        cpu_times=lambda percpu: procfs.cpu_times(percpu=percpu, root=root),
        cpu_count=lambda logical: procfs.cpu_count(logical=logical, root=root),
        virtual_memory=lambda: procfs.virtual_memory(root),
        sensors_battery=lambda: procfs.sensors_battery(root),
    )


def test_each_core_that_is_online_has_its_times_in_seconds(system: Any, root: Path):
    write(root, {"proc/stat": STAT})
    first, third = system.cpu_times(percpu=True)
    assert first._fields == procfs.CpuTimes._fields
    assert first == pytest.approx([n * TICK_S for n in (100, 10, 30, 2000, 2, 0, 1, 3, 4, 1)])
    assert third == pytest.approx([n * TICK_S for n in (200, 20, 60, 4000, 4, 1, 2, 6, 8, 2)])


def test_a_later_kernel_may_count_more_than_we_know(system: Any, root: Path):
    write(root, {"proc/stat": "cpu  1 2 3 4 5 6 7 8 9 10 11\ncpu0 1 2 3 4 5 6 7 8 9 10 11\n"})
    (core,) = system.cpu_times(percpu=True)
    assert core.guest_nice == 10 * TICK_S
    assert len(core) == 10


@pytest.mark.parametrize("numbers", ["1 2 3 4 5 6 x 8 9 10", "1 2 3", ""])
def test_times_that_are_none_are_an_error_and_never_0(root: Path, numbers: str):
    write(root, {"proc/stat": f"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 {numbers}\n"})
    with pytest.raises(ValueError, match=r"understood|float"):
        procfs.cpu_times(percpu=True, root=root)


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_threads_of_one_core_are_one_physical_core(system: Any, root: Path, name: str):
    for cpu, siblings in enumerate(["0,4", "1,5", "2", "3", "0,4", "1,5"]):
        write(root, {TOPOLOGY.format(cpu, name): f"{siblings}\n"})
    write(root, {"proc/cpuinfo": CPUINFO, "sys/devices/system/cpu/cpu6/online": "0\n"})
    assert system.cpu_count(logical=False) == 4


def test_without_a_topology_each_package_says_how_many_cores_it_has(system: Any, root: Path):
    write(root, {"proc/cpuinfo": CPUINFO})
    assert system.cpu_count(logical=False) == 3


@pytest.mark.parametrize(
    "cpuinfo",
    [
        "",
        "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\n",
        "physical id\t: 0\n\ncpu cores\t: 4\n\n",
    ],
)
def test_where_no_core_says_its_package_their_number_is_unknown(
    system: Any, root: Path, cpuinfo: str
):
    write(root, {"proc/cpuinfo": cpuinfo})
    assert system.cpu_count(logical=False) is None


def meminfo(**mib: int) -> dict[str, str]:
    """Return a /proc/meminfo without swap; _file stands for (file)."""
    lines = [f"{name.replace('_file', '(file)')}: {of * KIB:>11} kB" for name, of in mib.items()]
    return {"proc/meminfo": "\n".join([*lines, "HugePages_Total:       0", ""])}


# Without MemAvailable: 1000 MiB free, and 1000 pages that the kernel keeps.
ESTIMATED = {
    "MemTotal": 4000, "MemFree": 1000, "Buffers": 1, "Cached": 600, "Shmem": 1, "Active": 1,
    "Inactive": 1, "Active_file": 300, "Inactive_file": 200, "SReclaimable": 2,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*memory stats couldn't be determined:RuntimeWarning")
@pytest.mark.parametrize(
    ("mib", "zones", "available"),
    [
        (ESTIMATED | {"MemAvailable": 1400}, ZONES, 1400 << 20),
        # More than all there is, as in a container: what is free.
        (ESTIMATED | {"MemAvailable": 4001}, ZONES, 1000 << 20),
        (ESTIMATED, ZONES, (1501 << 20) - 2 * 1000 * PAGE),
        (ESTIMATED | {"MemAvailable": 0}, ZONES, (1501 << 20) - 2 * 1000 * PAGE),
        (ESTIMATED | {"Active_file": 2, "Inactive_file": 0}, ZONES, (1002 << 20) - 1000 * PAGE),
        (ESTIMATED, None, 1600 << 20),
        ({"MemTotal": 4000, "MemFree": 1000, "Cached": 600}, ZONES, 1600 << 20),
        ({"MemTotal": 4000, "MemFree": 1000}, ZONES, 1000 << 20),
        (ESTIMATED | {"MemFree": 1, "Active_file": 0, "Inactive_file": 0}, ZONES, 0),
    ],
)
def test_available_memory_is_counted_or_estimated(
    system: Any, root: Path, mib: dict[str, int], zones: str | None, available: int
):
    write(root, meminfo(**mib) | ({"proc/zoneinfo": zones} if zones else {}))
    memory = system.virtual_memory()
    assert (memory.total, memory.available) == (4000 << 20, available)


@pytest.mark.parametrize(
    "text",
    ["", "MemTotal: 4 kB\n", "MemFree: 4 kB\n", "MemTotal:\nMemFree: 4 kB\n", "MemTotal: x kB\n"],
)
def test_memory_that_is_not_reported_is_an_error_and_never_0(root: Path, text: str):
    write(root, {"proc/meminfo": text})
    with pytest.raises(ValueError, match=r"not reported|unpack|literal"):
        procfs.virtual_memory(root)


CHARGE = {"energy_now": "4000", "energy_full": "8000"}


@pytest.mark.parametrize(
    ("battery", "plugged"),
    [
        (CHARGE | {"power_now": "1000", "status": "Discharging"}, False),
        (CHARGE | {"power_now": "0", "status": "Full"}, True),
        (CHARGE | {"power_now": "9", "status": "Charging"}, True),
        (CHARGE | {"status": "Discharging"}, False),
        (CHARGE | {"status": "Not charging"}, None),
        (CHARGE | {"status": "Unknown"}, None),
        (CHARGE, None),
        ({"charge_now": "4", "charge_full": "0", "status": "Full"}, True),
        ({"capacity": "50", "status": "Discharging"}, False),
    ],
)
@pytest.mark.parametrize("name", ["BAT0", "BATC", "macsmc-battery"])
def test_a_battery_says_by_its_status_whether_the_mains_are_there(
    system: Any, root: Path, name: str, battery: dict[str, str], plugged: bool | None
):
    write(root, {f"{SUPPLY}/{name}/{file}": f"{text}\n" for file, text in battery.items()})
    assert system.sensors_battery().power_plugged is plugged


@pytest.mark.parametrize("mains", ["AC", "AC0"])
@pytest.mark.parametrize(("online", "plugged"), [("1", True), ("0", False), ("odd", False)])
def test_a_mains_supply_counts_before_the_batterys_status(
    system: Any, root: Path, mains: str, online: str, plugged: bool
):
    files = CHARGE | {"status": "Full" if not plugged else "Discharging"}
    write(root, {f"{SUPPLY}/BAT0/{file}": f"{text}\n" for file, text in files.items()})
    write(root, {f"{SUPPLY}/{mains}/online": f"{online}\n"})
    assert system.sensors_battery().power_plugged is plugged


def test_the_first_of_several_batteries_counts(system: Any, root: Path):
    for name, status in (("BAT1", "Full"), ("BAT0", "Discharging")):
        write(root, {f"{SUPPLY}/{name}/capacity": "80\n", f"{SUPPLY}/{name}/status": status})
    assert system.sensors_battery().power_plugged is False


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"AC/online": "0\n"},
        {"BAT0/status": "Discharging\n"},
        {"BAT0/status": "Discharging\n", "BAT0/energy_now": "4\n"},
        {"BAT0/status": "Discharging\n", "BAT0/capacity": "-1\n"},
    ],
)
def test_a_machine_whose_battery_tells_no_charge_has_none(
    system: Any, root: Path, files: dict[str, str]
):
    write(root, {f"{SUPPLY}/{name}": text for name, text in files.items()})
    assert system.sensors_battery() is None


def test_a_charge_that_is_no_number_is_an_error(system: Any, root: Path):
    write(root, {f"{SUPPLY}/BAT0/capacity": "full\n", f"{SUPPLY}/BAT0/status": "Full\n"})
    with pytest.raises(ValueError, match="invalid literal"):
        system.sensors_battery()


@pytest.mark.parametrize(
    "ask",
    [
        lambda system: system.cpu_times(percpu=True),
        lambda system: system.cpu_count(logical=False),
        lambda system: system.virtual_memory(),
        lambda system: system.sensors_battery(),
    ],
    ids=["times", "cores", "memory", "battery"],
)
def test_files_that_are_not_there_are_an_error(
    system: Any, root: Path, ask: Callable[[Any], object]
):
    (root / SUPPLY).rmdir()
    with pytest.raises(FileNotFoundError):
        ask(system)


def test_of_this_machines_battery_it_tells_what_psutil_does():
    if not Path("/", SUPPLY).is_dir():
        pytest.skip("this machine reports no power supplies, not even that there are none")
    ours, theirs = procfs.sensors_battery(), psutil.sensors_battery()
    assert (ours and ours.power_plugged) == (theirs and theirs.power_plugged)


def chosen() -> Any:
    """Choose once more, as a new process would."""
    return runpy.run_path(psutil_or_procfs.__file__)["system"]


def test_psutil_is_chosen_where_it_can_be_imported():
    assert chosen() is psutil


def test_without_psutil_procfs_is_chosen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert chosen() is procfs


@pytest.mark.parametrize("error", ["ImportError('wrong ELF class')", "OSError(8, 'noexec')"])
def test_a_psutil_whose_compiled_part_does_not_load_is_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
):
    (tmp_path / "psutil.py").write_text(f"raise {error}\n")
    monkeypatch.delitem(sys.modules, "psutil")
    monkeypatch.syspath_prepend(tmp_path)
    assert chosen() is procfs
