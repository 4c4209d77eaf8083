"""A factor's interval: it allows for how runs differ where that is known, and says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.compare import ComparisonRow, compare, factor
from dlmon.comparison.conditions import Conditions
from dlmon.comparison.factor_interval import factor_with_interval
from dlmon.records import MachineFacts, Result, SecondsPerEpoch, SessionHeader
from dlmon.statistics.ratios import Basis


def row(kind, value, half=0.05, session=None, **more):
    band = {} if half is None else {"low": value - half, "high": value + half}
    label = {"this": "this run", "published": "GTX 1060"}.get(kind, "CPU")
    return ComparisonRow(label, "seconds_per_epoch", kind, value, session=session, **band, **more)


THIS, OTHER = row("this", 9.0), row("earlier", 10.0, session="a")
LIKE = (OTHER, row("earlier", 10.4, session="b"), row("earlier", 9.8, session="c"))


def test_two_runs_alone_have_the_interval_of_how_each_varied():
    ratio = factor_with_interval(THIS, OTHER, (THIS, OTHER), True)
    assert ratio.value == pytest.approx(10 / 9)
    assert ratio.low < 10 / 9 < ratio.high < 1.13
    assert (ratio.basis, ratio.p) == (Basis.WITHIN_RUNS, None)


def test_where_like_runs_are_known_the_interval_allows_for_how_they_differ():
    alone = factor_with_interval(THIS, OTHER, (THIS, OTHER), True)
    ratio = factor_with_interval(THIS, OTHER, (THIS, *LIKE), True)
    assert ratio.basis is Basis.LIKE_RUNS
    assert ratio.low < alone.low
    assert ratio.high > alone.high


def test_runs_of_other_settings_say_nothing_of_how_these_differ():
    other = ComparisonRow("GPU", "seconds_per_epoch", "earlier", 5.0, 4.9, 5.1, session="d")
    ratio = factor_with_interval(THIS, OTHER, (THIS, OTHER, other), True)
    assert ratio.basis is Basis.WITHIN_RUNS


WORK = Conditions("train.py", batch_size=100, samples=50_000, epochs=3)
COMMAND = ("python", "train.py")


def recorded(session, seconds, options=(), command=COMMAND, versions=(("keras", "3.12"),)):
    """Return the result and the header of an earlier run of a script."""
    header = SessionHeader(
        schema=1,
        id=session,
        host="box",
        boot_id="boot",
        t=0,
        wall=1.0,
        workload=WORK.workload,
        options={},
        machine=MachineFacts(),
        versions=dict(versions),
        command=command,
    )
    result = Result(
        status="completed",
        session=session,
        log="",
        workload=WORK.workload,
        device="cpu",
        options=dict(options),
        wall_s=99.0,
        seconds_per_epoch=SecondsPerEpoch(seconds, seconds - 0.1, seconds + 0.1, 3, False),
    )
    return result, header


def ratio_to_the_first(*runs):
    results = [result for result, _ in runs]
    headers = {header.id: header for _, header in runs}
    rows = compare("seconds_per_epoch", WORK, WORK, None, results, headers)
    other = next(row for row in rows if row.session == results[0].session)
    return factor_with_interval(row("this", 10.0), other, rows, True)


@pytest.mark.parametrize(
    "other",
    [
        {"options": {"backend": "jax"}},
        {"options": {"cpus": 1}},
        {"options": {"threads": 1}},
        {"options": {"jit": "off"}},
        {"command": (*COMMAND, "--fast")},
        {"versions": {"keras": "3.13"}.items()},
    ],
)
def test_recorded_runs_of_other_settings_say_nothing_of_how_like_runs_differ(other):
    like = [recorded("a", 12.0), recorded("b", 12.1)]
    ratio = ratio_to_the_first(*like)
    assert ratio.basis is Basis.LIKE_RUNS
    assert ratio_to_the_first(*like, recorded("c", 4.0, **other)) == ratio
    assert ratio_to_the_first(like[0], recorded("c", 4.0, **other)).basis is Basis.WITHIN_RUNS


def test_where_a_recorded_run_keeps_its_log_and_what_it_costs_makes_it_no_other():
    watched = {"log_dir": "/elsewhere", "price": "0.9", "name": "mine"}
    runs = recorded("a", 12.0), recorded("b", 12.1, options=watched)
    assert ratio_to_the_first(*runs).basis is Basis.LIKE_RUNS


def test_a_published_figure_counts_as_exact():
    ratio = factor_with_interval(THIS, row("published", 18.0, None), (THIS,), True)
    assert (ratio.value, ratio.low) == (pytest.approx(2.0), pytest.approx(2 * 9 / 9.05, rel=1e-3))


def test_without_a_band_there_is_no_interval():
    ratio = factor_with_interval(row("this", 9.0, None), OTHER, (), True)
    assert (ratio.low, ratio.high) == (None, None)


def test_there_is_none_where_there_is_no_factor():
    unlike = row("earlier", 10.0, session="a", comparable=False)
    assert factor_with_interval(THIS, unlike, (THIS, unlike), True) is None
    projected = row("this", 9.0, projected=True)
    assert factor_with_interval(projected, OTHER, (), False) is None


@pytest.mark.slow
@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_the_interval_holds_the_factor(this_s, other_s, this_share, other_share):
    this = row("this", this_s, this_s * this_share)
    other = row("earlier", other_s, other_s * other_share, session="a")
    ratio = factor_with_interval(this, other, (this, other), True)
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.value == pytest.approx(factor(this, other, True))
