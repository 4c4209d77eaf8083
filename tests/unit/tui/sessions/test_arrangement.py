"""The order of recorded sessions, what a filter leaves of them, and the sides of a comparison."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.recorded import recorded_session
from fakes.sweeps import plan_of, sweep_of
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.lists.session_columns import COLUMNS_BY_NAME
from dlmon.figures.lists.session_list import matching, split_for_comparison
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.sweep.log import SweepEntry, new_header
from tui.sessions.session_list import in_order
from tui.widgets.tables import next_column

HEADER, *_, RESULT = recorded_session()


def session(name, wall, label=Label(), **changes):  # noqa: B008 - it is frozen
    header = replace(HEADER, id=name, wall=float(wall), host=changes.pop("host", "tower"))
    result = changes.pop("result", RESULT)
    status = changes.pop("status", Status.COMPLETED)
    return SessionEntry(header, Path(name), status, result, None, label)


def ids(entries):
    return [entry.header.id for entry in entries]


def timed(seconds):
    return replace(RESULT, seconds_per_epoch=replace(RESULT.seconds_per_epoch, value=seconds))


THREE = [
    session("a", 1, Label("Zeta"), host="box", result=timed(3.0)),
    session("b", 2, Label("alpha"), host="Apple", result=None, status=Status.RUNNING),
    session("c", 3, result=timed(1.0), status=Status.STOPPED),
]


@pytest.mark.parametrize(
    ("by", "order", "reversed"),
    [
        ("started", "cba", "abc"),
        ("what", "bca", "acb"),
        ("host", "bac", "cab"),
        ("time", "cab", "acb"),
    ],
)
def test_sessions_are_sorted_by_a_column_and_what_has_no_value_is_last(by, order, reversed):
    assert ids(in_order(THREE, {}, by)) == list(order)
    assert ids(in_order(THREE, {}, by, reverse=True)) == list(reversed)


def test_an_error_is_no_time():
    failed = session("failed", 0, result=replace(timed(0.1), error="out of memory"))
    assert ids(in_order([failed, *THREE], {}, "time"))[:2] == ["c", "a"]


@given(st.permutations(THREE), st.sampled_from([*COLUMNS_BY_NAME]))
def test_no_order_loses_a_session_or_depends_on_how_they_come(entries, by):
    assert in_order(entries, {}, by) == in_order(THREE, {}, by)
    assert sorted(ids(in_order(entries, {}, by))) == ["a", "b", "c"]


def test_a_sweep_is_sorted_among_sessions():
    plan = plan_of({"batch_size": [32, 64]})
    header = replace(new_header(plan, 1, 9.0), id="sweep")
    entry = SweepEntry(header, Path("sweep"), sweep_of(plan), Status.COMPLETED, None, Label("m"))
    assert ids(in_order([*THREE, entry], {}, "what")) == ["b", "c", "sweep", "a"]
    assert ids(in_order([*THREE, entry], {}, "time"))[-2:] == ["sweep", "b"]
    assert ids(in_order([*THREE, entry], {}, "device"))[-2:] == ["sweep", "b"]


def test_the_next_column_follows_the_last_one():
    columns = ("started", "loss", "time")
    assert next_column("started", 1, columns) == "loss"
    assert next_column("time", 1, columns) == "started"
    assert next_column("started", -1, columns) == "time"
    # A column that the terminal has no room for any more.
    assert next_column("host", 1, columns) == "started"


def test_a_session_is_found_by_its_name_and_note():
    noted = session("d", 4, Label("base", "after the fix"))
    for typed in ("BASE", "fix after", "ase d"):
        assert ids(matching([*THREE, noted], typed)) == ["d"]
    assert matching([*THREE, noted], "  ") == [*THREE, noted]


# ---- what is compared ----


def test_fewer_than_two_have_no_sides():
    assert split_for_comparison([]) is None
    assert split_for_comparison(THREE[:1]) is None


def test_the_oldest_is_compared_with_all_others():
    base, new = split_for_comparison(THREE[::-1])
    assert (ids(base), ids(new)) == (["a"], ["b", "c"])


def test_two_names_are_the_two_sides_the_older_one_first():
    runs = [session(f"{name}{n}", n, Label(name)) for n, name in enumerate(["new", "base"] * 2)]
    base, new = split_for_comparison(runs)
    assert (ids(base), ids(new)) == (["new0", "new2"], ["base1", "base3"])
    unnamed = session("x", 9)
    base, new = split_for_comparison([*runs, unnamed])
    assert (ids(base), len(new)) == (["new0"], 4)
    base, new = split_for_comparison([runs[0], runs[2], unnamed])
    assert (ids(base), ids(new)) == (["new0"], ["new2", "x"])
