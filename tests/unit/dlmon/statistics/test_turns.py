"""The throughput of a process that runs in turns is that of one that runs alone."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.statistics.turns import (
    Step,
    Turn,
    TurnSum,
    log_ratio_error,
    sum_of_turns,
    turn_sums,
)

SECOND, MS = 10**9, 10**6
lengths_ms = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 64)), min_size=1, max_size=40)
# The end of each turn in running time, and how long the process is suspended after it.
suspensions_ms = st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 5000)), max_size=12)


def rate_in_turns(steps, turns, guard_s=0.02):
    return sum_of_turns(turn_sums(steps, turns, guard_s)).rate


def suspended(lengths, suspensions):
    """Return the steps of a process, its turns, and the turns in its running time."""
    stops = sorted(dict(suspensions).items())
    ends = list(accumulate(took for took, _ in lengths))
    stops = [(at, length) for at, length in stops if 0 < at < ends[-1]]

    def real(t, resumed=False):
        return t + sum(length for at, length in stops if at < t or (resumed and at == t))

    steps = [
        Step(real(end) * MS, (real(end) - real(end - took, True)) * MS, samples)
        for (took, samples), end in zip(lengths, ends, strict=True)
    ]
    edges = [0, *(at for at, _ in stops), ends[-1]]
    turns = [Turn(real(begin, True) * MS, real(end) * MS) for begin, end in pairwise(edges)]
    return steps, turns, [(begin, end) for begin, end in pairwise(edges)]


@given(lengths=lengths_ms, suspensions=suspensions_ms)
def test_without_a_guard_it_is_that_of_the_undisturbed_process(lengths, suspensions):
    steps, turns, _ = suspended(lengths, suspensions)
    undisturbed = sum(samples for _, samples in lengths) / sum(took for took, _ in lengths) * 1000
    assert rate_in_turns(steps, turns, 0.0) == pytest.approx(undisturbed)


@given(lengths=lengths_ms, suspensions=suspensions_ms, guard_ms=st.integers(0, 500))
def test_with_a_guard_it_is_that_of_the_same_time_within_a_step(lengths, suspensions, guard_ms):
    steps, turns, in_running_ms = suspended(lengths, suspensions)
    counted = [(begin + guard_ms, end) for begin, end in in_running_ms if begin + guard_ms < end]
    rate, counted_ms = rate_in_turns(steps, turns, guard_ms / 1000), 0
    made = 0.0
    ends = [0, *accumulate(took for took, _ in lengths)]
    for begin, end in counted:
        counted_ms += end - begin
        for (before, after), (took, samples) in zip(pairwise(ends), lengths, strict=True):
            made += samples * max(0, min(after, end) - max(before, begin)) / took
    if not counted:
        assert rate is None
    else:
        most = max(samples for _, samples in lengths)
        assert abs(rate * counted_ms / 1000 - made) < 1e-6 * most


@given(suspensions=suspensions_ms, took_ms=st.integers(1, 3000), guard_ms=st.integers(0, 500))
def test_equal_steps_have_their_own_rate_however_they_are_cut(suspensions, took_ms, guard_ms):
    steps, turns, _ = suspended([(took_ms, 8)] * 20, suspensions)
    rate = rate_in_turns(steps, turns, guard_ms / 1000)
    assert rate is None or rate == pytest.approx(8000 / took_ms)


def test_a_slow_start_of_a_turn_is_left_out():
    # After the resume, at 10 s, the first three steps take 30 ms in place of 10 ms.
    steps = [Step((10 + at) * MS, 10 * MS, 1) for at in range(0, 1000, 10)]
    resumed = 10 * SECOND
    slow = [Step(resumed + at * MS, 30 * MS, 1) for at in (30, 60, 90)]
    after = [Step(resumed + at * MS, 10 * MS, 1) for at in range(100, 1000, 10)]
    turns = [Turn(0, SECOND), Turn(resumed, resumed + SECOND)]
    assert rate_in_turns([*steps, *slow, *after], turns, 0.1) == pytest.approx(100.0)
    assert rate_in_turns([*steps, *slow, *after], turns, 0.0) < 97


def test_time_between_steps_counts_for_nothing():
    steps = [Step(at * SECOND, SECOND // 2, 10) for at in (1, 2, 30)]
    assert rate_in_turns(steps, [Turn(0, 40 * SECOND)], 0.0) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ([], [Turn(0, SECOND)]),
        ([Step(SECOND, SECOND, 1)], []),
        ([Step(SECOND, SECOND, 1)], [Turn(2 * SECOND, 3 * SECOND)]),
        ([Step(SECOND, SECOND, 1)], [Turn(0, SECOND // 50)]),
    ],
)
def test_without_a_step_in_the_time_that_counts_it_is_not_known(steps, turns):
    assert rate_in_turns(steps, turns) is None


@given(suspensions=suspensions_ms, took_ms=st.integers(1, 3000))
def test_equal_steps_have_the_same_rate_in_each_turn(suspensions, took_ms):
    steps, turns, _ = suspended([(took_ms, 8)] * 20, suspensions)
    for turn in turn_sums(steps, turns, 0.0):
        assert turn.rate is None or turn.rate == pytest.approx(8000 / took_ms)


def test_the_error_of_a_ratio_leaves_out_what_both_met_alike():
    # The machine halves and doubles both sides; one is always a tenth faster.
    machine = [100.0, 50.0, 200.0, 100.0]
    base, new = ([TurnSum(side * rate, SECOND) for rate in machine] for side in (1.0, 1.1))
    assert log_ratio_error(base, new) == pytest.approx(0, abs=1e-12)
    unlike = [TurnSum(rate, SECOND) for rate in reversed(machine)]
    # The logarithms of the ratios are 0, log 4, -log 4 and 0.
    error = math.log(4) * (2 / 3) ** 0.5 / 2
    assert log_ratio_error(base, unlike) == pytest.approx(error)
    assert log_ratio_error(base, [*unlike, TurnSum(1.0, SECOND)]) == pytest.approx(error)


def test_a_single_turn_of_each_tells_no_error():
    turn = TurnSum(100.0, SECOND)
    assert log_ratio_error([turn], [turn]) is None
    assert log_ratio_error([turn, TurnSum(0.0, 0)], [turn, turn]) is None
