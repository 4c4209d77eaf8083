"""Joining readings, and keeping the time."""

from __future__ import annotations

import pytest
from fakes.screens import Clock

from dlmon.records import Cost, Cpu, Gpu, GpuFacts, MachineFacts, Memory, Process
from dlmon.records.changes import merge
from dlmon.sensors.provider import Provider, SensorReading
from dlmon.sensors.sampler import FIRST_WINDOW_S, Sampler

SECOND = 1_000_000_000


DENIED = Memory(why={"used_mib": "denied"})


@pytest.mark.parametrize(
    ("first", "then", "joined"),
    [
        (Cpu(pct=5.0), Cpu(mhz=3000), Cpu(pct=5.0, mhz=3000)),
        (DENIED, Memory(used_mib=3), Memory(used_mib=3)),
        (Memory(used_mib=3), DENIED, DENIED),
        (
            SensorReading(gpus=(Gpu(0, power_w=10.0), Gpu(1, why={"power_w": "lost"}))),
            SensorReading(gpus=(Gpu(1, memory_mhz=5), Gpu(2, memory_mhz=6))),
            SensorReading(
                gpus=(Gpu(1, memory_mhz=5, why={"power_w": "lost"}), Gpu(2, memory_mhz=6))
            ),
        ),
        (
            SensorReading(why={"gpus": "no driver"}),
            SensorReading(),
            SensorReading(why={"gpus": "no driver"}),
        ),
        (SensorReading(), SensorReading(cpu=Cpu(pct=1.0)), SensorReading(cpu=Cpu(pct=1.0))),
    ],
)
def test_readings_are_joined_field_by_field_and_gpus_by_their_index(first, then, joined):
    assert merge(first, then) == joined


class FakeProvider(Provider):
    def __init__(self, facts=None, fast=None, slow=None):
        self.calls = []
        self._facts = facts or MachineFacts()
        self._fast = fast or SensorReading()
        self._slow = slow or SensorReading()

    def facts(self):
        self.calls.append(("facts", None))
        return self._facts

    def fast(self, t):
        self.calls.append(("fast", t))
        return self._fast

    def slow(self, t):
        self.calls.append(("slow", t))
        return self._slow


def sampler_of(*providers, clock=None, cpu_clock=lambda: 0):
    return Sampler(
        providers, clock=clock or Clock(100 * SECOND), wall=lambda: 1.234, cpu_clock=cpu_clock
    )


def test_facts_are_joined_and_the_first_window_is_waited_for():
    clock = Clock(100 * SECOND)
    waited = []

    def wait(seconds):
        waited.append(seconds)
        clock.advance(seconds)

    first = FakeProvider(MachineFacts(cores=2), SensorReading(cpu=Cpu(pct=12.5)))
    second = FakeProvider(MachineFacts(why={"gpus": "no driver"}))
    facts = sampler_of(first, second, clock=clock).facts(wait)
    assert facts.machine == MachineFacts(cores=2, cpu_pct=12.5, why={"gpus": "no driver"})
    assert facts.t == clock()
    assert waited == [FIRST_WINDOW_S]


@pytest.mark.parametrize(("interval_s", "window_s"), [(0.125, 0.125), (1.0, FIRST_WINDOW_S)])
def test_the_first_window_is_no_longer_than_an_interval(interval_s, window_s):
    waited = []
    sampler_of(FakeProvider()).facts(waited.append, interval_s=interval_s)
    assert waited == [window_s]


@pytest.mark.parametrize("late_ns", [0, 1_000_000])
def test_the_slow_tier_is_read_every_five_seconds_however_late_a_reading_is(late_ns):
    clock, provider = Clock(100 * SECOND), FakeProvider()
    sampler = sampler_of(provider, clock=clock)
    sampler.facts(lambda seconds: None)
    provider.calls.clear()
    begin = clock()
    for number in range(1, 13):
        due = begin + number * SECOND
        clock.now_ns = due + (12 - number) * late_ns
        sampler.sample(due)
    slow = [(t - begin) // SECOND for kind, t in provider.calls if kind == "slow"]
    assert slow == [1, 6, 11]
    assert sum(kind == "fast" for kind, _ in provider.calls) == 12


def test_a_sample_reports_its_own_cost_and_lateness():
    clock = Clock(100 * SECOND)
    spent = iter([5_000_000, 7_500_000])
    sampler = sampler_of(FakeProvider(), clock=clock, cpu_clock=lambda: next(spent))
    sampler.facts(lambda seconds: None)
    clock.advance(0.003)
    record = sampler.sample(clock() - 1_250_000)
    assert record.cost == Cost(cpu_ms=2.5, late_ms=1.25)
    assert (record.t, record.wall) == (clock(), 1.23)


def test_a_later_providers_reading_counts():
    machine_memory = FakeProvider(fast=SensorReading(memory=Memory(used_mib=100)))
    group_memory = FakeProvider(fast=SensorReading(memory=Memory(used_mib=10)))
    assert sampler_of(machine_memory, group_memory).sample(0).memory == Memory(used_mib=10)


@pytest.mark.parametrize(("limit_mib", "total_mib"), [(None, 122_000), (16_000, 16_000)])
def test_a_gpu_without_memory_of_its_own_has_the_systems_within_the_limit(limit_mib, total_mib):
    shared = GpuFacts(0, "NVIDIA GB10", memory_kind="system")
    facts = MachineFacts(gpus=(shared, GpuFacts(1, "own", memory_mib=80)))
    machine = FakeProvider(
        MachineFacts(memory_mib=122_000, memory_limit_mib=limit_mib),
        SensorReading(memory=Memory(used_mib=9_000)),
    )
    lost = Gpu(0, why={"memory_used_mib": "lost"})
    for gpu, used_mib in ((Gpu(0), 9_000), (lost, None)):
        reading = SensorReading(gpus=(gpu, Gpu(1, memory_used_mib=3)))
        sampler = sampler_of(machine, FakeProvider(facts, reading))
        assert [gpu.memory_mib for gpu in sampler.facts(lambda seconds: None).machine.gpus] == [
            total_mib,
            80,
        ]
        assert [gpu.memory_used_mib for gpu in sampler.sample(0).gpus] == [used_mib, 3]


class FakeTable:
    def __init__(self, reported):
        self._tables = iter(reported)
        self.given = []

    def read(self, t, reading):
        self.given.append((t, reading))
        return next(self._tables)


def test_the_table_is_made_in_the_slow_tier_of_what_all_providers_read():
    clock = Clock(100 * SECOND)
    on_gpu = {10: {0: 5}}
    rows = (Process(10, gpus=(0,)),)
    table = FakeTable(
        [
            SensorReading(),
            SensorReading(processes=rows),
            SensorReading(processes=rows),
            SensorReading(),
        ]
    )
    provider = FakeProvider(slow=SensorReading(gpu_processes=on_gpu))
    sampler = Sampler([provider], table, clock=clock, wall=lambda: 1.0, cpu_clock=lambda: 0)
    sampler.facts(lambda seconds: None)
    reported = []
    for _ in range(11):
        clock.advance(1)
        reported.append(sampler.sample(clock()).processes)
    assert reported == [rows, *[None] * 10]
    assert [reading.gpu_processes for _, reading in table.given] == [on_gpu] * 4
