import pytest

from dlmon.instrument.queued import MOST_METRICS, MetricsRead
from dlmon.records import Metrics


class Unreadable:
    """What a framework says before it is computed, and cannot."""

    def __float__(self):
        raise LookupError


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
    assert many is not None
    assert len(many.values) == MOST_METRICS
