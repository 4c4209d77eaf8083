import pytest
from hypothesis import strategies as st

from workloads.catalog import WORKLOADS
from workloads.layers import (
    Branches,
    Conv2D,
    count,
)

small = st.integers(1, 5)


@pytest.mark.parametrize(
    ("name", "forward_mflop"),
    [
        ("cifar10-cnn", 79.367),
        ("mnist-mlp-small", 0.203),
        ("mnist-mlp-wide", 3.588),
        ("mnist-mlp", 1.337),
        ("mnist-cnn", 23.985),
        ("cifar10-deep-cnn", 41.482),
        ("imdb-bilstm", 19.661),
        ("nietzsche-lstm", 7.592),
    ],
)
def test_forward_flops_are_those_of_the_published_networks(name, forward_mflop):
    assert round(WORKLOADS[name].forward_flops / 1e6, 3) == forward_mflop


@pytest.mark.parametrize(
    ("name", "million_multiply_adds"),
    [
        ("alexnet", 714),
        ("overfeat", 2_801),
        ("vgg-a", 7_609),
        ("vgg16", 15_470),
        ("googlenet", 1_583),
        ("resnet50", 3_858),
        ("resnet101", 7_570),
        ("resnet152", 11_282),
    ],
)
def test_multiply_adds_are_those_of_the_published_networks(name, million_multiply_adds):
    assert round(WORKLOADS[name].forward_flops / 2 / 1e6) == million_multiply_adds


def added(*sides):
    return Branches(sides, added=True)


@pytest.mark.parametrize(
    "layer",
    [
        added((Conv2D(6, 3, strides=2),), ()),
        added((Conv2D(5, 1),), (Conv2D(6, 1),)),
        Branches(((Conv2D(6, 3, strides=2),), (Conv2D(6, 3),))),
    ],
)
def test_sides_of_different_shapes_are_a_mistake(layer):
    with pytest.raises(ValueError, match="different shapes"):
        count((8, 8, 4), [layer])
