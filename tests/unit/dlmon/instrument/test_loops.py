"""Loops that a script reports itself: every step counts, whatever it says and whoever says it."""

import math
import sys
import threading

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument import loops
from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.loops import LARGEST, NO_SIZE, Training
from dlmon.records import Batches, Epoch, Model, Notice, Record, encode

THREADS, STEPS = 8, 60


@pytest.fixture
def switching():
    """Have threads take turns after nearly every instruction."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def collected(reporter):
    collector = BatchCollector()
    collector.take(reporter.queue)
    return [record for record in collector.records(finish=True) if isinstance(record, Record)]


def of(kind, records):
    return [record for record in records if isinstance(record, kind)]


def in_threads(work):
    together = threading.Barrier(THREADS)

    def run():
        together.wait()
        for _ in range(STEPS):
            work()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_step_at_once_begin_one_loop_and_lose_no_step(switching, monkeypatch):
    reporter = KeptReporter()
    monkeypatch.setattr(loops, "REPORTER", reporter)
    monkeypatch.setattr(loops, "_current", None)
    in_threads(lambda: loops.step(4))
    records = collected(reporter)
    assert len(of(Model, records)) == 1
    batches = of(Batches, records)
    assert sum(len(record.dt_us) for record in batches) == THREADS * STEPS
    assert sum(sum(record.counted) for record in batches) == THREADS * STEPS * 4


def test_threads_that_step_while_another_ends_epochs_lose_no_step(switching):
    reporter = KeptReporter()
    counted = iter(range(THREADS * STEPS))
    with Training(reporter=reporter) as training:

        def work():
            training.step(4)
            if next(counted) % 50 == 49:
                training.epoch()

        in_threads(work)
        training.epoch()
    epochs = of(Epoch, collected(reporter))
    assert sum(epoch.steps for epoch in epochs) == THREADS * STEPS
    assert sum(epoch.samples for epoch in epochs) == THREADS * STEPS * 4


@pytest.mark.parametrize(
    "number", [10**30, LARGEST + 1, -1, 2.5, math.nan, math.inf, "many", 1 << 20_000, [3]], ids=type
)
def test_a_step_whose_size_cannot_be_counts_and_that_is_told_once(number):
    reporter = KeptReporter()
    with Training(reporter=reporter) as training:
        for _ in range(3):
            training.step(number, tokens=number)
        training.step(8, tokens=80)
        training.epoch()
    records = collected(reporter)
    assert all(map(encode, records))
    [epoch] = of(Epoch, records)
    assert (epoch.steps, epoch.samples) == (4, None)
    assert [notice.text for notice in of(Notice, records)] == [
        "dlmon.step(samples=…) got a number that can't be: it is not used",
        "dlmon.step(tokens=…) got a number that can't be: it is not used",
    ]


@pytest.mark.parametrize("number", [10**30, -1, math.nan, math.inf])
def test_a_length_that_cannot_be_is_unknown_with_its_reason(number):
    reporter = KeptReporter()
    lengths = dict.fromkeys(("samples", "epochs", "batch_size", "steps"), number)
    with Training(**lengths, reporter=reporter) as training:
        training.step()
    records = collected(reporter)
    [model] = of(Model, records)
    sizes = (model.samples_per_epoch, model.epochs, model.batch_size, model.steps_per_epoch)
    assert sizes == (None,) * 4
    assert model.why["samples_per_epoch"] not in ("", NO_SIZE)
    assert len(of(Notice, records)) == 4
    assert sum(len(batches.dt_us) for batches in of(Batches, records)) == 1


def test_a_metric_beyond_every_float_is_infinite():
    reporter = KeptReporter()
    with Training(reporter=reporter) as training:
        training.step(1)
        training.epoch({"loss": 10**400, "other": -(10**400), "none": "text"})
    [epoch] = of(Epoch, collected(reporter))
    assert epoch.why == {"loss": "infinite", "other": "infinite"}
