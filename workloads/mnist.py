"""The networks that read MNIST's 28×28 digits."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload

HIDDEN_UNITS = {
    "mnist-mlp-small": (128,),
    "mnist-mlp-wide": (1000, 1000),
}


def build(workload: Workload) -> keras.Model:
    """Build and compile the multilayer perceptron of `workload`.

    It takes (batch, 28, 28) pixels from 0 to 1 and gives (batch, 10)
    probabilities; labels are class numbers.
    """
    model = keras.Sequential(name=workload.name)
    model.add(keras.Input(workload.input_shape))
    model.add(layers.Flatten(data_format="channels_last"))
    for units in HIDDEN_UNITS[workload.name]:
        model.add(layers.Dense(units, activation="relu"))
        model.add(layers.Dropout(0.2))
    # In half precision a softmax loses small probabilities and the loss turns infinite.
    model.add(layers.Dense(10, activation="softmax", dtype="float32"))
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model
