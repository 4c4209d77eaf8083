"""What a workload is fed: real data where Keras has it cached, else synthetic data like it.

Keras's own loaders refuse a cached file whose hash differs, so the reader here
opens the cached file itself: same place, same format, no hash. Fetching, with
its hash check, is left to Keras.

A cached file is foreign: nothing in it may run code, and one that isn't what it
should be is refused in a sentence that names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from workloads.data.dataset import Data, DataError, DataSet, one_line
from workloads.data.image_sets import Cifar10, Mnist, RepeatedImages, is_there
from workloads.data.text_sets import Imdb, Nietzsche

CHOICES = ("auto", "synthetic", "real")


def load(dataset: str, choice: str, fetch: Callable[[str], None] | None = None) -> Data:
    """Return a data set.

    Args:
        dataset: one of `DATASETS`.
        choice: `synthetic`; `real`, which fetches what isn't cached; or
            `auto`, which takes what is cached, else synthetic data.
        fetch: puts a data set into Keras's cache; Keras's own loader by default.

    Raises:
        DataError: the cached file is broken, or fetching failed.
        ValueError: the choice is none of `CHOICES`.
    """
    if choice not in CHOICES:
        raise ValueError(f"data is one of {', '.join(CHOICES)}, not {choice}")
    chosen = DATASETS[dataset]
    if choice == "synthetic":
        return chosen.synthesize()
    path = find_cached(chosen)
    if path is None and choice == "auto":
        return chosen.synthesize()
    if path is None:
        (fetch or fetch_with_keras)(dataset)
        path = find_cached(chosen)
    if path is None:
        raise DataError(f"Keras fetched {chosen.name}, but it is not in {cache_folders()[0]}")
    return chosen.read(path)


def find_cached(dataset: DataSet) -> Path | None:
    """Return where Keras's cache holds the data set, if it does."""
    found = (dataset.find(folder) for folder in cache_folders())
    return next((path for path in found if path is not None), None)


def cache_folders() -> list[Path]:
    """Return the folders where Keras keeps data sets, first choice first.

    Keras fetches into /tmp/.keras where it may not write to its home.
    """
    # Path.expanduser raises for a user without a home, as containers have them.
    home = Path(os.path.expanduser(os.environ.get("KERAS_HOME", "~/.keras")))  # noqa: PTH111
    folders = [home / "datasets"]
    if not os.access(home if is_there(home) else home.parent, os.W_OK):
        folders.append(Path("/tmp/.keras/datasets"))
    return folders


def fetch_with_keras(dataset: str) -> None:
    """Have Keras download a data set into its cache.

    Raises:
        DataError: it could not, most often for want of a network.
    """
    chosen = DATASETS[dataset]
    try:
        chosen.fetch()
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"the {chosen.name} data could not be fetched ({one_line(error)}); "
            f"choose synthetic data, or put a copy into {cache_folders()[0]}"
        ) from error


_MNIST = Mnist(
    name="mnist",
    image_shape=(28, 28),
    sample_shape=(28, 28),
    label_shape=(),
    classes=10,
    train_samples=60_000,
    test_samples=10_000,
)
_CIFAR10 = Cifar10(
    name="cifar10",
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
