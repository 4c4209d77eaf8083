"""The metrics that a script passes itself with each step."""

from fakes.loops import KeptReporter

from dlmon.instrument.loops import Training
from dlmon.instrument.queued import MetricsRead


class Reports(KeptReporter):
    """A monitor that listens."""

    def __init__(self):
        super().__init__()
        self.reads.is_due = True

    def send_metrics(self, t, values):
        self.reads.is_due = False
        self.send(MetricsRead(t, values))


class Unreadable:
    """As an array of many numbers."""

    def __float__(self):
        raise LookupError


def metrics_sent(reporter):
    return [item.values for item in reporter.queue if isinstance(item, MetricsRead)]


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


def test_a_step_without_metrics_sends_none():
    reporter = Reports()
    with Training(reporter=reporter) as loop:
        loop.step(32)
        assert not reporter.reads.are_reported
    assert metrics_sent(reporter) == []
