import math
import random
import statistics

import pytest
from fakes.strategies import FEW_EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Validation
from dlmon.statistics.intervals import student_95
from dlmon.statistics.projection import (
    ValidationPasses,
    epoch_interval,
    project_epoch,
)
from dlmon.statistics.steady_state import BLOCK_US, SteadyState


def steady(dt_us, samples=100):
    state = SteadyState()
    state.add(samples, dt_us)
    return state


def interval_of(whole_s, state, compile_s=0.0, from_first=True):
    """Return the interval of epochs, of which the first compiles."""
    return epoch_interval(whole_s[:from_first], whole_s[from_first:], state, compile_s)


EPOCHS_S = st.lists(st.floats(0, 1e10), min_size=1, max_size=40)


@given(EPOCHS_S, st.booleans())
def test_the_time_of_an_epoch_is_the_mean_and_lies_in_its_band(whole_s, from_first):
    interval = interval_of(whole_s, steady([20_000] * 200), 0.5, from_first)
    counted = whole_s[1:] if from_first and len(whole_s) > 1 else whole_s
    assert 0 <= interval.low <= interval.value <= interval.high
    assert interval.value == pytest.approx(statistics.fmean(counted))
    assert (interval.epochs, interval.projected) == (len(counted), False)
    assert interval.first_left_out == (len(counted) < len(whole_s))


def test_from_the_second_epoch_on_the_first_is_left_out():
    state = steady([20_000] * 200)
    assert interval_of([], state) is None
    assert interval_of([19.0], state).value == 19.0
    two = interval_of([19.0, 9.0], state)
    assert (two.value, two.epochs, two.first_left_out) == (9.0, 1, True)
    # Mean 9.1, standard deviation 0.1, n = 3: the half-width is 4.303 × 0.1 / √3.
    four = interval_of([19.0, 9.0, 9.1, 9.2], state)
    assert (four.value, four.epochs, four.first_left_out) == (pytest.approx(9.1), 3, True)
    assert four.high - 9.1 == pytest.approx(4.303 * 0.1 / math.sqrt(3))
    assert 9.1 - four.low == pytest.approx(4.303 * 0.1 / math.sqrt(3))


def test_the_band_of_a_single_epoch_comes_from_the_windows_within_it():
    source = random.Random(8)
    dt_us = [int(source.gauss(20_000, 4_000)) for _ in range(1_500)]
    state = steady([0, *[20_000] * 50, *dt_us])
    # An epoch as long as all that was steady is as sure as the throughput of that.
    whole_s = sum(dt_us) / 1e6
    one = interval_of([whole_s], state)
    assert one.high - one.value == pytest.approx(state.relative_band() * whole_s)
    # A shorter one is less sure, for its length; what compiled is no matter of chance.
    half = interval_of([whole_s / 2 + 7.0], state, compile_s=7.0)
    assert half.high - half.value == pytest.approx(state.relative_band() * whole_s / math.sqrt(2))
    second = interval_of([99.0, whole_s / 2], state, compile_s=7.0)
    assert second.high - second.value == pytest.approx(half.high - half.value)


def test_the_band_of_two_epochs_comes_from_the_windows_and_one_between_them_leaves_it_as_it_is():
    source = random.Random(8)
    state = steady([0, *[20_000] * 50, *(int(source.gauss(20_000, 4_000)) for _ in range(1_500))])
    alike = interval_of([99.0, 15.0, 15.0], state)
    assert (alike.value, alike.epochs) == (15.0, 2)
    assert alike.high - alike.value == pytest.approx(state.band_of_span_s(30.0) / 2)
    apart = interval_of([99.0, 15.0, 19.0], state)
    assert (apart.value, apart.low) == (17.0, pytest.approx(17 - 4.303 * 2 / math.sqrt(3)))
    another = interval_of([99.0, 15.0, 19.0, 17.0], state)
    assert (another.low, another.high) == (pytest.approx(apart.low), pytest.approx(apart.high))


def test_an_epoch_far_beyond_the_median_is_none_of_the_usual_ones():
    state = steady([20_000] * 200)
    interval = interval_of([99.0, 1.6, 1.5, 1.8, 9.6, 1.6], state)
    assert (interval.median, interval.slow, interval.longest) == (1.6, 1, 9.6)
    assert interval.value == pytest.approx(3.22)
    alike = interval_of([99.0, 1.6, 1.5, 1.8], state)
    assert (alike.median, alike.slow) == (1.6, 0)
    # Of two nobody knows which is usual.
    two = interval_of([99.0, 1.6, 9.6], state)
    assert two.median is two.slow is two.longest is None


@pytest.mark.parametrize("whole_s", [[0.4], [0.9, 0.4]])
def test_how_sure_an_epoch_is_that_ended_before_it_was_steady_is_not_known(whole_s):
    interval = interval_of(whole_s, steady([20_000] * 20))
    assert (interval.value, interval.low, interval.high) == (0.4, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [1, 2, 3, 5])
def test_the_band_of_an_epoch_holds_the_true_mean_as_often_as_it_says(epochs):
    source = random.Random(4)
    held, runs = 0, 400
    for _ in range(runs):
        state, whole_s = SteadyState(), []
        for epoch in range(epochs):
            dt_us = [round(source.gauss(50_000, 10_000)) for _ in range(160)]
            state.add(100, [dt_us[0] + 2_000_000 * (epoch == 0), *dt_us[1:]])
            whole_s.append(sum(dt_us) / 1e6 + 2.0 * (epoch == 0))
        interval = interval_of(whole_s, state, compile_s=2.0)
        true_s = 8.0 + 2.0 * (epochs == 1)
        held += interval.low <= true_s <= interval.high
    assert 0.92 < held / runs <= 0.995


@FEW_EXAMPLES
@given(
    st.integers(2_000, 60_000),
    st.floats(0, 0.2),
    st.integers(0, 2**32),
    st.integers(1, 100),
)
def test_the_projection_closes_in_on_the_epoch_that_it_projects(step_us, spread, seed, last):
    source = random.Random(seed)
    steps = 9_000_000 // step_us + 100
    dt_us = [max(1, int(source.gauss(step_us, spread * step_us))) for _ in range(steps)]
    state = steady([step_us + 1_000_000, *dt_us[1:]])
    # The set's last batch may be short; it costs its share of a whole one.
    samples = 100 * steps - 100 + last
    projected = project_epoch(state, samples, 0.75)
    took_s = (sum(dt_us) - step_us * (1 - last / 100)) / 1e6 + 0.75
    assert projected.projected
    assert projected.low <= projected.value <= projected.high
    assert projected.value == pytest.approx(took_s, rel=0.02)


def test_there_is_no_projection_before_the_spread_is_known_or_without_samples():
    before = [0] + [20_000] * 50
    assert project_epoch(steady(before + [20_000] * 99), 1_000, 0.0) is None
    known = steady(before + [20_000] * 100)
    projected = project_epoch(known, 1_000, 0.0)
    assert projected.value == pytest.approx(0.2)
    assert (projected.epochs, projected.projected) == (0, True)
    assert projected.low == projected.value == projected.high
    assert project_epoch(known, 0, 0.0) is project_epoch(known, -1, 0.0) is None
    assert project_epoch(known, 1, 0.0) is not None


def test_the_band_of_a_projection_holds_what_is_known_of_each_part():
    uneven = [25_000] * (BLOCK_US // 25_000) + [16_667] * 60
    calm = project_epoch(steady([20_000] * 1_000), 10_000, 0.0)
    rough = project_epoch(steady([20_000] * 51 + uneven * 5), 10_000, 0.0)
    assert calm.high == calm.low
    assert rough.high - rough.low > 0.1 * rough.value
    openings_us = [2_000_000, 2_500_000, 1_500_000]
    state = steady([20_000] * 200)
    for took_us in openings_us:
        state.add(100, [20_000] * 200, opening_us=took_us)
    projected = project_epoch(state, 10_000, 3.0, validation_half_s=0.4)
    assert projected.value == pytest.approx(2.0 + 2.0 + 3.0)
    opening_half_s = student_95(2) * statistics.stdev(openings_us) / math.sqrt(3) / 1e6
    assert projected.high - projected.value == pytest.approx(math.hypot(opening_half_s, 0.4))


def a_pass(steps, step_s, first_s, closing_s=0.0):
    first_end, last_end = first_s, first_s + step_s * (steps - 1)
    times = (0.0, first_end, last_end, last_end + closing_s)
    return Validation(*(round(time * 1e9) for time in times), steps)


@pytest.mark.parametrize(
    ("passes", "compile_s", "seconds"),
    [
        ([], None, None),
        # It takes its opening and its batches.
        ([(20, 0.02, 0.52)] * 2, 0.5, 2.5),
        # The first compiles and counts only until there is another.
        ([(20, 0.03, 1.53, 0.1)], 1.5, 100 * 0.03 + 0.1),
        (
            [(20, 0.03, 1.53, 0.1), *((20, s, s + 0.5, 0.1) for s in (0.01, 0.02, 0.03))],
            1.5,
            100 * 0.02 + 0.6,
        ),
        # One batch that compiled says nothing of another.
        ([(1, 0.0, 2.0)], 2.0, None),
        ([(1, 0.0, 2.0), (1, 0.0, 0.02)], 2.0, 2.0),
    ],
)
def test_what_a_validation_of_100_batches_takes(passes, compile_s, seconds):
    known = ValidationPasses(a_pass(*one) for one in passes)
    assert known.seconds(100) == (seconds and pytest.approx(seconds))
    assert known.seconds(0) in (None, 0)
    if passes:
        assert known.compile_s == pytest.approx(compile_s, abs=0.03)


def test_the_spread_of_validation_is_that_of_its_passes_or_of_one_that_of_the_training_beside_it():
    source, calm = random.Random(9), steady([20_000] * 1_000)
    passes = ValidationPasses(a_pass(20, s, first_s=s + 0.5) for s in (9.0, 0.01, 0.02, 0.03))
    # 100 batches take 1.5, 2.5 and 3.5 s: the standard error is 1 / √3.
    assert passes.half_s(100, calm) == pytest.approx(4.303 / math.sqrt(3), rel=0.001)
    dt_us = [int(source.gauss(20_000, 4_000)) for _ in range(1_500)]
    state = steady([0, *[20_000] * 50, *dt_us])
    passes = ValidationPasses([a_pass(101, 0.03, first_s=2.0)])
    assert passes.half_s(100, calm) == pytest.approx(0, abs=1e-9)
    # Three of the thirty seconds that training was steady for: the band is √10 as wide.
    expected = state.relative_band() * math.sqrt(sum(dt_us) / 1e6 / 3.0)
    assert passes.half_s(200, state) == pytest.approx(expected * 6.0, rel=0.001)
