import math
import random
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import LARGEST
from dlmon.statistics import (
    BLOCK_US,
    MAD_TO_SIGMA,
    SteadyState,
    StepHistogram,
    ValidationTime,
    epoch_interval,
    project_epoch,
    student_95,
    weighted_quantile,
)

DURATIONS = st.lists(st.integers(1, 10**9), min_size=1, max_size=200)


def nearest_rank(values, share):
    ranked = sorted(values)
    return ranked[max(1, math.ceil(share * len(ranked))) - 1]


def steady(dt_us, samples=100):
    state = SteadyState()
    state.add(samples, dt_us)
    return state


@given(DURATIONS, st.floats(0, 1))
def test_a_quantile_of_the_histogram_is_right_to_half_a_percent(durations, share):
    histogram = StepHistogram()
    for start in range(0, len(durations), 7):
        histogram.add(Counter(durations[start : start + 7]))
    assert histogram.count == len(durations)
    assert histogram.quantile(share) == pytest.approx(nearest_rank(durations, share), rel=0.005)


def test_the_histogram_stays_small_however_long_the_run():
    histogram = StepHistogram()
    source = random.Random(1)
    for _ in range(200):
        histogram.add(Counter(int(source.lognormvariate(9, 0.3)) for _ in range(500)))
    assert histogram.count == 100_000
    assert len(histogram.ranked()) < 400


def epochs_cut_short(opening):
    """Return the state after epochs of 30 batches of 20 ms, of which the first takes 120 ms."""
    state = SteadyState()
    for _ in range(12):
        state.add(100, [120_000] + [20_000] * 29, opening=opening)
    return state


def test_what_opens_an_epoch_that_is_cut_short_says_nothing_of_a_batch():
    state = epochs_cut_short(opening=True)
    assert state.mean_step_us == 20_000
    assert state.samples_per_second().mean == pytest.approx(5_000)
    assert state.stalls() == 0
    assert state.batches == 360
    assert state.opening_us == pytest.approx(100_000, rel=0.01)
    # Nor is it compilation: that is the first batch of all, by what it took beyond a usual one.
    assert state.compile_us() == pytest.approx(100_000, rel=0.01)


def test_a_whole_epoch_is_opened_once():
    projected = project_epoch(epochs_cut_short(opening=True), 60_000, validation_s=1.0)
    assert projected.value == pytest.approx(600 * 0.02 + 0.1 + 1.0, rel=0.001)


def test_the_first_batch_of_a_whole_epoch_counts_as_any_other():
    state = epochs_cut_short(opening=False)
    assert state.mean_step_us > 22_000
    assert state.opening_us == 0


def test_before_anything_is_steady_nothing_opens_an_epoch():
    state = SteadyState()
    for _ in range(3):
        state.add(100, [20_000] * 5, opening=True)
    assert state.opening_us == 0


@given(st.lists(st.integers(0, LARGEST), min_size=1, max_size=20), st.floats(0, 1))
def test_every_quantile_of_any_durations_lies_among_them(durations, share):
    histogram = StepHistogram()
    histogram.add(Counter(durations))
    quantile = histogram.quantile(share)
    assert 0.994 * min(durations) <= quantile <= 1.006 * max(durations) + 1


def test_a_weighted_quantile_counts_each_value_as_often_as_it_came():
    ranked = [(1.0, 5), (2.0, 4), (9.0, 1)]
    assert [weighted_quantile(ranked, share) for share in (0, 0.5, 0.51, 0.9, 0.95, 1)] == [
        *(1, 1, 2, 2, 9, 9),
    ]


# The two-sided 95 % column of any table of Student's t.
@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (40, 2.021), (120, 1.980), (10**9, 1.960)],
)
def test_quantiles_of_students_t(degrees, quantile):
    assert student_95(degrees) == pytest.approx(quantile, abs=0.002)


def test_students_t_never_grows_with_the_degrees_of_freedom():
    quantiles = [student_95(degrees) for degrees in range(1, 300)]
    assert quantiles == sorted(quantiles, reverse=True)


def test_it_takes_ten_batches_and_a_second_after_the_first_batch():
    assert not steady([5_000_000] + [1_000_000] * 10).steady
    assert steady([5_000_000] + [1_000_000] * 11).steady
    assert not steady([5_000_000] + [1_000] * 1_000).steady
    assert steady([5_000_000] + [1_000] * 1_001).steady


def test_warm_up_and_compilation_are_left_out():
    state = steady([7_000_000] + [400_000] * 10 + [20_000] * 200)
    measured = state.samples_per_second()
    assert measured.mean == pytest.approx(5_000)
    assert state.mean_step_us == 20_000
    assert state.compile_us() == pytest.approx(7_000_000 - 20_000, rel=0.001)
    assert state.batches == 211


@given(st.lists(st.integers(1, 60), min_size=1))
def test_it_makes_no_difference_how_batches_were_packed(sizes):
    source = random.Random(2)
    dt_us = [3_000_000] + [source.randrange(15_000, 25_000) for _ in range(300)]
    whole = steady(dt_us)
    packed = SteadyState()
    start = turn = 0
    while start < len(dt_us):
        stop = start + sizes[turn % len(sizes)]
        packed.add(100, dt_us[start:stop])
        start, turn = stop, turn + 1
    ours, theirs = packed.samples_per_second(), whole.samples_per_second()
    assert (ours.median, ours.jitter) == (theirs.median, theirs.jitter)
    assert ours.mean == pytest.approx(theirs.mean)
    assert packed.compile_us() == whole.compile_us()


def test_figures_are_those_of_the_batches():
    source = random.Random(3)
    dt_us = [int(source.gauss(20_000, 600)) for _ in range(3_000)]
    state = steady([2_000_000] + [20_000] * 50 + dt_us)
    rates = [100 / (duration / 1e6) for duration in dt_us]
    measured = state.samples_per_second()
    median = statistics.median(rates)
    mad = statistics.median(abs(rate - median) for rate in rates)
    assert measured.mean == pytest.approx(100 * len(dt_us) / (sum(dt_us) / 1e6))
    assert measured.median == pytest.approx(median, rel=0.006)
    assert measured.jitter == pytest.approx(MAD_TO_SIGMA * mad, rel=0.15)
    assert state.step_time().median == pytest.approx(statistics.median(dt_us) / 1e3, rel=0.006)
    assert state.step_time().p95 == pytest.approx(nearest_rank(dt_us, 0.95) / 1e3, rel=0.006)


def test_short_last_batches_are_left_out_of_the_figures_and_counted():
    state = SteadyState()
    for epoch in range(30):
        first = 4_000_000 if epoch == 0 else 20_000
        last = 1_500_000 if epoch == 0 else 9_000
        state.add([100] * 20 + [40], [first] + [20_000] * 19 + [last])
    assert state.batches == 30 * 21
    assert state.samples_per_second().mean == pytest.approx(5_000)
    # The first short batch compiled too.
    usual_us = 20_000
    extra_us = 4_000_000 - usual_us + 1_500_000 - usual_us * 0.4
    assert state.compile_us() == pytest.approx(extra_us, rel=0.001)


def test_stalls_are_counted_and_stay_in_the_mean():
    smooth = steady([1_000_000] + [20_000] * 500)
    stalled = steady([1_000_000] + [20_000] * 500 + [900_000, 201_000, 199_000])
    assert (smooth.stalls(), stalled.stalls()) == (0, 2)
    assert stalled.samples_per_second().median == smooth.samples_per_second().median
    steady_us = 20_000 * 450 + 1_300_000
    assert stalled.samples_per_second().mean == pytest.approx(453 * 100 / (steady_us / 1e6))


def test_the_standard_error_comes_from_stretches_of_a_second():
    # Alternating seconds at 4,000 and 6,000 samples/s; batches in a second are alike.
    dt_us = ([25_000] * 40 + [16_667] * 60) * 50
    state = steady([1_000_000] + [25_000] * 40 + dt_us)
    error = state.samples_per_second().standard_error
    seconds = [4_000.0, 6_000.0] * 50
    expected = statistics.stdev(seconds) / math.sqrt(len(seconds))
    assert error == pytest.approx(expected, rel=0.15)
    # Had every batch counted as independent it would be far smaller.
    assert error > 3 * statistics.stdev(seconds) / math.sqrt(len(dt_us))


def test_the_standard_error_is_the_same_however_batches_were_packed():
    dt_us = [20_000] * 50 + ([25_000] * 40 + [16_667] * 60) * 20
    whole, packed, summed = steady([0, *dt_us]), steady([0] + [20_000] * 50), SteadyState()
    summed.add(100, [0] + [20_000] * 50)
    for start in range(50, len(dt_us), 20):
        part = dt_us[start : start + 20]
        packed.add(100, part)
        summed.add_summary(len(part), 100 * len(part), sum(part), (part[0],) * 7)
    errors = [s.samples_per_second().standard_error for s in (whole, packed, summed)]
    assert errors[0] > 100
    assert errors == pytest.approx([errors[0]] * 3)
    # The band of the mean: forty blocks have 39 degrees of freedom.
    assert whole.relative_band() == pytest.approx(
        student_95(39) * errors[0] / whole.samples_per_second().mean, rel=0.001
    )


def test_the_standard_error_needs_two_seconds():
    one, two = [20_000] * 99, [20_000] * 100
    assert steady([0] + [20_000] * 50 + one).samples_per_second().standard_error is None
    assert steady([0] + [20_000] * 50 + two).samples_per_second().standard_error == 0


def test_a_summary_counts_as_its_batches():
    state = steady([3_000_000] + [20_000] * 100)
    state.add_summary(50, 5_000, 1_000_000, (19_000, 19_500, 20_000, 20_000, 20_000, 21_000, 9**7))
    assert state.batches == 151
    assert state.samples_per_second().mean == pytest.approx(5_000)
    assert state.step_time().median == pytest.approx(20, rel=0.005)
    assert state.stalls() == 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 99])
def test_every_batch_of_a_summary_is_counted(count):
    state = steady([0] + [20_000] * 60)
    before = [0] + [20_000] * 60
    assert state.mean_step_us == 20_000
    state.add_summary(count, 100 * count, 40_000 * count, (40_000,) * 7)
    steady_batches = len(before) - 1 - 50
    expected = (20_000 * steady_batches + 40_000 * count) / (steady_batches + count)
    assert state.mean_step_us == pytest.approx(expected)


def test_nothing_is_measured_before_there_is_anything():
    state = SteadyState()
    assert (state.steady, state.mean_step_us, state.stalls()) == (False, None, None)
    assert (state.samples_per_second(), state.step_time()) == (None, None)
    assert (state.compile_us(), state.relative_band()) == (None, None)
    assert project_epoch(state, 1_000, 0.0) is None


@pytest.mark.parametrize("dt_us", [[0] * 5_000, [LARGEST] * 40, [1] + [0] * 20 + [LARGEST] * 20])
@pytest.mark.parametrize("samples", [0, 1, LARGEST])
def test_batches_of_no_size_or_no_duration_divide_nothing_by_zero(samples, dt_us):
    state = steady(dt_us, samples)
    state.add_summary(3, 0, 0, (0,) * 7)
    state.add_summary(LARGEST, LARGEST, LARGEST, (LARGEST,) * 7)
    measured = state.samples_per_second()
    figures = [state.mean_step_us, state.compile_us(), state.stalls(), state.relative_band()]
    if measured is not None:
        figures += [measured.median, measured.mean, measured.jitter, measured.standard_error]
    assert all(figure is None or math.isfinite(figure) for figure in figures)


@given(st.lists(st.floats(0, 1e10), min_size=1, max_size=40))
def test_the_time_of_an_epoch_lies_in_its_band(whole_s):
    interval = epoch_interval(whole_s)
    assert 0 <= interval.low <= interval.value <= interval.high
    assert interval.value == pytest.approx(statistics.median(whole_s))
    assert (interval.epochs, interval.projected) == (len(whole_s), False)


def test_the_band_of_few_epochs_is_their_range_and_of_more_a_t_interval():
    assert epoch_interval([]) is None
    assert epoch_interval([9.0]).low == epoch_interval([9.0]).high == 9.0
    two = epoch_interval([9.0, 10.0])
    assert (two.value, two.low, two.high) == (9.5, 9.0, 10.0)
    # Mean 9.1, standard deviation 0.1, n = 3: the half-width is 4.303 × 0.1 / √3.
    three = epoch_interval([9.0, 9.1, 9.2])
    assert three.value == 9.1
    assert three.high - 9.1 == pytest.approx(4.303 * 0.1 / math.sqrt(3))
    assert 9.1 - three.low == pytest.approx(4.303 * 0.1 / math.sqrt(3))


def test_the_t_interval_holds_the_true_mean_as_often_as_it_says():
    source = random.Random(4)
    held = 0
    for _ in range(2_000):
        interval = epoch_interval([source.gauss(50, 3) for _ in range(5)])
        held += interval.low <= 50 <= interval.high
    assert 0.94 < held / 2_000 < 0.97


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


def test_there_is_no_projection_before_the_spread_is_known():
    before = [0] + [20_000] * 50
    assert project_epoch(steady(before + [20_000] * 99), 1_000, 0.0) is None
    projected = project_epoch(steady(before + [20_000] * 100), 1_000, 0.0)
    assert projected.value == pytest.approx(0.2)
    assert (projected.epochs, projected.projected) == (0, True)
    assert projected.low == projected.value == projected.high


@pytest.mark.parametrize(("samples", "known"), [(-1, False), (0, False), (1, True)])
def test_an_epoch_without_samples_is_not_projected(samples, known):
    state = steady([0] + [20_000] * 200)
    assert (project_epoch(state, samples, 0.0) is not None) == known


def test_the_band_of_a_projection_grows_with_the_spread_of_the_seconds():
    uneven = [25_000] * (BLOCK_US // 25_000) + [16_667] * 60
    calm = project_epoch(steady([20_000] * 1_000), 10_000, 0.0)
    rough = project_epoch(steady([20_000] * 51 + uneven * 5), 10_000, 0.0)
    assert calm.high == calm.low
    assert rough.high - rough.low > 0.1 * rough.value


def test_a_validation_pass_takes_its_opening_and_its_batches():
    assert ValidationTime(fixed_s=0.5, step_s=0.02).seconds(100) == 2.5
