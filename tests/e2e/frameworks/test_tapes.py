"""People's own loops with Keras on TensorFlow: what they counted is what is reported."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from dlmon.records import Model, Notice


@pytest.fixture
def interpreter():
    """Return this Python, which has TensorFlow."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    return sys.executable


def test_what_an_optimizer_applies_is_a_step_and_what_keras_trains_counts_once(
    interpreter, watch_by
):
    ran = watch_by(interpreter, "tapes.py")
    assert ran.watched.returncode == 0, ran.watched.stderr
    process = ran.process
    assert process.of(Notice) == []
    counted = json.loads(ran.watched.stdout.splitlines()[-1])
    validated = [epoch.validation.steps for epoch in process.epochs]
    epochs = zip(process.epochs, validated, strict=True)
    assert [[epoch.samples, epoch.steps, steps] for epoch, steps in epochs] == counted["epochs"]
    assert process.steps == counted["steps"]
    assert {epoch.whole for epoch in process.epochs} == {True}
    assert process.epochs[4].updates == 14
    trainer, models = process.trainer, process.of(Model)
    assert (trainer.framework, trainer.backend) == ("keras", "tensorflow")
    assert {model.device for model in models} == {"cpu"}
    assert (models[0].batch_size, models[0].samples_per_epoch, models[0].inferred) == (
        16,
        103,
        None,
    )
    assert models[-1].has_epochs is False
