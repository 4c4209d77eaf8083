from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.catalog import WORKLOADS
from workloads.layers import (
    LSTM,
    BatchNormalization,
    Branches,
    Conv2D,
    Dense,
    Embedding,
    Flatten,
    GlobalAveragePool,
    MaxPool2D,
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


@pytest.mark.parametrize(
    ("name", "first_layer"),
    [
        ("cifar10-cnn", 2 * 32 * 32 * 3 * 3 * 3 * 32),
        ("cifar10-deep-cnn", 2 * 32 * 32 * 3 * 3 * 3 * 32),
        ("mnist-mlp-small", 2 * 784 * 128),
        ("mnist-mlp-wide", 2 * 784 * 1000),
        ("mnist-mlp", 2 * 784 * 512),
        ("mnist-cnn", 2 * 26 * 26 * 3 * 3 * 32),
        # An embedding before it has weights, which need the gradient.
        ("imdb-fasttext", 0),
        ("imdb-bilstm", 0),
        # The recurrent product of the first layer needs it all the same.
        ("nietzsche-lstm", 40 * 2 * 57 * 4 * 128),
        ("alexnet", 2 * 55 * 55 * 11 * 11 * 3 * 64),
        ("overfeat", 2 * 56 * 56 * 11 * 11 * 3 * 96),
        ("vgg-a", 2 * 224 * 224 * 3 * 3 * 3 * 64),
        ("vgg16", 2 * 224 * 224 * 3 * 3 * 3 * 64),
        *((name, 2 * 112 * 112 * 7 * 7 * 3 * 64) for name in ("googlenet", "resnet50")),
        *((name, 2 * 112 * 112 * 7 * 7 * 3 * 64) for name in ("resnet101", "resnet152")),
    ],
)
def test_training_is_three_passes_less_the_input_gradient_of_the_first_layer(name, first_layer):
    workload = WORKLOADS[name]
    assert workload.train_flops == 3 * workload.forward_flops - first_layer
    # The optimizer's own operations are counted in no mode.
    modes = ("train", "gradients", "inference")
    assert [workload.flops_per_sample(mode) for mode in modes] == [
        *(workload.train_flops, workload.train_flops, workload.forward_flops),
    ]


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


def stops(length, window, strides, around):
    """Move a window over `length` pixels between `around` more on each side, one by one."""
    starts = range(-around, length + around, strides)
    return [start for start in starts if start + window <= length + around]


@given(
    height=st.integers(5, 9),
    width=st.integers(5, 9),
    window=st.integers(1, 5),
    strides=st.integers(1, 4),
    around=st.integers(0, 2),
)
def test_a_window_stops_wherever_it_fits(height, width, window, strides, around):
    rows, columns = (len(stops(length, window, strides, around)) for length in (height, width))

    convolved = count((height, width, 3), [Conv2D(4, window, strides, padding=around)])
    pooled = count((height, width, 3), [MaxPool2D(window, strides, padding=around)])

    assert convolved.output_shape == (rows, columns, 4)
    assert convolved.forward_flops == 2 * rows * columns * window**2 * 3 * 4
    assert pooled.output_shape == (rows, columns, 3)


@given(length=st.integers(5, 40), window=st.integers(1, 5), strides=st.integers(1, 4))
def test_same_padding_leaves_no_pixel_out_and_valid_adds_none(length, window, strides):
    image = (length, length, 1)
    same = count(image, [Conv2D(1, window, strides)]).output_shape
    assert same[:2] == (len(range(0, length, strides)),) * 2
    for layer in (Conv2D, lambda _, *sizes, padding: MaxPool2D(*sizes, padding=padding)):
        valid = count(image, [layer(1, window, strides, padding="valid")]).output_shape
        assert valid == count(image, [layer(1, window, strides, padding=0)]).output_shape


@given(steps=small, inputs=small, units=small)
def test_an_lstm_costs_what_its_four_gates_cost_at_every_step(steps, inputs, units):
    of_input = steps * 2 * inputs * 4 * units
    recurrent = steps * 2 * units * 4 * units

    counts = count((steps, inputs), [LSTM(units)])

    assert counts.forward_flops == of_input + recurrent
    assert counts.train_flops == 2 * of_input + 3 * recurrent
    assert counts.parameters == 4 * (inputs * units + units * units + units)
    assert counts.output_shape == (units,)


@given(steps=small, inputs=small, units=small)
def test_both_directions_cost_twice_one(steps, inputs, units):
    one = count((steps, inputs), [LSTM(units)])
    both = count((steps, inputs), [LSTM(units, bidirectional=True)])
    assert both.parameters == 2 * one.parameters
    assert both.train_flops == 2 * one.train_flops
    assert both.output_shape == (2 * units,)


def test_an_embedding_costs_nothing_but_its_weights_need_gradients():
    counts = count((7,), [Embedding(100, 5), LSTM(3)])
    assert counts.parameters == 100 * 5 + 4 * 3 * (5 + 3 + 1)
    assert counts.train_flops == 3 * counts.forward_flops > 0


def test_the_mean_of_a_sequence_or_an_image_has_its_channels():
    assert count((7,), [Embedding(10, 5), GlobalAveragePool()]).output_shape == (5,)
    assert count((4, 6, 3), [GlobalAveragePool()]).output_shape == (3,)


def test_normalization_has_four_weights_a_channel_and_keeps_the_shape():
    counts = count((4, 6, 3), [BatchNormalization()])
    assert (counts.parameters, counts.forward_flops, counts.output_shape) == (12, 0, (4, 6, 3))


@given(ones=small, threes=small, inputs=small)
def test_branches_cost_their_sum_and_join_their_channels(ones, threes, inputs):
    image = (4, 4, inputs)
    chains = [(Conv2D(ones, 1),), (Conv2D(2, 1), Conv2D(threes, 3)), (MaxPool2D(3, 1, "same"),)]
    apart = [count(image, chain) for chain in chains]

    joined = count(image, [Branches(tuple(chains))])

    assert joined.parameters == sum(counts.parameters for counts in apart)
    assert joined.forward_flops == sum(counts.forward_flops for counts in apart)
    assert joined.train_flops == sum(counts.train_flops for counts in apart)
    assert joined.output_shape == (4, 4, ones + threes + inputs)


def test_after_layers_with_weights_every_branch_needs_the_gradient_of_its_input():
    stem = Conv2D(3, 1)
    branches = Branches(((Conv2D(2, 1),), (Conv2D(2, 3),)))
    alone = count((4, 4, 3), [stem])
    both = count((4, 4, 3), [stem, branches])
    assert both.train_flops - alone.train_flops == 3 * (both.forward_flops - alone.forward_flops)


def added(*sides):
    return Branches(sides, added=True)


def test_a_residual_block_adds_its_two_sides():
    image = (8, 8, 4)
    narrow = added((Conv2D(2, 1), Conv2D(4, 3)), ())
    assert count(image, [narrow]).output_shape == image
    assert count(image, [narrow]).parameters == (4 * 2 + 2) + (9 * 2 * 4 + 4)

    widening = added((Conv2D(6, 3, strides=2),), (Conv2D(6, 1, strides=2),))
    assert count(image, [widening]).output_shape == (4, 4, 6)
    assert count(image, [widening]).forward_flops == 2 * 4 * 4 * (9 + 1) * 4 * 6


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
