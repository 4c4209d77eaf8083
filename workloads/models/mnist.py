"""The networks that read MNIST's 28×28 digits."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload

HIDDEN_UNITS = {
    "mnist-mlp-small": (128,),
    "mnist-mlp-wide": (1000, 1000),
    "mnist-mlp": (512, 512),
}
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
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape),
            *(_convolutions() if workload.name == "mnist-cnn" else _perceptron(workload)),
            # In half precision a softmax loses small probabilities and the loss turns infinite.
            layers.Dense(10, activation="softmax", dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(
        optimizer=OPTIMIZERS.get(workload.name, keras.optimizers.Adam)(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def _perceptron(workload: Workload) -> list[keras.layers.Layer]:
    """Return the hidden layers of a multilayer perceptron."""
    hidden = [layers.Flatten(data_format="channels_last")] if len(workload.input_shape) > 1 else []
    for units in HIDDEN_UNITS[workload.name]:
        hidden += [layers.Dense(units, activation="relu"), layers.Dropout(0.2)]
    return hidden


def _convolutions() -> list[keras.layers.Layer]:
    """Return the hidden layers of the convolution network."""
    # The layout is explicit: a keras.json may ask for channels first, our data never does.
    return [
        layers.Conv2D(32, 3, activation="relu", data_format="channels_last"),
        layers.Conv2D(64, 3, activation="relu", data_format="channels_last"),
        layers.MaxPooling2D(2, data_format="channels_last"),
        layers.Dropout(0.25),
        layers.Flatten(data_format="channels_last"),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
    ]
