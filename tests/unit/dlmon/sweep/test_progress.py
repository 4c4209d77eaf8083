"""What is left of a sweep wherever it was cut, how long that takes, and how a run ended."""

from dataclasses import replace

import pytest
from fakes.sweeps import completed, plan_of, result_of
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import (
    Began,
    Closed,
    Ended,
    FailureKind,
    Injection,
    Outcome,
    Resumed,
    RunStatus,
    Slot,
)
from dlmon.sweep.progress import Sweep, outcome_of, unapplied_text

STATUSES = st.sampled_from(
    [
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.OUT_OF_MEMORY,
        RunStatus.IMPOSSIBLE,
        RunStatus.NOT_RUN,
    ]
)


def make_some(sweep, statuses, cut):
    """Make runs until `cut` events were reported; return the slots whose runs were made whole."""
    made, reported = [], 0
    for slot in sweep.remaining():
        for event in (
            Began(slot, "session", 0.0),
            Ended(slot, Outcome(next(statuses, RunStatus.COMPLETED), session="session"), 0.0),
        ):
            if reported == cut:
                return made
            sweep.add(event)
            reported += 1
        made.append(slot)
    return made


def test_only_what_had_no_session_is_judged_again_by_who_resumes():
    plan = plan_of({"batch_size": [8, 16, 32]})
    of_machine, of_workload, failed = plan.order
    sweep = Sweep(plan)
    sweep.add(Ended(of_machine, Outcome(RunStatus.IMPOSSIBLE, "there is no GPU here"), 0.0))
    sweep.add(Ended(of_workload, Outcome(RunStatus.IMPOSSIBLE, "XLA can't", "session"), 0.0))
    sweep.add(Ended(failed, Outcome(RunStatus.FAILED, "on purpose", "session"), 0.0))
    assert sweep.remaining() == []
    sweep.add(Resumed(0.0))
    assert sweep.remaining() == [of_machine]


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.tuples(st.lists(STATUSES, max_size=12), st.integers(0, 30)), max_size=4),
)
def test_a_sweep_that_is_cut_and_resumed_makes_each_run_once(size, repeats, attempts):
    plan = plan_of({"batch_size": range(1, size + 1)}, repeats)
    sweep = Sweep(plan)
    over = []
    for statuses, cut in attempts:
        before = {slot for slot in plan.order if sweep.is_over(slot)}
        made = make_some(sweep, iter(statuses), cut)
        assert not before & set(made), "what was over was run again"
        over += [slot for slot in made if sweep.is_over(slot)]
        sweep.add(Closed("stopped", 0.0))
        sweep.add(Resumed(0.0))
        assert sweep.closed is None
    over += make_some(sweep, iter(()), 10**9)
    assert sorted(over, key=plan.order.index) == list(plan.order)
    assert not sweep.remaining()


def test_a_run_that_has_begun_is_running_until_it_has_ended():
    plan = plan_of({"batch_size": [1, 2]})
    sweep = Sweep(plan)
    began = Began(plan.order[0], "session", 1.0)
    sweep.add(began)
    assert sweep.running == {plan.order[0]: began}
    sweep.add(Ended(plan.order[0], completed(1.0), 2.0))
    assert sweep.running == {}


def test_a_run_that_the_plan_does_not_know_is_passed_over():
    sweep = Sweep(plan_of({"batch_size": [1, 2]}))
    sweep.add(Began(Slot(7, 0), "session", 0.0))
    sweep.add(Ended(Slot(0, 1), completed(1.0), 0.0))
    assert (sweep.running, sweep.outcomes) == ({}, {})


def test_a_run_is_taken_to_last_as_long_as_those_of_its_combination_once_one_has_completed():
    plan = plan_of({"batch_size": [1, 2]}, repeats=2)
    sweep = Sweep(plan, {Slot(1, 1): Outcome(RunStatus.FAILED, "why", took_s=3.0)})
    assert sweep.seconds_left() is None
    sweep = Sweep(plan, {Slot(0, 0): completed(1.0, took_s=10.0)})
    assert sweep.seconds_left() == pytest.approx(30.0)
    sweep.outcomes[Slot(1, 0)] = completed(1.0, took_s=40.0)
    assert sweep.seconds_left() == pytest.approx(50.0)


def test_what_runs_has_less_left_the_longer_it_runs():
    plan = plan_of({"batch_size": [1, 2]})
    sweep = Sweep(plan)
    first, second = plan.order
    sweep.outcomes[first] = completed(1.0, took_s=10.0)
    sweep.add(Began(second, "session", 0.0))
    assert sweep.seconds_left({second: 4.0}) == pytest.approx(6.0)
    assert sweep.seconds_left({second: 40.0}) == 0.0


def failed(error, kind=None):
    return replace(result_of(None, status="failed", error=error, exit_code=1), failure=kind)


def test_what_was_refused_is_impossible_and_what_was_stopped_or_cut_has_still_to_be_run():
    refused = failed("jax is not installed", FailureKind.REFUSED)
    outcome = outcome_of(refused, "s", 3.0)
    assert (outcome.status, outcome.reason) == (RunStatus.IMPOSSIBLE, "jax is not installed")
    assert outcome_of(result_of(0.5, status="stopped"), "s", 1.0).status == RunStatus.NOT_RUN
    interrupted = outcome_of(None, "s", 1.0, "interrupted: the process ended")
    assert (interrupted.status, interrupted.session) == (RunStatus.NOT_RUN, "s")
    assert "the process ended" in interrupted.reason


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ([Injection(1, "threads", True, 1)], None),
        ([Injection(1, "threads", True, 1, "not in every one")], None),
        ([Injection(1, "threads", False, 0, "no optimizer was made")], "no optimizer was made"),
        ([], "no process of the script tells why"),
    ],
)
def test_a_run_without_what_was_to_be_set_says_so(outcomes, text):
    told = unapplied_text({"threads": 4}, {outcome.name: outcome for outcome in outcomes})
    assert told == (None if text is None else f"set:threads was not applied: {text}")


# ---- on several machines ----


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_the_rest_takes_as_long_as_on_the_machine_that_has_the_most_to_do(sizes, repeats, data):
    hosts = [f"gpu{number}" for number in range(len(sizes))]
    plan = plan_of({"host": hosts, "batch_size": range(1, max(sizes) + 1)}, repeats)
    sweep = Sweep(plan)
    for slot in plan.order:
        if data.draw(st.booleans()):
            sweep.outcomes[slot] = completed(1.0, took_s=7.0)
    if not sweep.outcomes:
        assert sweep.seconds_left() is None
        return
    on_each = [
        7.0 * sum(1 for slot in sweep.remaining() if plan.host_of(slot) == host) for host in hosts
    ]
    assert sweep.seconds_left() == pytest.approx(max(on_each))
