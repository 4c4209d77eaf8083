from dataclasses import replace

import pytest
from fakes.strategies import SECOND_NS, header

from dlmon.records import (
    Batches,
    BatchSummary,
    Cpu,
    Disk,
    Doubt,
    Epoch,
    Evaluation,
    Machine,
    Memory,
    Model,
    NamedPause,
    Notice,
    Phase,
    Pressure,
    ProcessTree,
    TimePart,
)
from dlmon.session.gaps import MAX_GAPS, Gap, GapKind, Gaps, notices_in, pauses_in
from dlmon.session.session import Session
from dlmon.statistics.steady_state import SteadyState


def at(seconds):
    return round(seconds * SECOND_NS)


def batches(epoch, start_s, *steps_s, first=0, opening_s=None, samples=100, per_execution=None):
    dt_us = tuple(round(step_s * 1e6) for step_s in steps_s)
    opening_us = None if opening_s is None else round(opening_s * 1e6)
    t = at(start_s) + dt_us[0] * 1000
    return Batches(epoch, first, samples, t, dt_us, opening_us, per_execution)


def reading(t_s, cpu_pct=0.0, **more):
    cpu = Cpu(pct=cpu_pct, cores=(0, 0, 0, 0), **more)
    return Machine(
        at(t_s),
        0.0,
        cpu=cpu,
        memory=Memory(swap_mib_s=0.0),
        disk=Disk(1.0, 2.0),
        process=ProcessTree(cpu_pct=50.0),
        pressure=Pressure(cpu_pct=3.0, memory_pct=0.0, io_pct=1.0),
    )


TRAINED = (Phase(at(1), "compiling"), Phase(at(3), "training"), batches(0, 1.0, 2.0, *[0.1] * 50))


def gaps_of(*records):
    session = Session(header())
    for record in (*TRAINED, *records):
        session.add(record)
    return session.snapshot().gaps


def the_gap(*records):
    (gap,) = gaps_of(*records)
    return gap


def test_a_step_of_over_a_second_that_stalled_is_one():
    stalled = batches(0, 8.0, 0.1, 2.5, 0.1, first=51)
    gap = the_gap(stalled)
    assert (gap.kind, gap.epoch, gap.step) == (GapKind.STALL, 0, 52)
    assert (gap.start, gap.end, gap.seconds) == (at(8.1), at(10.6), 2.5)
    loop = Model(None, None, None, None, None, None, has_epochs=False)
    assert [(one.epoch, one.step) for one in gaps_of(loop, stalled)] == [(None, 52)]


def test_what_is_shorter_or_compiles_or_always_takes_so_long_is_none():
    assert gaps_of(batches(0, 8.0, 0.9, first=51)) == gaps_of(batches(0, 8.0, 0.1, first=51)) == ()
    # The first of each size compiles.
    assert gaps_of(batches(0, 8.0, 1.5, first=51, samples=60)) == ()
    assert len(gaps_of(batches(0, 8.0, 1.5, 1.5, first=51, samples=60))) == 1
    session = Session(header())
    session.add(batches(0, 0.0, *[2.0] * 30))
    assert session.snapshot().gaps == ()


def evaluating_every(steps, times):
    """Return a loop without epochs that evaluates every so many steps."""
    loop = Model(None, None, None, None, None, None, has_epochs=False)
    records = [loop, Phase(at(1), "training")]
    start_s = 1.0
    for number in range(times + 1):
        first_s = 2.0 if number else 0.1
        took_s = (first_s, *[0.1] * (steps - 1))
        records.append(batches(0, start_s, *took_s, first=number * steps))
        start_s += sum(took_s)
    return records


def test_what_a_loop_does_every_so_many_steps_is_no_stall():
    session = Session(header())
    for record in evaluating_every(50, times=4):
        session.add(record)
    snapshot = session.snapshot()
    assert {gap.kind for gap in snapshot.gaps} == {GapKind.BETWEEN_STEPS}
    assert [(gap.step, gap.every) for gap in snapshot.gaps] == [
        (step, 50) for step in (50, 100, 150, 200)
    ]
    assert (snapshot.stalls, snapshot.regular_steps.times) == (0, 4)
    assert snapshot.time_breakdown[TimePart.BETWEEN_STEPS] == pytest.approx(4 * 1.9, rel=0.01)
    assert TimePart.STALLS not in snapshot.time_breakdown
    assert Doubt.STALLS not in snapshot.validity.warnings


def test_batches_that_end_together_or_are_summarised_stall_together():
    gap = the_gap(batches(0, 8.0, *[0.1] * 4, *[1.1] * 4, first=52, per_execution=4))
    assert (gap.step, gap.seconds) == (56, pytest.approx(4.4))
    assert gaps_of(batches(0, 8.0, *[0.9] * 4, first=52, per_execution=4)) == ()
    steps_us = (90_000,) * 6 + (1_500_000,)
    summary = BatchSummary(0, 51, 10, 1000, at(8.1), at(10.4), 2_400_000, steps_us, stalls=1)
    gap = the_gap(summary)
    assert (gap.kind, gap.seconds, gap.end) == (GapKind.STALL, 1.5, at(10.4))


def test_an_epoch_that_opens_slowly_is_one():
    opened = (
        Epoch(0, at(1), at(8), at(8), True, 5000, {}),
        Phase(at(8), "opening", epoch=1),
        Phase(at(10), "training"),
        batches(1, 10.0, 0.1, opening_s=2.0),
    )
    gap = the_gap(*opened)
    assert (gap.kind, gap.epoch, gap.start, gap.end) == (GapKind.OPENING, 1, at(8), at(10))


def test_what_lies_between_phases_is_one_from_a_second_on():
    ended = (Epoch(0, at(1), at(8), at(8.5), True, 5000, {}), Phase(at(8.5), "closing"))
    evaluated = (Phase(at(10), "evaluating"), Evaluation(at(10), at(11), 1, 1, True, {}))
    gap = the_gap(*ended, *evaluated, Phase(at(11), "closing"))
    assert (gap.kind, gap.epoch, gap.before) == (GapKind.BETWEEN, 0, "evaluating")
    assert (gap.start, gap.end) == (at(8), at(10))
    assert gaps_of(*ended, Phase(at(8.9), "evaluating")) == ()
    unsaid = the_gap(Epoch(0, at(1), at(8), at(8), True, 5000, {}), batches(1, 10.0, 0.1))
    assert (unsaid.kind, unsaid.epoch, unsaid.before) == (GapKind.BETWEEN, 0, "training")


def test_the_readings_that_lie_in_a_gap_say_what_the_machine_did():
    before = [reading(t_s, 100.0) for t_s in (7, 8)]
    after = [reading(t_s, 20.0, steal_pct=4.0) for t_s in (9, 10)] + [reading(11, 100.0)]
    gap = the_gap(*before, *after, batches(0, 8.0, 2.5, first=51))
    assert gap.meanwhile == {
        "cpu_pct": 20.0,
        "busy_cores": 0.8,
        "run_cores": 0.5,
        "disk_mib_s": 3.0,
        "swap_mib_s": 0.0,
        "steal_pct": 4.0,
        "cpu_wait_pct": 3.0,
        "memory_wait_pct": 0.0,
        "io_wait_pct": 1.0,
    }
    # The same where the batch is known before the last reading is.
    assert the_gap(*before, after[0], batches(0, 8.0, 2.5, first=51), *after[1:]) == gap


def waiting(t_s, waited_pct):
    return replace(reading(t_s), process=ProcessTree(cpu_pct=5.0, cpu_wait_pct=waited_pct))


def test_how_long_the_run_waited_for_a_cpu_is_known_of_a_gap_that_is_read_through():
    # What is read every five seconds is of the time before the gap until the ninth second in it.
    readings = [waiting(t_s, 80.0 if t_s < 17 else 3.0) for t_s in range(7, 21)]
    assert the_gap(*readings, batches(0, 8.0, 12.5, first=51)).meanwhile["run_cpu_wait_pct"] == 3.0
    short = the_gap(*readings, batches(0, 8.0, 4.7, first=51))
    assert "run_cpu_wait_pct" not in short.meanwhile


def test_a_notice_in_a_gap_may_explain_it_and_one_beside_it_does_not():
    opened = (
        Epoch(0, at(1), at(8), at(8), True, 5000, {}),
        Phase(at(8), "opening", epoch=1),
        Phase(at(10), "training"),
        # The batch that follows stalls, too.
        batches(1, 10.0, 2.5, opening_s=2.0),
    )
    opening, stall = gaps_of(*opened)
    said = [Notice(t, str(t)) for t in (at(7.9), at(9), at(10) + 600, at(11), at(12.6))]
    assert notices_in(opening, said) == (str(at(9)), str(at(10) + 600))
    assert notices_in(stall, said) == (str(at(11)),)


def test_a_gap_in_which_the_machine_was_not_read_has_no_such_figures():
    readings = [reading(7.5), reading(8.5), reading(9.5)]
    assert the_gap(*readings, batches(0, 8.0, 1.1, first=51)).meanwhile is None
    late = [reading(2.0), reading(12.0)]
    assert the_gap(*late, batches(0, 8.0, 2.1, first=51)).meanwhile is None


@pytest.mark.parametrize("count", [MAX_GAPS + 10, 5 * MAX_GAPS])
def test_the_longest_are_kept_and_in_order(count):
    gaps = Gaps()
    for number in range(count):
        start = at(10 * number)
        gaps.add(Gap(start, start + at(1.5 + number % 7), GapKind.OPENING, number))
    found = gaps.listed([SteadyState()])
    assert len(found) == MAX_GAPS
    assert list(found) == sorted(found, key=lambda gap: gap.start)
    every_length = sorted((1.5 + number % 7 for number in range(count)), reverse=True)
    assert sorted((gap.seconds for gap in found), reverse=True) == every_length[:MAX_GAPS]


def test_what_a_framework_did_for_a_second_is_a_pause_where_it_lies_in_no_other():
    saved = NamedPause(at(8.2), at(10.0), "checkpoint")
    in_validation = Phase(at(8.1), "validating"), saved
    (gap,) = gaps_of(*in_validation)
    assert (gap.kind, gap.seconds) == (GapKind.NAMED, pytest.approx(1.8))
    (gap,) = gaps_of(saved, batches(0, 8.0, 2.5, first=51))
    assert (gap.kind, gap.seconds) == (GapKind.STALL, pytest.approx(2.5))
    assert pauses_in(gap, [saved, NamedPause(at(1), at(2), "compile")]) == (saved,)
    short, beside = replace(saved, end=at(8.9)), replace(saved, beside=True)
    assert not gaps_of(*in_validation[:1], short, beside)
    # Of one that goes on it is said again and again, and of others meanwhile.
    compiles = [NamedPause(at(8.2), at(end), "compile") for end in (9.2, 10.2)]
    saved = NamedPause(at(11.0), at(12.5), "checkpoint")
    found = gaps_of(in_validation[0], *compiles, saved, replace(compiles[0], end=at(10.5)))
    assert sorted(gap.seconds for gap in found) == [pytest.approx(1.5), pytest.approx(2.3)]
    # Between two pieces of one gap it leaves that whole.
    over = Epoch(0, at(1.0), at(8.0), at(8.0), whole=True, samples=5100, metrics={})
    later = Phase(at(11.0), "outside training"), Phase(at(12.0), "evaluating")
    gap = the_gap(
        over, Phase(at(8.0), "closing"), NamedPause(at(9.0), at(10.5), "checkpoint"), *later
    )
    assert (gap.kind, gap.seconds) == (GapKind.BETWEEN, pytest.approx(4.0))
