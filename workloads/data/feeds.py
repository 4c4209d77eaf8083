"""How `Model.fit`, `evaluate` and `predict` are fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlmon.instrument.keras_data import Data

SEED = 1


@dataclass(frozen=True, eq=False)
class Feed:
    """One pass over samples, as Keras is given it.

    Attributes:
        x: an array, samples first; or a `keras.utils.PyDataset` or
            `tf.data.Dataset` of (x, y) batches.
        y: the labels of an array; None where the batches hold them.
        batch_size: samples in a whole batch; Keras reads it for an array only.
        samples: samples that the pass sees.
    """

    x: Any
    y: Any
    batch_size: int
    samples: int

    @property
    def steps(self) -> int:
        """Return the number of batches, a short last one too."""
        return -(-self.samples // self.batch_size)

    @property
    def data(self) -> Data:
        """Return the sizes of its batches, for the callback that reports them."""
        return Data.of_samples(self.samples, self.batch_size)

    @property
    def shuffle(self) -> bool:
        """Say whether Keras shall shuffle the samples; batches bring their own order."""
        return self.y is not None
