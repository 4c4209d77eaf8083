"""What a script needs before it starts, where the machine has none of it left."""

import asyncio
import errno
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dlmon.instrument.injections import VARIABLE
from dlmon.instrument.reporter import Reporter
from dlmon.launch.device import DeviceChoice
from dlmon.protocol.job import Job
from dlmon.records import FailureKind
from dlmon.supervisor import child as script_module
from dlmon.supervisor.child import (
    ScriptError,
    ScriptProcess,
    _environment,
    check_script,
    read_sightings,
    what_was_missing,
)


@pytest.mark.parametrize(("what", "terminal"), [("TerminalOutput", (80, 24)), ("FileOutput", None)])
def test_a_script_whose_output_has_no_place_says_why_it_was_not_started(
    what, terminal, monkeypatch
):
    def nothing_left(*arguments):
        raise OSError(errno.ENOSPC, "no room for it")

    async def start():
        written = []
        script = ScriptProcess(written.append, written.append)
        job = Job(
            workload="script",
            command=(sys.executable, "-V"),
            options={},
            log_dir="",
            device="auto",
            script=True,
            terminal=terminal,
        )
        script.start([sys.executable, "-V"], job, DeviceChoice("cpu", {}))
        await script.drain(0)
        return script

    monkeypatch.setattr(script_module, what, nothing_left)
    script = asyncio.run(start())
    assert script.ended.is_set()
    assert script.failure.text.endswith("could not be started: no room for it")
    assert script.failure.kind == FailureKind.NOT_STARTED


def test_a_directory_with_a_name_that_is_too_long_is_refused_in_a_sentence():
    job = Job("script", ("python",), {}, "", directory="x" * 100_000, script=True)
    with pytest.raises(ScriptError, match="it can't be looked for: File name too long"):
        check_script(job)


ITSELF = "in a loop of your own, import dlmon and call dlmon.step()"


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ((), f"no framework that dlmon watches was imported; {ITSELF}"),
        (
            ("torch", "torch loader"),
            "PyTorch was imported; no optimizer stepped and backward() was not called",
        ),
        (
            ("torch", "torch backward"),
            "PyTorch was imported; backward() was called, but no optimizer stepped and no "
            "DataLoader was read",
        ),
        (
            ("transformers", "accelerate", "torch"),
            "Accelerate, Transformers and PyTorch were imported; no optimizer stepped and "
            "backward() was not called",
        ),
        (
            ("tensorflow", "keras"),
            "Keras and TensorFlow were imported; fit was not called and no optimizer applied "
            f"gradients; {ITSELF}",
        ),
        (
            ("keras", "keras loop in a graph"),
            "Keras was imported; a loop within a tf.function, which can't be seen, applied "
            f"gradients; {ITSELF}",
        ),
        (
            ("keras", "keras replicas"),
            "Keras was imported; gradients were applied on several devices at once, which is not "
            f"counted; {ITSELF}",
        ),
        (
            ("jax",),
            "JAX was imported; the steps of JAX run in compiled code, where they can't be seen; "
            f"{ITSELF}",
        ),
        (("tensorflow",), f"TensorFlow was imported; Keras was not; {ITSELF}"),
        (
            ("xgboost", "lightgbm"),
            "XGBoost and LightGBM were imported; train of XGBoost was not called, train of "
            "LightGBM was not called",
        ),
    ],
)
def test_what_was_imported_is_named_and_what_was_missing(seen, why):
    assert what_was_missing(seen) == why


def test_a_process_leaves_a_word_once_beside_the_socket_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Reporter(None).saw("torch")
    Reporter(str(tmp_path / "gone" / "socket")).saw("torch")
    assert list(tmp_path.iterdir()) == []
    reporter = Reporter(str(tmp_path / "socket"))
    reporter.saw("torch")
    (tmp_path / "seen torch").unlink()
    reporter.saw("torch")
    reporter.saw("torch backward")
    assert read_sightings(tmp_path) == {"torch backward"}


def test_the_hooks_read_the_injections_of_a_job_in_the_environment(monkeypatch):
    # Those of the session whose script started this one.
    monkeypatch.setenv(VARIABLE, '{"threads": 1}')
    job = Job("script", ("python",), {}, "", script=True)
    assert VARIABLE not in _environment(job, Path("socket"))
    job = Job.from_line(replace(job, injected={"num_workers": 4, "fused": "on"}).to_line())
    environment = _environment(job, Path("socket"))
    assert json.loads(environment[VARIABLE]) == {"num_workers": 4, "fused": "on"}
