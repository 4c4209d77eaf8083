"""Workloads in an interpreter that is not dlmon's own, and interpreters that can't run any."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from fakes.hostile_folder import HostileFolder
from fakes.sessions import Session, eventually, is_alive

from dlmon.protocol.job import Refused
from dlmon.records import Epoch, Machine, Model

SMALL = "mnist-mlp-small"
OPTIONS = {
    "batch_size": 64,
    "epochs": 1,
    "steps": 20,
    "data": "synthetic",
    "backend": "tensorflow",
    "interval": 1.0,
}


@pytest.fixture(scope="session")
def make_venv(tmp_path_factory):
    """Return a function that makes an environment without anything in it."""

    def make():
        folder = tmp_path_factory.mktemp("venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        return folder

    return make


@pytest.fixture(scope="session")
def other_python(make_venv):
    """Return another interpreter, with the Keras of this one but without dlmon."""
    folder = make_venv()
    (site_packages,) = (folder / "lib").glob("python*/site-packages")
    # A .pth file in there is not read again, so an editable dlmon doesn't come along.
    (site_packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(folder / "bin" / "python")


@pytest.fixture
def start_job(launch_workload, tmp_path, monkeypatch):
    """Return a function that starts a real workload and gives what the supervisor answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda workload=SMALL, **options: launch_workload(workload, {**OPTIONS, **options})


def refusal(started):
    answer = started.answer()
    assert isinstance(answer, Refused)
    assert answer.exit_code == 2
    assert "\n" not in answer.reason
    return answer.reason


def test_a_program_that_is_no_python_starts_nothing(start_job, log_dir, tmp_path):
    path = tmp_path / "python"
    path.write_text("")
    assert "can't be run: permission denied" in refusal(start_job(python=str(path)))
    path.write_text("#!/bin/sh\necho garbage\n")
    path.chmod(0o755)
    why = f"{path} is not a Python interpreter"
    assert refusal(start_job(python=str(path))).startswith(why)
    assert not list(log_dir.glob("*/session.jsonl"))


def test_a_python_without_keras_says_what_to_install_there(start_job, make_venv):
    bare = str(make_venv() / "bin" / "python")
    assert refusal(start_job(python=bare)).endswith(
        f"has no TensorFlow and Keras; install it there with: {bare} -m pip install "
        "tensorflow keras"
    )


def test_a_session_can_be_stopped_while_an_interpreter_hangs(start_job, tmp_path):
    reported = tmp_path / "pid"
    path = tmp_path / "python"
    path.write_text(
        f"#!/bin/sh\necho $$ > {reported}.part; mv {reported}.part {reported}; sleep 1000\n"
    )
    path.chmod(0o755)
    started = start_job(python=str(path))
    eventually(reported.exists, "the interpreter to be asked")
    started.send("stop")
    answer = started.answer()
    assert isinstance(answer, Refused)
    assert "stopped before it began" in answer.reason
    assert not is_alive(int(reported.read_text()))


# ---- a working directory that holds modules of its own ----


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """Work in a folder with a module of every name that may be imported."""
    folder = HostileFolder(tmp_path / "hostile")
    monkeypatch.chdir(folder.path)
    return folder


def test_a_workload_runs_in_another_interpreter_from_a_copy_of_dlmon(
    start_job, other_python, tmp_path, monkeypatch, hostile
):
    # What is found by our own path must not be what the other one runs.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    started = start_job("mnist-mlp", python=other_python, batch_size=20, steps=3)
    session = Session(started)
    pid = session.child("runpy")
    assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == other_python.encode()
    model = session.wait_for(Model)
    result = session.wait_for_end()
    assert (result.status, result.error) == ("completed", None)
    assert result.options["python"] == other_python
    versions = session.header.versions
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["keras"] == model.keras_version
    assert versions["backend_version"] == model.backend_version
    (bundle,) = (tmp_path / "cache" / "dlmon" / "bundles").iterdir()
    assert {path.name for path in bundle.iterdir()} == {"dlmon", "workloads"}
    assert hostile.imported == []
    # That network is validated within its epoch.
    (epoch,) = session.records(Epoch)
    assert epoch.validation.steps == 3
    assert epoch.train_end <= epoch.validation.begin < epoch.validation.end <= epoch.end
    assert epoch.metrics.keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}
    samples = session.records(Machine)
    assert any(sample.process is not None and sample.process.rss_mib for sample in samples)


def test_doctor_asks_the_real_tensorflow_and_imports_nothing_from_the_working_directory(
    new_dlmon, driver, hostile
):
    driver.says("gpus 2")
    environment = {**driver.environment(), "CUDA_VISIBLE_DEVICES": "-1"}
    done = new_dlmon("doctor", "--json", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    [found] = [each for each in json.loads(done.stdout) if each["topic"] == "frameworks"]
    assert found["text"].startswith("TensorFlow 2.")
    assert "sees no GPU, and NVML 2: " in found["text"]
    assert hostile.imported == []
