"""The network that guesses the next character of Nietzsche's writings."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload
from workloads.models.chain import keras_layers


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `nietzsche-lstm`.

    It takes (batch, 40, 57) one-hot characters and gives (batch, 57)
    probabilities; labels are one-hot too.
    """
    _, characters = workload.input_shape
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape),
            *keras_layers(workload.layers[:-1]),
            # In half precision a softmax loses small probabilities and the loss turns infinite.
            layers.Dense(characters, activation="softmax", dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(
        optimizer=keras.optimizers.RMSprop(learning_rate=0.01), loss="categorical_crossentropy"
    )
    return model
