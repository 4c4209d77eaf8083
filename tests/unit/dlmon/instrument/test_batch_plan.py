"""The sizes of batches, by arrays and by datasets that are made as those of tf.data are."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.instrument.keras_data import plan_of_arrays, plan_of_dataset

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
