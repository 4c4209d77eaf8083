"""The networks that read CIFAR-10's 32×32 colour images."""

from __future__ import annotations

import keras

from workloads.catalog import Workload
from workloads.models.chain import sequential


def build(workload: Workload) -> keras.Model:
    """Build and compile the convolution network of `workload`.

    It takes (batch, 32, 32, 3) pixels from 0 to 1 and gives (batch, 10)
    probabilities; labels are class numbers.
    """
    model = sequential(workload, "softmax")
    deep = workload.name == "cifar10-deep-cnn"
    model.compile(
        optimizer=_decaying_rmsprop() if deep else keras.optimizers.Adam(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def _decaying_rmsprop() -> keras.Optimizer:
    """Return an optimizer whose learning rate decays with each batch."""
    # What `decay=1e-6` meant in the optimizers of Keras 2.
    schedule = keras.optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6)
    return keras.optimizers.RMSprop(learning_rate=schedule)
