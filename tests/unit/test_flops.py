from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.catalog import WORKLOADS
from workloads.flops import Conv2D, Dense, Flatten, MaxPool2D, count

small = st.integers(1, 5)


@pytest.mark.parametrize(
    ("name", "forward_mflop"),
    [("cifar10-cnn", 79.367), ("mnist-mlp-small", 0.203), ("mnist-mlp-wide", 3.588)],
)
def test_forward_flops_are_those_of_the_table(name, forward_mflop):
    assert round(WORKLOADS[name].forward_flops / 1e6, 3) == forward_mflop


@pytest.mark.parametrize(
    ("name", "first_layer"),
    [
        ("cifar10-cnn", 2 * 32 * 32 * 3 * 3 * 3 * 32),
        ("mnist-mlp-small", 2 * 784 * 128),
        ("mnist-mlp-wide", 2 * 784 * 1000),
    ],
)
def test_training_is_three_passes_less_the_input_gradient_of_the_first_layer(name, first_layer):
    workload = WORKLOADS[name]
    assert workload.train_flops == 3 * workload.forward_flops - first_layer


@given(height=small, width=small, channels=small, filters=small, kernel=st.sampled_from([1, 3]))
def test_a_convolution_costs_what_its_loops_cost(height, width, channels, filters, kernel):
    weights = [*product(range(kernel), range(kernel), range(channels), range(filters))]
    multiply_adds = sum(1 for _ in product(range(height), range(width), weights))

    counts = count((height, width, channels), [Conv2D(filters, kernel)])

    assert counts.forward_flops == 2 * multiply_adds
    assert counts.parameters == len(weights) + filters
    assert counts.output_shape == (height, width, filters)


@given(st.lists(st.integers(1, 2000), min_size=2, max_size=6))
def test_dense_layers_cost_their_weight_matrices(widths):
    inputs, *units = widths
    matrices = [a * b for a, b in pairwise(widths)]

    counts = count((inputs,), [Dense(n) for n in units])

    assert counts.forward_flops == 2 * sum(matrices)
    assert counts.train_flops == 2 * (3 * sum(matrices) - matrices[0])
    assert counts.parameters == sum(matrices) + sum(units)


@given(filters=small, channels=small)
def test_a_1x1_convolution_of_one_pixel_is_a_dense_layer(filters, channels):
    convolution = count((1, 1, channels), [Conv2D(filters, 1), Flatten()])
    assert convolution == count((channels,), [Dense(filters)])


def test_layers_without_weights_change_the_shape_and_cost_nothing():
    counts = count((8, 6, 3), [MaxPool2D(2), Flatten()])
    assert counts.output_shape == (4 * 3 * 3,)
    assert (counts.parameters, counts.forward_flops, counts.train_flops) == (0, 0, 0)


def test_an_odd_image_loses_its_last_row_and_column_in_pooling():
    assert count((7, 5, 1), [MaxPool2D(2)]).output_shape == (3, 2, 1)


def test_a_layer_without_weights_does_not_count_as_the_first_layer():
    assert count((4, 4), [Flatten(), Dense(3)]).train_flops == 2 * (2 * 16 * 3)
