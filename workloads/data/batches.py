"""Repeated batches, and batches of augmented images."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from workloads.data.feed import SEED, Feed

LARGEST_SHIFT = 0.1
"""A share of the height and of the width, in either direction."""


def repeated_batches(x: NDArray[Any], y: NDArray[Any], batch_size: int, num_batches: int) -> Any:
    """Return a few batches over and over, in a form that the backend doesn't copy.

    TensorFlow copies any input but a `tf.data.Dataset` at every step: 10 ms for 64 images of
    224×224. If there are fewer samples than a batch holds, samples are repeated within it.
    """
    if len(x) < batch_size:
        rows = np.arange(batch_size) % len(x)
        x, y = x[rows], y[rows]
    starts = range(0, len(x) - batch_size + 1, batch_size)
    batches = [(x[i : i + batch_size], y[i : i + batch_size]) for i in starts]
    if keras.backend.backend() != "tensorflow":
        return RepeatedBatches(batches, num_batches)
    import tensorflow

    datasets = [tensorflow.data.Dataset.from_tensors(batch) for batch in batches]
    joined = functools.reduce(lambda joined, dataset: joined.concatenate(dataset), datasets)
    return joined.repeat().take(num_batches)


def untuned(feed: Feed, shuffle: bool = False) -> Feed:
    """Return the same batches on TensorFlow without tf.data's autotuning.

    At the end of every epoch, TensorFlow waits up to seconds for the thread that tunes its
    pipeline. A `PyDataset` is returned unchanged.

    Args:
        feed: arrays, or batches of them.
        shuffle: shuffle the samples of arrays, as Keras would.
    """
    import tensorflow

    dataset = feed.x
    if feed.y is not None:
        # Keras has no public access to its pipeline for arrays, and a pipeline of ours would
        # have another speed.
        try:
            from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

            adapter = ArrayDataAdapter(feed.x, feed.y, batch_size=feed.batch_size, shuffle=shuffle)
            dataset = adapter.get_tf_dataset()
        except (ImportError, AttributeError, TypeError):
            return feed
        dataset = dataset.apply(tensorflow.data.experimental.assert_cardinality(feed.steps))
    if not isinstance(dataset, tensorflow.data.Dataset):
        return feed
    options = tensorflow.data.Options()
    options.autotune.enabled = False
    return Feed(dataset.with_options(options), None, feed.batch_size, feed.samples)


class RepeatedBatches(keras.utils.PyDataset):  # type: ignore[misc]
    """A few batches over and over."""

    def __init__(self, batches: list[tuple[NDArray[Any], NDArray[Any]]], num_batches: int) -> None:
        super().__init__()
        self._batches = batches
        self._num_batches = num_batches

    @property
    def num_batches(self) -> int:
        return self._num_batches

    def __getitem__(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._batches[index % len(self._batches)]


class AugmentedBatches(keras.utils.PyDataset):  # type: ignore[misc]
    """Whole batches in a new order every epoch, each image shifted and flipped at random."""

    def __init__(
        self, x: NDArray[np.float32], y: NDArray[Any], batch_size: int, num_batches: int
    ) -> None:
        super().__init__()
        self._x = x
        self._y = y
        self._batch_size = batch_size
        self._num_batches = num_batches
        self._random = np.random.default_rng(SEED)
        self._order = self._random.permutation(len(x))

    @property
    def num_batches(self) -> int:
        return self._num_batches

    def __getitem__(self, index: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        start = index * self._batch_size
        rows = self._order[start : start + self._batch_size]
        return shifted_and_flipped(self._x[rows], self._random), self._y[rows]

    def on_epoch_end(self) -> None:
        self._random.shuffle(self._order)


def shifted_and_flipped(
    images: NDArray[np.float32], random: np.random.Generator
) -> NDArray[np.float32]:
    """Shift each image by up to a tenth of its size, and mirror half of them at random.

    Shifts by a fraction of a pixel interpolate between neighbours; pixels from outside repeat
    the edge.
    """
    count, height, width, _ = images.shape
    rows, row_part = _moved(height, random.uniform(-LARGEST_SHIFT, LARGEST_SHIFT, (count,)))
    columns, column_part = _moved(width, random.uniform(-LARGEST_SHIFT, LARGEST_SHIFT, (count,)))
    image = np.arange(count)[:, None, None]
    # One more row and column than the image has, to interpolate between.
    shifted = images[image, rows[:, :, None], columns[:, None, :]]
    shifted = shifted[:, :-1] * (1 - row_part) + shifted[:, 1:] * row_part
    shifted = shifted[:, :, :-1] * (1 - column_part) + shifted[:, :, 1:] * column_part
    flipped = random.random(count) < 0.5
    shifted[flipped] = shifted[flipped, :, ::-1]
    return shifted


def _moved(
    length: int, shifts: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the source indices of `length + 1` pixels for each shift, and the next one's share."""
    whole = np.floor(shifts * length)
    sources = np.clip(np.arange(length + 1) + whole[:, None], 0, length - 1).astype(np.intp)
    part = (shifts * length - whole).astype(np.float32)
    return sources, part[:, None, None, None]
