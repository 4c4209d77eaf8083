"""Memory of a GPU that runs out in a real script of PyTorch, as its own error says it."""

from __future__ import annotations

import ast
import json
import re
import sys

import pytest

from dlmon.records import OutOfMemory

from .conftest import SCRIPTS

SCRIPT = SCRIPTS / "out_of_memory.py"


@pytest.mark.parametrize(
    ("then", "errors"),
    [("tries smaller batches", 1), ("tries it in halves", 3), ("leaves the batch out", 3)],
)
def test_a_script_that_goes_on_has_the_steps_that_it_counts_itself(run, then, errors):
    ran = run("out_of_memory.py", then, alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    assert ran.watched.stderr == ""
    counted, process = json.loads(ran.watched.stdout), ran.process
    assert (process.steps, process.samples) == (counted["steps"], counted["samples"])
    assert sum(epoch.updates or epoch.steps for epoch in process.epochs) == counted["updates"]
    assert len(process.epochs) == counted["epochs"]
    noted = process.of(OutOfMemory)
    assert [one.asked_mib for one in noted] == [2048.0] * errors


def test_a_script_that_dies_of_it_is_told_what_was_asked_and_what_to_try(dlmon):
    # What it prints is all that is read of it, so nothing needs to train.
    told = ast.literal_eval(re.search(r"OUT = (\(.*?\n\))", SCRIPT.read_text(), re.DOTALL)[1])
    dies = f"raise SystemExit({'torch.OutOfMemoryError: ' + told!r})"
    ran = dlmon("exec", "--", sys.executable, "-c", dies)
    assert ran.returncode == 1
    said = " ".join(ran.stderr.split())
    assert "2.0 GiB asked for, 1.2 GiB of 79.1 GiB free on GPU 0" in said
    assert "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in said
