import codecs
import os
import pickle
import struct
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.catalog import WORKLOADS
from workloads.data import load as data
from workloads.data.dataset import DataError
from workloads.data.load import DATASETS, load

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")


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


def random_images(count, *shape, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, *shape), np.uint8), random.integers(
        0, 10, count, np.uint8
    )


def write_mnist(path, **changes):
    x_train, y_train = random_images(6, 28, 28)
    x_test, y_test = random_images(4, 28, 28, seed=1)
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test} | changes
    np.savez_compressed(path, **arrays)
    return arrays


def planar(images):
    """Lay images out as CIFAR-10 stores them: a row of red, then green, then blue pixels."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def write_cifar10(folder, dump):
    """Write six batches of two images with `dump(rows, labels)`; return what they hold."""
    folder.mkdir(parents=True)
    written = {}
    for seed, name in enumerate((*BATCHES, "test_batch")):
        images, labels = random_images(2, 32, 32, 3, seed=seed)
        (folder / name).write_bytes(dump(planar(images), labels.tolist()))
        written[name] = images, labels
    return written


def dump_in_protocol(protocol):
    def dump(rows, labels):
        return pickle.dumps({b"data": rows, b"labels": labels, b"batch_label": b"x"}, protocol)

    return dump


def dump_like_python_2(rows, labels):
    """Pickle a batch opcode by opcode as Python 2 and an old NumPy did, as in the archive."""

    def string(text):
        if len(text) < 256:
            return b"U" + bytes([len(text)]) + text
        return b"T" + struct.pack("<i", len(text)) + text

    def integer(number):
        return b"J" + struct.pack("<i", number)

    empty_array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + string(b"b")
        + b"\x87R"
    )
    dtype = (
        b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R"
        b"(K\x03" + string(b"|") + b"NNN" + integer(-1) + integer(-1) + b"K\x00tb"
    )
    shape = integer(rows.shape[0]) + integer(rows.shape[1]) + b"\x86"
    array = empty_array + b"(K\x01" + shape + dtype + b"\x89" + string(rows.tobytes()) + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + string(b"data") + array + string(b"labels") + listed + b"u."


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_synthetic_sets_are_as_large_as_the_catalog_says(workload):
    dataset = DATASETS[workload.dataset]
    assert dataset.sample_shape == workload.input_shape
    if workload.steps is None:
        assert dataset.train_samples == workload.samples
    for used in (workload.validation_samples, workload.evaluation_samples):
        assert used is None or used <= dataset.test_samples


def test_every_data_set_is_some_workloads():
    assert {workload.dataset for workload in WORKLOADS.values()} == set(DATASETS)


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
    assert made.x_train.shape == (201, *sample_shape)
    assert made.y_train.shape == (201, *label_shape)
    assert made.x_test.shape == (13, *sample_shape)
    assert made.y_test.shape == (13, *label_shape)
    for x in (made.x_train, made.x_test):
        assert x.dtype == np.float32
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert x.mean() == pytest.approx(0.5, abs=0.02)
    for y in (made.y_train, made.y_test):
        assert y.dtype == np.uint8
        assert y.max() < 10
    assert set(made.y_train.flat) == set(range(10))


@pytest.mark.parametrize("dataset", DATASETS)
def test_synthetic_data_is_the_same_every_time(dataset):
    one, other = (small(DATASETS[dataset], 5, 5).synthesize() for _ in range(2))
    assert np.array_equal(one.x_train, other.x_train)
    assert np.array_equal(one.y_train, other.y_train)
    assert np.array_equal(one.x_test, other.x_test)
    assert np.array_equal(one.y_test, other.y_test)


@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "imdb-words", "imdb-bigrams"])
def test_synthetic_test_samples_differ_from_those_for_training(dataset):
    made = small(DATASETS[dataset], 5, 5).synthesize()
    assert not np.array_equal(made.x_train, made.x_test)


@pytest.mark.usefixtures("datasets", "small_sets")
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("choice", ["auto", "synthetic"])
def test_without_a_cached_copy_auto_is_synthetic(dataset, choice):
    assert load(dataset, choice).origin == "synthetic"


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
    assert 256 < made.y_train.max() < 1000


@pytest.mark.parametrize("choice", ["auto", "real"])
def test_a_cached_copy_is_taken_without_fetching(datasets, choice):
    write_mnist(datasets / "mnist.npz")

    def refuse(dataset):
        pytest.fail("fetched")

    assert load("mnist", choice, fetch=refuse).origin == "real"


@pytest.mark.usefixtures("small_sets")
def test_synthetic_ignores_a_cached_copy(datasets):
    (datasets / "mnist.npz").write_bytes(b"broken")
    assert load("mnist", "synthetic").origin == "synthetic"


def test_real_fetches_what_is_not_cached(datasets):
    asked = []

    def fetch(dataset):
        asked.append(dataset)
        write_mnist(datasets / "mnist.npz")

    fetched = load("mnist", "real", fetch=fetch)
    assert asked == ["mnist"]
    assert (fetched.origin, len(fetched.x_train)) == ("real", 6)


def test_a_fetch_that_leaves_nothing_is_an_error(datasets):
    with pytest.raises(DataError, match=f"Keras fetched mnist, but it is not in {datasets}"):
        load("mnist", "real", fetch=lambda dataset: None)


def test_a_failed_fetch_is_reported_in_one_line(datasets, monkeypatch):
    def load_data():
        raise Exception("URL fetch failure on https://somewhere:\nNone -- no route")

    keras = SimpleNamespace(datasets=SimpleNamespace(mnist=SimpleNamespace(load_data=load_data)))
    monkeypatch.setitem(sys.modules, "keras", keras)
    with pytest.raises(DataError) as reported:
        load("mnist", "real")
    assert str(reported.value) == (
        "the mnist data could not be fetched "
        "(URL fetch failure on https://somewhere: None -- no route); "
        f"choose synthetic data, or put a copy into {datasets}"
    )


def test_another_choice_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="auto, synthetic, real, not reall"):
        load("mnist", "reall")


def test_the_cache_is_in_the_home_folder_unless_keras_home_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_HOME", raising=False)
    assert data.cache_folders() == [tmp_path / ".keras/datasets"]

    monkeypatch.setenv("KERAS_HOME", "~/elsewhere")
    assert data.cache_folders() == [tmp_path / "elsewhere/datasets"]


def test_where_keras_may_not_write_its_second_choice_is_read_too(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    reachable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and reachable(path, mode))
    assert data.cache_folders() == [tmp_path / "datasets", Path("/tmp/.keras/datasets")]


def test_mnist_is_read_whole_and_scaled(datasets):
    written = write_mnist(datasets / "mnist.npz")
    read = load("mnist", "auto")

    assert np.array_equal(read.x_train, (written["x_train"] / 255).astype(np.float32))
    assert np.array_equal(read.x_test, (written["x_test"] / 255).astype(np.float32))
    assert read.x_train.dtype == np.float32
    assert np.array_equal(read.y_train, written["y_train"])
    assert np.array_equal(read.y_test, written["y_test"])


@pytest.mark.parametrize(
    ("dataset", "shape"), [("mnist-rows", (784,)), ("mnist-planes", (28, 28, 1))]
)
def test_the_same_mnist_is_read_in_the_shape_that_the_network_takes(datasets, dataset, shape):
    written = write_mnist(datasets / "mnist.npz")
    read = load(dataset, "auto")
    assert read.x_train.shape == (6, *shape)
    assert np.array_equal(read.x_train.reshape(6, 28, 28), load("mnist", "auto").x_train)
    assert np.array_equal(read.y_test, written["y_test"])


@pytest.mark.parametrize(
    "folder", ["cifar-10-batches-py-target/cifar-10-batches-py", "cifar-10-batches-py"]
)
@pytest.mark.parametrize(
    "dump",
    [dump_like_python_2, dump_in_protocol(2), dump_in_protocol(4)],
    ids=["python 2", "protocol 2", "protocol 4"],
)
def test_cifar10_is_read_whole_and_scaled(datasets, folder, dump):
    written = write_cifar10(datasets / folder, dump)
    read = load("cifar10", "auto")

    images = np.concatenate([written[name][0] for name in BATCHES])
    labels = np.concatenate([written[name][1] for name in BATCHES])
    assert np.array_equal(read.x_train, (images / 255).astype(np.float32))
    assert np.array_equal(read.y_train, labels.reshape(-1, 1))
    assert np.array_equal(read.x_test, (written["test_batch"][0] / 255).astype(np.float32))
    assert np.array_equal(read.y_test, written["test_batch"][1].reshape(-1, 1))
    assert (read.x_train.dtype, read.y_train.dtype) == (np.float32, np.uint8)


def test_the_current_folder_of_keras_goes_before_the_old_one(datasets):
    old = write_cifar10(datasets / "cifar-10-batches-py", dump_in_protocol(4))
    new = datasets / "cifar-10-batches-py-target/cifar-10-batches-py"
    write_cifar10(new, lambda rows, labels: dump_in_protocol(4)(255 - rows, labels))

    read = load("cifar10", "auto")
    assert np.allclose(read.x_test, 1 - old["test_batch"][0] / 255)


def test_pixels_that_were_laid_out_by_columns_are_read_too(datasets):
    def dump(rows, labels):
        return dump_in_protocol(4)(np.asfortranarray(rows), labels)

    written = write_cifar10(datasets / "cifar-10-batches-py", dump)
    read = load("cifar10", "auto")
    assert np.array_equal(read.x_test, (written["test_batch"][0] / 255).astype(np.float32))


def test_labels_pickled_as_an_array_are_read_too(datasets):
    def dump(rows, labels):
        return pickle.dumps({b"data": rows, b"labels": np.array(labels, ">i8")}, 4)

    written = write_cifar10(datasets / "cifar-10-batches-py", dump)
    assert np.array_equal(load("cifar10", "auto").y_test[:, 0], written["test_batch"][1])


@pytest.mark.parametrize("choice", ["auto", "real"])
@pytest.mark.parametrize(
    "content", [b"", b"not an archive", b"PK\x03\x04 cut off", pickle.dumps([1])]
)
def test_a_broken_mnist_is_refused_by_name(datasets, choice, content):
    path = datasets / "mnist.npz"
    path.write_bytes(content)
    with pytest.raises(DataError) as reported:
        load("mnist", choice)
    assert str(reported.value) == (
        f"{path} can't be read as data (it is not an npz archive, or only a part of one); "
        "remove the cached copy, or choose synthetic data"
    )


def test_an_mnist_that_can_not_be_opened_is_refused_with_the_reason(datasets):
    (datasets / "mnist.npz").mkdir()
    with pytest.raises(DataError, match=r"mnist.npz can't be read as data \(it is a directory"):
        load("mnist", "auto")


def test_an_mnist_of_python_objects_is_refused(datasets, tmp_path):
    made = tmp_path / "made"
    write_mnist(datasets / "mnist.npz", y_test=np.array([Calls(os.mkdir, str(made))] * 4))
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        load("mnist", "auto")
    assert not made.exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x_train": np.zeros((6, 28, 28))}, "its images are float64 of shape (6, 28, 28)"),
        ({"x_train": np.zeros((6, 28, 27), np.uint8)}, "its images are uint8 of shape (6, 28, 27)"),
        ({"y_train": np.zeros((6, 1), np.uint8)}, "its labels are uint8 of shape (6, 1)"),
        ({"y_test": np.zeros(4)}, "its labels are float64 of shape (4,)"),
        ({"y_test": np.zeros(5, np.uint8)}, "it holds 4 images and 5 labels"),
        ({"y_test": np.array([0, 1, 2, 10])}, "its labels run from 0 to 10"),
        ({"y_test": np.array([0, 1, 2, -1])}, "its labels run from -1 to 2"),
        (
            {"x_test": np.zeros((0, 28, 28), np.uint8), "y_test": np.zeros(0, np.uint8)},
            "it holds 0 images and 0 labels",
        ),
    ],
)
def test_an_mnist_of_another_form_is_refused_with_what_is_wrong(datasets, changes, reason):
    path = datasets / "mnist.npz"
    write_mnist(path, **changes)
    with pytest.raises(DataError) as reported:
        load("mnist", "auto")
    assert str(reported.value) == (
        f"{path} can't be read as data ({reason}); remove the cached copy, or choose synthetic data"
    )


def test_an_mnist_without_a_part_is_refused(datasets):
    x, y = random_images(3, 28, 28)
    np.savez(datasets / "mnist.npz", x_train=x, y_train=y, x_test=x)
    with pytest.raises(DataError, match="y_test"):
        load("mnist", "auto")


def test_a_missing_batch_is_named(datasets):
    folder = datasets / "cifar-10-batches-py"
    write_cifar10(folder, dump_in_protocol(4))
    (folder / "data_batch_4").unlink()
    with pytest.raises(DataError) as reported:
        load("cifar10", "auto")
    assert str(reported.value) == (
        f"{folder / 'data_batch_4'} can't be read as data (No such file or directory); "
        "remove the cached copy, or choose synthetic data"
    )


@pytest.mark.parametrize(
    "batch",
    [
        {},
        [],
        {b"data": b"", b"labels": []},
        {b"data": np.zeros((2, 3072), np.uint8)},
        {b"data": np.zeros((2, 3071), np.uint8), b"labels": [0, 1]},
        {b"data": np.zeros((2, 3072), np.int64), b"labels": [0, 1]},
        {b"data": np.zeros((2, 3072), np.float32), b"labels": [0, 1]},
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 10]},
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0.5, 1.0]},
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": ["a", "b"]},
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [2**70, 1]},
        {b"data": np.array([None, {}]), b"labels": [0, 1]},
    ],
    ids=repr,
)
def test_a_batch_of_another_form_is_refused_by_name(datasets, batch):
    folder = datasets / "cifar-10-batches-py"
    write_cifar10(folder, dump_in_protocol(4))
    (folder / "data_batch_2").write_bytes(pickle.dumps(batch))
    with pytest.raises(DataError, match=r"data_batch_2 can't be read as data \("):
        load("cifar10", "auto")


class Calls:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_batch_that_wants_to_run_code_is_refused_and_runs_nothing(datasets, tmp_path, protocol):
    made = tmp_path / "made"
    for call in (Calls(os.mkdir, str(made)), Calls(eval, f"__import__('os').mkdir('{made}')")):
        folder = datasets / "cifar-10-batches-py"
        if not folder.exists():
            write_cifar10(folder, dump_in_protocol(4))
        (folder / "test_batch").write_bytes(pickle.dumps({b"data": call}, protocol))
        with pytest.raises(DataError, match="which is not data"):
            load("cifar10", "auto")
        assert not made.exists()


@pytest.mark.parametrize(
    "forged",
    [
        Calls(np.ndarray, (1,), "O", b"A" * 8),
        Calls(np.dtype, "O"),
        Calls(np.dtype, [("pointer", "O")]),
    ],
)
def test_a_batch_can_not_forge_an_array_of_objects(datasets, forged):
    folder = datasets / "cifar-10-batches-py"
    write_cifar10(folder, dump_in_protocol(4))
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": forged, b"labels": [1]}))
    with pytest.raises(DataError, match="test_batch can't be read"):
        load("cifar10", "auto")


def test_a_batch_can_not_encode_but_as_python_3_encodes_bytes(datasets):
    folder = datasets / "cifar-10-batches-py"
    write_cifar10(folder, dump_in_protocol(4))
    (folder / "test_batch").write_bytes(pickle.dumps(Calls(codecs.encode, "text", "rot13")))
    with pytest.raises(DataError, match="it holds bytes in rot13"):
        load("cifar10", "auto")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(kept=st.floats(0, 1, exclude_max=True))
def test_a_copy_that_was_cut_off_anywhere_is_refused(datasets, kept):
    mnist = datasets / "mnist.npz"
    write_mnist(mnist)
    mnist.write_bytes(mnist.read_bytes()[: int(kept * mnist.stat().st_size)])
    with pytest.raises(DataError, match=r"mnist\.npz can't be read"):
        load("mnist", "auto")

    folder = datasets / "cifar-10-batches-py"
    if not folder.exists():
        write_cifar10(folder, dump_like_python_2)
    images, labels = random_images(2, 32, 32, 3)
    whole = dump_like_python_2(planar(images), labels.tolist())
    (folder / "data_batch_1").write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(DataError, match="data_batch_1 can't be read"):
        load("cifar10", "auto")
