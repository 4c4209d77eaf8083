"""How many tokens a batch holds, by its shape, and what share of them means something.

PyTorch is never imported: arrays are recognised by the names of their attributes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from dlmon.records import TokenShares

_IDS, _TOKENS = "input_ids", "tokens"
_TOKEN_IDS = "token_ids"
"""What KerasHub calls them."""
_MASK, _LABELS = "attention_mask", "labels"
_EDGES = "edge_index"
_NOT_TRAINED_ON = -100
# Pixels are integers of eight bits, and so are masks.
_INTEGERS = {"int16", "uint16", "int32", "uint32", "int64", "uint64"}
# What stands beside the tokens: alone, it is none.
_BESIDE = ("label", "target", "mask", "position", "type", "index", "length", "idx")
# So deep in a batch, and so far in each part of it, tokens are looked for.
_DEPTH, _BREADTH = 3, 64
DIMENSIONS = 2

# Of others, as one that is spread over ranks, to look into it may take all of them.
_PLAIN = {("torch", "Tensor"), ("numpy", "ndarray")}

INFERRED = "integers of two dimensions are taken for tokens"
ON_GPU = "the loader gives batches that are on a GPU already"
NOT_PLAIN = "the batches hold no plain tensors"
NO_MASK = "the batches hold no attention mask of the tokens' shape"
NO_LABELS = "the batches hold no labels of the tokens' shape"


class Tokens:
    """Counts the tokens of the batches of one pass; once a second, it looks into one.

    The first batch says whether there are any: of what holds none, no other is looked at.
    """

    def __init__(self) -> None:
        self.are_there: bool | None = None
        """None before the first batch."""
        self.inferred: str | None = None
        """How they were found, where what was found may be none."""
        self.sequence: int | None = None
        """How many tokens a sequence has, where no loader says how many samples those are."""
        self._dtype: Any = None
        # Whether the batch is a dict in which one array has all of them.
        self._are_all = False

    def of(self, batch: Any, size: int | None) -> int | None:
        """Return the tokens of a batch of so many samples; None where it holds none."""
        try:
            # As nearly always.
            kind = type(batch)
            if self._are_all:
                ids = _dict_of(batch)[_IDS]
                is_found = True
            else:
                ids = batch[0] if kind is list or kind is tuple else batch
                is_found = self.inferred is not None and ids.dtype == self._dtype
            rows, length = ids.shape
            if is_found:
                return int(rows * length)
        except Exception:  # noqa: BLE001, S110 - it is looked at in full
            pass
        try:
            found = _named(batch)
            held = _dict_of(batch)
            self._are_all = found is not None and _count(held.get(_IDS)) == found
            if found is None:
                found = _first_integers(batch, size)
                if found is not None:
                    self.inferred = INFERRED
                    self._dtype = next(arrays_in(batch)).dtype
        except Exception:  # noqa: BLE001 - what can't be looked at has none
            found = None
        if self.are_there is None:
            self.are_there = found is not None
        return found


def shares_of(batch: Any, t: int | None = None) -> TokenShares | None:
    """Return how many tokens of a batch mean something; None where it holds no named tokens.

    What is on a GPU is not looked at: that would wait for it.
    """
    held = _members(batch)
    ids: Any = held.get(_IDS)
    if not _is_array(ids):
        return None
    counts: dict[str, int | None] = {}
    why: dict[str, str] = {}
    looked_at = {"not_padding": (_MASK, NO_MASK), "trained_on": (_LABELS, NO_LABELS)}
    for name, (key, reason) in looked_at.items():
        array: Any = held.get(key)
        if not _is_array(array) or tuple(array.shape) != tuple(ids.shape):
            counts[name], why[name] = None, reason
        elif not getattr(array, "is_cpu", True):
            counts[name], why[name] = None, ON_GPU
        elif (type(array).__module__, type(array).__name__) not in _PLAIN:
            counts[name], why[name] = None, NOT_PLAIN
        else:
            marked: Any = array != (0 if key == _MASK else _NOT_TRAINED_ON)
            counts[name] = int(marked.sum())
    t = time.monotonic_ns() if t is None else t
    return TokenShares(t=t, tokens=_size(ids), **counts, why=why)


def length_of(batch: Any) -> int | None:
    """Return how many tokens a sequence of a batch has; None of what has no two dimensions."""
    shapes = (array.shape for array in islice(arrays_in(batch), _BREADTH))
    return next((int(shape[-1]) for shape in shapes if len(shape) == DIMENSIONS), None)


def tokens_per_sample(inputs: Any) -> tuple[int, str | None] | None:
    """Return how many tokens each sample has of what Keras trains on, and how they were found.

    None where it holds none, or where samples differ in length.

    Args:
        inputs: arrays, or the specs of a `tf.data.Dataset`, that a model is given.
    """
    held = inputs if isinstance(inputs, Mapping) else {}
    names = [name for name in held if isinstance(name, str)]
    own = [name for name in names if name.endswith((_IDS, _TOKEN_IDS))]
    own = own or [name for name in names if name == _TOKENS]
    if own:
        lengths = [_length(held[name]) for name in own]
        return None if None in lengths else (sum(lengths), None)  # type: ignore[arg-type]
    first = inputs[0] if isinstance(inputs, (list, tuple)) and inputs else inputs
    length = _length(first) if _is_array(first) and is_integer(first) else None
    return None if length is None or length == 1 else (length, INFERRED)


def _length(array: Any) -> int | None:
    """Return the second size of an array of two dimensions; None where that isn't fixed."""
    shape = array.shape
    return None if len(shape) != DIMENSIONS or shape[1] is None else int(shape[1])


def _dict_of(batch: Any) -> dict[str, Any]:
    """Return the dict that a batch is, or that a BatchEncoding holds; empty where there is none.

    No property is asked: it may be the script's own.
    """
    held = batch if type(batch) is dict else getattr(batch, "__dict__", {}).get("data")
    return held if type(held) is dict else {}


def _members(value: Any) -> Mapping[str, Any]:
    """Return what a batch holds by name: of a dict, a BatchEncoding, a dataclass or the like."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Mapping) or hasattr(value, "keys"):
        return {name: value[name] for name in islice(value.keys(), _BREADTH)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=False))
    return getattr(value, "__dict__", {})


def _is_array(value: Any) -> bool:
    return hasattr(type(value), "shape") and hasattr(type(value), "dtype")


def _size(array: Any) -> int:
    size = 1
    for length in array.shape:
        size *= int(length)
    return size


def is_integer(array: Any) -> bool:
    """Return whether an array holds integers that may be tokens."""
    dtype = array.dtype
    return getattr(dtype, "name", str(dtype)).rpartition(".")[2] in _INTEGERS


def _count(value: Any) -> int | None:
    """Return how many tokens an array, or a list of samples of their own lengths, holds."""
    if _is_array(value):
        return _size(value) if len(value.shape) else None
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if isinstance(value[0], int):
        return len(value)
    counts = [_count(each) for each in value]
    return None if None in counts else sum(counts)  # type: ignore[arg-type]


def _named(batch: Any, depth: int = _DEPTH) -> int | None:
    """Return the tokens that a batch holds under a name of theirs, all of them together."""
    if depth < 0 or _is_array(batch):
        return None
    counts: list[int | None]
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        counts = [_named(each, depth - 1) for each in batch if not isinstance(each, (int, float))]
    else:
        held = _members(batch)
        names = [name for name in held if isinstance(name, str)]
        own = [name for name in names if name == _IDS or name.endswith(f"_{_IDS}")]
        own = own or [name for name in names if name == _TOKENS]
        counts = [_count(held[name]) for name in own]
        if not own:
            counts = [_named(held[name], depth - 1) for name in islice(names, _BREADTH)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _first_integers(batch: Any, size: int | None) -> int | None:
    """Return the size of a batch's first array of two or more dimensions, if it has integers.

    Another one, as an image, is what is learned from: integers behind it are its labels. Of a list
    of one array a sample, it is that of all.
    """
    arrays = list(islice(arrays_in(batch), _BREADTH))
    for array in arrays:
        if len(array.shape) > DIMENSIONS or not is_integer(array):
            return None
        if len(array.shape) == DIMENSIONS:
            return _size(array)
    is_list = isinstance(batch, list) and size is not None and len(batch) == size > 1
    if is_list and len(arrays) == size:
        lengths = [_size(array) for array in arrays]
        # Columns of a table are as long as there are samples.
        return sum(lengths) if set(lengths) != {size} else None
    return None


def arrays_in(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Yield the arrays of a batch in their order, but for what stands beside tokens by name."""
    if _is_array(value):
        yield value
    elif depth and isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        for each in islice(value, _BREADTH):
            yield from arrays_in(each, depth - 1)
    elif depth and not isinstance(value, (str, bytes, int, float)):
        held = _members(value)
        # The integers of a graph are its nodes.
        for name, each in islice(() if _EDGES in held else held.items(), _BREADTH):
            if not any(word in str(name).lower() for word in _BESIDE):
                yield from arrays_in(each, depth - 1)
