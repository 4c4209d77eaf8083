"""Read what PyTorch keeps to go backward from a loss: from what it was computed, and what again.

It is looked at before a script goes backward, of its first losses only; nothing in it is changed,
and nothing that a hook has put away is asked for, as that may compute it again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dlmon.instrument.tokens import DIMENSIONS, is_integer

# Of what is deeper, nothing is known.
MOST_NODES = 10_000
# Between a weight and its product it may be turned, and copied as another type.
_MOST_VIEWS = 4

_WEIGHT = "torch::autograd::AccumulateGrad"
_COMPILED, _REENTRANT = "CompiledFunctionBackward", "CheckpointFunctionBackward"
_CHECKPOINT = "torch.utils.checkpoint"


def nodes_behind(loss: Any) -> Iterator[Any]:
    """Yield each node of the graph that goes backward from a loss.

    Raises:
        LookupError: there are too many.
    """
    seen: set[Any] = set()
    left = [loss.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        if len(seen) >= MOST_NODES:
            raise LookupError("the graph has too many nodes")
        seen.add(node)
        left += [following for following, _ in node.next_functions]
        yield node


def _kept(node: Any, names: dict[type, list[str]]) -> Iterator[Any]:
    """Yield what a node keeps: PyTorch's own functions, and those of a script.

    Args:
        node: of the graph.
        names: the attributes that nodes of a kind keep it in, once they were looked up.
    """
    kind = type(node)
    if kind not in names:
        names[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    for name in names[kind]:
        kept = getattr(node, name)
        yield from kept if isinstance(kept, (tuple, list)) else (kept,)


def integers_and_weights_behind(loss: Any) -> tuple[set[int], set[int]]:
    """Return what a loss was computed with: how large its integers are, and which weights train.

    The integers are arrays of two dimensions: they are kept where a table is looked up, or by what
    `torch.compile` made. The weights are given by their ids.
    """
    torch = sys.modules["torch"]
    sizes: set[int] = set()
    weights: set[int] = set()
    for node in nodes_behind(loss):
        if node.name() == _WEIGHT:
            weights.add(id(node.variable))
        indices = getattr(node, "_raw_saved_indices", None)
        kept = getattr(node, "_raw_saved_tensors", ()) if indices is None else (indices,)
        for each in kept:
            array: Any = getattr(each, "data", None)
            if type(array) is torch.Tensor and len(array.shape) == DIMENSIONS and is_integer(array):
                rows, length = array.shape
                sizes.add(rows * length)
    return sizes, weights


def calls_behind(loss: Any) -> int | None:
    """Return how many calls of a network a loss was computed with; None where that isn't seen.

    A weight is used once in each call, at least one of them.
    """
    uses: Counter[int] = Counter()
    try:
        for node in nodes_behind(loss):
            for following, _ in node.next_functions:
                if following is not None and following.name() == _WEIGHT:
                    uses[id(following.variable)] += 1
    except Exception:  # noqa: BLE001 - whatever it is, the calls that were seen count
        return None
    return min(uses.values(), default=None)


@dataclass(frozen=True)
class Recomputed:
    """Which weights' products are computed again for the way back; weights are given by their id.

    Attributes:
        reached: the weights that train, as far as the graph shows them.
        again: those of them whose products are computed again.
        hides_others: whether weights that train, and aren't in the graph, are so too.
        last: those whose product is what a checkpoint ends with: it isn't computed again.
    """

    reached: frozenset[int]
    again: frozenset[int]
    hides_others: bool
    last: frozenset[int]


def recomputed_behind(loss: Any) -> Recomputed | None:
    """Return what is computed again on the way back from a loss; None where that isn't seen.

    What `torch.utils.checkpoint` does not keep it has a holder for, until the last one is filled:
    what is computed after that, it does not compute again.
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
        for kept in _kept(node, names):
            if not hasattr(kept, "unpack_hook"):
                # This PyTorch doesn't say it.
                return None
            if type(kept.data).__module__ == _CHECKPOINT:
                weights, number = _weights_of(node), node._sequence_nr()
                again |= weights
                for cell in kept.unpack_hook.__closure__ or ():
                    region = id(cell.cell_contents)
                    if number >= ends.get(region, (0, weights))[0]:
                        ends[region] = number, weights
    last = {weight for _, weights in ends.values() for weight in weights}
    return Recomputed(frozenset(reached), frozenset(again), hides_others, frozenset(last))


def _weights_of(node: Any) -> set[int]:
    """Return the weights that a node's product is made with."""
    weights = set()
    for following, _ in node.next_functions:
        for _ in range(_MOST_VIEWS):
            if following is None or following.name() == _WEIGHT:
                break
            after = following.next_functions
            following = after[0][0] if len(after) == 1 else None
        if following is not None and following.name() == _WEIGHT:
            weights.add(id(following.variable))
    return weights


class FirstLoss:
    """Keeps what the first loss of a script says, until somebody asks for it."""

    def __init__(self) -> None:
        self.is_on = True
        """Whether `went_backward` wants to know."""
        self._recomputed: Recomputed | None = None

    def went_backward(self, loss: Any) -> None:
        self.is_on = False
        try:
            self._recomputed = recomputed_behind(loss)
        except Exception:  # noqa: BLE001 - whatever it is, the network says it itself then
            self._recomputed = None

    def seen(self) -> Recomputed | None:
        """Return what is computed again of that loss, and look at no other one."""
        self.is_on = False
        return self._recomputed
