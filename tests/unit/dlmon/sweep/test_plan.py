"""What a sweep runs, and in which order."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from fakes.sweeps import plan_of
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Variation
from dlmon.sweep.plan import MAX_RUNS, SweepError, check_number_of_runs, combinations_of, fair_order


def test_more_runs_than_anybody_waits_for_are_refused():
    many = [Variation("epochs", tuple(range(MAX_RUNS // 2)))]
    check_number_of_runs(["a"], many, 2)
    with pytest.raises(SweepError, match=f"at most {MAX_RUNS:,}"):
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
    reported = [(workloads.index(c.workload), *c.varied.values()) for c in combinations]
    assert reported == sorted(set(reported))
    assert len(reported) == len(workloads) * prod(len(v.values) for v in variations)


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


# ---- the machines ----


def test_a_run_is_made_on_the_host_that_is_varied_or_shared_or_here():
    varied = plan_of({"host": ["gpu2", "gpu1"], "batch_size": [1, 2]}, 2)
    assert varied.hosts == ("gpu2", "gpu1")
    for slot in varied.order:
        assert varied.host_of(slot) == varied.combinations[slot.combination].varied["host"]
    here = plan_of({"batch_size": [1, 2]})
    assert (here.hosts, here.host_of(here.order[0])) == ((None,), None)
    shared = replace(here, options={**here.options, "host": "gpu1"})
    assert (shared.hosts, shared.host_of(shared.order[0])) == (("gpu1",), "gpu1")
