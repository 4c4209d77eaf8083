"""The sizes of the batches that Keras's iterators hand on, without Keras."""

import gc
import weakref
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.instrument.keras_data import claim_latest, plan_of_arrays, plan_of_dataset
from dlmon.instrument.keras_iterators import watch_data
from dlmon.instrument.reporter import Reporter


class Array:
    """As those of tf.SparseTensor, which are not made into NumPy's."""

    dtype = None

    def __init__(self, *shape):
        self.sizes = shape

    @property
    def shape(self):
        return self.sizes


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


@pytest.fixture
def make(monkeypatch):
    """Return what makes an iterator of epochs with a backend, and its data as it is claimed."""
    module = ModuleType("keras.src.trainers.epoch_iterator")
    module.EpochIterator = type("EpochIterator", (EpochIterator,), {})
    module.EpochIterator.__init__ = lambda self, *a, **n: EpochIterator.__init__(self, *a, **n)
    watch_data(module, Reporter("/nowhere/socket"))

    def make(adapter, backend="tensorflow", claims=True, **how):
        backends = SimpleNamespace(backend=lambda: backend)
        monkeypatch.setitem(__import__("sys").modules, "keras.src.backend", backends)
        iterator = module.EpochIterator(adapter, **how)
        data = claim_latest()
        data.is_claimed = claims
        return iterator, data

    return make


def sizes(data, count=1):
    """Return the sizes of the next batches."""
    return data.take(count)[0]


def test_arrays_say_their_sizes_beforehand(make):
    _, data = make(ArrayDataAdapter())
    assert (data.batch_size, data.samples_per_epoch, data.batches) == (10, 33, 4)
    assert data.is_exact
    for _ in range(2):
        assert data.open(1) == 4
        assert [*sizes(data), *sizes(data, 3)] == [10, 10, 10, 3]


def test_epochs_that_go_on_in_arrays_end_with_the_short_batch(make):
    _, data = make(ArrayDataAdapter(), steps_per_epoch=3)
    found = [(data.samples_per_epoch, sizes(data, data.open(1))) for _ in range(3)]
    assert found == [(30, [10] * 3), (3, [3]), (30, [10] * 3)]


def test_a_stream_is_counted_as_it_is_read(make):
    adapter = PyDatasetAdapter([(Array(4),), (Array(5),), (Array(2),)])
    _, data = make(adapter, claims=False)
    # Keras looks at the first batch for its type, and at that one only.
    adapter._standardize_batch(adapter.batches[0])
    assert data.batch_size == 4
    data.is_claimed = True
    for _ in range(2):
        data.open(1)
        # TensorFlow reads ahead.
        assert [batch[0].shape[0] for batch in adapter._get_iterator()] == [4, 5, 2]
        assert data.take(3) == ([4, 5, 2], [])
    assert adapter.standardized == 7


def test_what_reads_ahead_for_a_stream_that_was_left_is_not_counted(make):
    adapter = GeneratorDataAdapter([(Array(4),), (Array(5),)])
    _, data = make(adapter)
    assert data.batch_size == 4
    data.open(1)
    left = adapter.generator()
    next(left)
    data.open(2)
    stream = adapter.generator()
    next(stream)
    next(left)
    next(stream)
    # Of several that end together, no more have ended than came.
    assert (sizes(data, 3), sizes(data)) == ([4, 5], [None])


def test_batches_that_python_hands_on_are_counted_where_they_pass(make):
    handed = [(Array(4),), (Array(5),), (None,)]
    iterator, data = make(Adapter(handed), "jax")
    for read in (2, 3):
        batches = iter(iterator._get_iterator())
        assert [next(batches) for _ in range(read)] == handed[:read]
    # What was read of an epoch and not trained with is none of the next.
    data.open(1)
    ((size,), ((begin, end),)) = data.take(1)
    assert size == 4
    assert begin <= end
    data.open(1)
    assert sizes(data, 4) == [4, 5, None, None]


def test_a_pass_has_the_batches_and_samples_that_were_read_since_it_began(make):
    iterator, data = make(Adapter([(Array(4),), (Array(5),)]), "torch")
    for _ in range(2):
        data.begin_pass()
        assert len(list(iterator._get_iterator())) == 2
        assert data.read(9) == (2, 9)


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


INFINITE, UNKNOWN = -1, -2


class Shape(tuple):
    @property
    def rank(self):
        return len(self)


class Dataset:
    """Stands for tf.data's: what made it, its inputs, and how many elements it has."""

    def __init__(self, elements, source=None, size=None):
        self.elements, self._source = elements, source
        self.element_spec = (SimpleNamespace(shape=Shape((size, 4))), None)

    def _inputs(self):
        return [self._source]

    def cardinality(self):
        return self.elements


def made(name, elements, source=None, **attributes):
    dataset = type(name, (Dataset,), {})(elements, source)
    vars(dataset).update(attributes)
    return dataset


def batched(samples, size=32, drop=False):
    source = made("_TensorSliceDataset", samples)
    full, rest = divmod(samples, size)
    batches = samples if samples < 0 else full + bool(rest and not drop)
    return made("_BatchDataset", batches, source, _batch_size=size, _drop_remainder=drop)


@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 60), st.integers(0, 60))
def test_samples_are_the_sum_of_the_sizes(samples, size, start, count):
    batches = -(-samples // size)
    plan = plan_of_arrays(size, batches, samples % size or None)
    found = [plan.size(position) for position in range(start, start + count)]
    assert plan.samples(start, count) == sum(found)
    assert plan.samples(0, batches) == samples


TAKEN = made("_TakeDataset", 2, batched(70))


@pytest.mark.parametrize(
    ("dataset", "batches", "sizes"),
    [
        (made("_PrefetchDataset", 4, made("_MapDataset", 4, batched(100))), 4, [32, 32, 32, 4]),
        (made("_RepeatDataset", INFINITE, batched(70)), None, [32, 32, 6, 32, 32, 6, 32]),
        (batched(INFINITE), None, [32] * 9),
        (TAKEN, 2, [32, 32]),
        (made("_RepeatDataset", INFINITE, TAKEN), None, [32] * 6),
    ],
)
def test_a_dataset_says_its_batches_and_where_the_short_one_comes(dataset, batches, sizes):
    plan = plan_of_dataset(dataset)
    assert [plan.size(position) for position in range(len(sizes))] == sizes
    assert (plan.batches, plan.samples(0, len(sizes))) == (batches, sum(sizes))
    assert "batch() step" in plan.inferred


def test_a_size_that_tensorflow_guarantees_is_not_inferred():
    dataset = batched(100, drop=True)
    dataset.element_spec = {"x": SimpleNamespace(shape=Shape((32, 4)))}
    plan = plan_of_dataset(dataset)
    assert (plan.batch_size, plan.last, plan.batches, plan.inferred) == (32, 32, 3, None)


@pytest.mark.parametrize("name", ["_ShuffleDataset", "_SkipDataset", "_ShardDataset"])
def test_where_a_short_batch_may_be_anywhere_the_last_is_not_known(name):
    plan = plan_of_dataset(made(name, UNKNOWN, batched(70)))
    assert (plan.batch_size, plan.last, plan.samples(0, 3)) == (32, None, None)
    assert "may be smaller" in plan.inferred


def test_nothing_is_said_of_batches_that_were_made_in_another_way():
    assert plan_of_dataset(made("_GroupByWindowDataset", UNKNOWN)) is None
    assert plan_of_dataset(made("_MapDataset", 3, made("_FlatMapDataset", UNKNOWN))) is None
