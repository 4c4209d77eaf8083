"""The network that guesses the next character of Nietzsche's writings."""

from __future__ import annotations

import keras

from workloads.catalog import Workload
from workloads.models.chain import sequential


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `nietzsche-lstm`.

    It takes (batch, 40, 57) one-hot characters and gives (batch, 57)
    probabilities; labels are one-hot too.
    """
    model = sequential(workload, "softmax")
    model.compile(
        optimizer=keras.optimizers.RMSprop(learning_rate=0.01), loss="categorical_crossentropy"
    )
    return model
