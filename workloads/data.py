"""What a workload is fed: real data where Keras has it cached, else synthetic data like it.

Keras's own loaders refuse a cached file whose hash differs, so the reader here
opens the cached file itself: same place, same format, no hash. Fetching, with
its hash check, is left to Keras.

A cached file is foreign: nothing in it may run code, and one that isn't what it
should be is refused in a sentence that names it.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

CHOICES = ("auto", "synthetic", "real")
SEED = 1

CIFAR10_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR10_TEST_BATCH = "test_batch"
# Keras 3 unpacks the archive into the first, Keras 2 into the second.
CIFAR10_FOLDERS = ("cifar-10-batches-py-target/cifar-10-batches-py", "cifar-10-batches-py")


class DataError(Exception):
    """The data can't be had; the message is one plain sentence that says what to do."""


@dataclass(frozen=True, eq=False)
class Data:
    """A data set as a network is fed it.

    `x_*` are float32 from 0 to 1, samples first, channels last; `y_*` are
    uint8 class numbers, in the shape that `keras.datasets` gives them.
    `origin` is real or synthetic.
    """

    x_train: NDArray[np.float32]
    y_train: NDArray[np.uint8]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.uint8]
    origin: str


Pixels = NDArray[np.uint8]
Labels = NDArray[np.uint8]


@dataclass(frozen=True)
class ImageSet:
    """What is fixed about a data set of images, and how its cached copy is read.

    `find` looks for it in one `datasets` folder of Keras; `read` returns the
    data set at the path that `find` gave.
    """

    image_shape: tuple[int, ...]
    label_shape: tuple[int, ...]
    classes: int
    train_samples: int
    test_samples: int
    find: Callable[[Path], Path | None]
    read: Callable[[ImageSet, Path], Data]


def load(dataset: str, choice: str, fetch: Callable[[str], None] | None = None) -> Data:
    """Return a data set by its name in `keras.datasets`.

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
    images = DATASETS[dataset]
    if choice == "synthetic":
        return synthesize(images)
    path = find_cached(images)
    if path is None and choice == "auto":
        return synthesize(images)
    if path is None:
        (fetch or fetch_with_keras)(dataset)
        path = find_cached(images)
    if path is None:
        raise DataError(f"Keras fetched {dataset}, but it is not in {cache_folders()[0]}")
    return images.read(images, path)


def synthesize(images: ImageSet) -> Data:
    """Make random data of the same shape, type, range and size; the same every time."""
    random = np.random.SFC64(SEED)
    train, test = images.train_samples, images.test_samples
    return Data(
        x_train=_scale(_random_bytes(random, (train, *images.image_shape))),
        y_train=_random_bytes(random, (train, *images.label_shape)) % images.classes,
        x_test=_scale(_random_bytes(random, (test, *images.image_shape))),
        y_test=_random_bytes(random, (test, *images.label_shape)) % images.classes,
        origin="synthetic",
    )


def find_cached(images: ImageSet) -> Path | None:
    """Return where Keras's cache holds the data set, if it does."""
    found = (images.find(folder) for folder in cache_folders())
    return next((path for path in found if path is not None), None)


def cache_folders() -> list[Path]:
    """Return the folders where Keras keeps data sets, first choice first.

    Keras fetches into /tmp/.keras where it may not write to its home.
    """
    # Path.expanduser raises for a user without a home, as containers have them.
    home = Path(os.path.expanduser(os.environ.get("KERAS_HOME", "~/.keras")))  # noqa: PTH111
    folders = [home / "datasets"]
    if not os.access(home if _is_there(home) else home.parent, os.W_OK):
        folders.append(Path("/tmp/.keras/datasets"))
    return folders


def fetch_with_keras(dataset: str) -> None:
    """Have Keras download a data set into its cache and check its hash.

    Raises:
        DataError: it could not, most often for want of a network.
    """
    try:
        import keras

        getattr(keras.datasets, dataset).load_data()
    except Exception as error:
        raise DataError(
            f"the {dataset} data could not be fetched ({_one_line(error)}); "
            f"choose synthetic data, or put a copy into {cache_folders()[0]}"
        ) from error


def _random_bytes(random: np.random.SFC64, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    size = int(np.prod(shape))
    return random.random_raw(-(-size // 8)).view(np.uint8)[:size].reshape(shape)


def _scale(pixels: Pixels, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    return np.divide(pixels, np.float32(255), out=out, dtype=np.float32, order="C")


def _is_there(path: Path) -> bool:
    """Say whether a path can be reached; in a folder closed to us `Path.exists` raises."""
    return os.access(path, os.F_OK)


def _find_mnist(folder: Path) -> Path | None:
    path = folder / "mnist.npz"
    return path if _is_there(path) else None


def _read_mnist(images: ImageSet, path: Path) -> Data:
    with _reading(path), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not an npz archive, or only a part of one")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            train = _checked(images, archive["x_train"], archive["y_train"])
            test = _checked(images, archive["x_test"], archive["y_test"])
    return Data(_scale(train[0]), train[1], _scale(test[0]), test[1], origin="real")


def _find_cifar10(folder: Path) -> Path | None:
    for name in CIFAR10_FOLDERS:
        batches = (*CIFAR10_BATCHES, CIFAR10_TEST_BATCH)
        if any(_is_there(folder / name / batch) for batch in batches):
            return folder / name
    return None


def _read_cifar10(images: ImageSet, folder: Path) -> Data:
    x_train, y_train = _join([_read_cifar10_batch(images, folder / b) for b in CIFAR10_BATCHES])
    x_test, y_test = _join([_read_cifar10_batch(images, folder / CIFAR10_TEST_BATCH)])
    return Data(x_train, y_train, x_test, y_test, origin="real")


def _read_cifar10_batch(images: ImageSet, path: Path) -> tuple[Pixels, Labels]:
    """Read one batch: rows of 1024 red, then green, then blue pixels."""
    with _reading(path), path.open("rb") as file:
        batch = _BatchUnpickler(file, encoding="bytes").load()
        if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
            raise ValueError("it is not a batch of data and labels")
        height, width, channels = images.image_shape
        planes = _as_array(batch[b"data"]).reshape(-1, channels, height, width)
        labels = _as_array(batch[b"labels"]).reshape(-1, *images.label_shape)
        return _checked(images, planes.transpose(0, 2, 3, 1), labels)


def _join(batches: list[tuple[Pixels, Labels]]) -> tuple[NDArray[np.float32], Labels]:
    """Scale batches into one array, without a joined copy of their pixels."""
    samples = sum(len(pixels) for pixels, _ in batches)
    x = np.empty((samples, *batches[0][0].shape[1:]), np.float32)
    start = 0
    for pixels, _ in batches:
        _scale(pixels, out=x[start : start + len(pixels)])
        start += len(pixels)
    return x, np.concatenate([labels for _, labels in batches])


def _checked(images: ImageSet, pixels: Any, labels: Any) -> tuple[Pixels, Labels]:
    if pixels.dtype != np.uint8 or pixels.shape[1:] != images.image_shape:
        raise ValueError(f"its images are {pixels.dtype} of shape {pixels.shape}")
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape[1:] != images.label_shape:
        raise ValueError(f"its labels are {labels.dtype} of shape {labels.shape}")
    if not len(pixels) == len(labels) > 0:
        raise ValueError(f"it holds {len(pixels)} images and {len(labels)} labels")
    if labels.min() < 0 or labels.max() >= images.classes:
        raise ValueError(f"its labels run from {labels.min()} to {labels.max()}")
    return pixels, labels.astype(np.uint8, copy=False)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever a broken file makes NumPy, zipfile or pickle raise into one sentence."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{path} can't be read as data ({_one_line(error)}); "
            "remove the cached copy, or choose synthetic data"
        ) from error


def _one_line(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(told.split())[:300] or type(error).__name__


class _PickledType:
    """Stands in for `numpy.dtype` while a pickle is read: integers only."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        name = code.decode() if isinstance(code, bytes) else code
        if name not in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
            raise pickle.UnpicklingError(f"it holds an array of {name}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode() if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _PickledArray:
    """Stands in for `numpy.ndarray` while a pickle is read.

    NumPy itself must not be called from a pickle: `numpy.ndarray` takes any
    bytes for an array of objects, which are then followed as pointers.
    """

    def __init__(self, *_: object) -> None:
        """Take what `_reconstruct` is called with: an empty array, filled by its state."""
        self.values: NDArray[Any] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, content = state
        self._fill(content, kind, shape, "F" if column_major else "C")

    @classmethod
    def from_buffer(
        cls, content: bytes, kind: _PickledType, shape: tuple[int, ...], order: Any, *_: object
    ) -> _PickledArray:
        """Do what NumPy's `_frombuffer` does, which pickles of protocol 5 call."""
        array = cls()
        array._fill(content, kind, shape, order)
        return array

    def _fill(self, content: bytes, kind: _PickledType, shape: Any, order: Any) -> None:
        self.values = np.frombuffer(content, kind.dtype).reshape(shape, order=order)


def _as_array(unpickled: Any) -> NDArray[Any]:
    return unpickled.values if isinstance(unpickled, _PickledArray) else np.asarray(unpickled)


def _pickled_bytes(text: str, encoding: str) -> bytes:
    """Do what `_codecs.encode` does for bytes that Python 3 pickled in protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it holds bytes in {encoding}")
    return text.encode("latin1")


class _BatchUnpickler(pickle.Unpickler):
    """Reads bytes, numbers, lists, dicts and arrays of integers, and refuses all else."""

    _STAND_INS: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "ndarray"): _PickledArray,
        ("numpy", "dtype"): _PickledType,
        ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
        ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
        ("numpy.core.numeric", "_frombuffer"): _PickledArray.from_buffer,
        ("numpy._core.numeric", "_frombuffer"): _PickledArray.from_buffer,
        ("_codecs", "encode"): _pickled_bytes,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for what rebuilds an array."""
        if (module, name) not in self._STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not data")
        return self._STAND_INS[module, name]


DATASETS = {
    "mnist": ImageSet(
        image_shape=(28, 28),
        label_shape=(),
        classes=10,
        train_samples=60_000,
        test_samples=10_000,
        find=_find_mnist,
        read=_read_mnist,
    ),
    "cifar10": ImageSet(
        image_shape=(32, 32, 3),
        label_shape=(1,),
        classes=10,
        train_samples=50_000,
        test_samples=10_000,
        find=_find_cifar10,
        read=_read_cifar10,
    ),
}
