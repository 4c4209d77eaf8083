"""The sensors as a process of their own, on this machine and on drivers that we build."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import FakeDriver

from dlmon.records import (
    Facts,
    Gpu,
    GpuFacts,
    GpuState,
    Machine,
    MachineFacts,
    MigInstance,
    Notice,
    Record,
    decode,
)
from dlmon.records.changes import merge
from dlmon.sensors.provider import SensorReading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sensors run on Linux")

ROOT = Path(__file__).parents[2]
NO_LIBRARY = "no NVIDIA driver: libnvidia-ml.so.1 was not found"
UTILIZATION = "nvmlDeviceGetUtilizationRates"
LOST = 15
NOT_MEASURED = dict.fromkeys(
    ("pcie_receive_mib_s", "pcie_send_mib_s"), "start with --pcie"
) | dict.fromkeys(("junction_c", "memory_c", "gtt_used_mib"), "not read from NVML")


class Sensors:
    """A running `python -m dlmon.sensors`, and all that it has sent so far."""

    def __init__(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dlmon.sensors", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        assert self.stdout.readline() == b"\n"
        self.known = SensorReading()
        self.later_facts: list[MachineFacts] = []
        self.notices: list[str] = []

    def record(self) -> Record:
        record = decode(self.stdout.readline())
        assert record is not None
        return record

    def facts(self) -> MachineFacts:
        facts = self.record()
        assert isinstance(facts, Facts)
        return facts.machine

    def sample(self) -> Machine:
        machine = self.record()
        while not isinstance(machine, Machine):
            if isinstance(machine, Notice):
                self.notices.append(machine.text)
            else:
                assert isinstance(machine, Facts)
                self.later_facts.append(machine.machine)
            machine = self.record()
        news = SensorReading(
            cpu=machine.cpu,
            memory=machine.memory,
            disk=machine.disk,
            network=machine.network,
            pressure=machine.pressure,
            process=machine.process,
            gpus=machine.gpus,
            processes=machine.processes,
            why=machine.why,
        )
        self.known = merge(self.known, news)
        return machine

    def sample_until(self, holds: Callable[[SensorReading], object]) -> SensorReading:
        """Return what is known by the first sample after which `holds` is true of it."""
        while True:
            self.sample()
            if holds(self.known):
                return self.known

    def gpu(self, index: int) -> Gpu:
        assert self.known.gpus is not None
        return self.known.gpus[index]

    def say(self, line: str) -> None:
        self.stdin.write(line.encode() + b"\n")
        self.stdin.flush()

    def end(self) -> int:
        """Close stdin, and return the exit status."""
        self.stdin.close()
        return self.process.wait()


@pytest.fixture
def start() -> Iterator[Callable[..., Sensors]]:
    started: list[Sensors] = []

    def start_sensors(
        *arguments: str,
        driver: FakeDriver | None = None,
        environment: dict[str, str] | None = None,
    ) -> Sensors:
        inherited = driver.environment() if driver is not None else dict(os.environ)
        environment = inherited | (environment or {})
        sensors = Sensors("--interval", "0.1", *arguments, environment=environment)
        started.append(sensors)
        return sensors

    yield start_sensors
    for sensors in started:
        sensors.process.kill()
        sensors.process.wait()
        sensors.stdin.close()
        sensors.stdout.close()
        assert sensors.process.stderr is not None
        sensors.process.stderr.close()


def on_gpus(sensors: Sensors) -> dict[int, tuple[tuple[int, ...], int | None]]:
    """Return the GPUs, and the MiB held there, of each process that is on one."""
    rows = sensors.known.processes or ()
    return {row.pid: (row.gpus, row.gpu_memory_mib) for row in rows if row.gpus}


def unread(sensors: Sensors) -> bytes:
    """Return what is left on stderr once the process has ended."""
    assert sensors.process.stderr is not None
    return sensors.process.stderr.read()


def test_facts_come_first_and_say_why_of_whatever_is_unknown(start):
    facts = start().facts()
    assert facts.cores == len(os.sched_getaffinity(0))
    assert facts.memory_mib is not None
    assert facts.cpu_pct is not None
    unknown = {name for name, value in vars(facts).items() if value is None}
    assert unknown == facts.why.keys()


def test_samples_follow_on_a_schedule_that_does_not_drift_and_have_the_fast_readings(start):
    sensors = start()
    facts = sensors.facts()
    samples = [sensors.sample() for _ in range(6)]
    scheduled = [s.t - int(s.cost.late_ms * 1e6) for s in samples]
    steps = [round((t - scheduled[0]) / 1e8, 3) for t in scheduled]
    assert steps == [round(step) for step in steps]
    assert steps == sorted(set(steps))
    for sample in samples:
        assert sample.cpu.pct is not None
        assert len(sample.cpu.cores) >= (facts.cores or 1)
        assert sample.memory.used_mib
        assert sample.process is None


def test_who_asks_for_it_at_once_has_a_whole_sample_with_the_facts_and_then_one_an_interval(start):
    sensors = start("--at-once", "--interval", "0.5")
    facts = sensors.record()
    first, second = sensors.sample(), sensors.sample()
    assert first.t == facts.t
    assert first.cpu.pct is not None
    assert first.processes is not None
    assert second.t - int(second.cost.late_ms * 1e6) == pytest.approx(facts.t + 5e8, abs=1e4)


def test_the_first_sample_comes_soon_whatever_the_interval_and_the_end_of_stdin_ends_it(start):
    sensors = start("--interval", "3600")
    sensors.facts()
    # Words that it does not know change nothing.
    sensors.say("dance")
    sensors.say("watch me")
    assert sensors.sample().cpu.pct is not None
    assert sensors.end() == 0
    assert unread(sensors) == b""
    # So does the end of whoever reads it.
    sensors = start()
    sensors.facts()
    sensors.stdout.close()
    assert sensors.process.wait() == 0
    assert unread(sensors) == b""


def test_ctrl_c_is_left_to_the_viewer_and_sigterm_ends_it(start):
    sensors = start()
    sensors.facts()
    sensors.process.send_signal(signal.SIGINT)
    for _ in range(3):
        sensors.sample()
    sensors.process.send_signal(signal.SIGTERM)
    assert sensors.process.wait() == -signal.SIGTERM


BUSY_TREE = """
import subprocess, sys, threading
wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
child = subprocess.Popen(wait, stdin=subprocess.PIPE)
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
while threading.active_count() > 1:
    pass
child.stdin.close()
child.wait()
"""


def test_a_watched_tree_is_reported_with_its_child_and_its_end(start):
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as root:
        assert root.stdin is not None
        assert root.stdout is not None
        assert root.stdout.readline() == b"ready\n"
        sensors = start()
        sensors.facts()
        assert sensors.sample().process is None
        sensors.say(f"watch {root.pid}")
        tree = sensors.sample_until(lambda known: known.process is not None).process
        assert (tree.processes, tree.threads) == (2, 3)
        assert tree.rss_mib > 0
        sensors.sample_until(lambda known: known.process.cpu_pct > 0)
        known = sensors.sample_until(lambda known: any(row.of_run for row in known.processes or ()))
        (row,) = (row for row in known.processes if row.pid == root.pid)
        assert (row.of_run, row.threads, row.gpus) == (True, 2, ())
        assert row.user == pwd.getpwuid(os.geteuid()).pw_name
        assert row.command.startswith(sys.executable[:40])
        assert row.rss_mib > 0
        root.stdin.close()
        root.wait()
        ended = sensors.sample_until(lambda known: known.process.cpu_pct is None).process
    assert set(ended.why.values()) == {"the process has ended"}


@pytest.fixture
def hide(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return the environment of a process that can't import these modules."""

    def environment(*names: str) -> dict[str, str]:
        for name in names:
            (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})\n")
        return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}

    return environment


def known_fields(record: Any) -> set[str]:
    return {name for name, value in vars(record).items() if value is not None}


def test_without_packages_it_reports_all_that_it_does_with_them(start, hide):
    hidden = hide("platformdirs", "pynvml")
    with_all, without = start(), start(environment=hidden)
    expected, facts = with_all.facts(), without.facts()
    assert (known_fields(facts), facts.why) == (known_fields(expected), expected.why)
    for name in ("cpu_model", "cores", "physical_cores", "memory_mib", "swap_mib", "on_battery"):
        assert getattr(facts, name) == getattr(expected, name)
    for sensors in (with_all, without):
        for _ in range(3):
            sensors.sample()
    for name in ("cpu", "memory", "disk", "network", "pressure"):
        expected, reported = getattr(with_all.known, name), getattr(without.known, name)
        assert known_fields(reported) == known_fields(expected)
        assert reported.why == expected.why
    assert len(without.known.cpu.cores) == len(with_all.known.cpu.cores)
    assert known_fields(without.known) == known_fields(with_all.known)
    assert without.end() == 0
    assert unread(without) == b""


@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_driver_without_pynvml_or_that_is_not_to_be_asked_is_left_alone(
    start, hide, driver, is_hidden
):
    why = "the driver did not answer"
    if is_hidden:
        sensors = start(driver=driver, environment=hide("pynvml"))
        why = "the Python package nvidia-ml-py is not installed"
    else:
        sensors = start("--no-gpus", why, driver=driver)
    facts = sensors.facts()
    assert facts.cores is not None
    assert (facts.gpus, facts.why["gpus"]) == (None, why)
    assert (facts.gpus_state is GpuState.NO_PACKAGE) is is_hidden
    assert sensors.sample().why == {"gpus": why}
    assert driver.calls() == []


def test_without_a_driver_the_reason_is_reported_once(start):
    with contextlib.suppress(OSError):
        ctypes.CDLL("libnvidia-ml.so.1")
        pytest.skip("this machine has a driver")
    sensors = start()
    assert sensors.facts().why["gpus"] == NO_LIBRARY
    assert sensors.sample().why == {"gpus": NO_LIBRARY}
    assert sensors.sample().why == {}


def test_a_library_that_cannot_be_loaded_is_a_reason(start, tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    why = start(driver=FakeDriver(tmp_path, tmp_path)).facts().why
    assert why["gpus"].startswith("no NVIDIA driver: ")
    assert "libnvidia-ml.so.1" in why["gpus"]


@pytest.mark.parametrize("count", [0, 8])
def test_every_gpu_of_a_healthy_driver_is_reported(start, driver, count):
    driver.says(f"gpus {count}", "process 0 100000 1024", "process 0 100001 1024")
    sensors = start(driver=driver)
    facts = sensors.facts()
    assert facts.gpus is not None
    assert facts.gpus == tuple(
        GpuFacts(
            index=index,
            name="NVIDIA Fake 100",
            uuid=f"GPU-00000000-0000-0000-0000-{index:012}",
            memory_mib=81920,
            bus_id=f"0000:{10 + index:02x}:00.0",
            slowdown_c=92,
            sm_max_mhz=1980,
            memory_max_mhz=2619,
            pcie_max_generation=5,
            pcie_max_width=16,
            state=GpuState.ANSWERS,
            virtualization="none",
        )
        for index in range(count)
    )
    assert (facts.driver, facts.cuda) == ("580.65.06", "13.0")
    assert facts.foreign_gpu_processes == (2 if count else 0)
    gpus = sensors.sample().gpus
    assert gpus == tuple(
        Gpu(
            index=index,
            utilization_pct=90 + index,
            memory_used_mib=40000 + 100 * index,
            power_w=300.5 + 10 * index,
            power_limit_w=700.0,
            temperature_c=60 + index,
            sm_mhz=1700 + 15 * index,
            memory_mhz=2619,
            throttle=(),
            energy_j=5000.0 + 1000 * index,
            fan_pct=35,
            ecc_corrected=3,
            ecc_uncorrected=0,
            pcie_generation=4,
            pcie_width=8,
            mig=False,
            instances=(),
            encoder_pct=7,
            decoder_pct=8,
            nvlinks=3,
            nvlink_receive_mib_s=0.0,
            nvlink_send_mib_s=0.0,
            state=GpuState.ANSWERS,
            memory_busy_pct=45 + index,
            sm_active_pct=61 + (index > 2),
            sm_occupancy_pct=38,
            tensor_pct=22,
            dram_pct=49,
            xid_errors=0,
            xids=(),
            why=NOT_MEASURED,
        )
        for index in range(count)
    )


def test_the_errors_of_a_gpu_are_told_with_what_they_mean(start, driver):
    driver.says("gpus 2", "xid 1 13")
    sensors = start(driver=driver)
    sensors.facts()
    assert [gpu.xids for gpu in sensors.sample().gpus or ()] == [(), ()]
    driver.says("gpus 2", "xid 1 13", "xid 1 79", f"answer {UTILIZATION} 1 {LOST}")
    while len(sensors.notices) < 2:
        sensors.sample()
    # Who is told is told in this order, and not of the one that came before it listened.
    assert sensors.notices == [
        "GPU 1: lost; it is tried again",
        "GPU 1: Xid 79: it has fallen off the bus",
    ]
    assert [gpu.xids for gpu in sensors.known.gpus or ()] == [(), (79,)]


def test_the_instances_of_a_divided_gpu_are_read_with_who_computes_on_them(start, driver):
    divided = ("gpus 1", "set 0 mig 1", "set 0 mig_instances 2")
    driver.says(*divided, "instance 0 4242 512", "instance 0 4343 64 2", "instance 0 4242 64 2")
    sensors = start(driver=driver)
    sensors.facts()
    gpu = (sensors.sample().gpus or ())[0]
    one, two = gpu.instances or ()
    busy = {"utilization_pct": 40, "sm_active_pct": 68, "sm_occupancy_pct": 45}
    assert one == MigInstance(
        *(1, "NVIDIA Fake 100 MIG 1g.10gb", 7, 0, 9856, 5120, (4242,)),
        **(busy | {"tensor_pct": 30, "dram_pct": 56}),
    )
    assert (two.index, two.gpu_instance, two.pids) == (2, 8, (4242, 4343))
    # Each instance is measured by itself.
    assert (two.utilization_pct, two.dram_pct) == (41, 57)
    assert gpu.why["tensor_pct"] == gpu.why["utilization_pct"] == "not reported while MIG is on"


def test_an_older_driver_is_read_by_the_older_calls(start, driver):
    newer = (
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    )
    driver.says(
        "gpus 1",
        "set 0 throttle 32",
        f"process 0 {os.getpid()} 1024",
        *(f"answer {call} * 13" for call in newer),
    )
    sensors = start(driver=driver)
    assert sensors.facts().foreign_gpu_processes == 1
    sensors.sample()
    assert on_gpus(sensors) == {os.getpid(): ((0,), 1024)}
    assert (sensors.gpu(0).temperature_c, sensors.gpu(0).throttle) == (60, ("thermal slowdown",))
    sensors.sample()
    assert driver.calls().count("nvmlDeviceGetTemperatureV 0") == 1


def test_a_gpu_that_is_lost_and_comes_back_leaves_the_others_alone(start, driver):
    driver.says("gpus 2")
    sensors = start(driver=driver)
    sensors.facts()
    sensors.sample()
    driver.says("gpus 2", f"answer * 1 {LOST}")
    sensors.sample_until(lambda known: known.gpus[1].power_w is None)
    assert set(sensors.gpu(1).why.values()) == {"lost"}
    sensors.sample_until(lambda known: "nvmlShutdown" in driver.calls())
    for _ in range(3):
        sensors.sample()
        assert sensors.gpu(0).power_w == 300.5
    driver.says("gpus 2")
    back = sensors.sample_until(lambda known: known.gpus[1].power_w is not None)
    assert back.gpus[1].power_w == 310.5
    assert "lost" not in back.gpus[1].why.values()
    sensors.sample()
    assert sensors.notices == ["GPU 1: lost; it is tried again", "GPU 1: back"]
    assert sensors.later_facts == []


def test_sigterm_ends_it_even_inside_a_driver_that_hangs(start, driver):
    driver.says("gpus 1", f"hang {UTILIZATION}")
    with driver.calls_as_they_come() as calls:
        sensors = start(driver=driver)
        while calls.readline() != f"{UTILIZATION} 0\n":
            pass
        sensors.process.send_signal(signal.SIGTERM)
        assert sensors.process.wait() == -signal.SIGTERM
