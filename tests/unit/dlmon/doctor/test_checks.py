"""What the doctor says of a machine, from facts and a root of files."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dlmon.comparison.peaks import Peak, write_peaks
from dlmon.doctor.checks import LONGEST_TEXT, any_asleep, examine, installed_version
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


def test_a_good_machine_is_all_ok(tmp_path: Path, peaks: Path):
    energy_counter(tmp_path)
    findings = look(tmp_path, WITH_GPU, calibration=peaks)
    assert {finding.state for finding in findings.values()} == {"ok"}
    assert findings["cpu"].text == "Some CPU, 8 cores, 4 physical"
    assert findings["gpu"].text == "GPU 0: GTX 1060, 6.0 GiB, driver 580.65, CUDA up to 13.0"
    assert findings["memory"].text == "64.0 GiB, no swap"


def test_whatever_is_not_ok_says_what_to_do(tmp_path: Path):
    findings = look(tmp_path, None, installed={}, python=(3, 9, 0))
    assert {f.topic for f in findings.values() if f.state == "missing"} == {
        "python",
        "keras",
        "backend",
        "sensors",
    }
    assert all(f.next_step for f in findings.values() if f.state != "ok")


def test_failed_sensors_are_reported_with_their_reason(tmp_path: Path):
    assert "it hung" in look(tmp_path, None)["sensors"].text


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10, 9), "missing"), ((3, 13, 0), "ok"), ((3, 14, 0), "warning")]
)
def test_the_python_version_is_judged(tmp_path: Path, version, state):
    assert look(tmp_path, python=version)["python"].state == state


def test_one_backend_is_enough(tmp_path: Path):
    backend = look(tmp_path, installed={"keras": "3.15.1", "jax": "0.7"})["backend"]
    assert backend.state == "ok"
    assert "JAX 0.7" in backend.text


def test_keras_2_is_reported(tmp_path: Path):
    assert look(tmp_path, installed=INSTALLED | {"keras": "2.15.0"})["keras"].state == "warning"


def test_tensorflow_without_cuda_is_reported_only_where_there_is_a_gpu(tmp_path: Path):
    installed = {"keras": "3.15.1", "tensorflow": "2.21.0"}
    assert look(tmp_path, WITH_GPU, installed)["cuda"].state == "warning"
    assert "cuda" not in look(tmp_path, CPU_ONLY, installed)


def test_what_tensorflow_sees_is_reported_instead_of_a_guess(tmp_path: Path):
    installed = {"keras": "3.15.1", "tensorflow": "2.21.0"}
    seen = [Framework("tensorflow", "2.21.0", ("GTX 1060",), "cuda", "12.5.1")]
    findings = look(tmp_path, WITH_GPU, installed, frameworks=seen)
    assert "cuda" not in findings
    assert findings["frameworks"].state == "ok"


def test_device_files_report_why_a_framework_sees_no_gpu(tmp_path: Path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    seen = [Framework("tensorflow", "2.21.0", (), "cuda", "12.5.1")]
    found = look(tmp_path, WITH_GPU, frameworks=seen)["frameworks"]
    assert "there is no /dev/nvidia-uvm" in found.text


def test_frameworks_are_reported_where_the_sensors_failed(tmp_path: Path):
    seen = [Framework("tensorflow", "2.21.0", (), "cuda", "12.5.1")]
    assert "sees no GPU" in look(tmp_path, None, frameworks=seen)["frameworks"].text


def test_what_would_end_a_detached_run_is_reported_last(tmp_path: Path):
    (tmp_path / ".dockerenv").touch()
    assert list(look(tmp_path))[-1] == "detached runs"
    assert look(tmp_path)["detached runs"].state == "warning"


def test_foreign_text_is_cleaned_and_cut(tmp_path: Path):
    findings = look(tmp_path, directory=tmp_path / "a\x1b[31m\u202eb" / ("x" * 200) / ("y" * 200))
    reported = "".join(finding.text for finding in findings.values())
    assert reported.isprintable()
    chosen = {"CUDA_VISIBLE_DEVICES": "0," * 5000}
    reported = look(tmp_path, WITH_GPU, environment=chosen)["visible devices"].text
    assert len(reported) == LONGEST_TEXT


def test_a_cpu_limit_is_reported(tmp_path: Path):
    cpu = look(tmp_path, replace(CPU_ONLY, cpu_limit=1.5))["cpu"]
    assert cpu.state == "warning"
    assert "1.5" in cpu.text


def test_a_memory_limit_is_reported(tmp_path: Path):
    memory = look(tmp_path, replace(CPU_ONLY, memory_limit_mib=2048, swap_mib=1024))["memory"]
    assert memory.text == "64.0 GiB, of which the control group allows 2.0 GiB, 1.0 GiB of swap"


def test_unknown_memory_and_cores_are_reported(tmp_path: Path):
    unknown = MachineFacts(why={"cores": "denied", "memory_mib": "denied", "gpus": NO_LIBRARY})
    findings = look(tmp_path, unknown)
    assert "denied" in findings["cpu"].text
    assert "denied" in findings["memory"].text


@pytest.mark.parametrize(
    "change", [{"cpu_pct": 80.0}, {"foreign_gpu_processes": 1}, {"on_battery": True}]
)
def test_what_would_disturb_a_measurement_is_reported(tmp_path: Path, change):
    assert look(tmp_path, replace(WITH_GPU, **change))["load"].state == "warning"


def test_a_machine_without_a_gpu_has_no_fault_and_trains_on_its_cpu(tmp_path: Path):
    gpu = look(tmp_path)["gpu"]
    assert (gpu.state, gpu.next_step) == ("absent", None)
    assert gpu.text.startswith("No NVIDIA GPU found: training runs on the CPU (")


def test_a_gpu_that_is_there_and_can_not_be_used_is_a_fault(tmp_path: Path):
    card = tmp_path / "sys/bus/pci/devices/0000:65:00.0"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030000\n")
    assert look(tmp_path)["gpu"].state == "missing"


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


def test_a_card_without_a_driver_is_distinguished(tmp_path: Path):
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030000\n")
    gpu = look(tmp_path)["gpu"]
    assert "Install NVIDIA's driver" in (gpu.next_step or "")


def test_a_container_without_the_drivers_library_is_distinguished(tmp_path: Path):
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM\n")
    assert "--gpus all" in (look(tmp_path)["gpu"].next_step or "")


def refuse(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    """Deny access to one path, also to root, whom no mode would stop."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != refused)


def test_a_device_without_permission_is_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    refuse(monkeypatch, tmp_path / "dev/nvidiactl")
    assert "access" in (look(tmp_path)["gpu"].next_step or "")


@pytest.mark.parametrize(
    ("state", "step"),
    [(GpuState.VERSIONS_DIFFER, "Reboot"), (GpuState.NO_PACKAGE, "nvidia-ml-py")],
)
def test_the_next_step_fits_the_reason(tmp_path: Path, state, step):
    machine = replace(CPU_ONLY, gpus_state=state, why={"gpus": "some reason"})
    assert step in (look(tmp_path, machine)["gpu"].next_step or "")


def test_in_wsl_the_driver_is_windows(tmp_path: Path):
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("5.15.90.1-microsoft-standard-WSL2\n")
    gpu = look(tmp_path)["gpu"]
    assert "in Windows" in (gpu.next_step or "")
    assert "/usr/lib/wsl/lib" in (gpu.next_step or "")


def test_a_driver_without_a_gpu_is_reported(tmp_path: Path):
    gpu = look(tmp_path, replace(WITH_GPU, gpus=()))["gpu"]
    assert gpu.state == "absent"
    assert gpu.text.startswith("No NVIDIA GPU found")
    assert "580.65" in gpu.text


def test_a_gpu_that_does_not_answer_is_reported(tmp_path: Path):
    lost = GpuFacts(index=1, name="NVIDIA GPU", why={"name": "lost", "uuid": "lost"})
    gpu = look(tmp_path, replace(WITH_GPU, gpus=(lost,)))["gpu"]
    assert gpu.state == "warning"
    assert "GPU 1 does not answer: lost" in gpu.text


@pytest.mark.parametrize("value", ["", "-1"])
def test_hidden_gpus_are_reported(tmp_path: Path, value):
    finding = look(tmp_path, WITH_GPU, environment={"CUDA_VISIBLE_DEVICES": value})
    assert finding["visible devices"].state == "warning"
    assert "hides every GPU" in finding["visible devices"].text


def test_chosen_gpus_are_reported(tmp_path: Path):
    finding = look(tmp_path, WITH_GPU, environment={"CUDA_VISIBLE_DEVICES": "GPU-a"})
    assert "'GPU-a'" in finding["visible devices"].text
    assert "visible devices" not in look(tmp_path, WITH_GPU)


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


def test_a_machine_without_an_energy_counter_says_so(tmp_path: Path):
    energy = look(tmp_path)["energy"]
    assert (energy.state, energy.next_step) == ("absent", None)
    assert "no energy counter" in energy.text


def calibrations(tmp_path: Path, machine: MachineFacts, peaks: Path, **more) -> list[Finding]:
    findings = examine(
        Facts(t=0, wall=0.0, host="box", machine=machine),
        None,
        tmp_path,
        environment={},
        version_of=more.get("installed", INSTALLED).get,
        root=tmp_path,
        calibration=peaks,
    )
    return [finding for finding in findings if finding.topic == "calibration"]


def test_each_devices_peaks_are_reported(tmp_path: Path, peaks: Path, utc):
    assert calibrations(tmp_path, WITH_GPU, peaks) == [
        Finding(
            "calibration",
            "ok",
            "Matmul peak of Some CPU: float32 186 GFLOP/s, float16 87 GFLOP/s (2026-11-20)",
        ),
        Finding("calibration", "ok", "Matmul peak of GTX 1060: float32 4.1 TFLOP/s (2026-11-20)"),
    ]


def test_a_device_that_was_not_calibrated_says_how_to(tmp_path: Path, peaks: Path):
    other = replace(CPU_ONLY, cpu_model="Other CPU")
    for file in (peaks, tmp_path / "none.json"):
        (finding,) = calibrations(tmp_path, other, file)
        assert (finding.state, finding.next_step) == ("absent", "dlmon doctor --calibrate")
        assert "Other CPU" in finding.text


def test_a_calibration_by_another_tensorflow_is_reported(tmp_path: Path, peaks: Path):
    newer = INSTALLED | {"tensorflow": "2.22.0"}
    (finding,) = calibrations(tmp_path, CPU_ONLY, peaks, installed=newer)
    assert finding.state == "warning"
    assert "by TensorFlow 2.21.0, not 2.22.0" in finding.text


def test_a_broken_calibration_is_reported(tmp_path: Path, peaks: Path):
    peaks.write_text("{")
    (finding,) = calibrations(tmp_path, CPU_ONLY, peaks)
    assert finding.state == "warning"
    assert "holds no calibration" in finding.text


def test_a_directory_that_is_not_there_yet_is_fine(tmp_path: Path):
    sessions = look(tmp_path)["sessions"]
    assert sessions.state == "ok"
    assert "GiB free" in sessions.text


def test_a_file_in_the_directorys_place_is_reported(tmp_path: Path):
    (tmp_path / "file").touch()
    sessions = look(tmp_path, directory=tmp_path / "file" / "sessions")["sessions"]
    assert sessions.state == "missing"
    assert "--log-dir" in (sessions.next_step or "")


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2**20))
    assert look(tmp_path)["sessions"].state == "warning"


def test_a_directory_that_is_not_writable_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "fixed").mkdir()
    refuse(monkeypatch, tmp_path / "fixed")
    sessions = look(tmp_path, directory=tmp_path / "fixed" / "sessions")["sessions"]
    assert "not writable" in sessions.text


def test_versions_are_looked_up_without_an_import():
    assert installed_version("psutil")
    assert installed_version("no-such-package-of-anybody") is None
