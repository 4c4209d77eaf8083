"""The sizes of the batches that Keras's iterators hand on, without Keras."""

import gc
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from dlmon.instrument.keras_data import claim_latest, leading_size
from dlmon.instrument.keras_iterators import watch_data
from dlmon.instrument.reporter import Reporter


def array(*shape):
    return SimpleNamespace(shape=shape)


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        ((array(5, 2), array(7)), 5),
        ([array(5)], 5),
        ({"a": array(4, 1), "b": array(9)}, 4),
        (({"a": None, "b": [array(3)]}, array(3)), 3),
        ((None, array(8)), 8),
        (array(6), 6),
        ((array(),), None),
        ((), None),
        ("text", None),
        (None, None),
    ],
)
def test_a_batch_is_as_large_as_its_first_array(batch, size):
    assert leading_size(batch) == size


class EpochIterator:
    """Keras's own, as far as it matters."""

    def __init__(self, adapter, steps_per_epoch=None):
        self.data_adapter, self.steps_per_epoch = adapter, steps_per_epoch
        self.num_batches = steps_per_epoch or adapter.num_batches

    def _get_iterator(self):
        return self.data_adapter.get_iterator()


class Adapter:
    num_batches = None
    batch_size = None

    def __init__(self, batches=()):
        self.batches = batches

    def get_iterator(self):
        return iter(self.batches)


class ArrayDataAdapter(Adapter):
    batch_size, num_batches, partial_batch_size = 10, 4, 3


class PyDatasetAdapter(Adapter):
    num_batches = 3

    def __init__(self, batches):
        super().__init__(batches)
        self.standardized = 0

    def _standardize_batch(self, batch):
        self.standardized += 1
        return batch

    def _get_iterator(self):
        for batch in self.batches:
            yield self._standardize_batch(batch)


class GeneratorDataAdapter(Adapter):
    def __init__(self, batches):
        super().__init__(batches)
        self._first_batches = batches[:1]
        self.generator = lambda: iter(batches)


class BrokenAdapter(Adapter):
    @property
    def batch_size(self):
        raise NotImplementedError


@pytest.fixture
def make(monkeypatch):
    """Return what makes an iterator of epochs with a backend, and its data as it is claimed."""
    module = ModuleType("keras.src.trainers.epoch_iterator")
    module.EpochIterator = type("EpochIterator", (EpochIterator,), {})
    module.EpochIterator.__init__ = lambda self, *a, **n: EpochIterator.__init__(self, *a, **n)
    watch_data(module, Reporter("/nowhere/socket"))

    def make(adapter, backend="tensorflow", **how):
        backends = SimpleNamespace(backend=lambda: backend)
        monkeypatch.setitem(__import__("sys").modules, "keras.src.backend", backends)
        iterator = module.EpochIterator(adapter, **how)
        return iterator, claim_latest()

    return make


def test_arrays_say_their_sizes_beforehand(make):
    _, data = make(ArrayDataAdapter())
    data.begin(1)
    assert (data.batch_size, data.samples_per_epoch, data.batches) == (10, 33, 4)
    assert data.is_even
    assert data.inferred is None


def test_epochs_that_go_on_in_arrays_end_with_the_short_batch(make):
    _, data = make(ArrayDataAdapter(), steps_per_epoch=3)
    found = []
    for _ in range(3):
        data.begin(1)
        found.append((data.samples_per_epoch, data.is_even))
        data.end()
    assert found == [(30, True), (3, True), (30, True)]


def test_several_batches_that_end_together_are_no_more_than_there_are(make):
    _, data = make(ArrayDataAdapter(), steps_per_epoch=3)
    data.begin(3)
    assert not data.is_even
    assert data.take(2, 3) == (10, 10, 10)
    data.begin(3)
    assert data.take(2, 3) == (3,)


def test_a_stream_is_counted_as_it_is_read(make):
    adapter = PyDatasetAdapter([(array(4),), (array(5),), (array(2),)])
    _, data = make(adapter)
    # Keras looks at the first batch for its type, and at that one only.
    adapter._standardize_batch(adapter.batches[0])
    assert data.batch_size == 4
    for _ in range(2):
        stream = adapter._get_iterator()
        data.begin(1)
        # TensorFlow reads ahead.
        assert [batch[0].shape[0] for batch in stream] == [4, 5, 2]
        assert [data.take(number, 1) for number in range(3)] == [4, 5, 2]
    assert adapter.standardized == 7


def test_what_reads_ahead_for_a_stream_that_was_left_is_not_counted(make):
    adapter = GeneratorDataAdapter([(array(4),), (array(5),)])
    _, data = make(adapter)
    assert data.batch_size == 4
    left, stream = adapter.generator(), adapter.generator()
    next(left)
    next(stream)
    next(left)
    next(stream)
    assert data.take(1, 2) == (4, 5)
    assert data.take(2, 1) is None


def test_batches_that_python_hands_on_are_counted_where_they_pass(make):
    iterator, data = make(Adapter([(array(4),), (array(5),), (None,)]), "jax")
    batches = iter(iterator._get_iterator())
    data.begin(1)
    assert [next(batches) for _ in range(2)] == iterator.data_adapter.batches[:2]
    size, begin, end = data.handed.pop(1)
    assert size == 5
    assert begin <= end
    assert data.take(0, 1) == (4,)
    assert list(batches) == [(None,)]
    assert data.take(2, 1) is None


def test_a_pass_that_nobody_asks_for_keeps_nothing_but_sums(make):
    iterator, data = make(Adapter([(array(4),), (array(5),)]), "torch")
    data.begin(1, keep=False)
    assert len(list(iterator._get_iterator())) == 2
    assert data.handed == {}
    assert data.read(9) == (2, 9)


def test_errors_of_a_persons_data_pass_unchanged(make):
    def batches():
        yield (array(4),)
        raise KeyError("of the script's own")

    iterator, data = make(Adapter(batches()), "jax")
    reader = iter(iterator._get_iterator())
    data.begin(1)
    next(reader)
    with pytest.raises(KeyError, match="of the script's own"):
        next(reader)


def test_data_of_an_unknown_kind_has_batches_without_a_size(make):
    _, data = make(BrokenAdapter())
    assert (data.batch_size, data.batches, data.take(0, 1)) == (None, None, None)


def test_data_is_claimed_once(make):
    make(ArrayDataAdapter())
    assert claim_latest() is None


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_persons_data_goes_when_keras_lets_it_go(make, backend):
    gc.collect()
    gc.disable()
    try:
        adapter = PyDatasetAdapter([])
        iterator, _ = make(adapter, backend)
        held = weakref.ref(adapter), weakref.ref(iterator)
        del adapter, iterator
        assert [reference() for reference in held] == [None, None]
    finally:
        gc.enable()
