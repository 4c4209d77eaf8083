"""The ratio of pairs: its interval, and how many pairs it takes."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.statistics.pairs import FIRST_PAIRS, is_proven_early, paired_ratio, pairs_needed

RATIOS = st.lists(st.floats(0.2, 5), min_size=2, max_size=40)


def test_pairs_that_agree_have_their_ratio_and_no_width():
    ratio = paired_ratio([1.25] * 6)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.25, 1.25, 1.25))
    assert ratio.is_proven
    assert ratio.half_width == pytest.approx(0)


def test_one_pair_has_a_ratio_and_no_interval():
    ratio = paired_ratio([0.9])
    assert (ratio.value, ratio.low, ratio.half_width) == (pytest.approx(0.9), None, None)
    assert not ratio.is_proven
    assert paired_ratio([]) is None


@given(RATIOS)
def test_swapping_the_sides_turns_the_interval_over(ratios):
    ratio, swapped = paired_ratio(ratios), paired_ratio([1 / r for r in ratios])
    assert swapped.value == pytest.approx(1 / ratio.value)
    assert (swapped.low, swapped.high) == (
        pytest.approx(1 / ratio.high),
        pytest.approx(1 / ratio.low),
    )
    assert swapped.is_proven == ratio.is_proven


def test_the_first_pairs_say_how_many_it_takes():
    spread = [1.10, 0.92, 1.05, 0.96, 1.01]
    assert pairs_needed(spread[:-1], (), 0.02) is None
    needed = pairs_needed(spread, (), 0.02)
    assert needed > FIRST_PAIRS
    # Later pairs that happen to agree don't end it sooner; outliers make it longer.
    assert pairs_needed([*spread, 1.0, 1.0], (), 0.02) == needed
    assert pairs_needed([*spread, 1.5, 0.5], (), 0.02) > needed
    assert paired_ratio([*spread, *[1.0] * (needed - len(spread))]).half_width <= 0.02
    assert pairs_needed([1.0] * FIRST_PAIRS, (), 0.02) == FIRST_PAIRS


def test_pairs_that_agree_by_chance_prove_no_more_than_their_turns():
    alike, errors = [1.02, 1.021, 1.019, 1.02, 1.02, 1.021], [0.04] * 6
    assert paired_ratio(alike).is_proven
    ratio = paired_ratio(alike, errors)
    assert not ratio.is_proven
    assert ratio.half_width == pytest.approx(math.expm1(1.96 * 0.04 / 6**0.5))
    assert pairs_needed(alike, errors, 0.02) == math.ceil((1.96 * 0.04 / math.log(1.02)) ** 2)
    # Pairs that lie further apart than their turns say are as wide as they are.
    spread = [1.1, 0.92, 1.05, 0.96, 1.01]
    assert paired_ratio(spread, [0.001] * 5) == paired_ratio(spread)
    assert paired_ratio(spread, [None] * 5) == paired_ratio(spread)
    assert is_proven_early([1.5, 1.51, 1.5], [0.1] * 3)
    assert not is_proven_early([1.2, 1.201, 1.2], [0.1] * 3)


def test_an_early_look_needs_a_clear_difference_and_three_pairs():
    assert is_proven_early([2.0, 2.1, 2.05])
    assert is_proven_early([0.5, 0.48, 0.49])
    assert not is_proven_early([2.0, 2.0])
    assert not is_proven_early([1.0, 1.0, 1.0])
    # Its interval of 95 % leaves out 1 as well.
    assert paired_ratio([1.3, 1.4, 1.6]).is_proven
    assert not is_proven_early([1.3, 1.4, 1.6])
    # Looks are planned, so that they may not add up.
    assert not is_proven_early([2.0] * 6)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
@pytest.mark.parametrize(("truth", "least", "most"), [(1.0, 0.0, 0.065), (2.0, 0.99, 1.0)])
def test_early_looks_claim_hardly_more_than_is_there(spread, truth, least, most):
    source, tries, claimed, held = random.Random(7), 2000, 0, 0
    for _ in range(tries):
        ratios = []
        while len(ratios) < (pairs_needed(ratios, (), 0.1) or FIRST_PAIRS):
            ratios.append(truth * math.exp(source.gauss(0, spread)))
            if is_proven_early(ratios):
                break
        ratio = paired_ratio(ratios)
        claimed += ratio.is_proven
        held += ratio.holds(truth)
    assert least <= claimed / tries <= most
    assert held / tries >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
def test_the_interval_holds_the_truth_95_times_in_a_hundred_where_the_rule_stops(spread):
    source, tries, held = random.Random(7), 4000, 0

    def drawn(count):
        return [math.exp(source.gauss(0.3, spread)) for _ in range(count)]

    for _ in range(tries):
        ratios = drawn(FIRST_PAIRS)
        # Later pairs end it no sooner than the first ones say.
        ratios += drawn(pairs_needed(ratios, (), 0.05) - FIRST_PAIRS)
        while len(ratios) < pairs_needed(ratios, (), 0.05):
            ratios += drawn(1)
        ratio = paired_ratio(ratios)
        held += ratio.low <= math.exp(0.3) <= ratio.high
    assert 0.94 <= held / tries <= 0.985
