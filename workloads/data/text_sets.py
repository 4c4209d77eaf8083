"""Sets of text: IMDB's reviews as word ids, Nietzsche's writings as one-hot characters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.catalog import ESTIMATED_VOCABULARY
from workloads.data.dataset import SEED, Data, DataError

WORDS = 20_000
"""Ids of words: the most frequent ones, and the three that come before them."""

# As `keras.datasets.imdb.load_data` numbers words; 0 pads.
START, UNKNOWN, FIRST_WORD = 1, 2, 3

# Of the 88,584 words that IMDB has, the n-th comes as often as 1 / n to this power. Real text
# is less steep, but its words depend on each other. This gives as many different pairs as the
# estimated vocabulary has room for.
DIFFERENT_WORDS = 88_584
STEEPNESS = 1.188

TEXT_URL = "https://s3.amazonaws.com/text-datasets/nietzsche.txt"


@dataclass(frozen=True)
class Reviews:
    """Reviews as word ids, one after the other; review i is `ids[ends[i - 1] : ends[i]]`."""

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def last(self, length: int) -> NDArray[np.int32]:
        """Return the last `length` ids of each review, zeros before those that have fewer."""
        rows = np.zeros((len(self), length), np.int32)
        start = 0
        for row, end in zip(rows, self.ends.tolist(), strict=True):
            kept = min(length, end - start)
            row[length - kept :] = self.ids[end - kept : end]
            start = end
        return rows

    def pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return each two neighbouring words as one number, and the reviews they are in."""
        review = np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0))
        together = np.flatnonzero(review[:-1] == review[1:])
        numbers = self.ids[together] * WORDS + self.ids[together + 1]
        return numbers, review[together]

    def with_bigrams(self, known: NDArray[np.int32]) -> Reviews:
        """Append to each review the ids of its pairs that are in `known`, which is sorted."""
        numbers, review = self.pairs()
        # Sorted numbers are found several times as fast, the sorting included.
        order = np.argsort(numbers)
        place = np.empty(len(numbers), np.intp)
        place[order] = np.searchsorted(known, numbers[order])
        found = known[np.minimum(place, len(known) - 1)] == numbers
        appended = np.bincount(review[found], minlength=len(self))
        ends = self.ends + np.cumsum(appended)
        ids = np.empty(ends[-1], np.int32)
        is_word = np.repeat(
            np.tile([True, False], len(self)),
            np.stack([np.diff(self.ends, prepend=0), appended], axis=1).reshape(-1),
        )
        ids[is_word] = self.ids
        ids[~is_word] = WORDS + 1 + place[found]
        return Reviews(ids, ends)


Labelled = tuple[Reviews, NDArray[np.uint8]]


@dataclass(frozen=True)
class Imdb:
    """Film reviews, and whether they praise.

    Attributes:
        length: ids of a sample: a review's last ones.
        bigrams: append an id for each pair of neighbouring words, if the
            training set has that pair.
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
        """Make random reviews whose words are as unequally frequent as real ones."""
        random = np.random.Generator(np.random.SFC64(SEED))
        train, test = (_random_reviews(random, n) for n in (self.train_samples, self.test_samples))
        y_train, y_test = (
            random.integers(0, 2, n, np.uint8) for n in (self.train_samples, self.test_samples)
        )
        return self._data((train, y_train), (test, y_test), "synthetic")

    def _data(self, of_training: Labelled, of_testing: Labelled, origin: str) -> Data:
        (train, y_train), (test, y_test) = of_training, of_testing
        vocabulary = None
        if self.bigrams:
            known = _different(train.pairs()[0])
            vocabulary = WORDS + 1 + len(known)
            if origin == "synthetic":
                vocabulary = ESTIMATED_VOCABULARY
                known = known[: vocabulary - WORDS - 1]
            train, test = train.with_bigrams(known), test.with_bigrams(known)
        x_train, x_test = train.last(self.length), test.last(self.length)
        return Data(x_train, y_train, x_test, y_test, origin, vocabulary=vocabulary)


def _different(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Do what `numpy.unique` does, several times as fast: it hashes so many numbers."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def reviews_of(ranks: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> Reviews:
    """Number words as `keras.datasets.imdb.load_data` does, and put the start before each review.

    Args:
        ranks: of all reviews, one after the other: 1 is the most frequent word.
        lengths: words in each review.
    """
    ends = np.cumsum(lengths + 1)
    ids = np.full(ends[-1], START, np.int32)
    is_word = np.ones(len(ids), bool)
    is_word[ends - lengths - 1] = False
    numbered = ranks + FIRST_WORD
    ids[is_word] = np.where(numbered < WORDS, numbered, UNKNOWN)
    return Reviews(ids, ends)


def _random_reviews(random: np.random.Generator, count: int) -> Reviews:
    """Make reviews of a median of 174 words and a mean of about 233, as IMDB's."""
    lengths = np.clip(random.lognormal(np.log(174), 0.76, count), 10, 2_500).astype(np.int64)
    return reviews_of(random_ranks(random, int(lengths.sum())), lengths)


def random_ranks(random: np.random.Generator, count: int) -> NDArray[np.int32]:
    """Return so many words, each by its rank: 1 is the most frequent."""
    # The distribution function of a density of 1 / x to the power of STEEPNESS, turned around.
    power = 1 - STEEPNESS
    last = (DIFFERENT_WORDS + 1) ** power
    ranks: NDArray[np.float64] = (1 + random.random(count) * (last - 1)) ** (1 / power)
    return ranks.astype(np.int32)


def _joined(reviews: Iterable[list[int]], labels: NDArray[np.integer[Any]]) -> Labelled:
    """Return reviews as Keras loads them, each a list of ids."""
    lists = list(reviews)
    ids = np.fromiter(chain.from_iterable(lists), np.int32)
    return Reviews(ids, np.cumsum([len(words) for words in lists])), labels.astype(np.uint8)


@dataclass(frozen=True)
class Nietzsche:
    """Every third run of `length` characters of a text, and the character that comes next."""

    length: int
    characters: int
    text_length: int
    step: int = 3
    name: str = "nietzsche"
    cached_as: str = "nietzsche.txt"

    def read(self) -> Data:
        import keras

        # Its hash is published nowhere.
        path = Path(keras.utils.get_file("nietzsche.txt", origin=TEXT_URL))
        text = path.read_text("utf-8").lower()
        different, codes = np.unique(
            np.frombuffer(text.encode("utf-32-le"), "<u4"), return_inverse=True
        )
        if len(codes) <= self.length or len(different) > self.characters:
            raise DataError(
                f"{path} holds {len(codes):,} characters, {len(different):,} of them different: "
                "it is another text; remove it, or choose synthetic data"
            )
        return self._data(codes.astype(np.uint8), "real")

    def synthesize(self) -> Data:
        """Make a random text whose characters are as unequally frequent as real ones."""
        random = np.random.Generator(np.random.SFC64(SEED))
        frequency = 1 / np.arange(1, self.characters + 1)
        cumulated = np.cumsum(frequency) / np.sum(frequency)
        codes = np.searchsorted(cumulated, random.random(self.text_length)).astype(np.uint8)
        return self._data(codes, "synthetic")

    def _data(self, codes: NDArray[np.uint8], origin: str) -> Data:
        runs = np.lib.stride_tricks.sliding_window_view(codes[:-1], self.length)[:: self.step]
        following = codes[self.length :: self.step]
        every = np.arange(self.characters, dtype=np.uint8)
        # As float32 this would take 1.8 GB.
        x, y = runs[:, :, None] == every, following[:, None] == every
        return Data(x, y, x[:0], y[:0], origin)


@dataclass(frozen=True)
class RepeatedTexts:
    """A few random texts as ids of words, which stand for any number.

    Attributes:
        length: words of a text; none is padded.
        words: different ones.
        next_word: label each word with the one that follows; else a text with one of two classes.
    """

    length: int
    words: int
    next_word: bool
    train_samples: int = 64
    test_samples: int = 0
    name: str = "text"
    cached_as: None = None

    def read(self) -> Data:
        """Refuse: there is nowhere to load it from."""
        raise DataError(
            "there is no real text for this network: it is timed on synthetic text; choose "
            "synthetic data"
        )

    def synthesize(self) -> Data:
        """Make texts whose words are as unequally frequent as real ones; the same every time."""
        random = np.random.Generator(np.random.SFC64(SEED))
        shape = self.train_samples, self.length + 1
        ids = random_ranks(random, shape[0] * shape[1]).reshape(shape) % self.words
        x, y = ids[:, :-1], ids[:, 1:]
        if not self.next_word:
            y = random.integers(0, 2, self.train_samples, np.uint8)
        return Data(x, y, x[:0], y[:0], "synthetic", repeated=True)
