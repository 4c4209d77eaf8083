"""What a sweep runs, in which order, and what is left of it wherever it was cut."""

from __future__ import annotations

from math import prod

import pytest
from fakes.sweeps import SMALL, completed, plan_of, result_of
from hypothesis import given
from hypothesis import strategies as st

from dlmon.sweep.plan import (
    COMPLETED,
    FAILED,
    IMPOSSIBLE,
    MOST_RUNS,
    NOT_RUN,
    OUT_OF_MEMORY,
    WORKLOAD_REFUSED,
    Began,
    Closed,
    Ended,
    Outcome,
    Plan,
    Resumed,
    Slot,
    Sweep,
    SweepError,
    Variation,
    check_number_of_runs,
    combinations_of,
    fair_order,
    outcome_of,
    read_variation,
    read_variations,
)
from workloads import __main__ as workload_main
from workloads.failure import in_words

KEYS = ("device", "batch_size", "epochs", "threads", "precision")


def read(key, text):
    if key in ("batch_size", "epochs", "threads"):
        try:
            return int(text)
        except ValueError:
            raise SweepError(f"the {key} must be a whole number, not {text}") from None
    return text


# ---- what --vary says ----


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("batch_size=32,64", "batch_size", (32, 64)),
        ("batch-size=32", "batch_size", (32,)),
        ("--batch-size=32,64", "batch_size", (32, 64)),
        ("device=cpu,gpu:0", "device", ("cpu", "gpu:0")),
        ("device=0,0.5,100", "device", ("0", "0.5", "100")),
    ],
)
def test_values_are_read_in_the_order_they_were_given(text, key, values):
    assert read_variation(text, KEYS, read) == Variation(key, values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("batch_size", "KEY=A,B"),
        ("", "KEY=A,B"),
        ("batch_siez=1,2", "did you mean batch_size?"),
        ("batch=1,2", "did you mean batch_size?"),
        ("thread=1", "did you mean threads?"),
        ("=1,2", "use device, batch_size"),
        ("colour=red", "use device, batch_size"),
        ("batch_size=", "names no values"),
        ("batch_size=,,", "names no values"),
        ("batch_size=32,,64", "empty value"),
        ("batch_size=32,64,", "empty value"),
        ("batch_size=32,64,32", "names 32 twice"),
        ("batch_size=1,024", "write 1024 without a comma"),
        ("batch_size=256,1,024", "write 1024 without a comma"),
        ("batch_size=32, 64", 'has blanks around "64": leave them out'),
        ("device=cpu ,gpu:0", 'has blanks around "cpu": leave them out'),
        ("batch_size= , ", "names no values"),
        ("batch_size=32, ,64", "empty value"),
        ("batch_size=032,64", "write 32 without a zero before it"),
        ("batch_size=many", "must be a whole number"),
        ("\x1b[31mred\x1b[0m=1", 'no option "red"'),
    ],
)
def test_what_is_wrong_with_it_is_one_sentence(text, says):
    with pytest.raises(SweepError) as caught:
        read_variation(text, KEYS, read)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_an_option_is_varied_once():
    with pytest.raises(SweepError, match="names batch_size twice"):
        read_variations(["batch_size=1,2", "device=cpu", "batch-size=3"], KEYS, read)


def test_more_runs_than_anybody_waits_for_are_refused():
    many = [Variation("epochs", tuple(range(MOST_RUNS // 2)))]
    check_number_of_runs(["a"], many, 2)
    with pytest.raises(SweepError, match=f"at most {MOST_RUNS:,}"):
        check_number_of_runs(["a", "b"], many, 2)
    with pytest.raises(SweepError, match="at least 1, not 0"):
        check_number_of_runs(["a"], many, 0)


# ---- the combinations, and their order ----

variations = st.lists(st.integers(1, 4), max_size=3).map(
    lambda sizes: tuple(
        Variation(f"key{number}", tuple(range(size))) for number, size in enumerate(sizes)
    )
)
workloads = st.integers(1, 3).map(lambda count: tuple(f"workload-{i}" for i in range(count)))


@given(workloads, variations)
def test_every_combination_is_there_once_the_last_option_varying_fastest(workloads, variations):
    combinations = combinations_of(workloads, variations)
    assert [c.index for c in combinations] == list(range(len(combinations)))
    told = [(workloads.index(c.workload), *c.varied.values()) for c in combinations]
    assert told == sorted(set(told))
    assert len(told) == len(workloads) * prod(len(v.values) for v in variations)


@given(workloads, variations, st.integers(1, 6), st.integers(0, 2**32))
def test_a_round_runs_everything_once_before_anything_is_run_again(
    workloads, variations, repeats, seed
):
    combinations = combinations_of(workloads, variations)
    order = fair_order(combinations, repeats, seed)
    size = len(combinations)
    for repeat in range(repeats):
        in_round = order[repeat * size : (repeat + 1) * size]
        assert {slot.repeat for slot in in_round} == {repeat}
        assert sorted(slot.combination for slot in in_round) == list(range(size))
        # Workload after workload, as they were given.
        assert [combinations[slot.combination].workload for slot in in_round] == sorted(
            combinations[slot.combination].workload for slot in in_round
        )


@given(variations, st.integers(1, 4), st.integers(0, 2**32))
def test_two_rounds_favour_no_combination(variations, pairs, seed):
    combinations = combinations_of(["only"], variations)
    order = fair_order(combinations, 2 * pairs, seed)
    size = len(combinations)
    places = {c.index: [] for c in combinations}
    for place, slot in enumerate(order):
        places[slot.combination].append(place % size)
    for of_combination in places.values():
        assert sum(of_combination) == pairs * (size - 1)


@given(variations, st.integers(1, 4), st.integers(0, 2**32))
def test_the_seed_tells_the_order(variations, repeats, seed):
    combinations = combinations_of(["only"], variations)
    assert fair_order(combinations, repeats, seed) == fair_order(combinations, repeats, seed)


def test_seeds_give_different_orders():
    combinations = combinations_of(["only"], [Variation("batch_size", tuple(range(8)))])
    assert len({fair_order(combinations, 1, seed) for seed in range(20)}) > 15


@pytest.mark.parametrize(
    "order",
    [
        (Slot(0, 0),),
        (Slot(0, 0), Slot(0, 0)),
        (Slot(0, 0), Slot(2, 0)),
        (Slot(0, 0), Slot(1, 1)),
        (Slot(0, 0), Slot(1, 0), Slot(1, 0)),
    ],
)
def test_an_order_that_lacks_a_run_is_no_plan(order):
    plan = plan_of({"batch_size": [1, 2]})
    plan.check()
    with pytest.raises(SweepError):
        Plan(
            plan.workloads, plan.variations, plan.options, plan.metrics, plan.repeats, order
        ).check()


# ---- how far it has come ----

STATUSES = st.sampled_from([COMPLETED, FAILED, OUT_OF_MEMORY, IMPOSSIBLE, NOT_RUN])


def make_some(sweep, statuses, cut):
    """Make runs until `cut` events were told; return the slots whose runs were made whole."""
    made, told = [], 0
    for slot in sweep.left():
        for event in (
            Began(slot, "session", 0.0),
            Ended(slot, Outcome(next(statuses, COMPLETED), session="session"), 0.0),
        ):
            if told == cut:
                return made
            sweep.fold(event)
            told += 1
        made.append(slot)
    return made


def test_only_what_had_no_session_is_judged_again_by_who_resumes():
    plan = plan_of({"batch_size": [8, 16, 32]})
    of_machine, of_workload, failed = plan.order
    sweep = Sweep(plan)
    sweep.fold(Ended(of_machine, Outcome(IMPOSSIBLE, "there is no GPU here"), 0.0))
    sweep.fold(Ended(of_workload, Outcome(IMPOSSIBLE, "XLA can't", "session"), 0.0))
    sweep.fold(Ended(failed, Outcome(FAILED, "on purpose", "session"), 0.0))
    assert sweep.left() == []
    sweep.fold(Resumed(0.0))
    assert sweep.left() == [of_machine]


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
        sweep.fold(Closed("stopped", 0.0))
        sweep.fold(Resumed(0.0))
        assert sweep.closed is None
    over += make_some(sweep, iter(()), 10**9)
    assert sorted(over, key=plan.order.index) == list(plan.order)
    assert not sweep.left()


def test_what_is_left_keeps_its_order():
    plan = plan_of({"batch_size": [1, 2, 4, 8]}, repeats=2)
    sweep = Sweep(plan)
    sweep.fold(Ended(plan.order[2], completed(1.0), 0.0))
    assert sweep.left() == [slot for slot in plan.order if slot != plan.order[2]]


def test_a_run_that_has_begun_is_running_until_it_has_ended():
    plan = plan_of({"batch_size": [1, 2]})
    sweep = Sweep(plan)
    began = Began(plan.order[0], "session", 1.0)
    sweep.fold(began)
    assert sweep.running == began
    sweep.fold(Ended(plan.order[0], completed(1.0), 2.0))
    assert sweep.running is None


def test_a_run_that_the_plan_does_not_know_is_passed_over():
    sweep = Sweep(plan_of({"batch_size": [1, 2]}))
    sweep.fold(Began(Slot(7, 0), "session", 0.0))
    sweep.fold(Ended(Slot(0, 1), completed(1.0), 0.0))
    assert (sweep.running, sweep.outcomes) == (None, {})


# ---- how long it still takes ----


def test_nothing_is_told_of_the_time_left_before_a_run_has_completed():
    plan = plan_of({"batch_size": [1, 2]})
    sweep = Sweep(plan, {plan.order[0]: Outcome(FAILED, "why", took_s=3.0)})
    assert sweep.seconds_left() is None


def test_a_run_is_taken_to_last_as_long_as_those_of_its_combination():
    plan = plan_of({"batch_size": [1, 2]}, repeats=2)
    sweep = Sweep(plan)
    sweep.outcomes[Slot(0, 0)] = completed(1.0, took_s=10.0)
    assert sweep.seconds_left() == pytest.approx(30.0)
    sweep.outcomes[Slot(1, 0)] = completed(1.0, took_s=40.0)
    assert sweep.seconds_left() == pytest.approx(50.0)


def test_what_runs_has_less_left_the_longer_it_runs():
    plan = plan_of({"batch_size": [1, 2]})
    sweep = Sweep(plan)
    first, second = plan.order
    sweep.outcomes[first] = completed(1.0, took_s=10.0)
    sweep.fold(Began(second, "session", 0.0))
    assert sweep.seconds_left(4.0) == pytest.approx(6.0)
    assert sweep.seconds_left(40.0) == 0.0


# ---- how a run ended ----


def test_a_run_that_completed_has_no_reason():
    result = result_of(0.5)
    assert outcome_of(result, "s", 3.0) == Outcome(COMPLETED, None, "s", result, 3.0)


def failed(error, exit_code=1):
    return result_of(None, status="failed", error=error, exit_code=exit_code)


class ResourceExhaustedError(Exception):
    """As TensorFlow calls it."""


@pytest.mark.parametrize(
    "error",
    [
        in_words(MemoryError("no room"), 512),
        in_words(ResourceExhaustedError("OOM when allocating on GPU:0"), 512, "gpu:0"),
        in_words(RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 512, "gpu:0"),
        "memory ran out (batch size 512) and the kernel killed it",
    ],
)
def test_a_want_of_memory_is_told_as_such_whoever_told_it(error):
    outcome = outcome_of(failed(error), "s", 3.0)
    assert (outcome.status, outcome.reason) == (OUT_OF_MEMORY, error)


def test_what_a_workload_refuses_is_impossible():
    outcome = outcome_of(failed("jax is not installed", WORKLOAD_REFUSED), "s", 3.0)
    assert (outcome.status, outcome.reason) == (IMPOSSIBLE, "jax is not installed")
    assert workload_main.REFUSED == WORKLOAD_REFUSED


def test_any_other_failure_is_one():
    outcome = outcome_of(failed("ValueError: on purpose"), "s", 3.0)
    assert (outcome.status, outcome.reason) == (FAILED, "ValueError: on purpose")


def test_what_was_stopped_or_interrupted_has_still_to_be_run():
    assert outcome_of(result_of(0.5, status="stopped"), "s", 1.0).status == NOT_RUN
    interrupted = outcome_of(None, "s", 1.0, "interrupted: its supervisor is gone")
    assert (interrupted.status, interrupted.session) == (NOT_RUN, "s")
    assert "supervisor" in interrupted.reason


def test_combinations_name_what_is_varied_in_them():
    plan = plan_of({"device": ["cpu", "gpu"], "batch_size": [1, 2]})
    assert plan.varied == ("device", "batch_size")
    assert plan.combinations[1].varied == {"device": "cpu", "batch_size": 2}
    assert plan.combinations[1].workload == SMALL
