"""Count the tokens of a batch by its shape, and the share of them that isn't padding.

PyTorch is never imported: arrays are recognised by the names of their attributes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from dlmon.records import TokenShares

_IDS, _TOKENS = "input_ids", "tokens"
_TOKEN_IDS = "token_ids"
"""The name in KerasHub."""
_MASK, _LABELS = "attention_mask", "labels"
_EDGES = "edge_index"
_NOT_TRAINED_ON = -100
# Not those of eight bits, which are pixels or masks.
_INTEGERS = {"int16", "uint16", "int32", "uint32", "int64", "uint64"}
# Names of arrays that accompany the tokens.
_NO_TOKENS = ("label", "target", "mask", "position", "type", "index", "length", "idx")
# The depth in a batch, and the members of each level, in which tokens are searched.
_DEPTH, _BREADTH = 3, 64
DIMENSIONS = 2

# Reading another kind, such as one sharded over ranks, may need all ranks.
_PLAIN = {("torch", "Tensor"), ("numpy", "ndarray")}

INFERRED = "integers of two dimensions are taken for tokens"
ON_GPU = "the loader gives batches that are on a GPU already"
NOT_PLAIN = "the batches hold no plain tensors"
NO_MASK = "the batches hold no attention mask of the tokens' shape"
NO_LABELS = "the batches hold no labels of the tokens' shape"


class Tokens:
    """Counts the tokens of the batches of one pass.

    If the first batch has none, `are_there` is False and no other needs to be counted.
    """

    def __init__(self) -> None:
        self.are_there: bool | None = None
        """The first batch has tokens; None before it."""
        self.inferred: str | None = None
        """The inference of the tokens, if the batches don't name them."""
        self.sequence: int | None = None
        """The tokens of a sequence, if no loader says the samples of a batch."""
        self._dtype: Any = None
        # The batch is a dict, and one array has all of its tokens.
        self._has_all_in_ids = False

    def of(self, batch: Any, size: int | None) -> int | None:
        """Return the tokens of a batch of `size` samples; None if it has none."""
        try:
            # The usual case, and fast.
            kind = type(batch)
            if self._has_all_in_ids:
                ids = _dict_of(batch)[_IDS]
                is_tokens = True
            else:
                ids = batch[0] if kind is list or kind is tuple else batch
                is_tokens = self.inferred is not None and ids.dtype == self._dtype
            rows, length = ids.shape
            if is_tokens:
                return int(rows * length)
        except Exception:  # noqa: BLE001, S110 - then the whole batch is searched
            pass
        try:
            tokens = _named_tokens(batch)
            count = _count(_dict_of(batch).get(_IDS))
            self._has_all_in_ids = tokens is not None and count == tokens
            if tokens is None:
                tokens = _first_integers(batch, size)
                if tokens is not None:
                    self.inferred = INFERRED
                    self._dtype = next(arrays_in(batch)).dtype
        except Exception:  # noqa: BLE001 - an unreadable batch counts as one without tokens
            tokens = None
        if self.are_there is None:
            self.are_there = tokens is not None
        return tokens


def shares_of(batch: Any, t: int | None = None) -> TokenShares | None:
    """Return the tokens of a batch that are no padding and that are trained on.

    None if the batch has no `input_ids`. Arrays on a GPU are not read, as that would wait for it.
    """
    members = _members(batch)
    ids: Any = members.get(_IDS)
    if not _is_array(ids):
        return None
    counts: dict[str, int | None] = {}
    why: dict[str, str] = {}
    sources = {"not_padding": (_MASK, NO_MASK), "trained_on": (_LABELS, NO_LABELS)}
    for name, (key, reason) in sources.items():
        array: Any = members.get(key)
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
    """Return the tokens of a sequence in a batch; None without an array of two dimensions."""
    shapes = (array.shape for array in islice(arrays_in(batch), _BREADTH))
    return next((int(shape[-1]) for shape in shapes if len(shape) == DIMENSIONS), None)


def tokens_per_sample(inputs: Any) -> tuple[int, str | None] | None:
    """Return the tokens of each sample that Keras trains on, and how they were inferred.

    None if samples have no tokens, or differ in length.

    Args:
        inputs: the arrays, or the specs of a `tf.data.Dataset`, for a model's inputs.
    """
    members = inputs if isinstance(inputs, Mapping) else {}
    names = [name for name in members if isinstance(name, str)]
    token_names = [name for name in names if name.endswith((_IDS, _TOKEN_IDS))]
    token_names = token_names or [name for name in names if name == _TOKENS]
    if token_names:
        lengths = [_length(members[name]) for name in token_names]
        return None if None in lengths else (sum(lengths), None)  # type: ignore[arg-type]
    first = inputs[0] if isinstance(inputs, (list, tuple)) and inputs else inputs
    length = _length(first) if _is_array(first) and is_integer(first) else None
    return None if length is None or length == 1 else (length, INFERRED)


def _length(array: Any) -> int | None:
    """Return the second size of an array of two dimensions; None if it isn't fixed."""
    shape = array.shape
    return None if len(shape) != DIMENSIONS or shape[1] is None else int(shape[1])


def _dict_of(batch: Any) -> dict[str, Any]:
    """Return the dict that a batch is, or that a BatchEncoding wraps; empty if there is none.

    Properties are not read: they may run the script's own code.
    """
    members = batch if type(batch) is dict else getattr(batch, "__dict__", {}).get("data")
    return members if type(members) is dict else {}


def _members(value: Any) -> Mapping[str, Any]:
    """Return the members of a dict, a BatchEncoding, a named tuple or an object by name."""
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
    return math.prod(map(int, array.shape))


def is_integer(array: Any) -> bool:
    """Return whether an array holds integers that may be tokens."""
    dtype = array.dtype
    return getattr(dtype, "name", str(dtype)).rpartition(".")[2] in _INTEGERS


def _count(value: Any) -> int | None:
    """Return the number of tokens in an array, or in a list of samples of any lengths."""
    if _is_array(value):
        return _size(value) if len(value.shape) else None
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if isinstance(value[0], int):
        return len(value)
    counts = [_count(sample) for sample in value]
    return None if None in counts else sum(counts)  # type: ignore[arg-type]


def _named_tokens(batch: Any, depth: int = _DEPTH) -> int | None:
    """Return the sum of all tokens in a nested batch that have a name of tokens."""
    if depth < 0 or _is_array(batch):
        return None
    counts: list[int | None]
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        parts = [part for part in batch if not isinstance(part, (int, float))]
        counts = [_named_tokens(part, depth - 1) for part in parts]
    else:
        members = _members(batch)
        names = [name for name in members if isinstance(name, str)]
        token_names = [name for name in names if name == _IDS or name.endswith(f"_{_IDS}")]
        token_names = token_names or [name for name in names if name == _TOKENS]
        counts = [_count(members[name]) for name in token_names]
        if not token_names:
            counts = [_named_tokens(members[name], depth - 1) for name in islice(names, _BREADTH)]
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


def _first_integers(batch: Any, size: int | None) -> int | None:
    """Return the size of a batch's first array of two or more dimensions, if it has integers.

    If an image or another such array comes first, integers after it are its labels. A column of
    one number for each sample holds none. A list with one array for each sample counts as a whole.
    """
    arrays = list(islice(arrays_in(batch), _BREADTH))
    for array in arrays:
        if len(array.shape) > DIMENSIONS or not is_integer(array):
            return None
        if len(array.shape) == DIMENSIONS and array.shape[1] > 1:
            return _size(array)
    is_list = isinstance(batch, list) and size is not None and len(batch) == size > 1
    if is_list and len(arrays) == size:
        lengths = [_size(array) for array in arrays]
        # Arrays with a value for each sample are columns of a table.
        return sum(lengths) if set(lengths) != {size} else None
    return None


def arrays_in(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Yield the arrays of a nested batch in order, but for those with a name of no tokens."""
    if _is_array(value):
        yield value
    elif depth and isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        for part in islice(value, _BREADTH):
            yield from arrays_in(part, depth - 1)
    elif depth and not isinstance(value, (str, bytes, int, float)):
        members = _members(value)
        # The integers of a graph are its nodes.
        for name, part in islice(() if _EDGES in members else members.items(), _BREADTH):
            if not any(word in str(name).lower() for word in _NO_TOKENS):
                yield from arrays_in(part, depth - 1)
