import io
import os
import pickle
import zipfile
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.catalog import ESTIMATED_VOCABULARY, WORKLOADS
from workloads.data.dataset import DataError
from workloads.data.load import DATASETS, load
from workloads.data.text_sets import Imdb, reviews_of

WORDS = DATASETS["imdb-words"]
BIGRAMS = DATASETS["imdb-bigrams"]
NIETZSCHE = DATASETS["nietzsche"]

TRAIN = [[1, 2, 3, 2, 3], [30_000, 5, 1], [7], [19_996, 19_997]]
TEST = [[2, 3, 1], [5, 5]]


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """Keras's folder of data sets, with nothing in it."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets"
    folder.mkdir()
    return folder


def lists(*values):
    """Return an array of lists as `imdb.npz` holds them."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def npy(array, protocol=4):
    """Return an array as a member of an npz archive, its objects pickled in `protocol`."""
    file = io.BytesIO()
    if array.dtype != object:
        np.lib.format.write_array(file, array)
        return file.getvalue()
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header)
    pickle.dump(array, file, protocol)
    return file.getvalue()


def write_imdb(path, protocol=4, **changes):
    arrays = {
        "x_train": lists(*TRAIN),
        "y_train": np.array([1, 0, 0, 1]),
        "x_test": lists(*TEST),
        "y_test": np.array([0, 1]),
    } | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = array if isinstance(array, bytes) else npy(array, protocol)
            archive.writestr(f"{name}.npy", content)


def numbered(ranks):
    """Number the words of one review as `keras.datasets.imdb.load_data` does."""
    return [1, *(rank + 3 if rank + 3 < 20_000 else 2 for rank in ranks)]


def padded(ids, length):
    """Keep the last ids, and put zeros before too few of them."""
    return ([0] * length + ids)[-length:]


def with_bigrams(review, known):
    return review + [known[pair] for pair in pairwise(review) if pair in known]


def test_reviews_are_numbered_cut_and_padded(datasets):
    write_imdb(datasets / "imdb.npz")
    read = load("imdb-words", "auto")

    assert read.origin == "real"
    assert read.vocabulary is None
    assert read.x_train.tolist() == [padded(numbered(ranks), 100) for ranks in TRAIN]
    assert read.x_test.tolist() == [padded(numbered(ranks), 100) for ranks in TEST]
    assert (read.x_train.dtype, read.y_train.dtype) == (np.int32, np.uint8)
    assert (read.y_train.tolist(), read.y_test.tolist()) == ([1, 0, 0, 1], [0, 1])


def test_a_long_review_keeps_its_end(datasets):
    write_imdb(datasets / "imdb.npz", x_train=lists([*range(1, 301)], [1], [1], [1]))
    assert load("imdb-words", "auto").x_train[0].tolist() == [*range(204, 304)]


def test_pairs_of_words_of_the_training_set_get_ids_of_their_own(datasets):
    write_imdb(datasets / "imdb.npz")
    read = load("imdb-bigrams", "auto")

    train, test = ([numbered(ranks) for ranks in part] for part in (TRAIN, TEST))
    pairs = sorted({pair for review in train for pair in pairwise(review)})
    known = {pair: 20_001 + place for place, pair in enumerate(pairs)}
    assert read.x_train.tolist() == [padded(with_bigrams(r, known), 400) for r in train]
    assert read.x_test.tolist() == [padded(with_bigrams(r, known), 400) for r in test]
    assert read.vocabulary == 20_001 + len(pairs) == read.x_train.max() + 1
    workload = WORKLOADS["imdb-fasttext"].with_vocabulary(read.vocabulary)
    assert workload.parameters == 50 * (20_001 + len(pairs)) + 51


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

    assert data.x_train.tolist() == [padded(with_bigrams(r, known), length) for r in numbered_train]
    assert data.x_test.tolist() == [padded(with_bigrams(r, known), length) for r in numbered_test]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_reviews_of_every_pickle_protocol_that_numpy_writes_are_read(datasets, protocol):
    write_imdb(datasets / "imdb.npz", protocol)
    assert load("imdb-words", "auto").x_test[1].tolist() == padded([1, 8, 8], 100)


def test_reviews_as_numpy_writes_them_are_read(datasets):
    np.savez(
        datasets / "imdb.npz",
        x_train=lists(*TRAIN),
        y_train=np.array([1, 0, 0, 1]),
        x_test=lists(*TEST),
        y_test=np.array([0, 1]),
    )
    assert load("imdb-words", "auto").x_test[1].tolist() == padded([1, 8, 8], 100)


class Calls:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_reviews_that_want_to_run_code_are_refused_and_run_nothing(datasets, tmp_path, protocol):
    made = tmp_path / "made"
    for call in (Calls(os.mkdir, str(made)), Calls(eval, f"__import__('os').mkdir('{made}')")):
        write_imdb(datasets / "imdb.npz", protocol, x_test=lists(call, [1]))
        with pytest.raises(DataError, match="which is not data"):
            load("imdb-words", "auto")
        assert not made.exists()


def object_array_of(content):
    """Return a member that says it is an array of objects, with this pickle in it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "|O", "fortran_order": False, "shape": (2,)}
    )
    return file.getvalue() + pickle.dumps(content, 4)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x_test": np.array([[1, 2], [3, 4]])}, "it is an array of int64, not of lists"),
        ({"x_test": object_array_of([[1], [2]])}, "it is not an array of lists"),
        ({"x_test": object_array_of(np.array([1, 2]))}, "it is not an array of lists"),
        ({"x_test": object_array_of(Calls(np.ndarray, (1,), "O", b"A" * 8))}, "reviews"),
        ({"x_test": lists([1], "ab")}, "its reviews are not lists"),
        ({"x_test": lists([1], {1: 2})}, "its reviews are not lists"),
        ({"x_test": lists([1], [1.5])}, "its words are not ranks from 1 up"),
        ({"x_test": lists([1], ["a"])}, "its words are not ranks from 1 up"),
        ({"x_test": lists([1], [0])}, "its words are not ranks from 1 up"),
        ({"x_test": lists([1], [[1]])}, "can't be read as data"),
        ({"x_test": lists([1], [2**70])}, "its words are not ranks from 1 up"),
        ({"x_test": lists([1], [np.array([1])])}, "its words are not ranks from 1 up"),
        ({"x_test": lists([], [])}, "its words are not ranks from 1 up"),
        ({"x_test": lists([1])}, "it holds 1 reviews and 2 labels"),
        ({"y_test": np.array([0.0, 1.0])}, "its labels are float64 of shape (2,)"),
        ({"y_test": np.array([[0], [1]])}, "its labels are int64 of shape (2, 1)"),
        ({"y_test": np.array([0, 2])}, "its labels run from 0 to 2"),
        ({"y_test": lists([1], [2])}, "Object arrays cannot be loaded"),
        ({"x_test": b""}, "can't be read as data"),
        ({"x_test": npy(lists(*TEST))[:-20]}, "can't be read as data"),
    ],
)
def test_reviews_of_another_form_are_refused_with_what_is_wrong(datasets, changes, reason):
    path = datasets / "imdb.npz"
    write_imdb(path, **changes)
    with pytest.raises(DataError) as reported:
        load("imdb-words", "auto")
    assert str(reported.value).startswith(f"{path} can't be read as data (")
    assert str(reported.value).endswith("); remove the cached copy, or choose synthetic data")
    assert reason in str(reported.value)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
@pytest.mark.parametrize("dataset", ["imdb-words", "imdb-bigrams"])
def test_a_broken_imdb_is_refused_by_name(datasets, dataset, content):
    path = datasets / "imdb.npz"
    path.write_bytes(content)
    with pytest.raises(DataError) as reported:
        load(dataset, "auto")
    assert str(reported.value) == (
        f"{path} can't be read as data (it is not an npz archive, or only a part of one); "
        "remove the cached copy, or choose synthetic data"
    )


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


def write_text(datasets, text):
    (datasets / "nietzsche.txt").write_text(text, encoding="utf-8")


def spelled(one_hot, alphabet):
    return "".join(alphabet[place] for place in one_hot.argmax(axis=-1))


@pytest.mark.parametrize("end", range(4))
def test_every_third_run_of_forty_characters_is_a_sample(datasets, end):
    text = "PREFACE\n\nSUPPOSING that Truth is a woman—what then? Is there not gröund" + "!" * end
    write_text(datasets, text)
    read = load("nietzsche", "auto")

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
        (b"", "it holds 0 characters"),
        (b"a" * 40, "it holds 40 characters"),
        (b"\xff" * 100, "invalid start byte"),
        (bytes(range(32, 127)), "it holds 69 different characters"),
    ],
)
def test_a_text_of_another_form_is_refused_with_what_is_wrong(datasets, content, reason):
    path = datasets / "nietzsche.txt"
    path.write_bytes(content)
    with pytest.raises(DataError) as reported:
        load("nietzsche", "auto")
    assert str(reported.value).startswith(f"{path} can't be read as data (")
    assert reason in str(reported.value)


@pytest.mark.slow
def test_synthetic_text_has_as_many_samples_as_the_real_and_takes_a_byte_a_value():
    made = NIETZSCHE.synthesize()
    assert NIETZSCHE.train_samples == 200_285
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


@given(length=st.integers(1, 50), text_length=st.integers(0, 300), step=st.integers(1, 5))
def test_a_text_has_as_many_samples_as_it_is_said_to_have(length, text_length, step):
    text = replace(NIETZSCHE, length=length, step=step, text_length=length + 1 + text_length)
    assert len(text.synthesize().x_train) == text.train_samples
