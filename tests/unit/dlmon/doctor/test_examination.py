"""What `dlmon doctor` asks of the machine, and where it keeps a calibration."""

from __future__ import annotations

import sys

import pytest

import dlmon.cli.main
from dlmon.cli.doctor import print_findings
from dlmon.doctor import examination
from dlmon.doctor.finding import Finding
from dlmon.doctor.frameworks import Framework
from dlmon.records import Facts, GpuState, MachineFacts

SILENT = "the sensors said nothing"


@pytest.fixture
def doctor(monkeypatch, tmp_path, capsys):
    """Return a function that runs `dlmon doctor`, whose sensors say nothing, and which has JAX."""

    async def say_nothing():
        return SILENT

    monkeypatch.setattr(examination, "_first_facts", say_nothing)
    monkeypatch.setattr(examination, "is_installed", lambda module: module == "jax")
    monkeypatch.setattr(
        examination, "ask_framework", lambda module: Framework(module, version="0.9", gpus=())
    )

    def run(*arguments):
        command = ["dlmon", "doctor", "--log-dir", str(tmp_path), *arguments]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as left:
            dlmon.cli.main.main(lambda start: 0)
        return left.value.code, *capsys.readouterr()

    return run


def test_without_a_home_directory_all_but_the_calibration_is_reported(doctor, no_home):
    exit_code, reported, complaint = doctor()
    assert (exit_code, complaint) == (0, "")
    assert SILENT in reported
    assert "JAX 0.9 (no CUDA) sees no GPU" in reported
    assert "calibration" not in reported


def test_without_a_home_directory_nothing_is_calibrated(doctor, no_home, monkeypatch):
    monkeypatch.setattr(examination, "calibrate", lambda *arguments: pytest.fail("it measured"))
    assert doctor("--calibrate") == (
        1,
        "",
        "dlmon: there is no home directory to keep a calibration in: set HOME or XDG_STATE_HOME\n",
    )


def test_no_framework_is_let_wake_a_gpu_that_sleeps(doctor, monkeypatch):
    why = {"gpus": "asleep (runtime power management)"}
    asleep = MachineFacts(gpus_state=GpuState.ASLEEP, why=why)

    async def say_so():
        return Facts(0, 0.0, "box", asleep)

    monkeypatch.setattr(examination, "_first_facts", say_so)
    monkeypatch.setattr(examination, "ask_framework", lambda module: pytest.fail("it asked"))
    assert "The GPU is asleep" in doctor()[1]


def test_findings_are_marked_and_followed_by_what_to_do(capsys):
    print_findings(
        [
            Finding("Python", "ok", "3.11.7"),
            Finding("GPU", "missing", "no NVIDIA driver", "install one"),
            Finding("CPU", "warning", "on battery"),
            Finding("GPU", "absent", "no NVIDIA GPU found"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "✓ Python: 3.11.7",
        "✗ GPU: no NVIDIA driver",
        "    → install one",
        "! CPU: on battery",
        "– GPU: no NVIDIA GPU found",
    ]
