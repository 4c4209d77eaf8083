"""The networks that read CIFAR-10's 32×32 colour images."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload


def build(workload: Workload) -> keras.Model:
    """Build and compile the convolution network of `workload`.

    It takes (batch, 32, 32, 3) pixels from 0 to 1 and gives (batch, 10)
    probabilities; labels are class numbers.
    """
    hidden, optimizer = _deep() if workload.name == "cifar10-deep-cnn" else _linear()
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape),
            *hidden,
            # In half precision a softmax loses small probabilities and the loss turns infinite.
            layers.Dense(10, activation="softmax", dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _linear() -> tuple[list[keras.layers.Layer], keras.Optimizer]:
    """Return six convolutions without activations: so the published numbers were taken."""
    hidden = [
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
    ]
    return hidden, keras.optimizers.Adam()


def _deep() -> tuple[list[keras.layers.Layer], keras.Optimizer]:
    """Return four convolutions, and an optimizer whose learning rate wanes batch by batch."""
    hidden = [
        _convolution(32, activation="relu"),
        _convolution(32, activation="relu", padding="valid"),
        _halving_pool(),
        layers.Dropout(0.25),
        _convolution(64, activation="relu"),
        _convolution(64, activation="relu", padding="valid"),
        _halving_pool(),
        layers.Dropout(0.25),
        layers.Flatten(data_format="channels_last"),
        layers.Dense(512, activation="relu"),
        layers.Dropout(0.5),
    ]
    # What `decay=1e-6` meant in the optimizers of Keras 2.
    waning = keras.optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6)
    return hidden, keras.optimizers.RMSprop(learning_rate=waning)


# The layout is explicit: a keras.json may ask for channels first, our data never does.
def _convolution(
    filters: int, activation: str | None = None, padding: str = "same"
) -> keras.layers.Layer:
    return layers.Conv2D(
        filters, 3, activation=activation, padding=padding, data_format="channels_last"
    )


def _halving_pool() -> keras.layers.Layer:
    return layers.MaxPooling2D(2, data_format="channels_last")
