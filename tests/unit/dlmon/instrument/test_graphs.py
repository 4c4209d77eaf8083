"""What a loss says of its way back, where it can't be said as PyTorch does in operations.py."""

from types import SimpleNamespace

import pytest

from dlmon.instrument.graphs import FirstLoss, nodes_behind, recomputed_behind

WEIGHT = "torch::autograd::AccumulateGrad"


class Node:
    """A node of a graph, as far as it is looked at."""

    def __init__(self, name, *following, **kept):
        self.next_functions = [(each, 0) for each in following]
        self.name = lambda: name
        self.__dict__.update(kept)


class Keeping(Node):
    _raw_saved_self = object()


def weight():
    return Node(WEIGHT, variable=object())


def loss_of(node):
    return SimpleNamespace(grad_fn=node)


def test_a_graph_is_walked_once_through_each_node():
    shared = weight()
    graph = Node("Add", Node("Mul", shared, None), shared)
    assert [node.name() for node in nodes_behind(loss_of(graph))] == ["Add", WEIGHT, "Mul"]


def test_where_nothing_is_computed_again_the_loss_says_so():
    found = recomputed_behind(loss_of(Node("Mm", one := weight(), other := weight())))
    assert found.reached == {id(one.variable), id(other.variable)}
    assert (found.again, found.hides_others, found.last) == (frozenset(), False, frozenset())


@pytest.mark.parametrize(
    "node",
    [Node("CompiledFunctionBackward", weight()), Keeping("Mm", weight())],
    ids=["compiled", "an older PyTorch"],
)
def test_where_a_loss_does_not_show_it_nothing_is_said(node):
    assert recomputed_behind(loss_of(node)) is None


def test_only_the_first_loss_is_looked_at_and_an_error_is_ours_to_keep():
    first = FirstLoss()
    first.went_backward(object())
    assert (first.is_on, first.seen()) == (False, None)


def test_of_a_graph_that_is_too_deep_nothing_is_said():
    node = None
    for _ in range(10_001):
        node = Node("Add", node)
    with pytest.raises(LookupError):
        recomputed_behind(loss_of(node))
    first = FirstLoss()
    first.went_backward(loss_of(node))
    assert first.seen() is None
