from dataclasses import replace

import pytest

from dlmon.comparison.sides import RunFigures, compare_sides
from dlmon.records import MachineFacts, Status
from dlmon.statistics.ratios import Basis, Ratio
from tui.formatting.sides import (
    COLUMNS,
    GAP,
    change_text,
    doubts,
    figure_rows,
    legend,
    notes,
    p_text,
    shown_columns,
    side_name,
    verdict,
)

RUN = RunFigures(
    session="20261120-145600-cifar10-cnn-7f3a",
    host="tower",
    wall=1.0,
    status=Status.COMPLETED,
    workload="cifar10-cnn",
    options={},
    versions={},
    machine=MachineFacts(),
    values={"samples_per_second": 1_000.0},
)


def side(session, *throughputs, values=None, **changes):
    return [
        replace(
            RUN,
            session=f"{session}-{number}",
            values={"samples_per_second": one, **(values or {})},
            **changes,
        )
        for number, one in enumerate(throughputs)
    ]


def cells(comparison, name):
    (row,) = (row for row in figure_rows(comparison) if row.cells[0] == name)
    return row.cells


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(1.049, 1.03, 1.07, 0.001, Basis.RUNS), "+4.9 %"),
        (Ratio(0.951, 0.93, 0.97, 0.001, Basis.RUNS), "-4.9 %"),
        (Ratio(1.004, 0.99, 1.02, 0.6, Basis.RUNS), "~ +0.4 %"),
        (Ratio(1.5, 1.49, 1.51, None, Basis.WITHIN_RUNS), "~ +50.0 %"),
        (Ratio(12.5, 12.0, 13.0, 0.001, Basis.RUNS), "+1,150 %"),
        (Ratio(1e9), "~ over +1,000,000 %"),
    ],
)
def test_a_change_is_marked_where_it_is_not_significant(ratio, text):
    assert change_text(ratio) == text


@pytest.mark.parametrize(
    ("p", "text"), [(0.41, "0.41"), (0.0312, "0.031"), (0.0004, "<0.001"), (1.0, "1.00")]
)
def test_a_probability_has_as_many_digits_as_it_needs(p, text):
    assert p_text(p) == text


def test_the_parts_of_the_account_stand_last_in_their_own_order():
    account = {"account.startup": 2.0, "account.data_wait": 1.0, "account.closing": 0.5}
    comparison = compare_sides(side("a", 1.0, values=account), side("b", 2.0, values=account))
    names = [row.cells[0] for row in figure_rows(comparison)]
    assert names == ["samples/s", "start and imports, s", "waiting for data, s", "ending, s"]


def test_what_one_side_lacks_is_a_dash():
    comparison = compare_sides(side("a", 1.0, values={"gpu_pct": 97.0}), side("b", 2.0))
    assert cells(comparison, "GPU busy, %") == ("GPU busy, %", "97", "–", "", "", "", "1+0")


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (100, COLUMNS),
        (56, tuple(name for name in COLUMNS if name != "n")),
        (50, ("", "base", "new", "change", "95 % interval")),
        (36, ("", "base", "new", "change")),
        (1, ("", "base", "new", "change")),
    ],
)
def test_columns_go_where_there_is_no_room(width, columns):
    rows = figure_rows(compare_sides(side("a", 900.0, 901.0), side("b", 950.0, 951.0)))
    shown = shown_columns(rows, width)
    assert tuple(COLUMNS[index] for index, _ in shown) == columns
    needed = sum(cells for _, cells in shown) + GAP * (len(shown) - 1)
    assert needed <= width or columns == COLUMNS[:4]


def test_a_side_is_called_by_its_name_where_all_its_runs_bear_it():
    assert side_name(side("a", 1.0)) == "a-0"
    assert side_name(side("a", 1.0, 2.0, 3.0)) == "a-0 and 2 more"
    assert side_name(side("a", 1.0, name="baseline")) == "baseline"
    assert side_name(side("a", 1.0, 2.0, name="baseline")) == "baseline, 2 runs"


def test_a_verdict_has_its_interval():
    base = side("a", 1_000.0, 1_001.0, 999.0)
    assert verdict(compare_sides(base, side("b", 1_100.0, 1_101.0, 1_099.0))) == (
        "new is 10.0 % faster than base (9.8 to 10.2 %)"
    )
    assert verdict(compare_sides(base, side("b", 900.0, 901.0, 899.0))) == (
        "new is 10.0 % slower than base (9.8 to 10.2 %)"
    )
    assert verdict(compare_sides(base, side("b", 1_001.0, 1_002.0, 998.0))).startswith(
        "no significant difference in throughput: -0."
    )
    assert verdict(compare_sides(base[:1], side("b", 2.0))) == (
        "one run a side does not show how runs differ: "
        "dlmon sweep cifar10-cnn --repeat 3 for each side does"
    )
    assert "do not differ at all" in verdict(compare_sides(side("a", 1, 1), side("b", 2, 2)))


def test_what_speaks_against_a_run_is_said():
    doubtful = {"valid": False, "against": {"throttled": "the GPU was throttled for 9 % of it"}}
    comparison = compare_sides(
        side("a", 1.0, status=Status.RUNNING), side("b", 2.0, name="new", **doubtful)
    )
    assert doubts(comparison) == [
        "a-0 is still running: its figures are those so far",
        "new: the GPU was throttled for 9 % of it",
    ]


def test_a_run_without_a_throughput_is_left_out_and_named():
    none = replace(RUN, session="early", values={}, why="not steady yet")
    comparison = compare_sides([*side("a", 1.0), none], side("b", 2.0))
    assert doubts(comparison) == [
        "early is left out, it has no throughput: not steady yet",
    ]


def test_the_mark_is_explained_by_what_the_interval_rests_on():
    windows = [(1_000, 1_000_000 + 1_000 * (n % 3)) for n in range(12)]
    one_each = compare_sides(side("a", 1.0, windows=windows), side("b", 2.0, windows=windows))
    assert "by more than their own seconds show" in legend(one_each)
    assert "not of how runs do" in notes(one_each)[-1]
    judged = compare_sides(side("a", 1.0), side("b", 2.0), side("c", 1.0, 1.01, 0.99))
    assert "allows for how runs differ" in legend(judged)
    assert notes(judged) == ["how runs differ is taken from other runs of the same conditions here"]


def test_the_parts_of_scripts_of_pytorch_have_names_that_hold_for_them():
    values = {"compile_s": 1.4, "account.startup": 5.0, "account.compiling": 1.4}
    torch = {"options": {"command": "python train.py"}, "versions": {"torch": "2.13.0"}}
    of_scripts = compare_sides(
        side("a", 1_000.0, values=values, **torch), side("b", 1_000.0, values=values, **torch)
    )
    names = [row.cells[0] for row in figure_rows(of_scripts)]
    assert {"start and set-up, s", "first batch, s", "first batch, extra s"} <= set(names)
    assert not any("compil" in name for name in names)
    keras = {"keras": "3.15.1", "dlmon": "0.1.0", "backend": "tensorflow"}
    mixed = compare_sides(
        side("a", 1_000.0, values=values), side("b", 1_000.0, values=values, versions=keras)
    )
    names = [row.cells[0] for row in figure_rows(mixed)]
    assert {"start and imports, s", "compiling, s", "compile, s"} <= set(names)
