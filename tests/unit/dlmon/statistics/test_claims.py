from hypothesis import given
from hypothesis import strategies as st

from dlmon.statistics.claims import ALIKE_WITHIN, Claim, claim_of

TIMES = st.floats(0.001, 1e6)
INTERVALS = st.tuples(TIMES, TIMES).map(lambda pair: (min(pair), max(pair)))
MIRRORED = {Claim.FASTER: Claim.SLOWER, Claim.SLOWER: Claim.FASTER}


def around(value, half):
    return value - half, value + half


@given(st.none() | INTERVALS, st.none() | INTERVALS)
def test_what_is_said_of_two_times_is_said_the_other_way_round_of_the_two_swapped(a, b):
    claim = claim_of(a, b)
    assert claim_of(b, a) is MIRRORED.get(claim, claim)


@given(INTERVALS, INTERVALS)
def test_faster_is_never_said_where_the_bands_overlap(a, b):
    overlap = a[0] <= b[1] and b[0] <= a[1]
    assert (claim_of(a, b) in (Claim.FASTER, Claim.SLOWER)) == (not overlap)


@given(INTERVALS, INTERVALS)
def test_about_as_fast_is_said_only_where_no_ratio_within_the_bands_is_large(a, b):
    if claim_of(a, b) is Claim.ALIKE:
        assert max(a[1] / b[0], b[1] / a[0]) <= ALIKE_WITHIN * (1 + 1e-9)


@given(st.none() | INTERVALS)
def test_nothing_is_claimed_where_a_band_is_not_known(interval):
    assert claim_of(interval, None) is Claim.UNKNOWN


def test_a_tight_band_within_a_wide_one_is_no_clear_difference():
    assert claim_of(around(51.6, 1.3), around(74.6, 36)) is Claim.UNCLEAR
    assert claim_of(around(51.6, 1.3), around(52.0, 1.0)) is Claim.ALIKE
    assert claim_of(around(51.6, 1.3), around(54.0, 1.0)) is Claim.FASTER
