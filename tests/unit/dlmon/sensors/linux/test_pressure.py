"""The time that programs waited, from made-up pressure files."""

from pathlib import Path

import pytest

from dlmon.records import MachineFacts, Pressure
from dlmon.sensors.linux.cgroup import PressureProvider, waited_us

SECOND = 1_000_000_000


def psi(some_us):
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={some_us}\nfull {averages} total=0\n"


def put(root: Path, files: dict[str, str]):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def in_group(root: Path, group: str):
    put(
        root,
        {
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": f"0::{group}\n",
        },
    )


def test_pressure_is_the_share_of_time_in_which_something_waited(tmp_path: Path):
    for resource in ("cpu", "memory", "io"):
        put(tmp_path, {f"proc/pressure/{resource}": psi(1_000_000)})
    provider = PressureProvider(tmp_path)
    assert provider.facts() == MachineFacts()
    first = dict.fromkeys(("cpu_pct", "memory_pct", "io_pct"), "no earlier reading yet")
    assert provider.slow(0).pressure == Pressure(why=first)
    put(tmp_path, {"proc/pressure/cpu": psi(3_500_000), "proc/pressure/io": psi(1_050_000)})
    assert provider.slow(5 * SECOND).pressure == Pressure(cpu_pct=50.0, memory_pct=0.0, io_pct=1.0)


def test_the_pressure_of_our_own_control_group_counts(tmp_path: Path):
    in_group(tmp_path, "/job")
    put(tmp_path, {"proc/pressure/memory": psi(0), "sys/fs/cgroup/job/memory.pressure": psi(0)})
    provider = PressureProvider(tmp_path)
    provider.facts()
    provider.slow(0)
    put(tmp_path, {"proc/pressure/memory": psi(900_000)})
    put(tmp_path, {"sys/fs/cgroup/job/memory.pressure": psi(100_000)})
    assert provider.slow(SECOND).pressure.memory_pct == 10.0


def test_a_system_without_pressure_says_so_for_each(tmp_path: Path):
    provider = PressureProvider(tmp_path)
    provider.facts()
    why = dict.fromkeys(("cpu_pct", "memory_pct", "io_pct"), "not reported here")
    assert provider.slow(0).pressure == Pressure(why=why)


@pytest.mark.parametrize("text", ["", "some avg10=0.00\n", "full avg10=0.00 total=5\n", "\n"])
def test_a_pressure_file_that_reports_nothing_is_no_zero(text):
    with pytest.raises(ValueError, match="not reported"):
        waited_us(text + "some avg10=1\n")
