"""The networks: what the catalog describes as Keras has it, compiled as it was published."""

from __future__ import annotations

from collections.abc import Iterable

import keras
from keras import layers

from workloads import layers as described
from workloads.architectures import CLASSES
from workloads.catalog import Workload

RESNETS = {
    "resnet50": keras.applications.ResNet50,
    "resnet101": keras.applications.ResNet101,
    "resnet152": keras.applications.ResNet152,
}
OPTIMIZERS = {
    "mnist-mlp": lambda: keras.optimizers.RMSprop(),
    # Keras gave this learning rate by default when the numbers were taken.
    "mnist-cnn": lambda: keras.optimizers.Adadelta(learning_rate=1.0),
    "cifar10-deep-cnn": lambda: _decaying_rmsprop(),
}


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of a workload, which takes samples as its data set has them."""
    return _BUILDERS[workload.dataset.partition("-")[0]](workload)


def _images(workload: Workload) -> keras.Model:
    """Take pixels from 0 to 1, and give probabilities of classes; labels are their numbers."""
    model = _sequential(workload, "softmax")
    model.compile(
        optimizer=OPTIMIZERS.get(workload.name, keras.optimizers.Adam)(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def _decaying_rmsprop() -> keras.Optimizer:
    # What `decay=1e-6` meant in the optimizers of Keras 2.
    schedule = keras.optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6)
    return keras.optimizers.RMSprop(learning_rate=schedule)


def _reviews(workload: Workload) -> keras.Model:
    """Take ids of words, as many as the embedding has, and give whether a review praises."""
    model = _sequential(workload, "sigmoid", dtype="int32")
    model.compile(
        optimizer=keras.optimizers.Adam(), loss="binary_crossentropy", metrics=["accuracy"]
    )
    return model


def _characters(workload: Workload) -> keras.Model:
    """Take one-hot characters, and give probabilities of the next; labels are one-hot too."""
    model = _sequential(workload, "softmax")
    model.compile(
        optimizer=keras.optimizers.RMSprop(learning_rate=0.01), loss="categorical_crossentropy"
    )
    return model


def _large_images(workload: Workload) -> keras.Model:
    """Take pixels from 0 to 1, and give logits of classes.

    These were published as benchmark networks: without dropout, and without a softmax, which the
    loss has within it.
    """
    images = keras.Input(workload.input_shape)
    if workload.name in RESNETS:
        features = _residual(workload, images)
    else:
        features = _applied(images, workload.layers[:-1])
    # Half precision is too narrow for the loss.
    logits = layers.Dense(CLASSES, dtype="float32")(features)
    model = keras.Model(images, logits, name=workload.name)
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def _residual(workload: Workload, images: keras.KerasTensor) -> keras.KerasTensor:
    # It takes its layout from here alone, and a keras.json may ask for channels first.
    keras.config.set_image_data_format("channels_last")
    network = RESNETS[workload.name](
        include_top=False, weights=None, input_tensor=images, pooling="avg"
    )
    return network.output


_BUILDERS = {
    "mnist": _images,
    "cifar10": _images,
    "imagenet": _large_images,
    "imdb": _reviews,
    "nietzsche": _characters,
}


def _sequential(workload: Workload, activation: str, dtype: str | None = None) -> keras.Model:
    """Return a network without branches, yet to be compiled; its last layer has `activation`."""
    (units,) = workload.output_shape
    return keras.Sequential(
        [
            keras.Input(workload.input_shape, dtype=dtype),
            *(made for layer in workload.layers[:-1] for made in _made(layer)),
            # In half precision a softmax or sigmoid rounds, and the loss turns infinite.
            layers.Dense(units, activation=activation, dtype="float32"),
        ],
        name=workload.name,
    )


def _applied(x: keras.KerasTensor, chain: Iterable[described.Layer]) -> keras.KerasTensor:
    """Return what a chain makes of `x`."""
    for layer in chain:
        if isinstance(layer, described.Branches):
            join = layers.Add() if layer.added else layers.Concatenate(axis=-1)
            x = join([_applied(x, branch) for branch in layer.branches])
            continue
        for made in _made(layer):
            x = made(x)
    return x


# The layout is explicit: a keras.json may ask for channels first, our data never does.
def _made(layer: described.Layer) -> list[keras.layers.Layer]:
    match layer:
        case described.Conv2D(filters, kernel_size, strides, padding, activation):
            around, padding = _padded(padding)
            convolution = layers.Conv2D(
                filters,
                kernel_size,
                strides,
                padding,
                activation=activation,
                data_format="channels_last",
            )
            return [*around, convolution]
        case described.MaxPool2D(pool_size, strides, padding):
            around, padding = _padded(padding)
            pool = layers.MaxPooling2D(pool_size, strides, padding, data_format="channels_last")
            return [*around, pool]
        case described.GlobalAveragePool(of_steps=True):
            return [layers.GlobalAveragePooling1D(data_format="channels_last")]
        case described.GlobalAveragePool():
            return [layers.GlobalAveragePooling2D(data_format="channels_last")]
        case described.Flatten():
            return [layers.Flatten(data_format="channels_last")]
        case described.Dense(units):
            return [layers.Dense(units, activation="relu")]
        case described.Dropout(rate):
            return [layers.Dropout(rate)]
        case described.Embedding(vocabulary, units):
            return [layers.Embedding(vocabulary, units)]
        case described.LSTM(units, bidirectional):
            # The published numbers that had a fused kernel are marked; all others are of plain
            # steps.
            lstm = layers.LSTM(units, use_cudnn=False)
            return [layers.Bidirectional(lstm) if bidirectional else lstm]
    raise TypeError(f"no layer of Keras is known for {layer}")


def _padded(padding: str | int) -> tuple[list[keras.layers.Layer], str]:
    if isinstance(padding, str):
        return [], padding
    return [layers.ZeroPadding2D(padding, data_format="channels_last")], "valid"
