"""A session whose run was suspended has the figures of the same run that was not."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from fakes.recorded import folded, recorded_session, write_log
from fakes.screens import Clock
from fakes.scripts import Script, script_header, script_session
from fakes.suspended import suspended
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmon.records import (
    Batches,
    BatchSummary,
    Cpu,
    Frame,
    Machine,
    NamedPause,
    Phase,
    ProcessTree,
    SeenAt,
    Stack,
    StepParts,
    Suspended,
)
from dlmon.render.tidy import csv_lines, rows_of
from dlmon.session.machine_history import WAS_SUSPENDED
from dlmon.session.replay import ReplaySource
from dlmon.session.running_time import RunningTime
from dlmon.session.session import Session

SECOND, MS = 10**9, 10**6
OF_THE_MACHINE = {"machine", "machine_age_s", "limit", "validity"}
SCRIPTS = {
    "epochs": script_session(seconds=20),
    "validated": script_session(seconds=20, validated=True),
    "no epochs": script_session(seconds=20, steps=None, samples=None),
    "tokens": script_session(seconds=20, tokens=512),
    "ranks": script_session(seconds=10, trainers=2),
    "loops": Script().train(first_ms=1500).train(network="other", step_ms=35).records,
}


def figures(session: Session) -> dict[str, object]:
    snapshot = session.snapshot(is_over=True)
    return {
        spec.name: getattr(snapshot, spec.name)
        for spec in fields(snapshot)
        if spec.name not in (*OF_THE_MACHINE, "suspended_s")
    }


@settings(max_examples=60, deadline=None)
@given(
    script=st.sampled_from(sorted(SCRIPTS)),
    suspensions=st.lists(
        st.tuples(st.integers(0, 24_000), st.integers(1000, 90_000)), min_size=1, max_size=12
    ),
)
def test_all_figures_are_those_of_the_same_run_that_was_not_suspended(script, suspensions):
    records = SCRIPTS[script]
    start = script_header().t
    in_ns = [(start + begin * MS, length * MS) for begin, length in suspensions]
    session = folded(suspended(records, in_ns))
    assert figures(session) == figures(folded(records))
    before_the_end = [length for begin, length in dict(in_ns).items() if begin < session.last_t]
    assert session.snapshot().suspended_s <= sum(before_the_end) / SECOND


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 24 * SECOND), st.integers(SECOND, 9 * SECOND))))
def test_a_clock_never_goes_back_and_stands_still_in_a_suspension(suspensions):
    clock, until, suspended_ns = RunningTime(), 0, 0
    for gap, length in suspensions:
        begin, until = until + gap, until + gap + length
        clock.add(Suspended(begin))
        assert clock.is_suspended
        assert clock.at(begin) == clock.at(until) == begin - suspended_ns
        clock.add(Suspended(begin, until))
        suspended_ns += length
        assert not clock.is_suspended
        assert clock.at(until + 5) == begin - suspended_ns + length + 5
        assert clock.suspended_ns == suspended_ns


def of_one_suspension(begin: int = 10 * SECOND, until: int = 40 * SECOND) -> RunningTime:
    clock = RunningTime()
    clock.add(Suspended(begin, until))
    return clock


def test_a_session_that_is_suspended_says_so_and_waits_for_no_step():
    records = script_session(seconds=20)
    session = folded(records)
    last = session.last_t
    session.add(Suspended(last))
    session.add(Machine(last + 60 * SECOND, 0.0))
    now = session.running_time.at(last + 61 * SECOND)
    snapshot = session.snapshot(now)
    assert snapshot.is_suspended
    assert (snapshot.overdue_s, snapshot.samples_per_second_now) == (None, None)
    assert snapshot.elapsed_s == (last - session.header.t) / SECOND
    session.add(Suspended(last, last + 70 * SECOND))
    later = session.snapshot(session.running_time.at(last + 71 * SECOND))
    assert (later.is_suspended, later.suspended_s) == (False, 70.0)
    assert later.elapsed_s == snapshot.elapsed_s + 1.0


def test_steps_that_end_together_share_what_they_ran():
    record = Batches(0, 0, 8, 9 * SECOND, (3_000_000,) * 12, per_execution=4, opening_us=500_000)
    # It lies in the first execution, which ends at 18 s if that were not.
    long = replace(record, dt_us=(10_500_000,) * 4 + (3_000_000,) * 8, t=16_500_000_000)
    changed = of_one_suspension().of(long)
    assert (changed.dt_us, changed.begin, changed.opening_us) == (record.dt_us, 6 * SECOND, 500_000)


def test_an_opening_leaves_out_its_suspension():
    record = Batches(1, 0, 8, 45 * SECOND, (1_000_000,) * 3, opening_us=38_000_000)
    changed = of_one_suspension().of(record)
    assert (changed.opening_us, changed.dt_us) == (8_000_000, record.dt_us)
    assert changed.t == 15 * SECOND


@pytest.mark.parametrize(("wait_us", "left"), [(2_000_000, 2_000_000), (30_100_000, 100_000)])
def test_a_wait_leaves_out_the_suspension_in_it(wait_us, left):
    record = Batches(0, 5, 8, 41 * SECOND, (32_000_000, 1_000_000), wait_us=wait_us)
    assert of_one_suspension().of(record) == Batches(
        0, 5, 8, 11 * SECOND, (2_000_000, 1_000_000), wait_us=left
    )


@given(
    waits_us=st.lists(st.integers(100, 900), min_size=100, max_size=100),
    suspended_ms=st.integers(125, 260),
    at_step=st.integers(1, 98),
    is_in_wait=st.booleans(),
)
def test_the_wait_is_known_of_a_record_that_is_shorter_than_a_suspension(
    waits_us, suspended_ms, at_step, is_in_wait
):
    # Steps of 1 ms, each after its wait.
    dt_us, begin = [1000] * 100, 10 * SECOND
    dt_us[at_step] += 1000 * suspended_ms
    waited_us = sum(waits_us) + is_in_wait * 1000 * suspended_ms
    clock = of_one_suspension(*(begin + ms * MS for ms in (at_step, at_step + suspended_ms)))
    record = Batches(0, 5, 8, begin + MS, tuple(dt_us), wait_us=waited_us)
    changed = clock.of(record)
    assert changed.dt_us == (1000,) * 100
    assert changed.wait_us == sum(waits_us)


@pytest.mark.parametrize(
    ("wait_us", "left"), [(29_000_000, 29_000_000), (31_000_000, None), (40_000_000, 10_000_000)]
)
def test_a_wait_is_not_known_if_it_is_possible_with_the_suspension_and_without(wait_us, left):
    record = Batches(0, 5, 8, 71 * SECOND, (62_000_000, 1_000_000), wait_us=wait_us)
    assert of_one_suspension().of(record).wait_us == left


def test_a_summary_leaves_out_the_suspended_step():
    quantiles = (900, 950, 1000, 1000, 1100, 1200)
    record = BatchSummary(
        *(0, 100, 5000, 40_000, 9 * SECOND, 44 * SECOND, 35_000_000, (*quantiles, 30_001_000)),
        stalls=1,
        wait_us=1_000_000,
    )
    changed = of_one_suspension().of(record)
    assert (changed.time_us, changed.stalls, changed.wait_us) == (5_000_000, 0, 1_000_000)
    assert changed.step_us == (*quantiles, 1200)
    assert (changed.t, changed.t_last) == (9 * SECOND, 14 * SECOND)


def test_parts_of_a_suspended_step_are_left_out_and_those_of_others_are_kept():
    clock = of_one_suspension()
    assert clock.of(StepParts(9 * SECOND, 4, 4000)) == StepParts(9 * SECOND, 4, 4000)
    assert clock.of(StepParts(41 * SECOND, 4, 30_004_000)) is None
    after = StepParts(42 * SECOND, 4, 4000)
    assert clock.of(after) == replace(after, t=12 * SECOND)
    # In the same second as a suspension, but not suspended itself.
    assert of_one_suspension().of(StepParts(41 * SECOND, 4, 4000)) is not None


def test_a_stack_of_a_suspension_is_dropped_and_that_of_a_pause_beside_it_is_kept():
    places = (SeenAt(3, Frame("a.py", 1, "f")),)
    clock = of_one_suspension()
    assert clock.of(Stack(41 * SECOND, 10 * SECOND - MS, 3, 3, places)) is not None
    assert clock.of(Stack(40 * SECOND + MS, 10 * SECOND - MS, 3, 3, places)) is None
    after = Stack(43 * SECOND, 41 * SECOND, 3, 3, places)
    assert clock.of(after) == replace(after, t=13 * SECOND, begin=11 * SECOND)


def test_a_pause_and_a_phase_are_on_the_clock():
    clock = of_one_suspension()
    pause = NamedPause(9 * SECOND, 41 * SECOND, "checkpoint")
    assert clock.of(pause) == replace(pause, end=11 * SECOND)
    assert clock.of(Phase(50 * SECOND, "validating")) == Phase(20 * SECOND, "validating")


def test_of_samples_in_a_suspension_only_the_memory_of_the_run_counts():
    records = script_session(seconds=10)
    session = folded(records)
    last = session.last_t
    session.add(Machine(last - SECOND, 0.0, cpu=Cpu(pct=50.0, energy_j=10.0)))
    session.add(Machine(last, 0.0, cpu=Cpu(pct=50.0, energy_j=20.0)))
    session.add(Suspended(last))
    process = ProcessTree(rss_mib=3000)
    session.add(Machine(last + SECOND, 0.0, cpu=Cpu(pct=100.0, energy_j=90.0), process=process))
    assert session.machine.latest.cpu.pct == 100.0
    session.add(Suspended(last, last + SECOND * 3 // 2))
    # Half of its time.
    session.add(Machine(last + 2 * SECOND, 0.0, cpu=Cpu(pct=100.0, energy_j=100.0)))
    session.add(Machine(last + 3 * SECOND, 0.0, cpu=Cpu(pct=50.0, energy_j=110.0)))
    assert session.machine.cpu_pct.mean == 50.0
    assert session.machine.run_memory_peak_mib == 3000
    counter = session.machine.energy.cpu
    assert (counter.joules_since_start, counter.why) == (None, WAS_SUSPENDED)


def test_a_replay_ends_with_the_running_time(tmp_path):
    records = recorded_session(epochs=3)
    log = suspended(list(records), [(records[0].t + 12 * SECOND, 50 * SECOND)])
    source = ReplaySource(write_log(tmp_path, log), Clock(0))
    while source.ahead_share is not None:
        source.read_ahead(1.0)
    whole = folded(records)
    assert source.end_ns == whole.last_t
    source.seek(source.end_ns)
    assert figures(source.session) == figures(whole)
    source.seek(source.start_ns + 20 * SECOND)
    assert source.session.last_t <= source.start_ns + 20 * SECOND
    source.close()


def test_a_table_has_the_running_time(tmp_path):
    records = script_session(seconds=10)
    log = suspended(records, [(records[0].t + 5 * SECOND + 3 * MS, 50 * SECOND)])
    paths = [write_log(tmp_path / name, of) for name, of in (("a", records), ("b", log))]
    tables = [list(csv_lines(rows_of([path], "batches"))) for path in paths]
    assert tables[0] == tables[1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 50), st.none() | st.integers(-5, 60)), max_size=8))
def test_any_order_of_its_records_leaves_a_clock_that_never_goes_back(pairs):
    clock = RunningTime()
    for t, until in pairs:
        clock.add(Suspended(t, until))
    times = [clock.at(t) for t in range(-10, 80)]
    assert times == sorted(times)
