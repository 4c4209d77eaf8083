from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log.folder import LOG_NAME, id_of
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.sweep.log import SWEEP_NAME, removable


def entry(name, file, began, status, named):
    return SimpleNamespace(
        path=Path("logs") / name / file,
        header=SimpleNamespace(wall=began),
        status=Status(status),
        label=Label("named" if named else None),
    )


def may_run(each):
    return each.status in (Status.RUNNING, Status.UNKNOWN)


def session(name, began, status="completed", named=False):
    return entry(name, LOG_NAME, began, status, named)


def sweep(name, began, *runs, status="completed", named=False):
    made = entry(name, SWEEP_NAME, began, status, named)
    made.sweep = SimpleNamespace(sessions=dict.fromkeys(runs))
    return made


def ids(recordings):
    return [id_of(recording.path) for recording in recordings]


# ---- what a rule means ----


FIVE = [session(name, float(began)) for began, name in enumerate("abcde")]


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        *(({"keep": keep}, gone) for keep, gone in ((0, "abcde"), (2, "abc"), (4, "a"), (100, ""))),
        *(({"before": t}, gone) for t, gone in ((-1, ""), (2.0, "ab"), (2.5, "abc"), (9, "abcde"))),
    ],
)
def test_all_but_the_newest_or_what_began_before_a_time_is_removed(rule, gone):
    assert ids(removable(FIVE[::-1], [], **rule)) == list(gone)
    # A sweep that has yet to make its first run is as new as it is.
    assert removable(FIVE, [sweep("s", 9.0)], keep=2) == FIVE[:3]


@pytest.mark.parametrize("status", ["running", "unknown"])
def test_what_may_run_is_never_removed(status):
    sessions = [session("runs", 0.0, status, named=True), *FIVE[1:]]
    assert ids(removable(sessions, [], keep=0, named=True)) == list("bcde")
    assert removable([], [sweep("s", 0.0, status=status)], keep=0, named=True) == []


def test_what_has_a_name_is_removed_only_where_that_is_asked_for():
    sessions = [session("mine", 0.0, named=True), *FIVE[1:3]]
    assert ids(removable(sessions, [], keep=1)) == ["b"]
    assert ids(removable(sessions, [], keep=1, named=True)) == ["mine", "b"]


def test_a_sweep_goes_with_the_last_of_its_sessions():
    swept = [sweep("s", 0.5, "b", "c")]
    assert ids(removable(FIVE, swept, keep=3)) == ["a", "b"]
    assert ids(removable(FIVE, swept, keep=2)) == ["a", "s", "b", "c"]
    assert ids(removable(FIVE, swept, before=2.5)) == ["a", "s", "b", "c"]
    assert ids(removable(FIVE[3:], swept, keep=2)) == ["s"]
    named = [sweep("s", 0.5, "b", "c", named=True)]
    assert ids(removable(FIVE, named, keep=2)) == ["a", "b", "c"]


@pytest.mark.parametrize("status", ["running", "unknown"])
def test_the_runs_of_a_sweep_that_goes_on_stay(status):
    swept = [sweep("s", 0.5, "b", "c", status=status)]
    assert ids(removable(FIVE, swept, keep=0)) == ["a", "d", "e"]


@given(
    sessions=st.lists(
        st.builds(
            session,
            st.uuids().map(str),
            st.floats(0, 10),
            st.sampled_from(list(Status)),
            st.booleans(),
        ),
        max_size=8,
    ),
    keep=st.integers(0, 9),
    named=st.booleans(),
)
def test_no_rule_removes_more_than_it_says(sessions, keep, named):
    gone = removable(sessions, [], keep=keep, named=named)
    assert len(sessions) - len(gone) >= min(keep, len(sessions))
    assert not any(may_run(each) or (each.label.name and not named) for each in gone)
    kept = sorted(each.header.wall for each in sessions if each not in gone)
    assert all(sum(began >= each.header.wall for began in kept) >= keep for each in gone)
