"""Train with and without the update of the weights, and print what is the same.

Each argument is whether Keras compiles: off or on. The network has what behaves otherwise in
training: dropout and batch normalization.
"""

import json
import sys

import keras
import numpy as np

from workloads.gradients import leave_out_update

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(3, 2, (256, 16)).astype("float32")
y = rng.integers(0, 4, 256).astype("int32")


def build(dropout):
    return keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(4),
        ]
    )


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
    """Return what one step of plain gradient descent took from each weight, as its gradient."""
    before = values(model.trainable_weights)
    model.optimizer = keras.optimizers.SGD(1.0)
    model.make_train_function(force=True)
    model.fit(x, y, batch_size=256, shuffle=False, verbose=0)
    return [old - new for old, new in zip(before, values(model.trainable_weights), strict=True)]


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
    after_statistics = values(model.non_trainable_weights)
    moved = [bool((a != b).any()) for a, b in zip(statistics, after_statistics, strict=True)]

    dropping = compiled(build(dropout=0.5), jit)
    leave_out_update(dropping)
    losses = [
        dropping.fit(x, y, batch_size=256, shuffle=False, verbose=0).history["loss"][0]
        for _ in range(2)
    ]
    print(
        json.dumps(
            {
                "unchanged": all((a == b).all() for a, b in zip(before, after, strict=True)),
                "losses": history["loss"],
                "accuracies": history["accuracy"],
                "moved": moved[:2],
                "shapes": [list(g.shape) for g in kept] == [list(w.shape) for w in after],
                "any": [bool(np.abs(g).max() > 0) for g in kept],
                "right": all(
                    np.allclose(a, b, rtol=1e-3, atol=1e-5)
                    for a, b in zip(kept, gradients_by_training(model), strict=True)
                ),
                "losses_with_dropout": losses,
            }
        )
    )


for jit in sys.argv[1:]:
    check(jit == "on")
