"""Real scripts, run by a Python that has the frameworks and not dlmon."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from fakes.listener import Listener, Reported

from dlmon.launch.bundle import script_folder

VARIABLE = "DLMON_TEST_FRAMEWORKS"
HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
TIMEOUT_S = 240.0


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


class Imported:
    """A Python that has imported frameworks, for scripts that are run alone.

    To import them is most of what such a script costs. Those that are watched import them
    themselves, for that is where they are entered.
    """

    def __init__(self, interpreter, *modules):
        self._process = subprocess.Popen(
            [interpreter, str(HERE / "imported.py"), *modules],
            env=own_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script, arguments, environment, directory):
        """Run a script in a fork to its end."""
        files = {name: directory / f"{name} alone" for name in ("stdout", "stderr")}
        asked = {
            "script": script,
            "arguments": arguments,
            "environment": environment,
            "directory": str(directory),
            **{name: str(file) for name, file in files.items()},
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        printed = {name: file.read_text() for name, file in files.items()}
        return subprocess.CompletedProcess([script, *arguments], code, **printed)

    def close(self):
        self._process.communicate()


def own_environment():
    """Return the environment of a script that nobody watches."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    }
    # What is computed must not depend on how many others run.
    return {**clean, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="session")
def entry(tmp_path_factory):
    """Return the folder by which `dlmon exec` enters a script's Python."""
    return str(script_folder(tmp_path_factory.mktemp("entry")) / "entry")


@pytest.fixture(scope="session")
def python_with_torch(interpreter):
    python = Imported(interpreter, "torch")
    yield python
    python.close()


@pytest.fixture(scope="session")
def python_with_trainers(interpreter):
    modules = ("lightning.pytorch", "pytorch_lightning", "transformers.trainer", "accelerate")
    python = Imported(interpreter, *modules)
    yield python
    python.close()


def run_both(interpreter, imported, entry, folder):
    """Return a function that runs a script alone and watched, and returns both.

    It runs alone in a fork of a Python that has imported its frameworks, or, with `own_process`, in
    one that is as new as that in which it is watched.
    """

    def begin(script, *arguments, module=(), own_process=False):
        path = str(SCRIPTS / script)
        command = [interpreter, *module, path, *arguments]
        clean = own_environment()
        keep = {"cwd": folder, "capture_output": True, "text": True, "timeout": TIMEOUT_S}
        if own_process:
            alone = subprocess.run(command, env=clean, check=False, **keep)
        else:
            alone = imported.run(path, arguments, clean, folder)
        with Listener() as listener:
            watching = {**listener.environment(), **clean, "PYTHONPATH": entry}
            watching.pop("PYTHONDONTWRITEBYTECODE", None)
            watched = subprocess.run(command, env=watching, check=False, **keep)
            return Ran(alone, watched, listener.reported())

    return begin


@pytest.fixture
def run(interpreter, python_with_torch, entry, tmp_path):
    """Return a function that runs a script of PyTorch alone and watched."""
    return run_both(interpreter, python_with_torch, entry, tmp_path)


@pytest.fixture
def run_trainer(interpreter, python_with_trainers, entry, tmp_path):
    """Return the same for a script that has a trainer of PyTorch in its hands."""
    return run_both(interpreter, python_with_trainers, entry, tmp_path)


@pytest.fixture
def run_with(interpreter, entry, tmp_path):
    """Return a function that runs a script of a package that may be missing, alone and watched."""

    def run_or_skip(package, script, *arguments):
        found = subprocess.run(
            [interpreter, "-c", f"import {package}"], stderr=subprocess.DEVNULL, check=False
        )
        if found.returncode:
            pytest.skip(f"the Python that has the frameworks lacks {package}")
        return run_both(interpreter, None, entry, tmp_path)(script, *arguments, own_process=True)

    return run_or_skip


@pytest.fixture
def run_by(entry, tmp_path):
    """Return a function that runs a script by any Python alone and watched."""

    def run_by_python(python, script, *arguments):
        return run_both(python, None, entry, tmp_path)(script, *arguments, own_process=True)

    return run_by_python
