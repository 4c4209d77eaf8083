"""What a workload is fed: real data where Keras has it cached, else synthetic data like it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from workloads.data.dataset import Data, DataError
from workloads.data.image_sets import ImageSet, RepeatedImages
from workloads.data.text_sets import Imdb, Nietzsche
from workloads.failure import one_line

DataSet = ImageSet | RepeatedImages | Imdb | Nietzsche


def load(dataset: str, choice: str) -> Data:
    """Return a data set.

    Args:
        dataset: one of `DATASETS`.
        choice: `synthetic`; `real`, which Keras fetches where it isn't cached; or `auto`, which
            takes what is cached, else synthetic data.

    Raises:
        DataError: Keras can't load it, most often for want of a network.
    """
    chosen = DATASETS[dataset]
    if choice == "synthetic" or (choice == "auto" and not is_cached(chosen)):
        return chosen.synthesize()
    try:
        return chosen.read()
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"Keras can't load the {chosen.name} data ({one_line(error)}); "
            f"choose synthetic data, or put a good copy into {cache_folders()[0]}"
        ) from error


def is_cached(dataset: DataSet) -> bool:
    """Return whether Keras's cache holds a data set."""
    name = dataset.cached_as
    return name is not None and any(is_there(folder / name) for folder in cache_folders())


def cache_folders() -> list[Path]:
    """Return the folders where Keras keeps data sets, first choice first.

    Keras fetches into /tmp/.keras where it may not write to its home.
    """
    # Path.expanduser raises for a user without a home, as containers have them.
    home = Path(os.path.expanduser(os.environ.get("KERAS_HOME", "~/.keras")))  # noqa: PTH111
    if os.access(home if is_there(home) else home.parent, os.W_OK):
        return [home / "datasets"]
    return [home / "datasets", Path("/tmp/.keras/datasets")]


def is_there(path: Path) -> bool:
    """Say whether a path can be reached; in a folder closed to us `Path.exists` raises."""
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
    # As Keras unpacks it since version 3.7.
    cached_as="cifar-10-batches-py-target",
    image_shape=(32, 32, 3),
    sample_shape=(32, 32, 3),
    label_shape=(1,),
    classes=10,
    train_samples=50_000,
    test_samples=10_000,
)


def _imagenet(size: int) -> RepeatedImages:
    return RepeatedImages(sample_shape=(size, size, 3), classes=1000, train_samples=256)


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
}
