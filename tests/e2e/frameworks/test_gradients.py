"""What `--mode gradients` computes with each backend of Keras."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from fakes.costly import with_costly

from .conftest import SCRIPTS

ROOT = Path(__file__).parents[3]
SCRIPT = SCRIPTS / "gradients.py"


def check(ran, jits):
    assert ran.returncode == 0, ran.stderr
    for line in ran.stdout.splitlines()[-len(jits) :]:
        computed = json.loads(line)
        assert computed["shapes"]
        # The bias before a batch normalization has none.
        assert computed["any"].count(False) <= 1
        assert computed["right"]
        assert computed["unchanged"]
        # The same weights and samples give the same loss each time.
        assert computed["losses"] == pytest.approx([computed["losses"][0]] * 3, rel=1e-5)
        assert computed["accuracies"] == pytest.approx([computed["accuracies"][0]] * 3)
        # Batch normalization and dropout do what they do in training.
        assert computed["moved"] == [True, True]
        first, second = computed["losses_with_dropout"]
        assert first != second


@pytest.mark.parametrize("jit", with_costly(["off", "on"], but="off"))
def test_gradients_are_right_and_change_no_weight_and_all_else_is_as_in_training(
    tensorflow, tmp_path, jit
):
    check(tensorflow.run_alone(SCRIPT, jit, directory=tmp_path), [jit])


@pytest.mark.costly
@pytest.mark.parametrize(
    ("backend", "jits"),
    # PyTorch compiles with a compiler of its own.
    [("jax", ("off", "on")), ("torch", ("off",))],
)
def test_so_they_are_with_other_backends(interpreter, backend, jits):
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    command = [interpreter, str(SCRIPT), *jits]
    check(subprocess.run(command, capture_output=True, text=True, env=environment), jits)
