"""Real scripts, run by a Python that has the frameworks and not dlmon."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.imported import Imported
from fakes.listener import Listener, Reported

from dlmon.launch.bundle import script_folder

VARIABLE = "DLMON_TEST_FRAMEWORKS"
HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
TIMEOUT_S = 240.0
# What makes an optimizer imports the second, which takes longer than the first.
IMPORTED = (
    *("torch", "torch._dynamo", "lightning.pytorch", "pytorch_lightning"),
    *("transformers.trainer", "accelerate"),
)


@pytest.fixture(scope="session")
def interpreter():
    """Return the Python that has the frameworks."""
    path = os.environ.get(VARIABLE)
    if not path:
        pytest.skip(f"{VARIABLE} does not name a Python that has the frameworks")
    return path


class Ran:
    """A script that was run alone and watched."""

    def __init__(self, alone, watched, reported: list[Reported]):
        self.alone, self.watched, self.reported = alone, watched, reported

    @property
    def process(self) -> Reported:
        """What the one process reported that did."""
        [process] = self.reported
        return process


def own_environment():
    """Return the environment of a script that nobody watches."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "TF_ENABLE_ONEDNN_OPTS")
    }
    # What is computed must not depend on how many others run.
    more = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {**clean, **more}


@pytest.fixture(scope="session")
def entry(tmp_path_factory):
    """Return the folder by which `dlmon exec` enters a script's Python."""
    return str(script_folder(tmp_path_factory.mktemp("entry")) / "entry")


def watching(listener, entry):
    """Return the environment of a script that `dlmon exec` enters."""
    return {**own_environment(), **listener.environment(), "PYTHONPATH": entry}


class Pair:
    """A Python that nobody watches and a watched one, which have imported the same."""

    def __init__(self, interpreter, entry, *modules):
        self._listener = Listener().__enter__()
        environments = {"alone": own_environment(), "watched": watching(self._listener, entry)}
        self._pythons = {
            name: Imported(interpreter, modules, environment)
            for name, environment in environments.items()
        }

    def run(self, script, *arguments, directory, alone=True):
        """Run a script watched, and alone beside that, each in a fork."""
        ends = []
        for name, python in self._pythons.items():
            if alone or name == "watched":
                (directory / name).mkdir(exist_ok=True)
                ends.append(python.start(str(SCRIPTS / script), arguments, directory / name))
        *alone, watched = [end() for end in ends]
        return Ran(*(alone or [None]), watched, self._listener.reported())

    def run_alone(self, script, *arguments, directory, environment=None):
        """Run a script in a fork of the Python that nobody watches."""
        python = self._pythons["alone"]
        return python.run(str(SCRIPTS / script), arguments, directory, environment)

    def close(self):
        for python in self._pythons.values():
            python.close()
        self._listener.__exit__()


@pytest.fixture(scope="session")
def pythons(interpreter, entry):
    """Return a pair that has imported PyTorch and all trainers: most of what each script costs."""
    with contextlib.closing(Pair(interpreter, entry, *IMPORTED)) as pair:
        yield pair


@pytest.fixture(scope="session")
def tensorflow(entry):
    """Return a pair that has imported TensorFlow and Keras, of the Python of the tests."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    with contextlib.closing(Pair(sys.executable, entry, "tensorflow", "keras")) as pair:
        yield pair


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run what needs a pair of Pythons in one process, which starts them once."""
    for item in items:
        for pair in ("pythons", "tensorflow"):
            if item.path.parent == HERE and pair in item.fixturenames:
                item.add_marker(pytest.mark.xdist_group(pair))


def run_by_itself(interpreter, entry, folder, script, *arguments):
    """Run a script alone and watched, each in a new Python."""
    command = [interpreter, str(SCRIPTS / script), *arguments]
    alone = run_in(folder, command, own_environment())
    with Listener() as listener:
        watched = run_in(folder, command, watching(listener, entry))
        return Ran(alone, watched, listener.reported())


def run_in(folder, command, environment):
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def run(pythons, tmp_path):
    """Return a function that runs a script of PyTorch alone and watched."""
    return functools.partial(pythons.run, directory=tmp_path)


@pytest.fixture
def run_with(interpreter, entry, tmp_path):
    """Return a function that runs a script of a package that may be missing, alone and watched."""

    def run_or_skip(package, script, *arguments):
        find = "import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))"
        if subprocess.run([interpreter, "-c", find, package], check=False).returncode:
            pytest.skip(f"the Python that has the frameworks lacks {package}")
        return run_by_itself(interpreter, entry, tmp_path, script, *arguments)

    return run_or_skip
