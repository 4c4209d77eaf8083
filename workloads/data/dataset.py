"""What every data set has, and how it is cut into feeds."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from numpy.typing import NDArray

from dlmon.files import MIB, open_to_read
from workloads.data.feeds import Feed

LARGEST_FILE = 256 * MIB
"""The files that Keras caches are of at most 31 MB."""


class DataError(Exception):
    """The data can't be had; the message is one plain sentence that says what to do."""


@dataclass(frozen=True, eq=False)
class Data:
    """A data set as a network is fed it.

    Use `training`, `testing` and `inference`: the arrays alone don't show how
    they are cut into batches.

    Attributes:
        x_train, x_test: samples first, channels last: float32 from 0 to 1
            (images), int32 ids (words), or bool (one-hot characters).
        y_train, y_test: uint8 class numbers, in the shape that
            `keras.datasets` gives them, or one-hot bool.
        origin: real or synthetic.
        vocabulary: ids that occur, where the data decide how large the network
            is; give it to `Workload.with_vocabulary` before building.
        augmented: every epoch shifts and flips the images again, and leaves out
            the samples that don't fill a batch.
        repeated: the training samples stand for any number of them.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    origin: str
    vocabulary: int | None = None
    augmented: bool = False
    repeated: bool = False

    def training(self, batch_size: int, steps: int | None = None) -> Feed:
        """Return an epoch of training, of at most so many batches.

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
        """Return a pass over the training samples as they are, of at most so many batches.

        Samples that are repeated need `steps`, and take exactly so many.

        Raises:
            DataError: there are fewer samples than a batch holds.
        """
        if not self.repeated:
            self._refuse_too_large(batch_size)
            return _cut(self.x_train, self.y_train, batch_size, steps)
        if steps is None:
            raise ValueError("repeated samples have no end: say how many steps")
        from workloads.data.batches import repeated_batches

        batches = repeated_batches(self.x_train, self.y_train, batch_size, steps)
        return Feed(batches, None, batch_size, steps * batch_size)

    def testing(self, samples: int, batch_size: int, steps: int | None = None) -> Feed:
        """Return the first test samples, in at most so many batches."""
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


class DataSet(Protocol):
    """A data set that can be read from Keras's cache, fetched into it, or imitated."""

    @property
    def name(self) -> str:
        """Return what a person calls the data."""
        ...

    def find(self, folder: Path) -> Path | None:
        """Look for the set in one `datasets` folder of Keras."""
        ...

    def read(self, path: Path) -> Data:
        """Read the set at the path that `find` gave; raise DataError where that is broken."""
        ...

    def fetch(self) -> None:
        """Have Keras fetch the set into its cache; raise whatever hinders it."""
        ...

    def synthesize(self) -> Data:
        """Make random data of the same shape, type, range and size; the same every time."""
        ...


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a broken file makes NumPy, zipfile or pickle raise into one sentence."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{path} can't be read as data ({one_line(error)}); "
            "remove the cached copy, or choose synthetic data"
        ) from error


@contextmanager
def opened_npz(path: Path) -> Iterator[IO[bytes]]:
    """Open an npz archive, and turn what is wrong with it into one sentence."""
    with reading(path), open_to_read(path, LARGEST_FILE) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not an npz archive, or only a part of one")
        file.seek(0)
        yield file


def one_line(error: Exception) -> str:
    """Return what an error says, in one line of at most 300 characters."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
