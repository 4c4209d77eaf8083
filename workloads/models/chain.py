"""A network's layers as Keras has them, from the layers that the catalog describes."""

from __future__ import annotations

from collections.abc import Iterable

import keras
from keras import layers

from workloads import layers as described
from workloads.catalog import Workload


def sequential(workload: Workload, activation: str, dtype: str | None = None) -> keras.Model:
    """Return a network without branches, yet to be compiled; its last layer has `activation`.

    Args:
        workload: describes its layers.
        activation: of the last layer.
        dtype: of the samples; by default that of the weights.
    """
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


def applied(x: keras.KerasTensor, chain: Iterable[described.Layer]) -> keras.KerasTensor:
    """Return what a chain makes of `x`."""
    for layer in chain:
        if isinstance(layer, described.Branches):
            join = layers.Add() if layer.added else layers.Concatenate(axis=-1)
            x = join([applied(x, branch) for branch in layer.branches])
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
