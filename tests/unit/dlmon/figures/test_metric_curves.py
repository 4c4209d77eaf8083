"""What a report draws of the metrics: each value at its time, and each validation at its end."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session
from fakes.strategies import ANY_RECORDS
from hypothesis import given, settings

from dlmon.figures.metric_curves import MetricCurves, metric_charts
from dlmon.records import Epoch, Metrics

TRAINING, VALIDATION = "training", "validation, at the end of each epoch"


def charts_of(*sessions):
    curves = []
    for records in sessions:
        curves.append(MetricCurves(records[0]))
        for record in records[1:]:
            curves[-1].fold(record)
    names = [f"run {number}" for number, _ in enumerate(sessions, 1)]
    return {chart.metric: chart for chart in metric_charts(curves, names)}


def losses(records):
    """Return the lines of the loss."""
    charts = charts_of(records)
    return {line.label: line for line in charts["loss"].lines} if charts else {}


def without_metrics():
    return [record for record in recorded_session() if not isinstance(record, Metrics)]


def test_each_metric_has_a_chart_and_the_loss_is_first():
    charts = charts_of(recorded_session())
    assert list(charts) == ["loss", "accuracy"]
    assert [line.label for line in charts["accuracy"].lines] == [TRAINING, VALIDATION]


def test_the_loss_is_drawn_with_its_validation():
    drawn = losses(recorded_session())
    assert list(drawn) == [TRAINING, VALIDATION]
    assert drawn[TRAINING].mean[0] > 2
    assert drawn[TRAINING].mean[-1] < 0.7
    assert [round(mean, 4) for mean in drawn[VALIDATION].mean] == [1.8, 0.9, 0.6]


def test_a_validation_stands_at_the_end_of_its_epoch():
    records = recorded_session()
    ends = [(r.end - records[0].t) / 1e9 for r in records if isinstance(r, Epoch)]
    assert losses(records)[VALIDATION].xs == pytest.approx(ends)


def test_an_older_log_draws_the_losses_at_the_ends_of_its_epochs():
    records = without_metrics()
    ends = [(r.train_end - records[0].t) / 1e9 for r in records if isinstance(r, Epoch)]
    assert losses(records)[TRAINING].xs == pytest.approx(ends)


def test_epochs_that_are_shorter_than_a_second_have_a_value_each():
    header, *records = without_metrics()
    epochs = [r for r in records if isinstance(r, Epoch)]
    short = [
        replace(
            epochs[0],
            epoch=number,
            begin=header.t + number * 600_000_000,
            train_end=header.t + number * 600_000_000 + 400_000_000,
            end=header.t + number * 600_000_000 + 500_000_000,
            validation=None,
        )
        for number in range(20)
    ]
    drawn = losses([header, *short])
    assert [len(line.mean) for line in drawn.values()] == [20, 20]


def test_an_epoch_that_is_written_again_adds_only_what_is_new():
    header, *records = without_metrics()
    epochs = [r for r in records if isinstance(r, Epoch)]
    first = replace(epochs[0], metrics={"loss": 2.0}, validation=None)
    again = replace(epochs[0], metrics={"loss": 2.0, "val_loss": 1.5})
    drawn = losses([header, first, again])
    assert [line.mean for line in drawn.values()] == [(2.0,), (1.5,)]


def test_a_loss_that_is_no_number_is_a_gap():
    points = losses(recorded_session("training", ended=2, nan_loss=True))[TRAINING].mean
    assert None in points
    assert all(mean is None or mean > 0 for mean in points)


def test_the_validation_of_a_session_among_several_has_its_colour():
    lines = charts_of(recorded_session(), recorded_session())["loss"].lines
    assert [line.label for line in lines] == [
        "run 1", "run 1, validation", "run 2", "run 2, validation",
    ]  # fmt: skip
    assert [line.session for line in lines] == [0, 0, 1, 1]


@settings(max_examples=40, deadline=None)
@given(records=ANY_RECORDS)
def test_any_records_have_charts_of_numbers(records):
    header = recorded_session()[0]
    for chart in charts_of([header, *records]).values():
        assert chart.bottom < chart.top
        for line in chart.lines:
            assert list(line.xs) == sorted(line.xs)
            for low, high in zip(line.low, line.high, strict=True):
                assert low is None or chart.bottom <= low <= high <= chart.top


def test_of_very_many_values_each_point_has_the_mean_and_the_extremes_of_neighbours():
    header = recorded_session()[0]
    values = [float(number % 7) for number in range(5000)]
    records = [Metrics(t=header.t + n * 10**9, values={"loss": v}) for n, v in enumerate(values)]
    line = losses([header, *records])[TRAINING]
    assert len(line.xs) <= 600
    assert line.mean[0] == pytest.approx(sum(values[:16]) / 16)
    assert (line.xs[0], line.low[0], line.high[0]) == (7.5, 0.0, 6.0)
