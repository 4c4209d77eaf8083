"""An axis of values: it holds them all, and its labels are true."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.value_axis import axis_numbers, value_range


@pytest.mark.parametrize(
    ("top", "bottom", "labels"),
    [
        (3000, 0, ("3k", "1.5k", "0")),
        (0.5, 0, ("0.5", "0.25", "0")),
        (2.305, 2.295, ("2.305", "2.300", "2.295")),
        (0.0508, 0.05, (".0508", ".0504", ".0500")),
        (0.3, -0.2, ("0.3", "0.05", "-0.2")),
        (1004, 1000, ("1,004", "1,002", "1,000")),
        (100_003, 100_000, ("", "", "")),
        (5.2e-6, 5e-6, ("", "", "")),
        (0.0015, 0, (".0015", "", "0")),
        (20_000, -15_000, ("20k", "2.5k", "-15k")),
        (124_000, 123_000, ("124k", "", "123k")),
        (-1090, -1100, ("-1090", "-1095", "-1100")),
    ],
)
def test_the_labels_of_an_axis_tell_its_ends_apart(top, bottom, labels):
    assert axis_numbers(top, bottom) == labels


def meant_by(label):
    """Return the value that a person reads in a label."""
    power = "kMGTP".find(label[-1]) + 1
    return float((label[:-1] if power else label).replace(",", "")) * 1000.0**power


any_end = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
usual_end = st.floats(-1e12, 1e12) | st.floats(1e-9, 1e-3) | st.floats(1.0, 1.001)


@given(any_end | usual_end, any_end | usual_end)
def test_each_label_of_an_axis_stands_for_its_value_and_one_end_is_not_labelled_alone(one, other):
    bottom, top = sorted((one, other))
    labels = axis_numbers(top, bottom)
    for label, value in zip(labels, (top, top / 2 + bottom / 2, bottom), strict=True):
        assert len(label) <= 5
        assert not label or abs(meant_by(label) - value) < (top - bottom) / 100
    assert bool(labels[0]) == bool(labels[2])
    said = [label for label in labels if label]
    assert len(set(said)) == len(said)


@given(any_end | usual_end, any_end | usual_end)
def test_the_range_of_any_values_is_finite_and_has_a_height(one, other):
    least, most = sorted((one, other))
    bottom, top = value_range(least, most)
    assert all(map(math.isfinite, (bottom, top, top - bottom)))
    assert bottom < top
    if max(abs(least), abs(most)) < 1e100:
        assert bottom - 1e-99 <= least <= most <= top + 1e-99


@given(usual_end, usual_end)
def test_the_ends_of_an_axis_of_values_are_labelled(one, other):
    least, most = sorted((one, other))
    least, most = ((round(value, 8) if value < 0 else value) for value in (least, most))
    bottom, top = value_range(least, most)
    upper, _, lower = axis_numbers(top, bottom)
    assert upper
    assert lower


def test_an_axis_begins_at_zero_unless_all_lies_far_above():
    for values, ends in (
        ((0.2, 1.8), (0.0, 2.0)),
        ((0.0, 0.0), (0.0, 1.0)),
        ((-1.5, 0.5), (-1.5, 0.5)),
        ((-3.0, -0.5), (-3.0, 0.0)),
        ((-3.0, -1.0), (-4.0, -1.0)),
        ((5310.0, 5640.0), (5300.0, 5700.0)),
        ((1.05, 1.95), (1.0, 2.0)),
        ((-101.0, -99.0), (-102.0, -99.0)),
        ((2e-5, 3e-5), (0.0, 3e-5)),
        ((123_456, 123_460), (0.0, 150_000.0)),
    ):
        assert value_range(*values) == ends
    for least, most in ((1.9, 2.1), (2.0, 2.0), (500.0, 600.0), (0.1, 0.11)):
        bottom, top = value_range(least, most)
        assert 0 < bottom <= least <= most <= top > bottom
