import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.catalog import ESTIMATED_VOCABULARY
from workloads.data.dataset import DataError
from workloads.data.load import DATASETS, load
from workloads.data.text_sets import Imdb, RepeatedTexts, reviews_of

WORDS = DATASETS["imdb-words"]
BIGRAMS = DATASETS["imdb-bigrams"]
NIETZSCHE = DATASETS["nietzsche"]

TRAIN = [[1, 2, 3, 2, 3], [30_000, 5, 1], [7], [19_996, 19_997]]
TEST = [[2, 3, 1], [5, 5]]


@pytest.fixture
def keras(monkeypatch):
    """A stand-in for Keras, whose cache holds nothing."""
    stand_in = SimpleNamespace(datasets=SimpleNamespace(imdb=None), utils=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "keras", stand_in)
    return stand_in


def let_keras_load(keras, train=TRAIN, test=TEST):
    """Have Keras load reviews of these ranks of words."""

    def load_data(num_words):
        assert num_words == 20_000
        reviews = [np.array([numbered(ranks) for ranks in part], object) for part in (train, test)]
        return (reviews[0], np.arange(len(train)) % 2), (reviews[1], np.arange(len(test)) % 2)

    keras.datasets.imdb = SimpleNamespace(load_data=load_data)


def numbered(ranks):
    """Number the words of one review as `keras.datasets.imdb.load_data` does."""
    return [1, *(rank + 3 if rank + 3 < 20_000 else 2 for rank in ranks)]


def padded(ids, length):
    """Keep the last ids, and put zeros before too few of them."""
    return ([0] * length + ids)[-length:]


def with_bigrams(review, known):
    return review + [known[pair] for pair in pairwise(review) if pair in known]


def test_reviews_are_numbered_cut_and_padded(keras):
    let_keras_load(keras)
    read = load("imdb-words", "real")

    assert read.origin == "real"
    assert read.vocabulary is None
    assert read.x_train.tolist() == [padded(numbered(ranks), 100) for ranks in TRAIN]
    assert read.x_test.tolist() == [padded(numbered(ranks), 100) for ranks in TEST]
    assert (read.x_train.dtype, read.y_train.dtype) == (np.int32, np.uint8)
    assert (read.y_train.tolist(), read.y_test.tolist()) == ([0, 1, 0, 1], [0, 1])


some_reviews = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=8), min_size=1, max_size=6)


@given(train=some_reviews, test=some_reviews, length=st.integers(1, 20))
def test_any_reviews_get_the_bigrams_that_a_plain_loop_gives(train, test, length):
    numbered_train, numbered_test = ([numbered(r) for r in part] for part in (train, test))
    pairs = sorted({pair for review in numbered_train for pair in pairwise(review)})
    known = {pair: 20_001 + place for place, pair in enumerate(pairs)}
    whole = [
        reviews_of(np.concatenate([np.array(r) for r in part]), np.array([len(r) for r in part]))
        for part in (train, test)
    ]
    labels = [np.zeros(len(part), np.uint8) for part in (train, test)]

    parts = zip(whole, labels, strict=True)
    data = Imdb(length, bigrams=True)._data(*parts, "real")

    assert data.vocabulary == 20_001 + len(pairs)
    assert data.x_train.tolist() == [padded(with_bigrams(r, known), length) for r in numbered_train]
    assert data.x_test.tolist() == [padded(with_bigrams(r, known), length) for r in numbered_test]


def test_synthetic_reviews_are_as_long_and_as_unequal_as_real_ones():
    made = WORDS.synthesize()
    assert (made.x_train.shape, made.x_test.shape) == ((25_000, 100), (25_000, 100))
    assert (made.x_train.dtype, made.y_train.dtype) == (np.int32, np.uint8)
    assert made.x_train.min() == 0
    assert 19_000 < made.x_train.max() < 20_000
    assert made.y_train.mean() == pytest.approx(0.5, abs=0.02)
    # The frequency of the n-th most frequent word falls as a power of n.
    words = made.x_train[made.x_train >= 4]
    frequency = np.bincount(words - 4) / len(words)
    assert 0.05 < frequency[0] < 0.2
    assert 7 < frequency[0] / frequency[9] < 25
    assert 80 < frequency[0] / frequency[90:110].mean() < 500
    # As many reviews are shorter than a sample as in the real set: about one in ten.
    assert 0.05 < np.mean(made.x_train[:, 0] == 0) < 0.35


@pytest.mark.slow
def test_synthetic_pairs_of_words_nearly_fill_the_estimated_vocabulary():
    made = BIGRAMS.synthesize()
    assert made.vocabulary == ESTIMATED_VOCABULARY
    assert 0.97 * ESTIMATED_VOCABULARY < made.x_train.max() + 1 <= ESTIMATED_VOCABULARY
    assert made.x_test.max() < ESTIMATED_VOCABULARY
    assert (made.x_train.shape, made.x_train.dtype) == ((25_000, 400), np.int32)
    is_pair = made.x_train > 20_000
    assert 0.3 < is_pair.mean() < 0.7
    # Some pairs come far more often than others, and most come once or a few times.
    times = np.bincount(made.x_train[is_pair] - 20_001)
    times = np.sort(times[times > 0])
    assert times[-1] > 10_000
    assert np.median(times) <= 3


def spelled(one_hot, alphabet):
    return "".join(alphabet[place] for place in one_hot.argmax(axis=-1))


@pytest.mark.parametrize("end", range(4))
def test_every_third_run_of_forty_characters_is_a_sample(keras, tmp_path, end):
    text = "PREFACE\n\nSUPPOSING that Truth is a woman—what then? Is there not gröund" + "!" * end
    path = tmp_path / "nietzsche.txt"
    path.write_text(text, encoding="utf-8")
    keras.utils.get_file = lambda name, origin: str(path)
    read = load("nietzsche", "real")

    text = text.lower()
    alphabet = sorted(set(text))
    starts = range(0, len(text) - 40, 3)
    assert read.x_train.shape == (len(starts), 40, 57)
    assert read.y_train.shape == (len(starts), 57)
    assert (read.x_train.dtype, read.y_train.dtype) == (np.bool_, np.bool_)
    assert (read.x_train.sum(axis=2) == 1).all()
    assert (read.y_train.sum(axis=1) == 1).all()
    for sample, start in enumerate(starts):
        assert spelled(read.x_train[sample], alphabet) == text[start : start + 40]
        assert alphabet[read.y_train[sample].argmax()] == text[start + 40]
    assert len(read.x_test) == 0
    assert read.origin == "real"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds 0 characters"),
        (b"a" * 40, "holds 40 characters, 1 of them different"),
        (b"\xff" * 100, "invalid start byte"),
        (bytes(range(32, 127)), "69 of them different"),
    ],
)
def test_another_text_is_refused_by_name(keras, tmp_path, content, reason):
    path = tmp_path / "nietzsche.txt"
    path.write_bytes(content)
    keras.utils.get_file = lambda name, origin: str(path)
    with pytest.raises(DataError, match=reason):
        load("nietzsche", "real")


@pytest.mark.slow
def test_synthetic_text_has_as_many_samples_as_the_real_and_takes_a_byte_a_value():
    made = NIETZSCHE.synthesize()
    assert made.x_train.shape == (200_285, 40, 57)
    assert made.x_train.dtype == np.bool_
    assert made.x_train.nbytes < 500e6
    assert (made.x_train.sum(axis=2, dtype=np.uint8) == 1).all()
    frequency = np.sort(made.y_train.mean(axis=0))
    assert frequency[0] > 0
    assert frequency[-1] > 20 * frequency[0]
    # A sample goes on three characters after the one before it.
    assert np.array_equal(made.x_train[:-1, 3:], made.x_train[1:, :-3])
    assert np.array_equal(made.y_train[:-1], made.x_train[1:, -3])


def test_repeated_texts_are_labelled_with_the_words_that_follow_or_with_two_classes():
    following = RepeatedTexts(length=30, words=500, next_word=True, train_samples=40).synthesize()
    assert (following.repeated, following.origin) == (True, "synthetic")
    assert following.x_train.shape == following.y_train.shape == (40, 30)
    assert np.array_equal(following.x_train[:, 1:], following.y_train[:, :-1])
    assert 0 <= following.x_train.min() < following.x_train.max() < 500
    # As unequally frequent as words are: uniform ones would come 2.4 times each.
    assert np.bincount(following.x_train.flat).max() > 50
    classes = RepeatedTexts(length=30, words=500, next_word=False, train_samples=40).synthesize()
    assert set(classes.y_train.tolist()) == {0, 1}
    with pytest.raises(DataError, match="choose synthetic data"):
        RepeatedTexts(length=30, words=500, next_word=True).read()
