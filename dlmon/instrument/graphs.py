"""Read the autograd graph of a loss: its inputs, its weights, and recomputed products.

Only the graphs of a script's first losses are read, before it goes backward. Nothing is changed,
and saved tensors are never unpacked, as that may compute them again.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dlmon.instrument.tokens import DIMENSIONS, is_integer

# Larger graphs are not read.
MOST_NODES = 10_000
# The most nodes between a weight and its product, which transpose it or change its type.
_MOST_VIEWS = 4

_WEIGHT = "torch::autograd::AccumulateGrad"
_COMPILED, _REENTRANT = "CompiledFunctionBackward", "CheckpointFunctionBackward"
_CHECKPOINT = "torch.utils.checkpoint"


def nodes_behind(loss: Any) -> Iterator[Any]:
    """Yield each node of the graph of a loss.

    Raises:
        LookupError: there are too many nodes.
    """
    visited: set[Any] = set()
    pending = [loss.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        if len(visited) >= MOST_NODES:
            raise LookupError("the graph has too many nodes")
        visited.add(node)
        pending += [child for child, _ in node.next_functions]
        yield node


def _saved_by(node: Any, names: dict[type, list[str]]) -> Iterator[Any]:
    """Yield the saved tensors of a node, still packed.

    Args:
        node: a node of PyTorch or of a script's own function.
        names: a cache of the attributes with saved tensors, by kind of node.
    """
    kind = type(node)
    if kind not in names:
        names[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    for name in names[kind]:
        saved = getattr(node, name)
        yield from saved if isinstance(saved, (tuple, list)) else (saved,)


def integers_and_weights_behind(loss: Any) -> tuple[set[int], set[int]]:
    """Return the sizes of integer arrays in a loss's graph, and the ids of its trained weights.

    The arrays have two dimensions; lookups in a table save them, and so does `torch.compile`.
    """
    torch = sys.modules["torch"]
    sizes: set[int] = set()
    weights: set[int] = set()
    for node in nodes_behind(loss):
        if node.name() == _WEIGHT:
            weights.add(id(node.variable))
        indices = getattr(node, "_raw_saved_indices", None)
        tensors = getattr(node, "_raw_saved_tensors", ()) if indices is None else (indices,)
        for tensor in tensors:
            array: Any = getattr(tensor, "data", None)
            if type(array) is torch.Tensor and len(array.shape) == DIMENSIONS and is_integer(array):
                rows, length = array.shape
                sizes.add(rows * length)
    return sizes, weights


def calls_behind(loss: Any) -> int | None:
    """Return the number of calls of a network in a loss's graph; None if the graph hides them.

    Each call uses every weight at least once, and some weight exactly once.
    """
    uses: Counter[int] = Counter()
    try:
        for node in nodes_behind(loss):
            for child, _ in node.next_functions:
                if child is not None and child.name() == _WEIGHT:
                    uses[id(child.variable)] += 1
    except Exception:  # noqa: BLE001 - then the calls that hooks have seen count
        return None
    return min(uses.values(), default=None)


@dataclass(frozen=True)
class Recomputed:
    """The ids of weights whose products are computed again in the backward pass.

    Attributes:
        reached: all trained weights in the graph.
        again: the weights whose products are computed again.
        hides_others: the products of trained weights outside of the graph are computed again too.
        last: weights whose product ends a checkpoint, which isn't computed again.
    """

    reached: frozenset[int]
    again: frozenset[int]
    hides_others: bool
    last: frozenset[int]


def recomputed_behind(loss: Any) -> Recomputed | None:
    """Return the recomputed weights in the graph of a loss; None if the graph hides them.

    `torch.utils.checkpoint` saves a holder in place of each tensor. It stops recomputing once the
    last holder is filled, so later products aren't computed again.
    """
    reached, again = set(), set()
    names: dict[type, list[str]] = {}
    hides_others = False
    ends: dict[int, tuple[int, set[int]]] = {}
    for node in nodes_behind(loss):
        name = node.name()
        if name == _WEIGHT:
            reached.add(id(node.variable))
        elif name == _COMPILED:
            return None
        hides_others |= name == _REENTRANT
        for saved in _saved_by(node, names):
            if not hasattr(saved, "unpack_hook"):
                # This version of PyTorch doesn't expose it.
                return None
            if type(saved.data).__module__ == _CHECKPOINT:
                weights, number = _weights_of(node), node._sequence_nr()
                again |= weights
                for cell in saved.unpack_hook.__closure__ or ():
                    region = id(cell.cell_contents)
                    if number >= ends.get(region, (0, weights))[0]:
                        ends[region] = number, weights
    last = {weight for _, weights in ends.values() for weight in weights}
    return Recomputed(frozenset(reached), frozenset(again), hides_others, frozenset(last))


def _weights_of(node: Any) -> set[int]:
    """Return the ids of the weights that a node multiplies with."""
    weights = set()
    for child, _ in node.next_functions:
        for _ in range(_MOST_VIEWS):
            if child is None or child.name() == _WEIGHT:
                break
            grandchildren = child.next_functions
            child = grandchildren[0][0] if len(grandchildren) == 1 else None
        if child is not None and child.name() == _WEIGHT:
            weights.add(id(child.variable))
    return weights


class FirstLoss:
    """Keeps the recomputed weights of a script's first loss, until they are asked for."""

    def __init__(self) -> None:
        self.is_on = True
        """`went_backward` waits for a loss."""
        self._recomputed: Recomputed | None = None

    def went_backward(self, loss: Any) -> None:
        self.is_on = False
        # After any error, the network's own switches tell.
        with contextlib.suppress(Exception):
            self._recomputed = recomputed_behind(loss)

    def seen(self) -> Recomputed | None:
        """Return the recomputed weights of the first loss, and read no other loss."""
        self.is_on = False
        return self._recomputed
