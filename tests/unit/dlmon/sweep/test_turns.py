"""Two runs that take turns: when they may, and their rate."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.compared import side
from fakes.recorded import recorded_session

from dlmon.records import Batches, BatchSummary, MachineFacts, Model, Slot, Suspended
from dlmon.session.session import Session
from dlmon.statistics.turns import sum_of_turns
from dlmon.sweep.pair_in_turns import RunInTurns
from dlmon.sweep.turns import TurnTimes, why_not_in_turns

S = 1_000_000_000
COMMAND = ("python", "train.py")


def first_runs(memory_mib, **facts):
    """Return the figures of a run of each side that took so much memory."""
    machine = MachineFacts(memory_mib=16_000, **facts)
    runs = side("base", 100.0, values={"memory_mib": memory_mib}, machine=machine)
    return runs + side("new", 100.0, values={"memory_mib": memory_mib}, machine=machine)


def test_both_runs_are_alive_at_once_where_the_memory_holds_them():
    assert why_not_in_turns(COMMAND, first_runs(1_000.0)) is None


@pytest.mark.parametrize(
    ("command", "runs", "why"),
    [
        (COMMAND, first_runs(7_000.0), "the memory does not hold both runs"),
        (COMMAND, first_runs(1_000.0, memory_limit_mib=1_500), "does not hold both"),
        (COMMAND, (), "the memory of the first runs is not known"),
        (("/opt/bin/torchrun", "train.py"), first_runs(1.0), "torchrun would time out"),
        (("python", "-m", "torch.distributed.run", "t.py"), first_runs(1.0), "would time out"),
    ],
)
def test_else_they_run_one_by_one_for_a_reason(command, runs, why):
    assert why in why_not_in_turns(command, runs)


def steps(first_end_s, *took_ms, samples=10):
    return Batches(0, 0, samples, round(first_end_s * S), tuple(1000 * ms for ms in took_ms))


def suspended(*edges_s):
    """Return suspensions from each second edge to the next one; the last one lasts."""
    edges = [edge * S for edge in edges_s]
    ends = [*edges[1::2], None][: len(edges[::2])]
    return [Suspended(t, until) for t, until in zip(edges[::2], ends, strict=True)]


def test_a_run_is_suspended_until_it_goes_on():
    times = TurnTimes()
    times.add([Suspended(S)])
    assert times.is_suspended
    times.add([Suspended(S, 2 * S)])
    assert (times.is_suspended, times.turns) == (False, [])
    times.add([Suspended(5 * S)])
    assert (times.is_suspended, times.seconds) == (True, 3)


def test_the_rate_is_that_of_the_turns_without_their_first_moments():
    times = TurnTimes()
    times.add(suspended(-1, 0, 1, 2, 3))
    # Ten steps of 100 ms in each turn; the first of a turn takes twice as long.
    times.add([steps(0.2, 200, *[100] * 8), steps(2.2, 1200, *[100] * 8)])
    assert times.seconds == 2
    assert sum_of_turns(times.sums()).rate == pytest.approx((0.9 + 8 + 0.9 + 8) * 10 / 1.96)


def test_a_step_without_a_known_size_counts_as_one():
    times = TurnTimes()
    times.add(suspended(-1, 0, 1))
    times.add([steps(0.1, *[100] * 10, samples=None)])
    assert sum_of_turns(times.sums()).rate == pytest.approx(10)


def test_a_rate_is_unknown_without_turns_or_single_times():
    times = TurnTimes()
    times.add([steps(0.1, 100)])
    assert sum_of_turns(times.sums()).rate is None
    times.add(suspended(-1, 0, 1))
    summary = BatchSummary(0, 0, 9, 90, S // 10, S, 900_000, (1,) * 7, 0)
    times.add([summary])
    assert sum_of_turns(times.sums()).rate is None


def run_of(steps_us, device=None):
    session = Session(recorded_session("training")[0])
    session.add(Model(None, None, 32, None, None, None, device=device))
    session.add(Batches(0, 0, 32, 10**9, tuple(steps_us)))
    return RunInTurns(Slot(0, 1), None, "session", SimpleNamespace(session=session))


@pytest.mark.parametrize(
    ("steps_us", "is_warm"),
    [
        ([2_000_000] * 10, False),
        ([2_000_000] * 11, True),
        ([20_000] * 11, False),
        ([20_000] * 14, True),
        # The first step, which may compile, doesn't count.
        ([60_000_000] + [20_000] * 5, False),
    ],
)
def test_a_run_is_warm_after_ten_steps_and_a_quarter_of_a_second(steps_us, is_warm):
    assert run_of(steps_us).is_warm == is_warm


@pytest.mark.parametrize(
    ("step_us", "device", "turn_s"),
    [(1_000, "cpu", 0.125), (100_000, "cpu", 0.3), (1_000, "gpu:0", 0.125), (100_000, "gpu:0", 1)],
)
def test_a_turn_has_several_steps_and_more_of_a_gpu_that_has_some_queued(step_us, device, turn_s):
    assert run_of([step_us] * 60, device).turn_s == pytest.approx(turn_s)
