"""Interpreters that are asked about themselves, and things that are none."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from dlmon.launch.interpreter import (
    InterpreterError,
    examine_interpreter,
    own_interpreter,
)


@pytest.fixture
def script(tmp_path):
    """Return a function that makes an executable file of these lines of shell."""

    def make(*lines, name="python"):
        path = tmp_path / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def answering(script):
    """Return a function that makes a program that answers as a Python of this kind would."""

    def make(python=(3, 12, 1), **found):
        reported = {"python": python, "executable": "/x", "found": found}
        return script(f"printf '\\036dlmon %s\\n' '{json.dumps(reported)}'")

    return make


async def refusal(command, backend="tensorflow", deadline_s=10.0):
    with pytest.raises(InterpreterError) as refused:
        await examine_interpreter(command, backend, deadline_s)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_our_own_reports_what_it_has_and_imports_nothing_for_it():
    began = time.monotonic()
    found = await examine_interpreter(sys.executable, "tensorflow")
    assert time.monotonic() - began < 10
    assert found == own_interpreter("tensorflow")
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.keras is not None


async def test_a_greeting_before_the_answer_does_no_harm_and_what_it_says_is_cleaned(script):
    found = {"keras": None, "jax": "0.8\x1b[31m.0"}
    reported = json.dumps({"python": [3, 10, 0], "found": found}).replace("\\", "\\\\")
    chatty = script("echo 'activating {environment}'", f"printf '\\036dlmon %b\\n' '{reported}'")
    found = await examine_interpreter(chatty, "jax")
    assert (found.python, found.keras, found.backend_version) == ("3.10.0", None, "0.8.0")


async def test_what_can_not_be_run_is_reported(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"\x7fELF but not really")
    path.chmod(0o755)
    assert "can't be run: " in await refusal(str(path))
    assert "can't be run: permission denied; name one" in await refusal(str(tmp_path))
    assert "can't be run: no such file" in await refusal(str(tmp_path / "python"))


async def test_one_that_hangs_is_ended_with_all_that_it_started(script, tmp_path):
    pids = tmp_path / "pids"
    command = script("sleep 60 &", f"echo $$ $! > {pids}", "wait")
    began = time.monotonic()
    reported = await refusal(command, deadline_s=0.5)
    assert reported.startswith(f"{command} did not answer within 0.5 s")
    assert time.monotonic() - began < 5
    # Who is not our child is gone a moment after the signal.
    while any(is_running(pid) for pid in pids.read_text().split()):
        assert time.monotonic() - began < 5
        await asyncio.sleep(0.01)


def is_running(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    # It may end between the opening of the file and the reading.
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.parametrize(
    ("python", "keras", "why"),
    [
        *(
            (python, "3.9.0", f"is Python {'.'.join(map(str, python))}; the workloads need 3.10")
            for python in ((2, 7, 18), (3, 9, 21))
        ),
        ((3, 12, 1), "2.15.0", "has Keras 2.15.0, and the workloads need Keras 3"),
    ],
)
async def test_a_python_or_keras_that_is_too_old_is_reported(answering, python, keras, why):
    assert why in await refusal(answering(python, keras=keras, tensorflow="2.19.0"))


def test_a_backend_that_our_own_interpreter_lacks_is_reported(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        InterpreterError, match=r"torch is not installed in .* -m pip install torch"
    ):
        own_interpreter("torch")
    with pytest.raises(InterpreterError, match="there is no backend"):
        own_interpreter("numpy")
