"""What is said where there is nothing to compare with, and when that would not be true."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.comparison import NO_FIGURE, comparison_rows, nothing_to_compare
from dlmon.records import Status


def snapshot_of(*args, workload="train.py", script=True, **options):
    header, *records = recorded_session(*args, **options)
    header = replace(header, workload=workload, command=["python", "train.py"] if script else None)
    return folded([header, *records]).snapshot()


def said(snapshot, status):
    return nothing_to_compare(comparison_rows(snapshot, ()), snapshot, status)


@pytest.mark.parametrize(
    ("status", "coming"),
    [
        (Status.RUNNING, "Once this run completes, the next is compared with it."),
        (Status.COMPLETED, "The next run is compared with this one."),
        (Status.STOPPED, "The next run is compared with this one."),
        (Status.FAILED, None),
        (Status.INTERRUPTED, None),
        (Status.UNKNOWN, None),
    ],
)
def test_the_next_run_is_promised_only_where_this_one_will_be_compared_with(status, coming):
    said_then = " ".join(filter(None, ("No earlier run to compare with.", coming)))
    assert said(snapshot_of("training"), status) == said_then


def test_of_a_run_without_a_figure_nothing_is_promised():
    assert said(snapshot_of("compiling"), Status.RUNNING) == "No earlier run to compare with."


def test_a_run_that_is_over_without_a_figure_is_compared_with_nothing():
    without = snapshot_of("compiling")
    (earlier,) = comparison_rows(snapshot_of("training"), ())
    for status in (Status.COMPLETED, Status.FAILED, Status.INTERRUPTED):
        assert nothing_to_compare((earlier,), without, status) == NO_FIGURE


def test_with_an_earlier_run_or_a_published_figure_nothing_is_said():
    snapshot = snapshot_of("training", workload="cifar10-cnn", script=False)
    assert said(snapshot, Status.RUNNING) == ""
    snapshot = snapshot_of("training")
    (this,) = comparison_rows(snapshot, ())
    earlier = replace(this, kind="earlier")
    assert nothing_to_compare((earlier,), snapshot, Status.RUNNING) == ""


def test_a_row_that_says_what_a_run_costs_stays():
    snapshot = snapshot_of("training")
    (this,) = comparison_rows(snapshot, ())
    assert isinstance(this, ComparisonRow)
    assert nothing_to_compare((replace(this, usd_per_hour=0.1),), snapshot, Status.RUNNING) == ""


def test_of_a_workload_of_another_version_nothing_is_claimed():
    snapshot = snapshot_of("training", workload="from-tomorrow", script=False)
    assert said(snapshot, Status.COMPLETED) == ""
