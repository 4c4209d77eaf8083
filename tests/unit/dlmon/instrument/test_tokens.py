from collections import UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from dlmon.instrument.tokens import (
    INFERRED,
    NO_LABELS,
    NO_MASK,
    NOT_PLAIN,
    ON_GPU,
    Tokens,
    shares_of,
    tokens_per_sample,
)

Pair = namedtuple("Pair", ["inputs", "labels"])


def ints(*shape, dtype=np.int64):
    return np.ones(shape, dtype)


def floats(*shape):
    return np.ones(shape, np.float32)


@dataclass
class Batch:
    input_ids: np.ndarray
    labels: np.ndarray

    @property
    def data(self):
        raise AssertionError("a property of the script's own was asked for")


@dataclass
class Unnamed:
    labels: np.ndarray
    text: np.ndarray


class Lazy:
    """What gives its members by their names, and is no dict."""

    def __init__(self, **members):
        self._of = members

    def keys(self):
        return self._of.keys()

    def __getitem__(self, name):
        return self._of[name]


NAMED = [
    ({"input_ids": ints(4, 8)}, 32),
    ({"labels": ints(4, 9), "tokens": ints(4, 8)}, 32),
    (UserDict(input_ids=ints(4, 8), attention_mask=ints(4, 8)), 32),
    (Lazy(input_ids=ints(4, 8)), 32),
    (Batch(ints(4, 8), ints(4, 8)), 32),
    ((Batch(ints(4, 8), ints(4, 8)), floats(4)), 32),
    # Packed in one row, a multiple choice, and pairs of an answer and another.
    ({"input_ids": ints(100), "position_ids": ints(100)}, 100),
    ({"input_ids": ints(4, 3, 8)}, 96),
    ({"chosen_input_ids": ints(4, 8), "rejected_input_ids": ints(4, 6)}, 56),
    ({"input_ids": ints(4, 8), "decoder_input_ids": ints(4, 6)}, 56),
    ({"model_inputs": {"input_ids": ints(4, 8)}, "weights": floats(4)}, 32),
    # Samples of their own lengths.
    ({"input_ids": [ints(3), ints(5)]}, 8),
    ({"input_ids": [[1, 2, 3], [4, 5]]}, 5),
    ([{"input_ids": ints(3)}, {"input_ids": ints(5)}], 8),
    ({"input_ids": ints(4, 8), "pixel_values": floats(4, 3, 8, 8)}, 32),
]
INFERRED_ONES = [
    ((ints(4, 8), ints(4, 8)), 32),
    ([ints(4, 8)], 32),
    ([ints(4, 8, dtype=np.int32), floats(4)], 32),
    (ints(4, 8), 32),
    (Pair(ints(4, 8), ints(4)), 32),
    (Unnamed(ints(4, 7), ints(4, 8)), 32),
    ({"x": ints(4, 8), "y": ints(4)}, 32),
    ({"label": ints(4, 8), "x": ints(4, 6)}, 24),
    ((ints(4), ints(4, 8)), 32),
    ([ints(3), ints(5), ints(1), ints(2)], 11),
]
NONE = [
    (floats(4, 3, 8, 8), ints(4)),
    # Several labels for each image, and a map of them.
    (floats(4, 3, 8, 8), ints(4, 8)),
    (floats(4), ints(4, 8)),
    {"image": floats(4, 3, 8, 8), "labels": ints(4, 8, 8)},
    # Images of integers, flat ones of bytes, and masks.
    (ints(4, 3, 8, 8), ints(4)),
    (ints(4, 64, dtype=np.uint8), ints(4)),
    (ints(4, 64, dtype=bool), ints(4)),
    {"labels": ints(4, 8), "attention_mask": ints(4, 8)},
    # A graph, and columns of a table.
    Lazy(x=ints(30, 9), edge_index=ints(2, 60)),
    [ints(4), ints(4), ints(4), ints(4)],
    (ints(4), ints(4)),
    # A class for each graph of a dense batch comes before the nodes.
    Lazy(y=ints(4, 1), x=floats(4, 30, 3)),
    [],
    None,
    "text",
    5,
    object(),
]


@pytest.mark.parametrize(("batch", "held"), NAMED)
def test_tokens_with_a_name_are_counted_by_their_shape(batch, held):
    tokens = Tokens()
    assert [tokens.of(batch, 4), tokens.of(batch, 4)] == [held, held]
    assert (tokens.are_there, tokens.inferred) == (True, None)


@pytest.mark.parametrize(("batch", "held"), INFERRED_ONES)
def test_integers_of_two_dimensions_are_taken_for_tokens_and_that_is_said(batch, held):
    tokens = Tokens()
    assert [tokens.of(batch, 4), tokens.of(batch, 4)] == [held, held]
    assert (tokens.are_there, tokens.inferred) == (True, INFERRED)


@pytest.mark.parametrize("batch", NONE)
def test_images_labels_and_tables_hold_no_tokens(batch):
    tokens = Tokens()
    assert tokens.of(batch, 4) is None
    assert (tokens.are_there, tokens.inferred) == (False, None)


def test_each_batch_has_its_own_length():
    tokens = Tokens()
    lengths = (8, 3, 12)
    assert [tokens.of({"input_ids": ints(4, each)}, 4) for each in lengths] == [32, 12, 48]
    other = Tokens()
    assert [other.of((ints(4, each), ints(4)), 4) for each in lengths] == [32, 12, 48]
    assert other.of((floats(4, 8), ints(4)), 4) is None


def masked(*rows):
    return np.array(rows)


def test_the_shares_are_of_the_mask_and_of_the_labels():
    batch = UserDict(
        input_ids=ints(2, 4),
        attention_mask=masked([1, 1, 1, 1], [1, 1, 0, 0]),
        labels=masked([-100, -100, 5, 6], [7, -100, -100, -100]),
    )
    shares = shares_of(batch, 1)
    assert (shares.tokens, shares.not_padding, shares.trained_on, shares.why) == (8, 6, 3, {})


def test_what_has_neither_or_others_of_another_shape_says_why():
    unknown = {"not_padding": NO_MASK, "trained_on": NO_LABELS}
    assert shares_of({"input_ids": ints(2, 4)}, 1).why == unknown
    classes = {"input_ids": ints(2, 4), "labels": ints(2), "attention_mask": ints(2, 1, 4, 4)}
    shares = shares_of(classes, 1)
    assert (shares.not_padding, shares.trained_on, shares.why) == (None, None, unknown)
    assert shares_of((ints(2, 4), ints(2, 4))) is None


class OnGpu:
    """An array that raises where it is looked into."""

    shape, dtype, is_cpu = (2, 4), "torch.int64", False
    __hash__ = None

    def __ne__(self, other):
        raise AssertionError("it was waited for")


class Spread(OnGpu):
    is_cpu = True


@pytest.mark.parametrize(("kind", "reason"), [(OnGpu, ON_GPU), (Spread, NOT_PLAIN)])
def test_what_lies_on_a_gpu_or_on_several_ranks_is_not_looked_into(kind, reason):
    batch = {"input_ids": kind(), "attention_mask": kind(), "labels": kind()}
    assert shares_of(batch, 1).why == dict.fromkeys(("not_padding", "trained_on"), reason)
    assert Tokens().of(batch, 2) == 8


def test_an_array_alone_is_asked_for_nothing_by_name():
    # PyTorch warns a script, once, of a tensor that is asked so.
    class Tensor:
        dtype, shape = np.dtype(np.int64), (4, 8)

        @property
        def data(self):
            return self

        def __getitem__(self, name):
            asked.append(name)

    asked = []
    tokens = Tokens()
    assert [tokens.of(Tensor(), 4) for _ in range(3)] == [32, 32, 32]
    assert asked == []


class Spec:
    """What a dataset says of its arrays: of sizes that differ, None."""

    shape, dtype = (), np.dtype("int32")

    def __init__(self, *shape):
        self.shape = shape


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ({"padding_mask": floats(4, 8), "token_ids": ints(4, 8)}, (8, None)),
        ({"input_ids": Spec(None, 8), "labels": Spec(None, 8)}, (8, None)),
        ({"encoder_token_ids": ints(4, 8), "decoder_token_ids": ints(4, 5)}, (13, None)),
        (ints(4, 8), (8, INFERRED)),
        ([Spec(None, 8), floats(4, 2)], (8, INFERRED)),
        # Texts of several lengths, one word each, images, and labels alone.
        (Spec(None, None), None),
        ({"token_ids": ints(4, 8), "other_token_ids": Spec(None, None)}, None),
        (ints(4, 1), None),
        (ints(4, 8, 8, 3), None),
        (ints(4, 64, dtype=np.uint8), None),
        (floats(4, 8), None),
        ({"labels": ints(4, 8)}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_tokens_of_each_sample_are_known_where_all_have_as_many(inputs, found):
    assert tokens_per_sample(inputs) == found
