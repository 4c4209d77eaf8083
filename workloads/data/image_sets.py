"""Sets of images: MNIST and CIFAR-10 as Keras loads them, and images as large as ImageNet's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.data.dataset import SEED, Data, DataError

Pixels = NDArray[np.uint8]
Samples = tuple[Pixels, NDArray[np.uint8]]


@dataclass(frozen=True)
class ImageSet:
    """A data set of images that `keras.datasets` knows.

    Attributes:
        name: what `keras.datasets` calls it.
        cached_as: what its file or folder in Keras's cache is called.
        image_shape: an image as it is stored.
        sample_shape: an image as the network reads it.
        augmented: every epoch shifts and flips the images again.
    """

    name: str
    cached_as: str
    image_shape: tuple[int, ...]
    sample_shape: tuple[int, ...]
    label_shape: tuple[int, ...]
    classes: int
    train_samples: int
    test_samples: int
    augmented: bool = False

    def read(self) -> Data:
        import keras

        train, test = getattr(keras.datasets, self.name).load_data()
        return self._data(train, test, origin="real")

    def synthesize(self) -> Data:
        random = np.random.SFC64(SEED)
        train = self._random(random, self.train_samples)
        return self._data(train, self._random(random, self.test_samples), origin="synthetic")

    def _random(self, random: np.random.SFC64, samples: int) -> Samples:
        pixels = _random_bytes(random, (samples, *self.image_shape))
        return pixels, _random_bytes(random, (samples, *self.label_shape)) % self.classes

    def _data(self, train: Samples, test: Samples, origin: str) -> Data:
        x_train, x_test = (_scale(x).reshape(-1, *self.sample_shape) for x, _ in (train, test))
        return Data(x_train, train[1], x_test, test[1], origin, augmented=self.augmented)


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
    cached_as: None = None

    def read(self) -> Data:
        """Refuse: there is nowhere to load it from."""
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


def _random_bytes(random: np.random.SFC64, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    size = int(np.prod(shape))
    return random.random_raw(-(-size // 8)).view(np.uint8)[:size].reshape(shape)


def _scale(pixels: Pixels) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.divide(pixels, np.float32(255), dtype=np.float32, order="C")
    return scaled
