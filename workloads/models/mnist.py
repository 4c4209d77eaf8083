"""The networks that read MNIST's 28×28 digits."""

from __future__ import annotations

import keras

from workloads.catalog import Workload
from workloads.models.chain import sequential

OPTIMIZERS = {
    "mnist-mlp": lambda: keras.optimizers.RMSprop(),
    # Keras gave this learning rate by default when the numbers were taken.
    "mnist-cnn": lambda: keras.optimizers.Adadelta(learning_rate=1.0),
}


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `workload`.

    It takes pixels from 0 to 1 in the workload's shape and gives (batch, 10)
    probabilities; labels are class numbers.
    """
    model = sequential(workload, "softmax")
    model.compile(
        optimizer=OPTIMIZERS.get(workload.name, keras.optimizers.Adam)(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model
