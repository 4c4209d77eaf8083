"""This machine's readings, by sensors that are started and ended with the source."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.recorded import recorded_session

from dlmon.records import Facts, GpuFacts, Machine, MachineFacts
from dlmon.session.local_machine import LocalMachine


class Sensors:
    """Sensors that say what the test says."""

    def __init__(self, interval_s, on_facts, on_sample, on_notice, *, pcie, at_once):
        self.options = interval_s, pcie
        self.on_facts, self.on_sample, self.on_notice = on_facts, on_sample, on_notice
        self.is_on = False

    def start(self):
        self.is_on = True

    def close(self):
        self.is_on = False


@pytest.fixture
def started():
    return []


@pytest.fixture
def clock():
    return SimpleNamespace(t=0)


@pytest.fixture
def source(started, clock):
    def sense(*arguments, **options):
        started.append(Sensors(*arguments, **options))
        return started[-1]

    return LocalMachine(0.5, True, sense, lambda: clock.t)


def test_nothing_is_sensed_before_the_start_and_after_the_stop(source, started):
    assert not source.is_on
    assert started == []
    source.start()
    source.start()
    (sensors,) = started
    assert (sensors.options, sensors.is_on, source.is_on) == ((0.5, True), True, True)
    source.stop()
    source.stop()
    assert not sensors.is_on
    assert not source.is_on
    source.start()
    assert len(started) == 2


def test_samples_are_folded_and_grow_old_by_our_clock_while_they_are_on(source, started, clock):
    source.start()
    assert source.age_s is None
    sample = next(record for record in recorded_session() if isinstance(record, Machine))
    started[0].on_sample(sample)
    assert source.history.latest.cpu == sample.cpu
    clock.t = sample.t + 2_000_000_000
    assert source.age_s == 2.0
    source.stop()
    clock.t = sample.t + 60_000_000_000
    source.start()
    assert source.age_s == 0.0


def test_what_the_sensors_say_is_heard_once_and_stays_their_status(source, started):
    source.start()
    started[0].on_notice("the sensors ended")
    assert source.poll() == ["the sensors ended"]
    assert source.poll() == []
    assert source.status == "the sensors ended"


def test_sensors_that_leave_a_driver_alone_take_no_gpu_away(source, started):
    source.start()
    known = MachineFacts(gpus=(GpuFacts(0, name="one"),), driver="550", cores=4)
    for facts in (known, MachineFacts(gpus=None, why={"gpus": "lost"}, cores=4)):
        started[0].on_facts(Facts(0, 0.0, "here", facts))
    assert [gpu.name for gpu in source.facts.gpus] == ["one"]
    assert source.facts.driver == "550"
    # Nor if another vendor's GPUs are still read.
    other = GpuFacts(1, name="other", uuid="b")
    for gpus in ((*known.gpus, other), (other,)):
        facts = replace(known, gpus=gpus, driver="550" if len(gpus) == 2 else None)
        started[0].on_facts(Facts(0, 0.0, "here", facts))
    assert [gpu.name for gpu in source.facts.gpus] == ["one", "other"]
    assert source.facts.driver == "550"
