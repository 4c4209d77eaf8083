"""What the doctor says of a machine, from facts and a root of files."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dlmon.comparison.peaks import Peak, write_peaks
from dlmon.doctor.checks import LONGEST_TEXT, any_asleep, detached_run_findings, examine
from dlmon.doctor.finding import Finding
from dlmon.doctor.frameworks import Framework
from dlmon.records import Facts, GpuFacts, GpuState, MachineFacts, to_json

NO_LIBRARY = "no NVIDIA driver: libnvidia-ml.so.1 was not found"
CPU_ONLY = MachineFacts(
    cpu_model="Some CPU",
    cores=8,
    physical_cores=4,
    memory_mib=65536,
    swap_mib=0,
    cpu_pct=3.0,
    why={"gpus": NO_LIBRARY},
)
WITH_GPU = replace(
    CPU_ONLY,
    gpus=(GpuFacts(index=0, name="GTX 1060", uuid="GPU-a", memory_mib=6144),),
    driver="580.65",
    cuda="13.0",
    why={},
)
INSTALLED = {"keras": "3.15.1", "tensorflow": "2.21.0", "nvidia-cudnn-cu12": "9"}


def look(
    tmp_path: Path,
    machine: MachineFacts | None = CPU_ONLY,
    installed: dict[str, str] = INSTALLED,
    environment: dict[str, str] | None = None,
    python: tuple[int, int, int] = (3, 12, 1),
    directory: Path | None = None,
    calibration: Path | None = None,
    frameworks: list[Framework] | None = None,
) -> dict[str, Finding]:
    findings = examine(
        Facts(t=0, wall=0.0, host="box", machine=machine) if machine else None,
        None if machine else "it hung",
        directory or tmp_path / "state" / "sessions",
        environment=environment or {},
        version_of=installed.get,
        python=python,
        root=tmp_path,
        calibration=calibration,
        frameworks=frameworks,
        user="ada",
    )
    assert json.loads(json.dumps(to_json(findings)))
    return {finding.topic: finding for finding in findings}


PEAKS = (
    Peak("cpu", "Some CPU", "float32", 1.86e11, 2048, 1_795_185_360.0, {"tensorflow": "2.21.0"}),
    Peak("cpu", "Some CPU", "float16", 8.7e10, 2048, 1_795_185_365.0, {"tensorflow": "2.21.0"}),
    Peak("gpu", "GTX 1060", "float32", 4.1e12, 4096, 1_795_185_370.0, {"tensorflow": "2.21.0"}),
)


def energy_counter(root: Path) -> Path:
    zone = root / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("65532610987\n")
    (zone / "energy_uj").write_text("1\n")
    return zone / "energy_uj"


@pytest.fixture
def peaks(tmp_path: Path) -> Path:
    write_peaks(tmp_path / "calibration.json", PEAKS)
    return tmp_path / "calibration.json"


def test_whatever_is_not_ok_says_what_to_do(tmp_path: Path):
    findings = look(tmp_path, None, installed={}, python=(3, 9, 0))
    assert {f.topic for f in findings.values() if f.state == "missing"} == {
        "python",
        "keras",
        "backend",
        "sensors",
    }
    assert all(f.next_step for f in findings.values() if f.state != "ok")


def card(root: Path) -> None:
    device = root / "sys/bus/pci/devices/0000:65:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030000\n")


def write(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


UNKNOWN = MachineFacts(why={"cores": "denied", "memory_mib": "denied", "gpus": NO_LIBRARY})
LOST = GpuFacts(index=1, name="NVIDIA GPU", why={"name": "lost", "uuid": "lost"})


@pytest.mark.parametrize(
    ("given", "topic", "state", "text"),
    [
        ({"machine": None}, "sensors", "missing", "it hung"),
        ({"python": (3, 10, 9)}, "python", "missing", "needs 3.11"),
        ({"python": (3, 13, 0)}, "python", "ok", "3.13.0"),
        ({"python": (3, 14, 0)}, "python", "ok", "3.14.0"),
        ({"python": (3, 15, 0)}, "python", "warning", "was not tried"),
        ({"installed": {"keras": "3.15.1", "jax": "0.7"}}, "backend", "ok", "JAX 0.7"),
        ({"installed": INSTALLED | {"keras": "2.15.0"}}, "keras", "warning", "Keras 2.15.0"),
        ({"machine": replace(CPU_ONLY, cpu_limit=1.5)}, "cpu", "warning", "1.5"),
        (
            {"machine": replace(CPU_ONLY, memory_limit_mib=2048, swap_mib=1024)},
            "memory",
            "ok",
            "64.0 GiB, of which the control group allows 2.0 GiB, 1.0 GiB of swap",
        ),
        ({"machine": UNKNOWN}, "cpu", "warning", "denied"),
        ({"machine": UNKNOWN}, "memory", "warning", "denied"),
        ({"machine": replace(WITH_GPU, cpu_pct=80.0)}, "load", "warning", "80 % busy"),
        ({"machine": replace(WITH_GPU, foreign_gpu_processes=1)}, "load", "warning", "1 program"),
        ({"machine": replace(WITH_GPU, on_battery=True)}, "load", "warning", "battery"),
        ({}, "gpu", "absent", "No NVIDIA GPU found: training runs on the CPU ("),
        ({}, "energy", "absent", "no energy counter"),
        ({}, "sessions", "ok", "GiB free"),
        ({"machine": replace(WITH_GPU, gpus=())}, "gpu", "absent", "580.65"),
        (
            {"machine": replace(WITH_GPU, gpus=(LOST,))},
            "gpu",
            "warning",
            "GPU 1 does not answer: lost",
        ),
    ],
)
def test_what_is_found(tmp_path: Path, given, topic, state, text):
    finding = look(tmp_path, **given)[topic]
    assert (finding.state, text in finding.text) == (state, True)


def test_foreign_text_is_cleaned_and_cut(tmp_path: Path):
    findings = look(tmp_path, directory=tmp_path / "a\x1b[31m\u202eb" / ("x" * 200) / ("y" * 200))
    reported = "".join(finding.text for finding in findings.values())
    assert reported.isprintable()
    reported = look(tmp_path, replace(CPU_ONLY, cpu_model="x" * 5000))["cpu"].text
    assert len(reported) == LONGEST_TEXT


def test_a_gpu_that_sleeps_is_not_called_broken(tmp_path: Path):
    asleep = "asleep (runtime power management)"
    alone = replace(CPU_ONLY, gpus_state=GpuState.ASLEEP, why={"gpus": asleep})
    sleeping = GpuFacts(0, "NVIDIA GPU", state=GpuState.ASLEEP, why={"uuid": asleep})
    beside = replace(WITH_GPU, gpus=(sleeping,))
    for machine in (alone, beside):
        gpu = look(tmp_path, machine)["gpu"]
        assert (gpu.state, gpu.next_step) == ("ok", None)
        assert "asleep" in gpu.text
        assert any_asleep(machine)
    assert not any_asleep(WITH_GPU)
    assert not any_asleep(CPU_ONLY)


def refuse(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    """Deny access to one path, also to root, whom no mode would stop."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != refused)


def wsl(root: Path) -> None:
    write(root, "proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n")


@pytest.mark.parametrize(
    ("prepare", "gpus_state", "state", "step"),
    [
        (card, None, "missing", "Install NVIDIA's driver"),
        (lambda root: write(root, "proc/driver/nvidia/version"), None, "missing", "--gpus all"),
        (lambda root: write(root, "dev/nvidiactl"), None, "missing", "access to /dev/nvidia*"),
        (wsl, None, "absent", "in Windows"),
        (lambda root: None, GpuState.VERSIONS_DIFFER, "missing", "Reboot"),
        (lambda root: None, GpuState.NO_PACKAGE, "missing", "nvidia-ml-py"),
    ],
)
def test_why_there_is_no_gpu_has_a_next_step(
    tmp_path: Path, monkeypatch, prepare, gpus_state, state, step
):
    prepare(tmp_path)
    refuse(monkeypatch, tmp_path / "dev/nvidiactl")
    gpu = look(tmp_path, replace(CPU_ONLY, gpus_state=gpus_state, why={"gpus": "why"}))["gpu"]
    assert (gpu.state, step in (gpu.next_step or "")) == (state, True)


def test_an_energy_counter_for_root_alone_says_how_to_open_it(tmp_path: Path, monkeypatch):
    counter = energy_counter(tmp_path)
    open_file = os.open

    def refused(path, *rest):
        if Path(path) == counter:
            raise PermissionError(13, "Permission denied")
        return open_file(path, *rest)

    monkeypatch.setattr(os, "open", refused)
    energy = look(tmp_path)["energy"]
    assert energy.state == "warning"
    assert "denied" in energy.text
    assert "chmod a+r" in energy.next_step


def calibrations(tmp_path: Path, machine: MachineFacts, peaks: Path) -> list[Finding]:
    facts = Facts(t=0, wall=0.0, host="box", machine=machine)
    more = {"environment": {}, "version_of": INSTALLED.get, "root": tmp_path}
    findings = examine(facts, None, tmp_path, calibration=peaks, **more)
    return [finding for finding in findings if finding.topic == "calibration"]


def test_a_good_machine_is_all_ok_with_the_peaks_of_each_device(tmp_path: Path, peaks: Path, utc):
    energy_counter(tmp_path)
    findings = look(tmp_path, WITH_GPU, calibration=peaks)
    assert {finding.state for finding in findings.values()} == {"ok"}
    assert findings["cpu"].text == "Some CPU, 8 cores, 4 physical"
    assert findings["gpu"].text == "GPU 0: GTX 1060, 6.0 GiB, driver 580.65, CUDA up to 13.0"
    assert findings["memory"].text == "64.0 GiB, no swap"
    assert [finding.text for finding in calibrations(tmp_path, WITH_GPU, peaks)] == [
        "Matmul peak of Some CPU: float32 186 GFLOP/s, float16 87 GFLOP/s (2026-11-20)",
        "Matmul peak of GTX 1060: float32 4.1 TFLOP/s (2026-11-20)",
    ]


def test_a_device_that_was_not_calibrated_says_how_to(tmp_path: Path, peaks: Path):
    other = replace(CPU_ONLY, cpu_model="Other CPU")
    for file in (peaks, tmp_path / "none.json"):
        (finding,) = calibrations(tmp_path, other, file)
        assert (finding.state, finding.next_step) == ("absent", "dlmon doctor --calibrate")
        assert "Other CPU" in finding.text
    peaks.write_text("{")
    (finding,) = calibrations(tmp_path, CPU_ONLY, peaks)
    assert (finding.state, "holds no calibration" in finding.text) == ("warning", True)


def test_a_directory_that_can_not_take_logs_is_reported(tmp_path: Path, monkeypatch):
    (tmp_path / "file").touch()
    sessions = look(tmp_path, directory=tmp_path / "file" / "sessions")["sessions"]
    assert (sessions.state, "--log-dir" in sessions.next_step) == ("missing", True)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2**20))
    assert look(tmp_path)["sessions"].state == "warning"
    (tmp_path / "fixed").mkdir()
    refuse(monkeypatch, tmp_path / "fixed")
    sessions = look(tmp_path, directory=tmp_path / "fixed" / "sessions")["sessions"]
    assert "not writable" in sessions.text


SESSION = "/user.slice/user-1000.slice/session-3.scope"
MANAGER = "/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope"


@pytest.mark.parametrize(
    ("group", "files", "environment", "texts"),
    [
        (SESSION, (), {}, ["continues when you close the terminal"]),
        (SESSION, (), {"JOB_ID": "9"}, ["continues"]),
        ("/system.slice/jupyter.service", (), {}, ["continues"]),
        (MANAGER, (), {}, ["once you have logged out everywhere"]),
        (MANAGER, ("var/lib/systemd/linger/ada",), {}, ["continues"]),
        (MANAGER, (), {"SLURM_JOB_ID": "4711"}, ["with this Slurm job 4711"]),
        (SESSION, (), {"PBS_JOBID": "9.host"}, ["PBS job 9.host"]),
        (SESSION, (), {"JOB_ID": "9", "SGE_O_WORKDIR": "/home/ada"}, ["Grid Engine job 9"]),
        (SESSION, (".dockerenv",), {}, ["when this container does"]),
        (SESSION, (".dockerenv",), {"SLURM_JOB_ID": "1"}, ["Slurm job 1", "container"]),
        (SESSION, ("proc/sys/kernel/osrelease",), {}, ["WSL"]),
    ],
)
def test_what_ends_a_detached_run(tmp_path: Path, group, files, environment, texts):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"5:devices:/\n0::{group}\n")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("5.15-microsoft-standard-WSL2")
    findings = list(detached_run_findings(tmp_path, environment, "ada"))
    assert len(findings) == len(texts)
    for finding, text in zip(findings, texts, strict=True):
        assert text in finding.text
        assert finding.state == ("ok" if finding.next_step is None else "warning")
        assert (finding.state == "ok") == ("continues" in text)
