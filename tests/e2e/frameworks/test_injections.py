"""Injections into real scripts: each does what it says, and what came of it is recorded."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.sessions import Session

from dlmon.instrument.copy_injection import NOTHING_PINNED
from dlmon.instrument.injections import SET_BY_SCRIPT
from dlmon.instrument.network_injections import NO_SCALER
from dlmon.instrument.torch_injections import NO_GPU
from dlmon.protocol.job import Job
from dlmon.records import Epoch, Injection, Notice, Output

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def run_injected(launch_job, log_dir, tmp_path, monkeypatch):
    """Return a function that runs a script in a session with injections."""

    # A person's own environment may lead to other packages.
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def run(python, script, *arguments, **injected):
        command = (python, str(SCRIPTS / script), *arguments)
        job = Job(script, command, {}, str(log_dir), script=True, directory=str(tmp_path))
        session = Session(launch_job(replace(job, injected=injected)))
        result = session.wait_for_end()
        output = "\n".join(line.text for line in session.records(Output))
        assert result.status == "completed", output
        assert session.header.injected == injected
        assert session.records(Notice) == []
        return session

    return run


def printed_by(session):
    """Return what the script printed of its objects."""
    [line] = [line.text for line in session.records(Output) if line.text.startswith("{")]
    return json.loads(line)


def outcomes_of(session):
    """Return whether each injection is applied, how often, and why not."""
    last = {record.name: record for record in session.records(Injection)}
    return {name: (last[name].applied, last[name].times, last[name].reason) for name in last}


def test_the_hooks_of_pytorch_set_what_a_job_asks_for(run_injected, interpreter):
    session = run_injected(
        *(interpreter, "injected.py", "takes"),
        num_workers=2,
        prefetch_factor=3,
        persistent_workers="on",
        pin_memory="on",
        non_blocking="on",
        batch_size=16,
        fused="on",
        matmul_precision="high",
        cudnn_benchmark="on",
        threads=1,
        autocast="bfloat16",
        compile="default",
    )
    assert printed_by(session) == {
        "workers": [2, 2, 2],
        "prefetch_factor": 3,
        "persistent_workers": True,
        "pin_memory": False,
        # The loader that was made next does not shuffle, and is for validation.
        "batch_size": [16, 24],
        "fused": [True, None],
        "matmul_precision": "high",
        "cudnn_benchmark": False,
        "threads": 1,
        # The first step shows the network, and the last call is a validation.
        "autocast": ["torch.float32", "torch.bfloat16", "torch.float32"],
        "compile": [["default"], True],
    }
    assert outcomes_of(session) == {
        "num_workers": (True, 2, None),
        "prefetch_factor": (True, 2, None),
        "persistent_workers": (True, 2, None),
        "pin_memory": (False, 0, NO_GPU),
        "non_blocking": (False, 0, NOTHING_PINNED),
        "batch_size": (True, 1, None),
        "fused": (True, 1, None),
        "matmul_precision": (True, 1, None),
        "cudnn_benchmark": (False, 0, NO_GPU),
        "threads": (True, 1, None),
        "autocast": (True, 11, None),
        "compile": (True, 1, None),
    }
    epochs = {epoch.epoch: epoch for epoch in session.records(Epoch)}
    assert [(epoch.steps, epoch.samples) for epoch in epochs.values()] == [(6, 96), (6, 96)]


def test_what_a_script_does_not_take_or_sets_again_is_said(run_injected, interpreter):
    session = run_injected(
        *(interpreter, "injected.py", "refuses"),
        num_workers=2,
        prefetch_factor=3,
        batch_size=4,
        fused="on",
        matmul_precision="high",
        threads=1,
        autocast="float16",
        jit_compile="on",
    )
    assert printed_by(session) == {"workers": [0, 0], "batch_size": 4, "types": ["torch.float32"]}
    assert outcomes_of(session) == {
        "num_workers": (
            False,
            0,
            "each worker would give all samples of a data set that is iterated",
        ),
        "prefetch_factor": (False, 0, "a DataLoader has no workers"),
        "batch_size": (True, 1, "the data set makes the batches"),
        "fused": (False, 2, SET_BY_SCRIPT),
        "matmul_precision": (False, 1, SET_BY_SCRIPT),
        "threads": (False, 1, SET_BY_SCRIPT),
        "autocast": (False, 0, NO_SCALER),
        "jit_compile": (False, 0, "Keras was not imported"),
    }


def test_what_a_script_sets_itself_is_turned_off(run_injected, interpreter):
    session = run_injected(
        *(interpreter, "injected.py", "own"),
        num_workers=0,
        fused="off",
        autocast="off",
        compile="off",
    )
    assert printed_by(session) == {
        "workers": [0, None, False],
        "fused": None,
        "autocast": "torch.float32",
        "compiled": {},
        # The names of a saved network are those of a compiled one.
        "name": "_orig_mod.0.weight",
    }
    assert outcomes_of(session) == {
        "num_workers": (True, 1, None),
        "fused": (True, 1, None),
        "autocast": (True, 6, None),
        "compile": (True, 1, None),
    }


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="without TensorFlow")
def test_the_hooks_of_keras_set_what_a_job_asks_for(run_injected):
    session = run_injected(
        *(sys.executable, "injected_keras.py"),
        jit_compile="on",
        steps_per_execution=4,
        prefetch=3,
        precision="mixed_float16",
        threads=1,
    )
    assert printed_by(session) == {
        "jit_compile": True,
        "steps_per_execution": 4,
        "precision": ["mixed_float16"] * 2,
    }
    assert outcomes_of(session) == {
        "jit_compile": (True, 1, None),
        "steps_per_execution": (True, 1, None),
        "prefetch": (True, 1, None),
        "precision": (True, 1, None),
        "threads": (False, 0, "PyTorch was not imported"),
    }
