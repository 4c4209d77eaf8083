"""The networks that tell whether a film review praises."""

from __future__ import annotations

import keras
from keras import layers

from workloads.catalog import Workload
from workloads.layers import Embedding


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `workload`, for as many ids as its embedding has.

    It takes (batch, ids) integers and gives (batch, 1) probabilities; labels are 0 or 1.
    """
    embedding = workload.layers[0]
    if not isinstance(embedding, Embedding):
        raise ValueError(f"{workload.name} has no embedding")
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape, dtype="int32"),
            layers.Embedding(embedding.vocabulary, embedding.units),
            *(_mean() if workload.name == "imdb-fasttext" else _both_directions()),
            # In half precision a sigmoid rounds to 1 and the loss turns infinite.
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(
        optimizer=keras.optimizers.Adam(), loss="binary_crossentropy", metrics=["accuracy"]
    )
    return model


def _mean() -> list[keras.layers.Layer]:
    return [layers.GlobalAveragePooling1D(data_format="channels_last")]


def _both_directions() -> list[keras.layers.Layer]:
    # The published numbers that had a fused kernel are marked; all others are of plain steps.
    return [layers.Bidirectional(layers.LSTM(64, use_cudnn=False)), layers.Dropout(0.5)]
