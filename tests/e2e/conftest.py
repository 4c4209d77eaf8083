"""Fixtures that start sessions of real processes, and let none of them survive its test."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from fake_nvml import FakeDriver, build
from fakes.imported import Imported
from fakes.interpreter import scripted_interpreter
from fakes.marks import MARKER, end_marked, ended_with_us, marked_processes
from fakes.sessions import DEADLINE_S, FAKE_WORKLOAD, PlainViewer, Session
from fakes.sshd import Laptop, Network

from dlmon.launch.supervisor_process import launch
from dlmon.protocol.job import Job
from dlmon.system.children import python_command

# Without oneDNN, TensorFlow gives back the memory of a network that is gone. It reads this when a
# test's module imports it; what the tests start is as everywhere.
ONE_DNN = "TF_ENABLE_ONEDNN_OPTS"
os.environ[ONE_DNN] = "0"
# What every command imports, and what each of them does.
DLMON = (
    "tui.start",
    *(f"dlmon.cli.{name}" for name in ("main", "run", "compare", "sweep", "prune")),
)
JOB_FIELDS = {
    "ends_with_terminal",
    "alerts",
    "log_dir",
    "serve",
    "name",
    "environment",
    "terminate_after_s",
    "kill_after_s",
}


@pytest.fixture(scope="session", autouse=True)
def _all_ends_with_the_tests():
    """End whatever is left of all tests and of their temporary files, where they are killed too.

    The folder's name is short, for sockets lie in it.
    """
    mark, folder = uuid.uuid4().hex, tempfile.mkdtemp(prefix="dlmon-tests-")
    with pytest.MonkeyPatch.context() as patch, ended_with_us(mark, folder):
        patch.setenv(MARKER, mark)
        patch.setattr(tempfile, "tempdir", folder)
        for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
            patch.setenv(name, folder)
        yield


@pytest.fixture(autouse=True)
def no_process_survives(monkeypatch):
    """Fail a test that leaves a process behind, and end that."""
    mark = f"{os.environ[MARKER]}.{uuid.uuid4().hex}"
    monkeypatch.setenv(MARKER, mark)
    monkeypatch.delenv(ONE_DNN, raising=False)
    yield mark
    deadline = time.monotonic() + 10.0
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    reported = []
    for pid in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            reported.append(f"{pid} {' '.join(psutil.Process(pid).cmdline())}")
    end_marked(mark)
    assert not reported, f"processes survived: {reported}"


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    """Return a cache for all tests: what scripts import of dlmon from it is compiled once."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def hosts_cache(tmp_path_factory):
    """Return a cache for all hosts of all networks."""
    return tmp_path_factory.mktemp("hosts-cache")


@pytest.fixture
def files(tmp_path):
    """Return a function that names a file that doesn't exist yet."""
    numbers = itertools.count()
    return lambda: str(tmp_path / f"file-{next(numbers)}")


@pytest.fixture
def make_job(log_dir):
    """Return a function that makes a job of the scripted workload."""

    def make(*, command=FAKE_WORKLOAD, device="cpu", detached=False, interval=0.25, **options):
        fields = {name: options.pop(name) for name in list(options) if name in JOB_FIELDS}
        return Job(
            workload="fake",
            command=tuple(command),
            options={"interval": interval, **options},
            log_dir=str(fields.pop("log_dir", log_dir)),
            device=device,
            interval_s=interval,
            outlives_viewer=detached,
            **fields,
        )

    return make


@pytest.fixture
def launch_job():
    """Return a function that launches a job; its supervisor ends with the test."""
    launches = []

    def begin(job):
        launches.append(launch(job))
        return launches[-1]

    yield begin
    for started in launches:
        started.release()
        started.process.kill()
        started.process.wait()


@pytest.fixture
def start(make_job, launch_job):
    """Return a function that starts a session of the scripted workload."""
    return lambda **options: Session(launch_job(make_job(**options)))


@pytest.fixture
def launch_workload(log_dir, launch_job):
    """Return a function that launches a real workload on the CPU with options of the child's."""

    def begin(workload, options, before=()):
        command = (*before, *python_command("workloads"))
        options = {"workload": workload, "device": "cpu", **options}
        job = Job(workload, command, options, str(log_dir), device="cpu")
        # A machine that is busy lets a batch take longer than a person waits for a stop.
        return launch_job(replace(job, terminate_after_s=DEADLINE_S))

    return begin


@pytest.fixture(scope="session")
def without_keras(tmp_path_factory):
    """An interpreter for `--python` that imports no Keras: it runs the scripted workload."""
    folder = tmp_path_factory.mktemp("interpreter")
    return scripted_interpreter(folder / "python", step_s=0.01)


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler for the stand-in of the NVIDIA driver")
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(driver_library, tmp_path):
    """A stand-in for the NVIDIA driver, for a process that is given its environment."""
    return FakeDriver(driver_library, tmp_path)


@pytest.fixture
def own_driver(driver, monkeypatch):
    """The same, for all processes that this test starts."""
    for name, value in driver.environment().items():
        monkeypatch.setenv(name, value)
    return driver


@pytest.fixture(scope="session")
def imported_dlmon():
    with contextlib.closing(Imported(sys.executable, DLMON)) as python:
        yield python


@pytest.fixture
def dlmon(imported_dlmon, dlmon_command):
    """Return a function that runs the command to its end, in a fork that has imported dlmon."""

    def run(*arguments, environment=None, directory=None):
        own = {**os.environ, **(environment or {})}
        return imported_dlmon.run(
            dlmon_command, list(map(str, arguments)), directory or Path.cwd(), own
        )

    return run


@pytest.fixture
def refused(dlmon, tmp_path):
    """Return a function that runs a command that starts nothing, in a folder of its own."""
    return lambda *arguments, **environment: dlmon(
        *arguments, environment=environment, directory=tmp_path
    )


@pytest.fixture
def ended_with_test():
    """Return a function that takes what prints, and ends it with the test."""
    with contextlib.ExitStack() as ends:

        def keep(printing):
            ends.callback(printing.process.wait)
            ends.callback(printing.process.kill)
            return printing

        yield keep


@pytest.fixture
def view(make_job, files, ended_with_test):
    """Return a function that starts a viewer with a session of the scripted workload."""
    return lambda *arguments, **options: ended_with_test(
        PlainViewer(make_job(**options), files(), *arguments)
    )


@pytest.fixture(scope="session")
def dlmon_command():
    """Return the path of the real command."""
    return str(Path(sys.executable).parent / "dlmon")


@pytest.fixture
def new_dlmon(dlmon_command):
    """Return a function that runs the command to its end in a new Python: its start matters."""

    def run(*arguments, environment=None):
        return subprocess.run(
            [dlmon_command, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE_S,
            env={**os.environ, **(environment or {})},
        )

    return run


@pytest.fixture(scope="module")
def network(tmp_path_factory, hosts_cache):
    folder = tmp_path_factory.mktemp("network")
    with contextlib.closing(Network(folder, sys.executable, hosts_cache)) as network:
        yield network


@pytest.fixture
def laptop(dlmon_command, imported_dlmon, network, tmp_path):
    return Laptop(dlmon_command, imported_dlmon, network, tmp_path)
