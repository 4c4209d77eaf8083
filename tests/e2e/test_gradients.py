"""What `--mode gradients` computes with each backend that this interpreter has."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

# A network with what behaves otherwise in training: dropout and batch normalization.
CHILD = """
import json, sys, time
import keras
import numpy as np
from workloads.gradients import NoUpdate, leave_out_update

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(3, 2, (256, 16)).astype("float32")
y = rng.integers(0, 4, 256).astype("int32")


def build(dropout):
    return keras.Sequential([
        keras.Input((16,)),
        keras.layers.Dense(8, activation="tanh"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(dropout),
        keras.layers.Dense(4),
    ])


def compiled(model, jit):
    model.compile(
        optimizer=keras.optimizers.SGD(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit,
    )
    return model


def values(weights):
    return [keras.ops.convert_to_numpy(weight) for weight in weights]


def gradients_by_training(model):
    '''Return what one step of plain gradient descent took from each weight, as its gradient.'''
    before = values(model.trainable_weights)
    model.optimizer = keras.optimizers.SGD(1.0)
    model.make_train_function(force=True)
    model.fit(x, y, batch_size=256, shuffle=False, verbose=0)
    return [old - new for old, new in zip(before, values(model.trainable_weights))]


def kept_gradients(model):
    if keras.backend.backend() == "torch":
        return values([weight.value.grad for weight in model.trainable_weights])
    return values([v for v in model.optimizer.variables if v.name.endswith("gradient")])


def check(jit):
    model = compiled(build(dropout=0.0), jit)
    leave_out_update(model)
    before = values(model.trainable_weights)
    statistics = values(model.non_trainable_weights)
    history = model.fit(x, y, batch_size=256, shuffle=False, verbose=0, epochs=3).history
    after = values(model.trainable_weights)
    kept = kept_gradients(model)
    moved = [bool((a != b).any()) for a, b in zip(statistics, values(model.non_trainable_weights))]

    dropping = compiled(build(dropout=0.5), jit)
    leave_out_update(dropping)
    losses = [
        dropping.fit(x, y, batch_size=256, shuffle=False, verbose=0).history["loss"][0]
        for _ in range(2)
    ]
    print(json.dumps({
        "unchanged": all((a == b).all() for a, b in zip(before, after)),
        "losses": history["loss"],
        "accuracies": history["accuracy"],
        "moved": moved[:2],
        "shapes": [list(g.shape) for g in kept] == [list(w.shape) for w in after],
        "any": [bool(np.abs(g).max() > 0) for g in kept],
        "right": all(
            np.allclose(a, b, rtol=1e-3, atol=1e-5)
            for a, b in zip(kept, gradients_by_training(model))
        ),
        "losses_with_dropout": losses,
    }))


for jit in sys.argv[1:]:
    check(jit == "on")
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_gradients_are_right_and_change_no_weight_and_all_else_is_as_in_training(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    # PyTorch compiles with a compiler of its own.
    jits = ["off"] if backend == "torch" else ["off", "on"]
    reported = subprocess.run(
        [sys.executable, "-c", CHILD, *jits], capture_output=True, text=True, env=environment
    )
    assert reported.returncode == 0, reported.stderr
    for line in reported.stdout.splitlines()[-len(jits) :]:
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
