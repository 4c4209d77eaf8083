"""Who reports, of several frameworks that see the same batches; and what a loop says later on."""

from dlmon.instrument.reporter import Reporter
from dlmon.records import Model


class Emitter:
    """Keeps what is sent."""

    def __init__(self):
        self.sent = []
        self.batch_ended = self.send = self.sent.append


def test_the_first_that_takes_the_reporter_keeps_it():
    reporter = Reporter("/nowhere/socket")
    assert reporter.take("keras")
    assert reporter.take("keras")
    assert not reporter.take("torch")
    reporter.let_go("torch")
    assert not reporter.take("torch")
    reporter.let_go("keras")
    assert reporter.take("torch")


def test_what_holds_the_reporter_ends_when_another_asks():
    reporter = Reporter("/nowhere/socket")
    ended = []

    def end():
        ended.append("keras")
        reporter.let_go("keras")

    reporter.take("keras")
    reporter.hold("keras", end)
    assert reporter.take("torch")
    assert ended == ["keras"]
    # Nothing holds it now that it is taken in earnest.
    assert not reporter.take("keras")


def test_taking_the_reporter_again_ends_the_holding():
    reporter = Reporter("/nowhere/socket")
    reporter.take("keras")
    reporter.hold("keras", lambda: None)
    reporter.take("keras")
    assert not reporter.take("torch")


def test_a_loop_is_described_again_without_becoming_another():
    reporter, emitter = Reporter("/nowhere/socket"), Emitter()
    reporter.attach(emitter)
    reporter.begin_loop(batch_size=32, epochs=2, why={"parameters": "not built yet"})
    reporter.describe_loop(parameters=19)
    first, second = emitter.sent
    assert isinstance(second, Model)
    assert (first.loop, second.loop) == (0, 0)
    assert (second.batch_size, second.epochs, second.parameters) == (32, 2, 19)
    assert "parameters" in first.why
    assert "parameters" not in second.why
    reporter.begin_loop()
    assert emitter.sent[-1].loop == 1
