"""Which openings of epochs are said to be TensorFlow's teardown of the epoch before."""

from dlmon.instrument.timed_pass import PipelineTeardowns

MS = 1_000_000
TAKEN_DOWN = "TensorFlow takes down the last epoch's input pipeline"


class Openings:
    """Openings of epochs, each with a time and what the process did meanwhile."""

    def __init__(self):
        self.cpu = self.number = 0
        self.found = PipelineTeardowns(lambda: self.cpu, "epoch", "epochs", lambda: 0)

    def open(self, wall_ms, cpu_ms=10):
        self.number += 1
        self.found.mark_start()
        self.cpu += cpu_ms * MS
        return self.found.explain(str(self.number), wall_ms * MS)


def test_the_cause_of_a_short_pause_is_named_once_and_then_counted():
    openings = Openings()
    assert openings.open(900) == f"0.9 s at the start of epoch 1: {TAKEN_DOWN}"
    assert [openings.open(ms) for ms in (0, 900, 900)] == [""] * 3
    assert openings.found.summary() == (
        "2.7 s in all at the start of 3 epochs: "
        "TensorFlow took down the input pipelines of the epochs before"
    )


def test_a_few_long_pauses_are_named_and_any_that_is_longer_yet():
    openings = Openings()
    named = [bool(openings.open(ms)) for ms in (2_100,) * 8 + (3_000,)]
    assert named == [True] * 5 + [False] * 3 + [True]


def test_no_cause_is_named_of_a_pause_in_which_the_process_worked_or_of_a_short_one():
    openings = Openings()
    assert openings.open(2_100, cpu_ms=500) == openings.open(499) == ""
    assert openings.found.count == 0
