"""A run of another program has curves over time and over steps, as a session has."""

import math
from array import array

import pytest

from dlmon.figures.report.curves import STEPS, TIME, along, curves_of, progress_of
from dlmon.metric_files.file_session import FileSession, group_of
from dlmon.metric_files.points import PointSeries, RunPoints, in_order, without_overtaken


def numbers(*values):
    return array("d", values)


@pytest.fixture
def session():
    points = RunPoints("run")
    for step in range(0, 100, 10):
        points.add("train/loss", step, 1000 + step, 100 - step)
        points.add("perf/tokens", step, 1000 + step, 5)
    points.add("val/loss", 50, 1050, 60)
    points.changed()
    return FileSession(points)


def test_training_and_validation_share_a_chart_and_groups_come_after(session):
    curves = curves_of(session, 0)
    assert list(curves) == ["loss", "perf/tokens"]
    assert curves["loss"].validations == [(50 * 10**9, 60.0)]
    assert session.names_of("loss") == ["train/loss", "val/loss"]
    assert list(map(group_of, curves)) == ["", "perf"]


def test_a_curve_over_steps_has_the_value_of_each_step(session):
    progress = progress_of(session, STEPS)
    curve = along(curves_of(session, 0, over_steps=True)["loss"], progress, 1e9)
    assert curve.series.columns(0, 10 * 10**9, 9) == [100 - step for step in range(0, 90, 10)]
    assert progress_of(session, TIME) is None


def test_names_that_would_collide_keep_their_own():
    points = RunPoints("run")
    for name in ("loss", "train/loss", "training/loss", "val_acc"):
        points.add(name, 1, None, 1.0)
    session = FileSession(points)
    assert set(session.curves(True)) == {"loss", "train/loss", "training/loss", "acc"}
    assert not session.has_times


def test_after_a_restart_the_later_values_count_on_steps_and_all_over_time():
    points = RunPoints("run")
    for wall, (step, value) in enumerate([(0, 9.0), (10, 8.0), (20, 7.0), (10, 6.0), (15, 5.0)]):
        points.add("loss", step, 1e9 + wall, value)
    session = FileSession(points)
    assert [v for _, v in session.curves(True)["loss"].series.points] == [9, 6, 5]
    assert len(session.curves(False)["loss"].series.points) == 5


def test_two_writers_of_a_run_are_put_in_order():
    series = in_order(numbers(1, 3, 2, math.nan, 4), numbers(1, 3, 2, 0, 4), 0, 1)
    assert series.points == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert in_order(numbers(math.nan, math.nan), numbers(1, 2), 0, 1).points == []
    overtaken = without_overtaken(numbers(1, 2, 3, 2, 3), numbers(1, 2, 3, 20, 30), 1)
    assert overtaken.points == [(1, 1), (2, 20), (3, 30)]


def test_columns_are_means_and_straight_between_points():
    series = PointSeries(numbers(0, 1, 10, 30), numbers(1, 3, 0, 10))
    assert series.columns(0, 10, 4) == [2, 0, 7.5, 10]
    assert series.columns(40, 10, 2) == [None, None]
    assert series.newest == 10
    assert PointSeries(numbers(), numbers()).columns(0, 1, 2) == [None, None]


def test_what_is_no_number_is_left_out_and_counted():
    series = PointSeries(numbers(0, 1, 2, 3), numbers(1, math.nan, math.inf, 2))
    assert series.not_numbers == 2
    assert series.columns(0, 1, 4) == [1, pytest.approx(1.5), pytest.approx(5 / 3 + 1 / 6), 2]


def test_a_metric_of_very_many_points_is_thinned(monkeypatch):
    monkeypatch.setattr("dlmon.metric_files.points.MOST_POINTS", 100)
    points = RunPoints("run")
    for step in range(150):
        points.add("loss", step, None, step)
    points.changed()
    assert list(points.metrics["loss"].steps) == list(range(1, 150, 2))
