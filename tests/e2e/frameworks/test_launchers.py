"""`dlmon exec` of launchers: each process that trains is found, and the session is their sum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlmon.log.directory import list_sessions
from dlmon.records import Batches, Epoch, Model, Trainer, decode

SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT_S = 240.0


@pytest.fixture
def execute(interpreter, tmp_path):
    """Return a function that runs a command beside the frameworks' Python under `dlmon exec`."""

    def run(*command, cwd=tmp_path):
        first, *rest = command
        words = [str(Path(interpreter).with_name(first)), *rest]
        main = "from tui.start import main; main()"
        logs = tmp_path / "logs"
        done = subprocess.run(
            [sys.executable, "-P", "-c", main, "exec", "--plain", "--log-dir", logs, "--", *words],
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        (entry,) = list_sessions(logs)
        return done, [decode(line) for line in entry.path.read_bytes().splitlines()]

    return run


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_torchrun_with_a_rank_that_the_other_waits_for(execute, wrapper):
    script = str(SCRIPTS / "data_parallel.py")
    done, records = execute("torchrun", "--nproc-per-node", "2", script, wrapper, "1")
    assert "The other waited for rank 1: it waited" in done.stderr
    counted = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["rank"] for line in counted} == {0, 1}
    trainers = [record for record in records if isinstance(record, Trainer) and not record.ended]
    # They are so quick that one may have ended before the other begins, under its number then.
    assert {trainer.rank for trainer in trainers} == {0, 1}
    assert {trainer.pid for trainer in trainers} == {line["pid"] for line in counted}
    batches = [record for record in records if isinstance(record, Batches)]
    samples = sum(sum(record.counted) for record in batches)
    assert samples == sum(line["samples"] for line in counted)
    # Each rank of FSDP holds a part of them.
    assert {record.parameters for record in records if isinstance(record, Model)} == {5}


def test_a_module(execute):
    done, records = execute("python", "-m", "loops", "plain", "0", cwd=SCRIPTS)
    counted = json.loads(done.stdout.splitlines()[0])
    batches = [record for record in records if isinstance(record, Batches)]
    assert sum(sum(record.counted) for record in batches) == counted["samples"]
    epochs = {record.epoch for record in records if isinstance(record, Epoch)}
    assert len(epochs) == counted["epochs"]


def test_accelerate_launch(execute):
    done, records = execute(
        "accelerate", "launch", "--cpu", str(SCRIPTS / "loops.py"), "accelerated"
    )
    counted = json.loads(done.stdout.splitlines()[0])
    batches = [record for record in records if isinstance(record, Batches)]
    assert sum(sum(record.counted) for record in batches) == counted["samples"]
