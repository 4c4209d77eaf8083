"""A pass over samples, as Keras is fed with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlmon.instrument.keras_data import BatchSizes

SEED = 1


@dataclass(frozen=True, eq=False)
class Feed:
    """One pass over samples, as Keras takes it.

    Attributes:
        x: an array, samples first; or a `keras.utils.PyDataset` or
            `tf.data.Dataset` of (x, y) batches.
        y: the labels of an array; None if the batches hold them.
        batch_size: samples in a whole batch; Keras reads it for an array only.
        samples: samples of the pass.
    """

    x: Any
    y: Any
    batch_size: int
    samples: int

    @property
    def steps(self) -> int:
        """The number of batches, including a short last one."""
        return -(-self.samples // self.batch_size)

    @property
    def sizes(self) -> BatchSizes:
        """The sizes of the batches, for the callback that reports them."""
        return BatchSizes.of_samples(self.samples, self.batch_size)

    @property
    def shuffle(self) -> bool:
        """Shuffle an array; batches bring their own order."""
        return self.y is not None
