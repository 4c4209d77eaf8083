from collections import UserDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dlmon.instrument.loaders import Loader, Sizes, collated_size, describe, leading_size

LENGTHS = ("samples_per_epoch", "steps_per_epoch")
NO_SIZE = "the loader does not say its batch size"
NO_LENGTH = dict.fromkeys(LENGTHS, "the data set has no length")
OWN_SAMPLER = dict.fromkeys(LENGTHS, "the sampler is the script's own")
NO_SAMPLES = {"samples_per_epoch": NO_SIZE}


class OfTorch:
    """Something whose class PyTorch has, as far as a loader's reader sees."""

    def __init__(self, length=None, **fields):
        self.__dict__.update(fields)
        self.length = length

    def __len__(self):
        return self.length


OfTorch.__module__ = "torch.utils.data.sampler"
OfTorch.__len__.__module__ = "torch.utils.data.sampler"


class OfTheScript:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


class Raises:
    def __len__(self):
        raise TypeError("no length")


class WithoutLength:
    """A data set that is iterated."""


def batched(samples, batch_size, drop_last=False):
    batches = OfTorch(sampler=OfTorch(samples), batch_size=batch_size, drop_last=drop_last)
    return SimpleNamespace(batch_sampler=batches, batch_size=batch_size, drop_last=drop_last)


def iterated(dataset, batch_size=10, **fields):
    loader = batched(0, batch_size)
    loader.__dict__.update(dataset=dataset, _dataset_kind=1, **fields)
    return loader


def unbatched(batch_sampler=None, **fields):
    return SimpleNamespace(batch_sampler=batch_sampler, batch_size=None, drop_last=False, **fields)


@pytest.mark.parametrize(
    ("given", "says", "unknown"),
    [
        (batched(1003, 32), (32, 1003, 32), {}),
        (batched(1003, 32, drop_last=True), (32, 992, 31), {}),
        (unbatched(batched(100, 8).batch_sampler), (8, 100, 13), {}),
        (iterated(OfTheScript(25)), (10, 25, 3), {}),
        (iterated(WithoutLength()), (10, None, None), NO_LENGTH),
        (iterated(Raises()), (10, None, None), NO_LENGTH),
        # A length of the script's own sampler is not asked for.
        (unbatched(OfTheScript(7)), (None, None, None), {**OWN_SAMPLER, "batch_size": NO_SIZE}),
        (unbatched([[1], [2]]), (None, None, 2), {**NO_SAMPLES, "batch_size": NO_SIZE}),
        (unbatched(sampler=OfTorch(12)), (None, None, 12), {**NO_SAMPLES, "batch_size": NO_SIZE}),
    ],
)
def test_a_loader_says_its_batches_and_samples_or_why_not(given, says, unknown):
    loader = describe(given)
    assert (loader.batch_size, loader.samples, loader.steps) == says
    assert (loader.inferred is None, loader.why) == (says[0] is not None, unknown)


@pytest.mark.parametrize(
    ("drawn", "replacement", "is_a_pass"),
    [
        (1000, False, True),
        (1000, True, True),
        (3000, False, True),
        (1001, True, False),
        (10**10, True, False),
        (10_001, False, False),
    ],
)
def test_a_sampler_that_draws_for_long_goes_through_no_set_of_samples(
    drawn, replacement, is_a_pass
):
    given = batched(drawn, 10)
    given.batch_sampler.sampler.replacement = replacement
    given.dataset = OfTheScript(1000)
    loader = describe(given)
    assert (loader.has_passes, loader.batch_size) == (is_a_pass, 10)
    assert (loader.samples, loader.steps) == (
        (drawn, -(-drawn // 10)) if is_a_pass else (None,) * 2
    )
    assert ("epochs" in loader.why) is not is_a_pass


class Repeat:
    """A sampler without an end, as loaders have that keep their workers from epoch to epoch."""

    def __init__(self, sampler):
        self.sampler = sampler


def test_a_sampler_that_repeats_another_is_as_long_as_one_pass_over_that():
    given = batched(1003, 32)
    plain = given.batch_sampler
    given.batch_sampler = Repeat(plain)
    assert describe(given) == describe(batched(1003, 32))
    given.batch_sampler = Repeat(Repeat(plain))
    assert describe(given).steps is None


class SkipBatchSampler:
    def __init__(self, batch_sampler, skip_batches):
        self.batch_sampler, self.skip_batches = batch_sampler, skip_batches


SkipBatchSampler.__module__ = "accelerate.data_loader"


def test_a_loader_that_skips_batches_says_what_a_whole_epoch_has_and_how_many_those_are():
    given = batched(1003, 32)
    given.batch_sampler, given.batch_size = SkipBatchSampler(given.batch_sampler, 7), None
    loader = describe(given)
    assert loader == describe(batched(1003, 32))
    assert loader.skipped == 7


Pair = namedtuple("Pair", "first second")


class Holder:
    def __init__(self):
        self.name = "x"
        self.field = [np.zeros((6, 2))]


class Graphs:
    """Keeps its arrays deep within, beside a list of their names."""

    def __init__(self, **sizes):
        self.store = {"names": ("x", "edges", "y"), "values": {"kept": {"x": np.zeros((40, 7))}}}
        vars(self).update(sizes)


class Unreadable:
    __array__ = None

    @property
    def shape(self):
        raise RuntimeError("symbolic")


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (np.zeros((4, 3)), 4),
        ((np.zeros((4, 3)), np.zeros(9)), 4),
        ([["a"] * 4, np.zeros(4)], 4),
        ({"names": "abc", "ids": {"deep": np.zeros((5, 1))}}, 5),
        (UserDict(ids=np.zeros((7, 1))), 7),
        (Pair(3, np.zeros(8)), 8),
        (Holder(), 6),
        ((np.float32(1), np.zeros(()), np.zeros(2)), 2),
        ({"a": None, "b": [np.zeros(3)]}, 3),
        (["a", "b"], None),
        (np.float64(3), None),
        (None, None),
        (Unreadable(), None),
    ],
)
def test_the_first_array_of_a_batch_is_found_in_whatever_holds_it(batch, size):
    assert leading_size(batch) == size


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        ([np.zeros((6, 3)), np.zeros(6)], 6),
        (np.zeros((6, 3)), 6),
        ({"ids": np.zeros((6, 20)), "names": ["a"] * 6, "note": "x"}, 6),
        (({"ids": np.zeros((6, 20))}, np.zeros(6)), 6),
        (UserDict(ids=np.zeros((6, 2))), 6),
        # Time before batch: an array of one size for each sample tells.
        ((np.zeros((5, 6)), np.zeros(6)), 6),
        # Samples as they are, or their fields apart.
        ([(np.zeros((3, 4)), 1)] * 6, 6),
        ([{"image": np.zeros((3, 4))}] * 6, 6),
        ([np.zeros((3, 4))] * 6, 6),
        (((np.zeros((3, 4)),) * 6, ({"boxes": np.zeros((9, 4))},) * 6), 6),
        # All are there, one way or another.
        ([np.zeros((8, 3)), np.zeros(8)], 8),
        (np.zeros((5, 8, 2)), 8),
        ((np.zeros((5, 8)), np.zeros((5, 8))), 8),
        ({"ids": np.zeros((1, 90)), "ends": np.zeros(9)}, 8),
        ({"ids": np.zeros((1, 90)), "labels": np.zeros((1, 90))}, 8),
        ({"crops": np.zeros((16, 3)), "size": (2, 2)}, 8),
        (Holder(), 6),
        # An object says its size, whatever its arrays and its own lists are.
        (Graphs(num_graphs=5), 5),
        (Graphs(batch_size=7), 7),
        # Nothing says it.
        (Graphs(), None),
        ("text", None),
        (Unreadable(), None),
    ],
)
def test_how_many_samples_a_batch_of_a_scripts_own_function_holds_of_eight(batch, size):
    assert collated_size(batch, 8) == size


def test_samples_that_are_left_out_are_not_counted():
    loader = Loader(8, 20, 3, may_vary=True, is_collated=True)
    sizes = Sizes(loader)

    def counted(number, size):
        return sizes.of(number, [np.zeros((size, 2)), np.zeros(size)])

    assert (counted(0, 8), sizes.are_fewer) == (8, False)
    assert (counted(1, 5), sizes.are_fewer) == (5, True)
    assert (counted(2, 4), counted(2, 3)) == (4, 3)
    left = loader.leaving_out()
    assert (left.samples, left.steps) == (None, 3)
    assert left.inferred == left.why["samples_per_epoch"]


class OfAccelerate:
    """A part of a sampler's batches, for one process."""

    def __init__(self, length, batches, split=False, even=True):
        self.length, self.batch_sampler = length, batches
        self.batch_size, self.drop_last = batches.batch_size, batches.drop_last
        self.num_processes, self.split_batches, self.even_batches = 2, split, even

    def __len__(self):
        return self.length


OfAccelerate.__module__ = OfAccelerate.__len__.__module__ = "accelerate.data_loader"
OfAccelerate.__name__ = "BatchSamplerShard"


@pytest.mark.parametrize(
    ("options", "drop_last", "expected"),
    [
        ({}, False, (8, 56, 7)),
        ({"split": True}, False, (4, 28, 7)),
        ({"even": False}, True, (8, 56, 7)),
        ({"even": False}, False, (8, None, 7)),
    ],
)
def test_one_processes_part_of_accelerates_batches_says_their_size(options, drop_last, expected):
    shard = OfAccelerate(7, batched(100, 8, drop_last).batch_sampler, **options)
    given = SimpleNamespace(batch_sampler=shard, batch_size=None, drop_last=False)
    loader = describe(given)
    assert (loader.batch_size, loader.samples, loader.steps) == expected
    assert loader.inferred is None


@given(st.integers(1, 200), st.integers(1, 20), st.booleans(), st.none() | st.integers(1, 500))
def test_the_sizes_of_a_pass_add_up_to_its_samples(samples, batch_size, is_known, other):
    """Known or not, a short last batch counts, also where no array has the batch first."""
    steps = -(-samples // batch_size)
    leading = [min(batch_size, samples - at) for at in range(0, samples, batch_size)]
    if is_known and other is not None:
        assume(other != batch_size and steps > 1)
        leading = [other] * steps
    sizes = Sizes(Loader(batch_size, samples if is_known else None, steps if is_known else None))
    assert sum(sizes.of(number, np.zeros(size)) for number, size in enumerate(leading)) == samples
