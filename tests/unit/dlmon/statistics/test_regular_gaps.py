"""Long steps that come every so many steps, and those that come irregularly."""

import random

import pytest

from dlmon.records import BatchSummary
from dlmon.statistics.steady_state import SteadyState

STEP_US, LONG_US = 50_000, 2_000_000


def loop(steps, long_at, long_us=LONG_US, record=7):
    """Return a loop without epochs, some of whose steps are long, as its records come."""
    rng = random.Random(1)
    dt_us = [
        (long_us if at in long_at else STEP_US) + rng.randrange(STEP_US // 10)
        for at in range(steps)
    ]
    steady = SteadyState()
    for first in range(0, steps, record):
        steady.add(32, dt_us[first : first + record], first=first)
    return steady


@pytest.mark.parametrize("every", [16, 100, 250])
def test_what_comes_every_so_many_steps_is_no_stall(every):
    steady = loop(1001, range(every, 1001, every))
    regular = steady.regular_steps()
    assert steady.stalls() == 0
    assert steady.stalled_us() == 0
    times = 1000 // every
    assert (regular.every, regular.times) == (every, times)
    assert regular.seconds == pytest.approx(times * (LONG_US - STEP_US) / 1e6, rel=0.02)
    # The throughput holds them: a GPU may work off in such a step what earlier ones queued.
    assert steady.throughput().mean == pytest.approx(32e6 / steady.mean_step_us)
    assert steady.mean_step_us == pytest.approx(STEP_US + LONG_US / every, rel=0.06)


def test_those_of_the_warm_up_count_and_are_no_stalls_less():
    # Steps of a millisecond: the warm-up has the first ones.
    every, step_us, long_us = 100, 1_000, 400_000
    steady = SteadyState()
    for first in range(0, 2000, 25):
        dt_us = [step_us] * 25
        if first and first % every == 0:
            dt_us[0] = long_us
        if first == 1050:
            dt_us[7] = long_us
        steady.add(32, dt_us, first=first)
    in_warm_up = [number for number in range(every, 2000, every) if number < steady.warm_up_batches]
    assert len(in_warm_up) == 2
    regular = steady.regular_steps()
    assert (regular.every, regular.times) == (every, 19)
    assert regular.seconds == pytest.approx(19 * (long_us - step_us) / 1e6, rel=0.01)
    assert steady.regular.period_at(every) == every
    # The one that came between them stalled.
    assert steady.stalls() == 1
    assert steady.stalled_us() == pytest.approx(long_us - step_us, rel=0.01)


@pytest.mark.parametrize(("long_at", "waited_us"), [({100, 200}, 400_000), ({75, 175}, 0)])
def test_steps_of_the_warm_up_that_waited_or_come_by_chance_do_not_count(long_at, waited_us):
    every, step_us, long_us = 100, 1_000, 400_000
    steady = SteadyState()
    for first in range(0, 2000, 25):
        is_long = first in long_at or (first > 300 and first % every == 0)
        dt_us = [long_us if is_long else step_us, *[step_us] * 24]
        steady.add(32, dt_us, first=first, wait_us=waited_us if first in long_at else 0)
    assert steady.warm_up_batches > max(long_at)
    regular = steady.regular_steps()
    assert (regular.every, regular.times) == (every, 16)


def test_it_needs_three_that_are_equally_far_apart_and_the_start_counts_as_one():
    assert loop(150, [100]).stalls() == 1
    assert loop(250, [100, 200]).stalls() == 0
    assert loop(250, [100, 201]).stalls() == 2
    assert loop(450, [130, 230, 330]).stalls() == 0


def test_a_stall_among_them_stays_one():
    steady = loop(1001, [*range(100, 1001, 100), 437])
    assert (steady.stalls(), steady.regular_steps().times) == (1, 10)
    assert steady.stalled_us() == pytest.approx(LONG_US - STEP_US, rel=0.05)
    assert [steady.regular.period_at(number) for number in (436, 437, 500)] == [None, None, 100]


def test_they_go_on_in_the_next_epoch_and_those_that_end_together_come_together():
    steady = SteadyState()
    for _ in range(3):
        dt_us = [LONG_US if at and at % 100 == 0 else STEP_US for at in range(469)]
        steady.add(32, dt_us, opening_us=0)
    assert (steady.stalls(), steady.regular_steps().times) == (0, 12)
    steady = SteadyState()
    for first in range(0, 2000, 4):
        took_us = LONG_US if first and first % 200 == 0 else STEP_US
        steady.add(32, [took_us] * 4, first=first, per_execution=4)
    assert (steady.stalls(), steady.regular_steps().every) == (0, 200)


def test_one_that_takes_far_longer_than_its_like_is_a_stall():
    steady = SteadyState()
    for first in range(0, 1000, 100):
        long_us = 20 * LONG_US if first == 600 else LONG_US
        steady.add(32, [long_us if first else STEP_US, *[STEP_US] * 99], first=first)
    assert steady.stalls() == 1
    assert steady.regular.period_at(600) is None
    assert steady.regular.period_at(900) == 100


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_by_chance_is_a_stall(seed):
    rng = random.Random(seed)
    long_at = {at for at in range(30, 20_000) if rng.random() < 0.02}
    stalls = loop(20_000, long_at).stalls()
    assert stalls > 0.8 * len(long_at)


def test_those_that_waited_for_data_are_no_part_of_the_loop():
    steady = SteadyState()
    for first in range(0, 1000, 100):
        dt_us = [LONG_US if first else STEP_US, *[STEP_US] * 99]
        steady.add(32, dt_us, first=first, wait_us=LONG_US - STEP_US if first else 0)
    assert steady.regular_steps() is None
    assert steady.stalls() == 9


def test_among_batches_that_are_only_counted_those_are_regular_that_are_due():
    steady = loop(1001, range(100, 1001, 100))
    time_us = 999 * STEP_US + 10 * LONG_US
    step_us = (*[STEP_US] * 6, LONG_US)
    steady.add_summary(BatchSummary(0, 1001, 1009, 32 * 1009, 0, 0, time_us, step_us, stalls=11))
    assert (steady.stalls(), steady.regular_steps().times) == (1, 20)
