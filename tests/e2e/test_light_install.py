"""What `pip install dlmon` brings, without Keras, is enough for all but training in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from fakes.sessions import DEADLINE_S

ROOT = Path(__file__).parents[2]
SMALL = "mnist-mlp-small"
NO_KERAS = (
    "Keras is not installed here: pip install 'dlmon[tensorflow]', or name an interpreter that "
    "has it with --python PATH"
)
NAME = re.compile(r"[A-Za-z0-9._-]+")


def with_their_needs(requirements):
    """Return the distributions that requirements bring, and what these need in turn."""
    found = {}
    left = [NAME.match(requirement)[0] for requirement in requirements]
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another Python or system
            continue
        needs = [need for need in found[name].requires or () if "extra ==" not in need]
        left += [NAME.match(need)[0] for need in needs]
    return found.values()


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with dlmon and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for distribution in with_their_needs(project["dependencies"]):
        for part in {path.parts[0] for path in distribution.files} - {".."}:
            link, place = folder / part, Path(distribution.locate_file(part))
            if place.exists() and not link.exists():
                link.symlink_to(place)
    for name in ("dlmon", "tui", "workloads"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture
def light(packages, tmp_path):
    """Return a function that runs dlmon in an interpreter that has only these packages."""
    interpreter = sys._base_executable
    code = "import importlib.util; raise SystemExit(importlib.util.find_spec('keras') is not None)"
    environment = {
        **os.environ,
        "PYTHONPATH": str(packages),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "DLMON_CONFIG": "",
    }
    if subprocess.run([interpreter, "-c", code], env=environment).returncode:
        pytest.skip("the interpreter below this environment has a Keras of its own")

    def run(*arguments):
        program = "from tui.start import main; main()"
        return subprocess.run(
            [interpreter, "-c", program, *map(str, arguments)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            cwd=tmp_path,
        )

    return run


def test_what_trains_is_refused_in_one_sentence_and_all_else_goes_without_keras(light, tmp_path):
    done = light("run", SMALL, "--json")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"dlmon: {NO_KERAS}\n")
    done = light("sweep", SMALL, "--vary", "threads=1,2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"dlmon: no combination can be run: {NO_KERAS}\n"
    assert not (tmp_path / "state").exists()
    for arguments in (("list",), ("sessions",), ("run", "--help")):
        done = light(*arguments)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_doctor_says_what_is_missing(light):
    done = light("doctor", "--json", "--quick")
    assert done.returncode == 0, done.stderr
    (keras,) = [found for found in json.loads(done.stdout) if found["topic"] == "keras"]
    assert keras["state"] == "missing"
    assert "dlmon[tensorflow]" in keras["next_step"]


def test_an_interpreter_that_has_keras_can_be_named(light, without_keras):
    done = light(
        *("run", SMALL, "--python", without_keras, "--epochs", "1", "--steps", "5", "--json")
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "completed"
