"""The networks that classify film reviews as positive or negative."""

from __future__ import annotations

import keras

from workloads.catalog import Workload
from workloads.models.chain import sequential


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `workload`, for as many ids as its embedding has.

    It takes (batch, ids) integers and gives (batch, 1) probabilities; labels are 0 or 1.
    """
    model = sequential(workload, "sigmoid", dtype="int32")
    model.compile(
        optimizer=keras.optimizers.Adam(), loss="binary_crossentropy", metrics=["accuracy"]
    )
    return model
