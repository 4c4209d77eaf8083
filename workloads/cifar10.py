"""The network that reads CIFAR-10's 32×32 colour images."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload


def build(workload: Workload) -> keras.Model:
    """Build and compile the convolution network of `cifar10-cnn`.

    It takes (batch, 32, 32, 3) pixels from 0 to 1 and gives (batch, 10)
    probabilities; labels are class numbers. The convolutions have no
    activation: so the published numbers were taken.
    """
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape),
            _convolution(32),
            _convolution(32),
            _halving_pool(),
            _convolution(64),
            _convolution(64),
            _halving_pool(),
            _convolution(128),
            _convolution(128),
            layers.Flatten(data_format="channels_last"),
            layers.Dropout(0.3),
            layers.Dense(128, activation="relu"),
            # In half precision a softmax loses small probabilities and the loss turns infinite.
            layers.Dense(10, activation="softmax", dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


# The layout is explicit: a keras.json may ask for channels first, our data never does.
def _convolution(filters: int) -> keras.layers.Layer:
    return layers.Conv2D(filters, 3, padding="same", data_format="channels_last")


def _halving_pool() -> keras.layers.Layer:
    return layers.MaxPooling2D(2, data_format="channels_last")
