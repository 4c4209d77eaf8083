"""A log read many records at once: it comes to what it does record by record."""

import random
from array import array
from collections import deque
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session
from fakes.scripts import script_session
from fakes.strategies import ANY_RECORDS, FEW_EXAMPLES, TRAINING_RECORDS, header
from hypothesis import example, given
from hypothesis import strategies as st

from dlmon.records import (
    Batches,
    BatchSummary,
    Cpu,
    Epoch,
    Machine,
    Metrics,
    Model,
    NamedPause,
    Output,
    Phase,
    Stack,
    StepParts,
    Trainer,
)
from dlmon.session.session import ADD, Session
from dlmon.statistics.histogram import StepHistogram

SECOND_NS = 10**9
STEP_US, SLOW_STEP_US, LONG_US, STALL_US = 20_000, 300_000, 250_000, 1_200_000
EVENTS = (
    *("machine", "metrics", "parts", "output", "of another", "summary", "epoch", "stall", "long"),
    *(
        "pause",
        "pause that waits",
        "stack",
        "profiled",
        "together",
        "other size",
        "no size",
        "late",
    ),
    *("late", "early", "tokens", "no tokens", "phase", "loop", "opening", "throttled"),
    *("longer", "faster", "many together", "again", "opens late", "lost", "phase of another epoch"),
)


def everything_in(held):
    """Return all that a session holds, as lists that can be compared."""
    if isinstance(held, StepHistogram):
        return [held.count, *held.ranked()]
    if isinstance(held, dict):
        return [[key, everything_in(value)] for key, value in held.items()]
    if isinstance(held, array):
        return held.tolist()
    if isinstance(held, (list, tuple, deque)):
        return [everything_in(value) for value in held]
    if hasattr(held, "__dict__"):
        return [type(held).__name__, everything_in(vars(held))]
    return held


class WithoutPlain(Session):
    """Folds each record of batches by itself, as one in which anything may stand out."""

    def _plain_batches(self):
        return None


def check_at_once(records, of=None):
    """Check that records come to the same one by one and many at once."""
    of = header() if of is None else of
    one_by_one, at_once = WithoutPlain(of), Session(of)
    for record in records:
        one_by_one.add(record)
    at_once.add_all(records)
    assert everything_in(vars(at_once)) == everything_in(vars(one_by_one))
    assert at_once.snapshot() == one_by_one.snapshot()


class Log:
    """Makes the records of a run whose batches are plain, but for what is asked for."""

    def __init__(self, seed):
        self.by_chance = random.Random(seed)
        self.t, self.epoch, self.step = SECOND_NS, 0, 0
        self.samples, self.tokens, self.loop = 32, None, 0
        self.step_us = self.by_chance.choice((STEP_US, SLOW_STEP_US))
        self.records = [
            Trainer(0, 0, 100, "torch"),
            Trainer(0, 1, 101, "torch"),
            self.model(),
            Phase(0, "training"),
        ]
        for _ in range(12):
            self.train()

    def model(self):
        return Model(1000, None, self.samples, 32_000, 32_000 // self.samples, 9, loop=self.loop)

    def train(self, dt_us=None, by_ns=0, **changes):
        count = self.by_chance.randint(1, 12)
        dt_us = dt_us or tuple(
            int(self.step_us * self.by_chance.uniform(0.9, 1.1)) for _ in range(count)
        )
        values = {
            "samples": self.samples,
            "wait_us": self.by_chance.choice((None, 0, 900, 10**7)),
            "updates": self.by_chance.choice((None, 3)),
            "tokens": self.tokens,
        }
        begin = self.t + by_ns
        record = Batches(
            *(self.epoch, self.step), t=begin + dt_us[0] * 1000, dt_us=dt_us, **values | changes
        )
        self.step += len(dt_us)
        self.t = record.t_last
        self.records.append(record)

    def happen(self, event):
        made, t = self.records, self.t
        match event:
            case "machine":
                made.append(Machine(t, 0.0, cpu=Cpu(self.by_chance.uniform(0, 100))))
            case "throttled":
                made.append(Machine(t - 10**8, 0.0, cpu=Cpu(5.0, throttled_pct=9.0)))
            case "metrics":
                made.append(Metrics(t, {"loss": self.by_chance.random()}))
            case "parts":
                made.append(StepParts(t, 4, 4 * STEP_US, forward_us=STEP_US))
            case "output":
                made.append(Output(t, "stdout", "."))
            case "of another":
                made.append(Batches(0, 5, 32, t, (STEP_US,) * 5, trainer=1))
            case "summary":
                made.append(BatchSummary(self.epoch, self.step, 9, 288, t, t, 180_000, (9,) * 7))
            case "epoch":
                begin = t - self.step * STEP_US * 1000
                made.append(Epoch(self.epoch, begin, t, t, True, self.step * 32, {}, self.step))
                self.epoch, self.step = self.epoch + 1, 0
            case "stall":
                self.train((STEP_US, STALL_US, STEP_US))
            case "long":
                self.train((LONG_US,))
            case "pause":
                made.append(NamedPause(t - SECOND_NS, t - SECOND_NS // 2, "checkpoint"))
            case "pause that waits":
                made.append(NamedPause(t, t + 10**7, "garbage"))
            case "stack":
                made.append(Stack(t + 10**7, t, 1, 1, (), goes_on=True))
            case "profiled":
                self.train(profiled=True)
            case "together":
                self.train((STEP_US,) * 4, per_execution=2)
            case "other size":
                self.train((STEP_US, STEP_US), samples=self.by_chance.choice((7, (32, 7))))
            case "no size":
                self.train(samples=None)
            case "late":
                self.train(by_ns=self.by_chance.choice((1, 200)) * SECOND_NS)
            case "early":
                self.train(by_ns=-self.by_chance.choice((1, 200)) * SECOND_NS)
            case "tokens":
                self.tokens = self.by_chance.choice((4096, 2048))
            case "no tokens":
                self.tokens = None
            case "phase":
                name = self.by_chance.choice(("training", "validating"))
                made.append(Phase(t, name, self.by_chance.choice((None, self.epoch))))
            case "phase of another epoch":
                made.append(Phase(t, "training", self.epoch + 7))
            case "loop":
                self.loop, self.samples = self.loop + 1, 96 - self.samples
                made.append(self.model())
            case "longer":
                self.train((7 * STEP_US, STEP_US))
            case "faster":
                self.step_us = 1000
                for _ in range(40):
                    self.train()
            case "many together":
                self.train((3 * STEP_US,) * 20, per_execution=20)
            case "again":
                self.step = 0
                self.train()
            case "opens late":
                self.train(opening_us=5000)
            case "lost":
                self.epoch += 1
                self.train()
            case "opening":
                self.epoch, self.step = self.epoch + 1, 0
                self.train(opening_us=self.by_chance.choice((None, 5000)))


@example(1, ["faster", "many together"])
@example(1, ["faster", "pause that waits", "together"])
@example(1, ["phase of another epoch", 3])
@example(1, ["loop", 9, "loop", 1])
@given(st.integers(0, 2**32), st.lists(st.sampled_from(EVENTS) | st.integers(1, 9), max_size=25))
def test_plain_batches_between_all_that_happens_come_to_the_same_at_once(seed, events):
    log = Log(seed)
    for event in events:
        if isinstance(event, int):
            for _ in range(event):
                log.train()
        else:
            log.happen(event)
    check_at_once(log.records)


@FEW_EXAMPLES
@given(ANY_RECORDS | TRAINING_RECORDS, st.integers(0, 30))
def test_any_records_come_to_the_same_at_once(records, after):
    check_at_once([*Log(1).records, *records[:after], *Log(2).records[4:], *records[after:]])


@pytest.mark.parametrize(
    "records",
    [
        recorded_session(epochs=3, gpus=2),
        recorded_session("training", ended=0, samples=4_000),
        script_session(seconds=30, trainers=2, tokens=128, validated=True),
        script_session(seconds=30, samples=None),
    ],
)
def test_a_recorded_session_comes_to_the_same_at_once(records):
    check_at_once(records[1:], records[0])


def test_most_batches_of_a_steady_run_are_plain(monkeypatch):
    records = [record for record in script_session(seconds=60) if isinstance(record, Batches)]
    looked_at = []
    one_by_one = ADD[Batches]
    monkeypatch.setitem(
        *(ADD, Batches), lambda self, record: looked_at.append(record) or one_by_one(self, record)
    )
    made = Session(header())
    made.add(replace(Phase(0, "training")))
    made.add_all(records)
    assert len(records) == 300
    assert len(looked_at) < 100
