from dlmon.figures.validity import (
    DOUBT_NAMES,
    doubts_of_results,
    in_doubt,
    validity_text,
)
from dlmon.records import Doubt, Result
from dlmon.session.snapshot import Validity

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
