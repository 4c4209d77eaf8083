import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from workloads.catalog import WORKLOADS
from workloads.data import load as data
from workloads.data.dataset import DataError
from workloads.data.load import DATASETS, load


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """Keras's folder of data sets, with nothing in it."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets"
    folder.mkdir()
    return folder


@pytest.fixture
def small_sets(monkeypatch):
    """Keep synthetic sets small enough for a fast test."""
    for name, dataset in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, small(dataset))


def small(dataset, train=7, test=3):
    """Return the data set with so few samples."""
    if dataset.name == "nietzsche":
        return replace(dataset, text_length=dataset.length + dataset.step * (train - 1) + 1)
    return replace(dataset, train_samples=train, test_samples=test)


def random_images(count, *shape):
    random = np.random.default_rng(count)
    pixels = random.integers(0, 256, (count, *shape), np.uint8)
    return pixels, random.integers(0, 10, count, np.uint8)


@pytest.fixture
def loaded_by_keras(monkeypatch):
    """What Keras loads, a stand-in for Keras: six samples and four."""
    held = {
        "mnist": (random_images(6, 28, 28), random_images(4, 28, 28)),
        "cifar10": tuple(
            (pixels, labels.reshape(-1, 1))
            for pixels, labels in (random_images(6, 32, 32, 3), random_images(4, 32, 32, 3))
        ),
    }
    modules = {name: SimpleNamespace(load_data=lambda name=name: held[name]) for name in held}
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(datasets=SimpleNamespace(**modules)))
    return held


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_synthetic_sets_are_made_as_the_catalog_says(workload):
    dataset = DATASETS[workload.dataset]
    assert small(dataset).synthesize().x_train.shape[1:] == workload.input_shape
    if workload.steps is None and dataset.name != "nietzsche":
        assert dataset.train_samples == workload.samples


@pytest.mark.parametrize(
    ("dataset", "sample_shape", "label_shape"),
    [
        ("mnist", (28, 28), ()),
        ("mnist-rows", (784,), ()),
        ("mnist-planes", (28, 28, 1), ()),
        ("cifar10", (32, 32, 3), (1,)),
        ("cifar10-augmented", (32, 32, 3), (1,)),
    ],
)
def test_synthetic_images_have_the_shape_type_and_range_of_the_real(
    dataset, sample_shape, label_shape
):
    made = small(DATASETS[dataset], 201, 13).synthesize()
    assert made.origin == "synthetic"
    for x, y, count in ((made.x_train, made.y_train, 201), (made.x_test, made.y_test, 13)):
        assert (x.shape, y.shape) == ((count, *sample_shape), (count, *label_shape))
        assert (x.dtype, y.dtype) == (np.float32, np.uint8)
        assert 0.0 <= x.min() < 0.05
        assert 0.95 < x.max() <= 1.0
        assert x.mean() == pytest.approx(0.5, abs=0.02)
        assert y.max() < 10
    assert set(made.y_train.flat) == set(range(10))


@pytest.mark.parametrize("dataset", DATASETS)
def test_synthetic_data_is_the_same_every_time(dataset):
    one, other = (small(DATASETS[dataset], 5, 5).synthesize() for _ in range(2))
    for name in ("x_train", "y_train", "x_test", "y_test"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("size", [224, 231])
def test_images_as_large_as_imagenets_are_always_synthetic(datasets, size):
    (datasets / "imagenet").mkdir()
    with pytest.raises(DataError) as reported:
        load(f"imagenet-{size}", "real")
    assert str(reported.value) == (
        "ImageNet can't be fetched: it is not free to share, and these networks "
        "are timed on synthetic images; choose synthetic data"
    )
    made = load(f"imagenet-{size}", "auto")
    assert (made.origin, made.repeated) == ("synthetic", True)
    assert made.x_train.shape[1:] == (size, size, 3)
    assert made.x_train.nbytes < 200e6
    assert (made.x_train.dtype, made.y_train.shape) == (np.float32, (len(made.x_train),))
    assert set(made.y_train) == set(range(data.FEW_CLASSES))


def share_guessed_by_a_linear_model(x_train, y_train, x_test, y_test):
    """Fit one-hot labels by least squares; return the share of the test's labels it guesses."""
    classes = np.unique(y_train)
    weights = np.linalg.lstsq(x_train, y_train[:, None] == classes, rcond=0.01)[0]
    return np.mean(classes[(x_test @ weights).argmax(axis=1)] == y_test)


@pytest.mark.parametrize("dataset", ["mnist", "cifar10"])
def test_the_classes_of_synthetic_images_can_be_learned(dataset):
    made = small(DATASETS[dataset], 500, 100).synthesize()
    x_train, x_test = (x.reshape(len(x), -1) - 0.5 for x in (made.x_train, made.x_test))
    labels = made.y_train.reshape(-1), made.y_test.reshape(-1)
    assert share_guessed_by_a_linear_model(x_train, labels[0], x_test, labels[1]) > 0.5


@pytest.mark.parametrize("dataset", ["imdb-words", "imdb-bigrams"])
def test_the_classes_of_synthetic_reviews_follow_from_their_words(dataset):
    made = small(DATASETS[dataset], 3000, 1000).synthesize()
    # Most of a review is made of the most frequent words.
    count = [
        np.apply_along_axis(np.bincount, 1, np.minimum(x, 300), minlength=301)
        for x in (made.x_train, made.x_test)
    ]
    guessed = share_guessed_by_a_linear_model(count[0], made.y_train, count[1], made.y_test)
    assert guessed > 0.65
    assert 0.4 < made.y_test.mean() < 0.6


def test_half_of_a_synthetic_text_repeats_what_stands_before():
    made = small(DATASETS["nietzsche"], 3000).synthesize()
    repeats = np.mean((made.x_train[:, -1] & made.y_train).any(axis=1))
    assert repeats > 0.5
    words = DATASETS["text-1024"].synthesize()
    assert np.mean(words.x_train == words.y_train) > 0.5


@pytest.mark.usefixtures("datasets", "small_sets")
@pytest.mark.parametrize("dataset", DATASETS)
def test_without_a_cached_copy_auto_is_synthetic(dataset):
    assert load(dataset, "auto").origin == load(dataset, "synthetic").origin == "synthetic"


@pytest.mark.usefixtures("loaded_by_keras", "small_sets")
@pytest.mark.parametrize(
    ("dataset", "name"),
    [("mnist", "mnist.npz"), ("cifar10", "cifar-10-batches-py-target")],
)
def test_auto_takes_what_is_cached_and_real_takes_it_anyway(datasets, dataset, name):
    assert load(dataset, "real").origin == "real"
    (datasets / name).touch()
    assert load(dataset, "auto").origin == "real"
    assert load(dataset, "synthetic").origin == "synthetic"


def test_what_keras_can_not_load_is_a_sentence(datasets, monkeypatch):
    def load_data():
        raise Exception("URL fetch failure on https://somewhere: None -- no route")

    keras = SimpleNamespace(datasets=SimpleNamespace(mnist=SimpleNamespace(load_data=load_data)))
    monkeypatch.setitem(sys.modules, "keras", keras)
    with pytest.raises(DataError) as reported:
        load("mnist", "real")
    assert str(reported.value) == (
        "Keras can't load the mnist data "
        "(Exception: URL fetch failure on https://somewhere: None -- no route); "
        f"choose synthetic data, or put a good copy into {datasets}"
    )


def test_the_cache_is_in_the_home_folder_unless_keras_home_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_HOME", raising=False)
    assert data.cache_folders() == [tmp_path / ".keras/datasets"]

    monkeypatch.setenv("KERAS_HOME", "~/elsewhere")
    assert data.cache_folders() == [tmp_path / "elsewhere/datasets"]


@pytest.mark.parametrize("dataset", ["mnist", "mnist-rows", "mnist-planes", "cifar10"])
def test_images_are_scaled_and_shaped_as_the_network_takes_them(loaded_by_keras, dataset):
    read = load(dataset, "real")

    (x_train, y_train), (x_test, y_test) = loaded_by_keras[dataset.partition("-")[0]]
    assert read.x_train.shape == (6, *DATASETS[dataset].sample_shape)
    assert np.array_equal(read.x_train.ravel(), (x_train.ravel() / 255).astype(np.float32))
    assert np.array_equal(read.x_test.ravel(), (x_test.ravel() / 255).astype(np.float32))
    assert read.x_train.dtype == np.float32
    assert np.array_equal(read.y_train, y_train)
    assert np.array_equal(read.y_test, y_test)
