"""Load the data of a workload: real data if Keras has cached it, else synthetic data like it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.data.dataset import Data, DataError
from workloads.data.feed import SEED
from workloads.data.text_sets import Imdb, Nietzsche, RepeatedTexts
from workloads.failure import one_line

Pixels = NDArray[np.uint8]
Samples = tuple[Pixels, NDArray[np.uint8]]

# The side of the blocks in the pattern of a class, in pixels.
BLOCK = 4
FEW_CLASSES = 10


@dataclass(frozen=True)
class ImageSet:
    """A data set of images from `keras.datasets`.

    Attributes:
        name: its name in `keras.datasets`.
        cached_as: the file or folder in Keras's cache.
        image_shape: an image as it is stored.
        sample_shape: an image as the network reads it.
        augmented: every epoch shifts and flips the images anew.
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
        """Return the same random images every time; those of a class share a pattern."""
        random = np.random.SFC64(SEED)
        patterns = _patterns(random, self.classes, self.image_shape)
        train, test = (
            _learnable_images(random, patterns, samples)
            for samples in (self.train_samples, self.test_samples)
        )
        return self._data(train, test, origin="synthetic")

    def _data(self, train: Samples, test: Samples, origin: str) -> Data:
        x_train, x_test = (_scale(x).reshape(-1, *self.sample_shape) for x, _ in (train, test))
        y_train, y_test = (y.reshape(-1, *self.label_shape) for _, y in (train, test))
        return Data(x_train, y_train, x_test, y_test, origin, augmented=self.augmented)


@dataclass(frozen=True)
class RepeatedImages:
    """A few random images, repeated in place of ImageNet.

    The published figures of these networks are times of a batch, to which the images don't
    matter; 100 different batches would fill 4 GB. They are of a few of the classes, so that the
    loss falls within 100 batches.
    """

    sample_shape: tuple[int, ...]
    train_samples: int
    test_samples: int = 0
    name: str = "ImageNet"
    cached_as: None = None

    def read(self) -> Data:
        """Refuse: it can't be fetched."""
        raise DataError(
            f"{self.name} can't be fetched: it is not free to share, and these networks "
            "are timed on synthetic images; choose synthetic data"
        )

    def synthesize(self) -> Data:
        """Return the same random images and labels every time."""
        random = np.random.SFC64(SEED)
        patterns = _patterns(random, FEW_CLASSES, self.sample_shape)
        pixels, labels = _learnable_images(random, patterns, self.train_samples)
        images = _scale(pixels)
        return Data(images, labels, images[:0], labels[:0], "synthetic", repeated=True)


def _patterns(random: np.random.SFC64, classes: int, shape: tuple[int, ...]) -> Pixels:
    """Return an image of coarse random blocks for each class."""
    height, width, *channels = shape
    blocks = (classes, -(-height // BLOCK), -(-width // BLOCK), *channels)
    coarse = _random_bytes(random, blocks)
    return coarse.repeat(BLOCK, axis=1).repeat(BLOCK, axis=2)[:, :height, :width]


def _learnable_images(random: np.random.SFC64, patterns: Pixels, samples: int) -> Samples:
    """Return noisy images and their classes: a quarter of an image is its class's pattern.

    Of noise alone, with any labels, these networks learn next to nothing in an epoch.
    """
    pixels = _random_bytes(random, (samples, *patterns.shape[1:]))
    labels = _random_bytes(random, (samples,)) % len(patterns)
    pixels -= pixels // 4
    pixels += (patterns // 4)[labels]
    return pixels, labels.astype(np.uint8)


def _random_bytes(random: np.random.SFC64, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    size = int(np.prod(shape))
    return random.random_raw(-(-size // 8)).view(np.uint8)[:size].reshape(shape)


def _scale(pixels: Pixels) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.divide(pixels, np.float32(255), dtype=np.float32, order="C")
    return scaled


DataSet = ImageSet | RepeatedImages | Imdb | Nietzsche | RepeatedTexts


def load(dataset: str, choice: str) -> Data:
    """Return a data set.

    Args:
        dataset: one of `DATASETS`.
        choice: `synthetic`; `real`, which Keras fetches if it isn't cached; or `auto`, real data
            if cached, else synthetic data.

    Raises:
        DataError: Keras can't load it, usually for lack of a network.
    """
    data_set = DATASETS[dataset]
    name = data_set.cached_as
    is_cached = name is not None and any(is_there(folder / name) for folder in cache_folders())
    if choice == "synthetic" or (choice == "auto" and not is_cached):
        return data_set.synthesize()
    try:
        return data_set.read()
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"Keras can't load the {data_set.name} data ({one_line(error)}); "
            f"choose synthetic data, or put a good copy into {cache_folders()[0]}"
        ) from error


def cache_folders() -> list[Path]:
    """Return the folders of Keras's data sets, first choice first.

    Keras fetches into /tmp/.keras if it can't write to its home.
    """
    # Path.expanduser raises for a user without a home, as in containers.
    home = Path(os.path.expanduser(os.environ.get("KERAS_HOME", "~/.keras")))  # noqa: PTH111
    if os.access(home if is_there(home) else home.parent, os.W_OK):
        return [home / "datasets"]
    return [home / "datasets", Path("/tmp/.keras/datasets")]


def is_there(path: Path) -> bool:
    """Return whether a path exists; `Path.exists` raises in a folder that we can't enter."""
    return os.access(path, os.F_OK)


_MNIST = ImageSet(
    name="mnist",
    cached_as="mnist.npz",
    image_shape=(28, 28),
    sample_shape=(28, 28),
    label_shape=(),
    classes=10,
    train_samples=60_000,
    test_samples=10_000,
)
_CIFAR10 = ImageSet(
    name="cifar10",
    # The name since Keras 3.7.
    cached_as="cifar-10-batches-py-target",
    image_shape=(32, 32, 3),
    sample_shape=(32, 32, 3),
    label_shape=(1,),
    classes=10,
    train_samples=50_000,
    test_samples=10_000,
)


def _imagenet(size: int) -> RepeatedImages:
    return RepeatedImages(sample_shape=(size, size, 3), train_samples=256)


DATASETS: dict[str, DataSet] = {
    "mnist": _MNIST,
    "mnist-rows": replace(_MNIST, sample_shape=(784,)),
    "mnist-planes": replace(_MNIST, sample_shape=(28, 28, 1)),
    "cifar10": _CIFAR10,
    "cifar10-augmented": replace(_CIFAR10, augmented=True),
    "imdb-bigrams": Imdb(length=400, bigrams=True),
    "imdb-words": Imdb(length=100, bigrams=False),
    "nietzsche": Nietzsche(length=40, characters=57, text_length=600_893),
    "imagenet-224": _imagenet(224),
    "imagenet-231": _imagenet(231),
    "text-1024": RepeatedTexts(length=1024, words=50_257, next_word=True),
    "text-128": RepeatedTexts(length=128, words=30_522, next_word=False),
}
