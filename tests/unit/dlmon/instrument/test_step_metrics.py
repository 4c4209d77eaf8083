"""The metrics that a script passes itself with each step."""

import numpy as np
import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.loops import Training
from dlmon.instrument.queued import MOST_METRICS, MeasuredBatch, MetricsRead
from dlmon.records import Metrics


class Reports(KeptReporter):
    """A monitor that listens."""

    def __init__(self):
        super().__init__()
        self.reads.is_due = True

    def send_metrics(self, t, values):
        self.reads.is_due = False
        self.send(MetricsRead(t, values))


class Unreadable:
    """As an array of many numbers, or what a framework says before it is computed."""

    def __float__(self):
        raise LookupError


def metrics_sent(reporter):
    return [item.metrics for item in reporter.queue if isinstance(item, MetricsRead)]


@pytest.mark.parametrize(
    ("values", "record"),
    [
        ({"loss": 0.5, "lr": 1}, Metrics(7, {"loss": 0.5, "lr": 1.0})),
        ({"loss": float("nan")}, Metrics(7, {"loss": None}, why={"loss": "NaN"})),
        ({"loss": float("inf")}, Metrics(7, {"loss": None}, why={"loss": "infinite"})),
        ({"loss": [1, 2], "accuracy": 0.5}, Metrics(7, {"accuracy": 0.5})),
        ({"loss": Unreadable()}, None),
        ({3: 0.5}, None),
        ({}, None),
    ],
)
def test_of_what_was_read_the_numbers_are_recorded(values, record):
    assert MetricsRead(7, values).record() == record


def test_no_more_metrics_are_read_than_can_be_shown():
    many = MetricsRead(7, {f"metric {number}": 1.0 for number in range(100)}).record()
    assert len(many.values) == MOST_METRICS


def test_what_a_step_is_given_is_read_when_it_is_due():
    reporter = Reports()
    with Training(reporter=reporter) as loop:
        loop.step(32, {"loss": 0.5})
        loop.step(32, {"loss": 0.4})
        reporter.reads.is_due = True
        loop.step(32, {"loss": 0.3, "accuracy": 1, "weights": Unreadable()})
        # Then what PyTorch goes backward from is not read beside it.
        assert reporter.reads.are_reported
    assert metrics_sent(reporter) == [{"loss": 0.5}, {"loss": 0.3, "accuracy": 1.0}]
    assert not reporter.reads.are_reported


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (32, 32),
        (np.int64(32), 32),
        (np.array(32), 32),
        (32.0, 32),
        (True, 1),
        (32.5, None),
        (-1, None),
        (float("nan"), None),
        ("32", None),
        (Unreadable(), None),
        (np.array([1, 2]), None),
    ],
)
def test_a_size_that_is_no_whole_number_is_not_known(given, held):
    reporter = Reports()
    with Training(samples=given, batch_size=given, reporter=reporter) as loop:
        loop.step(given)
        loop.step()
    sizes = [item.samples for item in reporter.queue if isinstance(item, MeasuredBatch)]
    assert sizes == [held, held]
    assert all(type(size) is int for size in sizes if size is not None)
