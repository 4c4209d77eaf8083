import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Throughput
from dlmon.statistics.intervals import student_95
from dlmon.statistics.ratios import (
    Basis,
    Error,
    geometric_mean,
    ratio_of,
    run_spread,
    throughput_error,
)
from dlmon.statistics.steady_state import Blocks

throughputs = st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=8)


def runs(draw, count, spread, times=1.0):
    """Return the throughputs of so many runs, which differ by chance alone."""
    return [times * 1_000 * math.exp(draw.gauss(0, spread)) for _ in range(count)]


def windows(draw, count, lasts=0.0, spread=0.05):
    """Return windows of a run whose noise lasts for so many of them."""
    kept = math.exp(-1 / lasts) if lasts else 0.0
    state, made = draw.gauss(0, 1), []
    for _ in range(count):
        state = kept * state + math.sqrt(1 - kept * kept) * draw.gauss(0, 1)
        made.append((1_000, round(1e6 * math.exp(spread * state))))
    return made


def rate_of(of_run):
    """Return the throughput of a run that has such windows, as its steady state gives it."""
    blocks, mean = Blocks(done=list(of_run)), 1e6 * throughput(of_run)
    error, degrees = blocks.relative_error()
    return Throughput(mean, mean, mean * error, 1.0, mean * error * student_95(degrees))


def error_of(of_run):
    return throughput_error(rate_of(of_run))


def throughput(of_run):
    return sum(samples for samples, _ in of_run) / sum(time_us for _, time_us in of_run)


# ---- Welch, from two runs a side on ----


def test_it_agrees_with_a_t_test_worked_by_hand():
    # ln 100 to 102 against ln 110 to 112: R's t.test on the logarithms.
    ratio = ratio_of([100.0, 101.0, 102.0], [110.0, 111.0, 112.0])
    assert ratio.basis is Basis.RUNS
    assert ratio.value == pytest.approx(
        geometric_mean([110, 111, 112]) / geometric_mean([100, 101, 102])
    )
    assert (ratio.low, ratio.high) == pytest.approx((1.0753, 1.1232), abs=0.0005)
    assert ratio.p == pytest.approx(0.00033, abs=0.0001)
    assert ratio.is_significant


@pytest.mark.slow
@pytest.mark.parametrize(("base_runs", "new_runs"), [(2, 2), (3, 3), (5, 5), (3, 6)])
def test_equal_sides_are_called_different_in_about_one_of_twenty_cases_at_most(base_runs, new_runs):
    draw = random.Random(f"{base_runs} {new_runs}")
    called = sum(
        ratio_of(runs(draw, base_runs, 0.03), runs(draw, new_runs, 0.03)).is_significant
        for _ in range(1_000)
    )
    assert called <= 1_000 * 0.065


def test_its_interval_holds_the_true_ratio_in_about_95_of_100_cases():
    draw = random.Random(5)
    held = 0
    for _ in range(1_000):
        ratio = ratio_of(runs(draw, 4, 0.02), runs(draw, 5, 0.05, times=0.9))
        held += ratio.low <= 0.9 <= ratio.high
    assert 930 <= held <= 975


def test_a_true_slow_down_of_5_percent_is_found_with_five_runs_a_side():
    draw = random.Random(7)
    ratios = [ratio_of(runs(draw, 5, 0.02), runs(draw, 5, 0.02, times=0.95)) for _ in range(300)]
    assert sum(ratio.is_significant and ratio.value < 1 for ratio in ratios) >= 240


@given(throughputs, throughputs, st.floats(1e-3, 1e3))
def test_p_agrees_with_the_interval_and_turned_round_or_in_another_unit_it_says_the_same(
    base, new, times
):
    ratio, back = ratio_of(base, new), ratio_of(new, base)
    scaled = ratio_of([times * value for value in base], [times * value for value in new])
    assert ratio.value * back.value == pytest.approx(1)
    assert scaled.value == pytest.approx(ratio.value)
    assert ratio.p == (None if back.p is None else pytest.approx(back.p))
    if ratio.low is None:
        assert ratio.p is None
        assert not ratio.is_significant
        return
    assert ratio.low <= ratio.value * (1 + 1e-9)
    assert ratio.value <= ratio.high * (1 + 1e-9)
    if abs(ratio.p - 0.05) > 1e-6:
        assert ratio.is_significant == (ratio.p < 0.05)
    if ratio.low > 1e-200:
        assert ratio.low * back.high == pytest.approx(1)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_positive_number_has_no_ratio_and_what_does_not_vary_no_interval(wrong):
    assert ratio_of([1.0, wrong], [1.0, 2.0]) is None
    assert ratio_of([], [1.0]) is None
    # Runs that agree to the last digit say nothing of how runs differ.
    ratio = ratio_of([100.0, 100.0], [101.0, 101.0])
    assert ratio.value == pytest.approx(1.01)
    assert (ratio.low, ratio.high, ratio.p, ratio.is_significant) == (None, None, None, False)
    # Nor does one a side without windows.
    for error in (None, Error(0.1, 3)):
        assert ratio_of([100.0], [200.0], None, [error, None]).low is None


# ---- one run a side ----


@given(st.lists(st.integers(900_000, 1_100_000), min_size=4, max_size=19))
def test_one_run_a_side_is_never_significant_where_nothing_is_known_of_how_runs_differ(times_us):
    base = [(1_000, time_us) for time_us in times_us]
    new = [(2_000, time_us) for time_us in times_us]
    errors = [error_of(base), error_of(new)]
    ratio = ratio_of([throughput(base)], [throughput(new)], None, errors)
    assert ratio.value == pytest.approx(2)
    assert ratio.p is None
    assert not ratio.is_significant


@pytest.mark.slow
@pytest.mark.parametrize(("count", "lasts"), [(6, 0), (10, 0), (19, 0), (10, 1), (19, 1)])
def test_windows_say_how_sure_the_change_within_two_runs_is(count, lasts):
    draw = random.Random(f"{count} {lasts}")
    held = 0
    for _ in range(400):
        pair = [windows(draw, count, lasts) for _ in range(2)]
        errors = [error_of(one) for one in pair]
        ratio = ratio_of([throughput(pair[0])], [throughput(pair[1])], None, errors)
        assert ratio.basis is Basis.WITHIN_RUNS
        held += ratio.low <= 1 <= ratio.high
    assert held >= 400 * 0.9


def test_earlier_runs_widen_what_windows_say():
    draw = random.Random(9)
    within = [error_of(windows(draw, 15)) for _ in range(2)]
    alone = ratio_of([1_000.0], [1_100.0], None, within)
    spread = run_spread([[990.0, 1_010.0, 1_000.0], [1_100.0, 1_130.0]])
    widened = ratio_of([1_000.0], [1_100.0], spread, within)
    assert widened.basis is Basis.LIKE_RUNS
    assert widened.low < alone.low
    assert alone.high < widened.high
    assert widened.p is not None


def test_one_run_a_side_with_earlier_ones_is_called_different_in_one_of_twenty_cases_at_most():
    draw = random.Random(11)
    called = 0
    for _ in range(1_000):
        spread = run_spread([runs(draw, 5, 0.03)])
        called += ratio_of(runs(draw, 1, 0.03), runs(draw, 1, 0.03), spread).is_significant
    assert called <= 65


def test_how_runs_differ_is_pooled_over_groups():
    assert run_spread([[100.0], [], [7.0]]) is None
    spread = run_spread([[100.0, 110.0], [1.0, 1.1], [5.0]])
    assert spread.degrees == 2
    assert spread.of_log == pytest.approx(math.log(1.1) / math.sqrt(2))


@pytest.mark.parametrize("count", [2, 5, 12, 19])
def test_the_error_of_a_throughput_has_the_width_of_its_band(count):
    of_run = windows(random.Random(count), count)
    rate = rate_of(of_run)
    error = throughput_error(rate)
    assert error.of_log * student_95(int(error.degrees)) == pytest.approx(rate.band / rate.mean)
    assert throughput_error(replace(rate, band=None)) is None
    assert throughput_error(replace(rate, band=0.0, standard_error=0.0)) is None
    assert throughput_error(None) is None
