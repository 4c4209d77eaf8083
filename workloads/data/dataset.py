"""A data set, and the passes over it that Keras is fed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from workloads.data.feed import Feed


class DataError(Exception):
    """The data can't be loaded; the message is a sentence that says what to do."""


@dataclass(frozen=True, eq=False)
class Data:
    """The arrays of a data set.

    Use `training`, `testing` and `inference`: they cut the arrays into batches.

    Attributes:
        x_train, x_test: samples first, channels last: float32 from 0 to 1
            (images), int32 ids (words), or bool (one-hot characters).
        y_train, y_test: uint8 class numbers, in the shape that
            `keras.datasets` gives them, one-hot bool, or the ids of the words that follow.
        origin: real or synthetic.
        vocabulary: the number of ids, for a network sized by its data; for
            `workloads.models.build`.
        augmented: every epoch shifts and flips the images anew, and drops
            the samples that don't fill a batch.
        repeated: the training samples are repeated without end.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    origin: str
    vocabulary: int | None = None
    augmented: bool = False
    repeated: bool = False

    def dividing_into(self, devices: int) -> Data:
        """Return the data without the training samples that can't be divided among devices."""
        left_out = 0 if self.repeated else len(self.x_train) % devices
        count = len(self.x_train) - left_out
        return replace(self, x_train=self.x_train[:count], y_train=self.y_train[:count])

    def training(self, batch_size: int, steps: int | None = None) -> Feed:
        """Return an epoch of training of at most `steps` batches.

        Raises:
            DataError: there are fewer samples than a batch holds.
        """
        if not self.augmented:
            return self.inference(batch_size, steps)
        self._refuse_too_large(batch_size)
        # Keras can't be imported before its backend is chosen.
        from workloads.data.batches import AugmentedBatches

        whole = len(self.x_train) // batch_size
        steps = whole if steps is None else min(steps, whole)
        batches = AugmentedBatches(self.x_train, self.y_train, batch_size, steps)
        return Feed(batches, None, batch_size, steps * batch_size)

    def inference(self, batch_size: int, steps: int | None = None) -> Feed:
        """Return a pass over the unaugmented training samples of at most `steps` batches.

        Repeated samples need `steps`, and fill exactly that many.

        Raises:
            DataError: there are fewer samples than a batch holds.
        """
        if not self.repeated:
            self._refuse_too_large(batch_size)
            return _cut(self.x_train, self.y_train, batch_size, steps)
        assert steps is not None
        from workloads.data.batches import repeated_batches

        batches = repeated_batches(self.x_train, self.y_train, batch_size, steps)
        return Feed(batches, None, batch_size, steps * batch_size)

    def testing(self, samples: int, batch_size: int, steps: int | None = None) -> Feed:
        """Return the first test samples, in at most `steps` batches."""
        return _cut(self.x_test[:samples], self.y_test[:samples], batch_size, steps)

    def _refuse_too_large(self, batch_size: int) -> None:
        if batch_size > len(self.x_train):
            raise DataError(
                f"the batch size {batch_size:,} is larger than the {len(self.x_train):,} samples "
                "of the data; choose a smaller one with --batch-size"
            )


def _cut(x: NDArray[Any], y: NDArray[Any], batch_size: int, steps: int | None) -> Feed:
    most = len(x) if steps is None else steps * batch_size
    return Feed(x[:most], y[:most], batch_size, min(most, len(x)))
