"""One step is counted, without a word to the others, whatever happens in it."""

import sys
from collections import deque
from types import SimpleNamespace

import pytest

from dlmon.instrument.flop_count import COMPUTES_AGAIN, NOTHING, StepCount
from dlmon.instrument.queued import MeasuredBatch, ProfiledSteps


class Counter:
    """A counter that sees what it is told to."""

    def __init__(self, operations, error=None):
        self.operations, self.error = operations, error
        self.mode = self
        self.entered = 0

    def __enter__(self):
        if self.error is not None:
            raise self.error
        self.entered += 1

    def __exit__(self, *error):
        self.entered -= 1

    def get_total_flops(self):
        return self.operations


class Reporter:
    def __init__(self):
        self.queued = deque()
        self.batch_ended = self.queued.append
        self.sent, self.described = [], []

    def send(self, item):
        self.sent.append(item)

    def describe_loop(self, why=None, **known):
        self.described.append({**known, "why": why})


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.delitem(sys.modules, "torch.utils._python_dispatch", raising=False)


def counted(*batches, counter):
    reporter = Reporter()
    count = StepCount(reporter, lambda: counter)
    for batch in batches:
        reporter.batch_ended(batch)
    assert list(reporter.queued) == list(batches)
    return reporter, count


@pytest.mark.parametrize(
    ("batch", "name", "operations"),
    [
        (MeasuredBatch(2, 8), "flops_per_sample", 100),
        (MeasuredBatch(2, (4, 4)), "flops_per_sample", 100),
        (MeasuredBatch(2, 8, tokens=80), "flops_per_token", 10),
        # Where steps are counted, each is a sample.
        (MeasuredBatch(2), "flops_per_sample", 800),
    ],
)
def test_the_step_after_the_next_batch_is_counted(batch, name, operations):
    counter = Counter(800)
    reporter, count = counted(MeasuredBatch(1, 8), batch, MeasuredBatch(3, 8), counter=counter)
    [described] = reporter.described
    assert described[name] == operations
    assert described["flops_from"] == "counted"
    assert reporter.sent == [ProfiledSteps(True), ProfiledSteps(False)]
    assert counter.entered == 0
    assert count.is_over
    assert reporter.batch_ended == reporter.queued.append


@pytest.mark.parametrize(
    ("counter", "why"), [(Counter(0), NOTHING), (Counter(1, ValueError("no")), "ValueError: no")]
)
def test_what_can_not_be_counted_says_why(counter, why):
    reporter, _ = counted(MeasuredBatch(1, 8), MeasuredBatch(2, 8), counter=counter)
    [described] = reporter.described
    assert described["flops_per_sample"] is None
    assert why in described["why"]["flops_per_sample"]
    assert reporter.batch_ended == reporter.queued.append


def test_a_mode_that_the_script_enters_meanwhile_is_left_first(monkeypatch):
    counter, stack = Counter(800), [object()]
    modes = SimpleNamespace(_get_current_dispatch_mode_stack=lambda: stack)
    monkeypatch.setitem(sys.modules, "torch.utils._python_dispatch", modes)
    reporter, count = counted(MeasuredBatch(1, 8), MeasuredBatch(2, 8), counter=counter)
    assert counter.entered == 1
    stack[:] = [counter]
    count.interrupt()
    assert (counter.entered, reporter.described) == (0, [])


def test_a_step_whose_code_calls_checkpoint_itself_is_not_counted(monkeypatch):
    class CheckpointFunction:
        @staticmethod
        def forward(value):
            return value

    own = vars(CheckpointFunction)["forward"]
    module = SimpleNamespace(CheckpointFunction=CheckpointFunction)
    monkeypatch.setitem(sys.modules, "torch.utils.checkpoint", module)
    reporter, _ = counted(MeasuredBatch(1, 8), counter=Counter(800))
    assert CheckpointFunction().forward(5) == 5
    reporter.batch_ended(MeasuredBatch(2, 8))
    [described] = reporter.described
    assert described["why"] == {"flops_per_sample": COMPUTES_AGAIN}
    assert vars(CheckpointFunction)["forward"] is own
