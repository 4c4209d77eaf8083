"""Text data sets: IMDB's reviews as word ids, Nietzsche's writings as one-hot characters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.catalog import ESTIMATED_VOCABULARY
from workloads.data.dataset import Data, DataError
from workloads.data.feed import SEED

WORDS = 20_000
"""The number of word ids: the most frequent words, after three special ids."""

# The special ids of `keras.datasets.imdb.load_data`; 0 pads.
START, UNKNOWN, FIRST_WORD = 1, 2, 3

# The frequency of the n-th word of IMDB is 1 / n to the power of STEEPNESS. Real text is less
# steep, but its words depend on each other. This yields as many different pairs as fit the
# estimated vocabulary.
DIFFERENT_WORDS = 88_584
STEEPNESS = 1.188

TEXT_URL = "https://s3.amazonaws.com/text-datasets/nietzsche.txt"


@dataclass(frozen=True)
class Reviews:
    """Concatenated reviews as word ids; review i is `ids[ends[i - 1] : ends[i]]`."""

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def last(self, length: int) -> NDArray[np.int32]:
        """Return the last `length` ids of each review, padded with zeros at the front."""
        rows = np.zeros((len(self), length), np.int32)
        start = 0
        for row, end in zip(rows, self.ends.tolist(), strict=True):
            count = min(length, end - start)
            row[length - count :] = self.ids[end - count : end]
            start = end
        return rows

    def pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return each pair of neighbouring words as one number, and the index of its review."""
        review = np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0))
        together = np.flatnonzero(review[:-1] == review[1:])
        numbers = self.ids[together] * WORDS + self.ids[together + 1]
        return numbers, review[together]

    def with_bigrams(self, bigrams: NDArray[np.int32]) -> Reviews:
        """Append to each review the ids of its pairs that are in `bigrams`, which is sorted."""
        numbers, review = self.pairs()
        # Searching for sorted numbers is several times as fast, sorting included.
        order = np.argsort(numbers)
        index = np.empty(len(numbers), np.intp)
        index[order] = np.searchsorted(bigrams, numbers[order])
        is_bigram = bigrams[np.minimum(index, len(bigrams) - 1)] == numbers
        appended = np.bincount(review[is_bigram], minlength=len(self))
        ends = self.ends + np.cumsum(appended)
        ids = np.empty(ends[-1], np.int32)
        is_word = np.repeat(
            np.tile([True, False], len(self)),
            np.stack([np.diff(self.ends, prepend=0), appended], axis=1).reshape(-1),
        )
        ids[is_word] = self.ids
        ids[~is_word] = WORDS + 1 + index[is_bigram]
        return Reviews(ids, ends)


Labelled = tuple[Reviews, NDArray[np.uint8]]


@dataclass(frozen=True)
class Imdb:
    """Film reviews, labelled as positive or negative.

    Attributes:
        length: the ids of a sample, the last ones of a review.
        bigrams: append an id for each pair of neighbouring words that the
            training set has.
    """

    length: int
    bigrams: bool
    train_samples: int = 25_000
    test_samples: int = 25_000
    name: str = "imdb"
    cached_as: str = "imdb.npz"

    def read(self) -> Data:
        import keras

        train, test = keras.datasets.imdb.load_data(num_words=WORDS)
        return self._data(_joined(*train), _joined(*test), "real")

    def synthesize(self) -> Data:
        """Return random reviews with realistic word frequencies, labelled by their words."""
        random = np.random.Generator(np.random.SFC64(SEED))
        train, test = (_random_reviews(random, n) for n in (self.train_samples, self.test_samples))
        weights = random.standard_normal(WORDS, np.float32)
        y_train, y_test = (
            class_of(reviews.last(self.length), weights) for reviews in (train, test)
        )
        return self._data((train, y_train), (test, y_test), "synthetic")

    def _data(self, training: Labelled, testing: Labelled, origin: str) -> Data:
        (train, y_train), (test, y_test) = training, testing
        vocabulary = None
        if self.bigrams:
            bigrams = _unique(train.pairs()[0])
            vocabulary = WORDS + 1 + len(bigrams)
            if origin == "synthetic":
                vocabulary = ESTIMATED_VOCABULARY
                bigrams = bigrams[: vocabulary - WORDS - 1]
            train, test = train.with_bigrams(bigrams), test.with_bigrams(bigrams)
        x_train, x_test = train.last(self.length), test.last(self.length)
        return Data(x_train, y_train, x_test, y_test, origin, vocabulary=vocabulary)


def _unique(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return `numpy.unique(numbers)`, several times as fast: NumPy hashes large arrays."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def reviews_of(ranks: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> Reviews:
    """Number words like `keras.datasets.imdb.load_data`, with START before each review.

    Args:
        ranks: the words of all reviews; 1 is the most frequent word.
        lengths: the number of words of each review.
    """
    ends = np.cumsum(lengths + 1)
    ids = np.full(ends[-1], START, np.int32)
    is_word = np.ones(len(ids), bool)
    is_word[ends - lengths - 1] = False
    numbered = ranks + FIRST_WORD
    ids[is_word] = np.where(numbered < WORDS, numbered, UNKNOWN)
    return Reviews(ids, ends)


def _random_reviews(random: np.random.Generator, count: int) -> Reviews:
    """Return random reviews with IMDB's median of 174 words and mean of about 233."""
    lengths = np.clip(random.lognormal(np.log(174), 0.76, count), 10, 2_500).astype(np.int64)
    return reviews_of(random_ranks(random, int(lengths.sum())), lengths)


def random_ranks(random: np.random.Generator, count: int) -> NDArray[np.int32]:
    """Return the ranks of `count` random words; 1 is the most frequent."""
    # The inverse of the distribution function of a density of 1 / x to the power of STEEPNESS.
    power = 1 - STEEPNESS
    last = (DIFFERENT_WORDS + 1) ** power
    ranks: NDArray[np.float64] = (1 + random.random(count) * (last - 1)) ** (1 / power)
    return ranks.astype(np.int32)


def class_of(ids: NDArray[np.int32], weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the class of each row of word ids, 0 or 1: whether its words weigh more than most."""
    sums = weights[ids].sum(axis=1)
    classes: NDArray[np.uint8] = (sums > np.median(sums)).astype(np.uint8)
    return classes


def with_repeats(random: np.random.Generator, ids: NDArray[Any]) -> NDArray[Any]:
    """Replace half of the ids by the one before: half of what follows can be learned."""
    drawn = np.arange(ids.shape[-1]) * random.integers(0, 2, ids.shape)
    return np.take_along_axis(ids, np.maximum.accumulate(drawn, axis=-1), axis=-1)


def _joined(reviews: Iterable[list[int]], labels: NDArray[np.integer[Any]]) -> Labelled:
    """Return labelled reviews from Keras's lists of ids."""
    lists = list(reviews)
    ids = np.fromiter(chain.from_iterable(lists), np.int32)
    return Reviews(ids, np.cumsum([len(words) for words in lists])), labels.astype(np.uint8)


@dataclass(frozen=True)
class Nietzsche:
    """Every third window of `length` characters of a text, labelled with the next character."""

    length: int
    characters: int
    text_length: int
    step: int = 3
    name: str = "nietzsche"
    cached_as: str = "nietzsche.txt"

    def read(self) -> Data:
        import keras

        # No hash of it is published.
        path = Path(keras.utils.get_file("nietzsche.txt", origin=TEXT_URL))
        text = path.read_text("utf-8").lower()
        characters, codes = np.unique(
            np.frombuffer(text.encode("utf-32-le"), "<u4"), return_inverse=True
        )
        if len(codes) <= self.length or len(characters) > self.characters:
            raise DataError(
                f"{path} holds {len(codes):,} characters, {len(characters):,} of them different: "
                "it is another text; remove it, or choose synthetic data"
            )
        return self._data(codes.astype(np.uint8), "real")

    def synthesize(self) -> Data:
        """Return a random text with realistic character frequencies, in part predictable."""
        random = np.random.Generator(np.random.SFC64(SEED))
        frequency = 1 / np.arange(1, self.characters + 1)
        cumulated = np.cumsum(frequency) / np.sum(frequency)
        codes = np.searchsorted(cumulated, random.random(self.text_length)).astype(np.uint8)
        return self._data(with_repeats(random, codes), "synthetic")

    def _data(self, codes: NDArray[np.uint8], origin: str) -> Data:
        windows = np.lib.stride_tricks.sliding_window_view(codes[:-1], self.length)[:: self.step]
        next_codes = codes[self.length :: self.step]
        all_codes = np.arange(self.characters, dtype=np.uint8)
        # As float32 this would take 1.8 GB.
        x, y = windows[:, :, None] == all_codes, next_codes[:, None] == all_codes
        return Data(x, y, x[:0], y[:0], origin)


@dataclass(frozen=True)
class RepeatedTexts:
    """A few random texts as word ids, repeated without end.

    Attributes:
        length: words of every text, without padding.
        words: size of the vocabulary.
        next_word: label each word with the next one, instead of each text with one of two classes.
    """

    length: int
    words: int
    next_word: bool
    train_samples: int = 64
    test_samples: int = 0
    name: str = "text"
    cached_as: None = None

    def read(self) -> Data:
        """Refuse: it can't be fetched."""
        raise DataError(
            "there is no real text for this network: it is timed on synthetic text; choose "
            "synthetic data"
        )

    def synthesize(self) -> Data:
        """Return the same random texts every time, with realistic word frequencies."""
        random = np.random.Generator(np.random.SFC64(SEED))
        shape = self.train_samples, self.length + 1
        ids = random_ranks(random, shape[0] * shape[1]).reshape(shape) % self.words
        if self.next_word:
            ids = with_repeats(random, ids)
        x, next_ids = ids[:, :-1], ids[:, 1:]
        classes = class_of(x, random.standard_normal(self.words, np.float32))
        y = next_ids if self.next_word else classes
        return Data(x, y, x[:0], y[:0], "synthetic", repeated=True)
