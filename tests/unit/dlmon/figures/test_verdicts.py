"""How fast one thing is said to be beside another: all comparisons have these words."""

import pytest

from dlmon.figures.verdicts import (
    DOUBT_NAMES,
    doubts_of_results,
    in_doubt,
    validity_text,
    verdict,
)
from dlmon.records import Doubt, Result
from dlmon.session.snapshot import Validity
from dlmon.statistics.ratios import Basis, Ratio


def of_runs(value, low, high):
    return Ratio(value, low, high, 0.01, Basis.RUNS)


def of_windows(value, low, high):
    return Ratio(value, low, high, None, Basis.WITHIN_RUNS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (of_runs(1.1, 1.098, 1.102), "10.0 % faster than base (9.8 to 10.2 %)"),
        (of_runs(0.9, 0.898, 0.902), "10.0 % slower than base (9.8 to 10.2 %)"),
        (of_runs(2.38, 1.9, 2.86), "2.38× as fast as base (1.90× to 2.86×)"),
        (of_runs(0.4, 0.25, 0.5), "2.50× as slow as base (2.00× to 4.00×)"),
        (of_runs(1234.5, 1000.0, 1500.0), "1,234× as fast as base (1,000× to 1,500×)"),
        (of_runs(1.0002, 1.0001, 1.0003), "as fast as base (+0.0 to +0.0 %)"),
        (of_runs(1.01, 0.99, 1.03), "no clear difference from base (-1.0 to +3.0 %)"),
        (of_windows(1.1, 1.09, 1.11), "10.0 % faster than base (9.0 to 11.0 %, 1 run each)"),
        (of_windows(1.1, 0.9, 1.3), "no clear difference from base (-10.0 to +30.0 %, 1 run each)"),
        (Ratio(1.1), "10.0 % faster than base (1 run each)"),
        (Ratio(1.0), "as fast as base (1 run each)"),
        ("batch 32, not 100", "not compared with base: batch 32, not 100"),
    ],
)
def test_what_is_said_of_two(found, said):
    assert verdict(found, "base", unsure="1 run each") == said


def test_a_sentence_begins_with_what_it_is_of():
    assert verdict(Ratio(1.1), "base", subject="new is ") == "new is 10.0 % faster than base"
    unclear = verdict(of_runs(1.01, 0.99, 1.03), "base", subject="new is ")
    assert unclear.startswith("no clear difference from base")


SHORT, STOLEN = "too short: it was never steady", "the host took 4.0 % of the CPUs"
VALIDITY = Validity({Doubt.TOO_SHORT: SHORT, Doubt.STEAL: STOLEN})


def result(*doubts):
    against = dict.fromkeys(doubts, "why")
    return Result("completed", "id", "log", "own", None, {}, wall_s=1.0, against=against)


def test_every_doubt_has_a_name():
    assert set(DOUBT_NAMES) == set(Doubt)


def test_without_any_that_is_said():
    assert validity_text(Validity({})) == "nothing casts doubt on the figures"
    assert validity_text(None) == ""


def test_in_brief_they_are_named():
    assert in_doubt(VALIDITY.against) == "in doubt: too short, CPUs taken by the host"
    assert in_doubt(()) == ""
    # A log of a newer version.
    assert in_doubt(["of 2030"]) == "in doubt: a doubt that a newer dlmon has"


def test_those_of_several_runs_are_named_once():
    results = [result("stalls"), result("too_short", "stalls"), result()]
    assert doubts_of_results(results) == "in doubt: too short, stalls"
    assert doubts_of_results([result()]) == ""
