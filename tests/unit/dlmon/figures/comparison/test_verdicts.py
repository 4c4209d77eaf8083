"""How fast one thing is said to be beside another: all comparisons have these words."""

from dataclasses import replace

import pytest

from dlmon.figures.comparison.verdicts import verdict
from dlmon.figures.session.doubts import DOUBT_NAMES, doubts_of_results, in_doubt
from dlmon.records import Doubt, Result
from dlmon.statistics.ratios import Basis, Ratio


def of_runs(value, low, high):
    return Ratio(value, low, high, 0.01, Basis.RUNS)


def of_windows(value, low, high):
    return Ratio(value, low, high, None, Basis.WITHIN_RUNS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (of_runs(1.1, 1.098, 1.102), "1.100× as fast as base (1.098× to 1.102×)"),
        (of_runs(0.9, 0.898, 0.902), "1.111× as slow as base (1.109× to 1.114×)"),
        (of_runs(2.38, 1.9, 2.86), "2.38× as fast as base (1.900× to 2.86×)"),
        (of_runs(0.4, 0.25, 0.5), "2.50× as slow as base (2.00× to 4.00×)"),
        (of_runs(1234.5, 1000.0, 1500.0), "1,234× as fast as base (1,000× to 1,500×)"),
        (of_runs(1.0002, 1.0001, 1.0003), "as fast as base (1.000× to 1.000×)"),
        (of_runs(1.01, 0.99, 1.03), "no clear difference from base (0.990× to 1.030×)"),
        (of_windows(1.1, 1.09, 1.11), "1.100× as fast as base (1.090× to 1.110×, 1 run each)"),
        (of_windows(1.1, 0.9, 1.3), "no clear difference from base (0.900× to 1.300×, 1 run each)"),
        (Ratio(1.1), "1.100× as fast as base (1 run each)"),
        (
            of_windows(1.1, 0.001, 2256.0),
            "no clear difference from base (0.001× to 2,256×, 1 run each)",
        ),
        (
            replace(of_runs(1.0, 0.1, 10.0), degrees=1.0),
            "no clear difference from base (too few runs to know how much runs differ)",
        ),
        (of_runs(9.0, 2.0, 40.0), "9.00× as fast as base (2.00× to 40.0×)"),
        (Ratio(1.0), "as fast as base (1 run each)"),
        ("batch 32, not 100", "not compared with base: batch 32, not 100"),
    ],
)
def test_what_is_said_of_two(found, said):
    assert verdict(found, "base", unsure="1 run each") == said
    # A sentence begins with what it is of, where that did anything.
    begins = said if said.startswith("no") else f"new is {said}"
    assert verdict(found, "base", unsure="1 run each", subject="new is ") == begins


def result(*doubts):
    against = dict.fromkeys(doubts, "why")
    return Result("completed", "id", "log", "own", None, {}, wall_s=1.0, against=against)


def test_doubts_are_named_in_brief_and_those_of_several_runs_once():
    assert set(DOUBT_NAMES) == set(Doubt)
    assert in_doubt((Doubt.TOO_SHORT, Doubt.STEAL)) == "in doubt: too short, CPU steal"
    assert in_doubt(()) == doubts_of_results([result()]) == ""
    # A log of a newer version.
    assert in_doubt(["of 2030"]) == "in doubt: a doubt that a newer dlmon has"
    results = [result("stalls"), result("too_short", "stalls"), result()]
    assert doubts_of_results(results) == "in doubt: too short, stalls"
