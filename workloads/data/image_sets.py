"""Sets of images: MNIST and CIFAR-10 as Keras caches them, and images as large as ImageNet's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlmon.files import open_to_read
from workloads.data.dataset import LARGEST_FILE, Data, DataError, opened_npz, reading
from workloads.data.feeds import SEED
from workloads.data.pickled import as_array, read_batch

CIFAR10_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR10_TEST_BATCH = "test_batch"
# Keras 3 unpacks the archive into the first, Keras 2 into the second.
CIFAR10_FOLDERS = ("cifar-10-batches-py-target/cifar-10-batches-py", "cifar-10-batches-py")

Pixels = NDArray[np.uint8]
Labels = NDArray[np.uint8]
Samples = tuple[NDArray[np.float32], Labels]


@dataclass(frozen=True)
class ImageSet:
    """What is fixed about a data set of images that `keras.datasets` knows.

    Attributes:
        name: what `keras.datasets` calls it.
        image_shape: an image as it is stored.
        sample_shape: an image as the network reads it.
        augmented: every epoch shifts and flips the images again.
    """

    name: str
    image_shape: tuple[int, ...]
    sample_shape: tuple[int, ...]
    label_shape: tuple[int, ...]
    classes: int
    train_samples: int
    test_samples: int
    augmented: bool = False

    def fetch(self) -> None:
        import keras

        getattr(keras.datasets, self.name).load_data()

    def synthesize(self) -> Data:
        """Make random images and labels; the same every time."""
        random = np.random.SFC64(SEED)
        train = self._random(random, self.train_samples)
        return self._data(train, self._random(random, self.test_samples), origin="synthetic")

    def _random(self, random: np.random.SFC64, samples: int) -> Samples:
        pixels = _random_bytes(random, (samples, *self.image_shape))
        return _scale(pixels), _random_bytes(random, (samples, *self.label_shape)) % self.classes

    def _data(self, train: Samples, test: Samples, origin: str) -> Data:
        (x_train, y_train), (x_test, y_test) = train, test
        x_train = x_train.reshape(-1, *self.sample_shape)
        x_test = x_test.reshape(-1, *self.sample_shape)
        return Data(x_train, y_train, x_test, y_test, origin, augmented=self.augmented)

    def _checked(self, pixels: Any, labels: Any) -> tuple[Pixels, Labels]:
        if pixels.dtype != np.uint8 or pixels.shape[1:] != self.image_shape:
            raise ValueError(f"its images are {pixels.dtype} of shape {pixels.shape}")
        if not np.issubdtype(labels.dtype, np.integer) or labels.shape[1:] != self.label_shape:
            raise ValueError(f"its labels are {labels.dtype} of shape {labels.shape}")
        if not len(pixels) == len(labels) > 0:
            raise ValueError(f"it holds {len(pixels)} images and {len(labels)} labels")
        if labels.min() < 0 or labels.max() >= self.classes:
            raise ValueError(f"its labels run from {labels.min()} to {labels.max()}")
        return pixels, labels.astype(np.uint8, copy=False)


class Mnist(ImageSet):
    """Handwritten digits, in one npz archive."""

    def find(self, folder: Path) -> Path | None:
        path = folder / "mnist.npz"
        return path if is_there(path) else None

    def read(self, path: Path) -> Data:
        with opened_npz(path) as file, np.load(file, allow_pickle=False) as archive:
            train = self._checked(archive["x_train"], archive["y_train"])
            test = self._checked(archive["x_test"], archive["y_test"])
        return self._data(_joined([train]), _joined([test]), origin="real")


class Cifar10(ImageSet):
    """Small colour images, in five batches for training and one for testing."""

    def find(self, folder: Path) -> Path | None:
        """Look for a folder with any of the batches: a missing one is then reported."""
        for name in CIFAR10_FOLDERS:
            batches = (*CIFAR10_BATCHES, CIFAR10_TEST_BATCH)
            if any(is_there(folder / name / batch) for batch in batches):
                return folder / name
        return None

    def read(self, path: Path) -> Data:
        train = _joined([self._read_batch(path / name) for name in CIFAR10_BATCHES])
        test = _joined([self._read_batch(path / CIFAR10_TEST_BATCH)])
        return self._data(train, test, origin="real")

    def _read_batch(self, path: Path) -> tuple[Pixels, Labels]:
        """Read one batch: rows of 1024 red, then green, then blue pixels."""
        with reading(path), open_to_read(path, LARGEST_FILE) as file:
            batch = read_batch(file)
            if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
                raise ValueError("it is not a batch of data and labels")
            height, width, channels = self.image_shape
            planes = as_array(batch[b"data"]).reshape(-1, channels, height, width)
            labels = as_array(batch[b"labels"]).reshape(-1, *self.label_shape)
            return self._checked(planes.transpose(0, 2, 3, 1), labels)


@dataclass(frozen=True)
class RepeatedImages:
    """A few random images that stand for any number of a set's: ImageNet itself isn't read.

    The networks that read such images were published as times of a batch; what
    is in the images doesn't matter to them, and 100 batches would fill 4 GB.
    """

    sample_shape: tuple[int, ...]
    classes: int
    train_samples: int
    test_samples: int = 0
    name: str = "ImageNet"

    def find(self, folder: Path) -> None:
        """Find none: Keras has no such set."""
        return

    def read(self, path: Path) -> Data:
        """Refuse: there is no format to read."""
        raise DataError(f"{self.name} can't be read; choose synthetic data")

    def fetch(self) -> None:
        """Refuse: there is nowhere to fetch it from."""
        raise DataError(
            f"{self.name} can't be fetched: it is not free to share, and these networks "
            "are timed on synthetic images; choose synthetic data"
        )

    def synthesize(self) -> Data:
        """Make the images and their labels; the same every time."""
        random = np.random.SFC64(SEED)
        images = _scale(_random_bytes(random, (self.train_samples, *self.sample_shape)))
        numbers = _random_bytes(random, (self.train_samples, 2)).view(np.uint16).reshape(-1)
        labels = numbers % self.classes
        return Data(images, labels, images[:0], labels[:0], "synthetic", repeated=True)


def is_there(path: Path) -> bool:
    """Say whether a path can be reached; in a folder closed to us `Path.exists` raises."""
    return os.access(path, os.F_OK)


def _joined(batches: list[tuple[Pixels, Labels]]) -> Samples:
    """Scale batches into one array, without a joined copy of their pixels."""
    samples = sum(len(pixels) for pixels, _ in batches)
    x = np.empty((samples, *batches[0][0].shape[1:]), np.float32)
    start = 0
    for pixels, _ in batches:
        _scale(pixels, out=x[start : start + len(pixels)])
        start += len(pixels)
    return x, np.concatenate([labels for _, labels in batches])


def _random_bytes(random: np.random.SFC64, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    size = int(np.prod(shape))
    return random.random_raw(-(-size // 8)).view(np.uint8)[:size].reshape(shape)


def _scale(pixels: Pixels, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    scaled: NDArray[np.float32]
    scaled = np.divide(pixels, np.float32(255), out=out, dtype=np.float32, order="C")
    return scaled
