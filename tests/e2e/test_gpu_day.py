"""The day on a GPU machine, tried without one: the fake driver, and the CPU in the GPU's place."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from fakes import nvidia_smi
from fakes.recorded_nvml import RecordedNvml

from dlmon.sensors.nvidia.provider import NvidiaProvider

BENCH = Path(__file__).parents[2] / "bench"
DRY_RUN_S = 800
# The other parts call a bench, `dlmon doctor`, `run` or `sweep`, for longer.
PARTS = ("nvml", "idle", "screens")


@pytest.fixture
def environment(driver, tmp_path):
    """Return the environment of a machine with that driver, and a stand-in of nvidia-smi."""
    script = tmp_path / "bin" / "nvidia-smi"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {nvidia_smi.__file__} "$@"\n')
    script.chmod(0o755)
    driver.says("gpus 1", "process 0 4242 300", "set 0 throttle 4")
    environment = driver.environment()
    return environment | {"PATH": f"{script.parent}:{environment['PATH']}"}


def bench(name, *arguments, environment):
    command = [sys.executable, BENCH / name, *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DRY_RUN_S
    )


def test_a_recorded_driver_is_read_like_the_driver_itself(driver, environment, tmp_path):
    driver.says(
        *("gpus 2", "set 1 throttle 64", "process 0 4242 300", "process 1 4243 -1"),
        *("answer nvmlDeviceGetFanSpeed * 3", "answer nvmlDeviceGetTemperatureV * 13"),
    )
    file = tmp_path / "nvml.json"
    done = bench("nvml_answers.py", file, environment=environment)
    assert done.returncode == 0, done.stderr
    replayed = NvidiaProvider(load=lambda: RecordedNvml(file), wake=True)
    facts, fast, slow = replayed.facts(), replayed.fast(0), replayed.slow(0)
    assert [gpu.uuid[-1] for gpu in facts.gpus] == ["0", "1"]
    assert (facts.driver, facts.cuda, facts.foreign_gpu_processes) == ("580.65.06", "13.0", 2)
    assert [gpu.power_w for gpu in fast.gpus] == [300.5, 310.5]
    assert [gpu.temperature_c for gpu in fast.gpus] == [60, 61]
    assert [gpu.throttle for gpu in fast.gpus] == [(), ("hardware thermal slowdown",)]
    assert slow.gpus[1].why["fan_pct"] == "not supported"
    assert slow.gpu_processes == {4242: {0: 300}, 4243: {1: None}}
    assert json.loads(file.read_text())["queries_without_an_answer"]["fan_pct"] == "not supported"


@pytest.mark.costly
@pytest.mark.timeout(900)
def test_the_day_runs_without_a_gpu(environment, tmp_path):
    out = tmp_path / "out"
    arguments = [out, "--dry-run", "--wheels", tmp_path, "--minutes", 13]
    arguments += ["--parts", ",".join(PARTS)]
    done = bench("gpu_day.py", *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    page = (out / "page.md").read_text()
    head, _ = page.split("\n## ", 1)
    rows = [line.split(" | ") for line in head.splitlines() if line.startswith("| ")]
    parts = {row[0].removeprefix("| "): row[1] for row in rows if len(row) == 3}
    in_part = {"screens": "2 pictures"}
    for name in PARTS:
        assert parts.pop(name) == in_part.get(name, "done"), (name, done.stdout, done.stderr)
    assert "NVIDIA Fake 100" in page
    assert "| power_w | 300.5 W | 300.5 W | 0 W |" in page
    assert "throttle reasons: the same in 2 of 2 readings" in page
    assert "4242: 300.0 MiB" in page
    with tarfile.open(out / "screens.tar.xz") as screens:
        assert {"watch-gpu-80x24.svg", "watch-gpu-120x40.svg"} <= set(screens.getnames())
    assert len(list(out.iterdir())) <= 8


def test_a_part_that_fails_is_a_row_that_says_so_and_the_others_go_on(environment, tmp_path):
    (tmp_path / "bin" / "nvidia-smi").unlink()
    out = tmp_path / "out"
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
    arguments = [out, "--dry-run", "--wheels", tmp_path, "--parts", "idle,nvml"]
    done = bench("gpu_day.py", *arguments, environment={**environment, "PATH": path})
    assert done.returncode == 0, done.stderr
    page = (out / "page.md").read_text()
    assert "| idle | gpu_truth.py: there is no nvidia-smi" in page
    assert "| nvml | done |" in page


def test_wheels_that_are_missing_are_named_with_how_to_get_them(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    command = [tmp_path / "bare" / "bin" / "python", BENCH / "gpu_day.py", tmp_path / "out"]
    done = subprocess.run([*command, "--wheels", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2
    assert "No module named" in done.stderr
    assert "run `make gpu-wheels` where there is a package index" in done.stderr
