"""Real scripts, run by a Python that has the frameworks and not dlmon."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fakes.listener import Listener, Reported

from dlmon.launch.bundle import script_folder

VARIABLE = "DLMON_TEST_FRAMEWORKS"
SCRIPTS = Path(__file__).parent / "scripts"
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


@pytest.fixture
def run(interpreter, tmp_path, tmp_path_factory):
    """Return a function that runs a script alone and watched, and returns both."""

    def begin(script, *arguments, module=(), environment=None):
        command = [interpreter, *module, str(SCRIPTS / script), *arguments]
        clean = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        }
        # What is computed must not depend on how many others run.
        clean.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
        keep = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": TIMEOUT_S}
        alone = subprocess.run(command, env=clean, check=False, **keep)
        with Listener() as listener:
            watching = {
                **clean,
                **listener.environment(),
                # As `dlmon exec` enters a script's Python.
                "PYTHONPATH": str(script_folder(tmp_path_factory.mktemp("entry")) / "entry"),
                "OMP_NUM_THREADS": "1",
            }
            watching.pop("PYTHONDONTWRITEBYTECODE", None)
            watched = subprocess.run(command, env=watching, check=False, **keep)
            return Ran(alone, watched, listener.reported())

    return begin
