"""The networks that classify film reviews as positive or negative."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload
from workloads.models.chain import keras_layers


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `workload`, for as many ids as its embedding has.

    It takes (batch, ids) integers and gives (batch, 1) probabilities; labels are 0 or 1.
    """
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape, dtype="int32"),
            *keras_layers(workload.layers[:-1]),
            # In half precision a sigmoid rounds to 1 and the loss turns infinite.
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(
        optimizer=keras.optimizers.Adam(), loss="binary_crossentropy", metrics=["accuracy"]
    )
    return model
