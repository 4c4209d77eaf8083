"""The search for the batch sizes of a script."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.sweeps import plan_of, result_of

from dlmon.records import Ended, Outcome, RunStatus, Status, Throughput, Widened
from dlmon.sweep.batch_search import FIRST_SIZE, next_size, sizes_of
from dlmon.sweep.progress import Sweep, outcome_of


def searched(fits, fastest, device="gpu:0"):
    """Return a search on a device that holds so many samples, and is no faster above so many."""
    sweep = Sweep(replace(plan_of({"set:batch_size": [FIRST_SIZE]}), search_window_s=10.0))
    size = FIRST_SIZE
    while size is not None:
        slot = sweep.plan.order[-1]
        outcome = Outcome(RunStatus.OUT_OF_MEMORY, "CUDA out of memory", "s")
        if size <= fits:
            rate = 100.0 * min(size, fastest)
            result = result_of(1000 / rate, status="stopped")
            result = replace(
                result, device=device, samples_per_second=Throughput(rate, rate, 1.0, 0.0)
            )
            outcome = outcome_of(result, "s", 1.0, is_whole=True)
        sweep.add(Ended(slot, outcome, 1.0))
        size = next_size(sweep)
        if size is not None:
            sweep.add(Widened(size, 1.0))
    return sweep


@pytest.mark.parametrize(
    ("fits", "fastest", "largest", "enough"),
    [
        (100, 40, 96, 48),
        (100, 200, 96, 96),
        (300, 8, 256, 8),
        (5, 100, 5, 5),
        (1, 100, 1, 1),
        (4096, 1000, 4096, 1024),
    ],
)
def test_the_largest_size_that_fits_and_the_smallest_fast_one(fits, fastest, largest, enough):
    sweep = searched(fits, fastest)
    sizes = sizes_of(sweep)
    assert (sizes.largest, sizes.enough) == (largest, enough)
    assert len(sweep.plan.order) <= 14


def test_no_size_fits():
    sweep = searched(0, 1)
    assert [*sizes_of(sweep).refused] == [8, 4, 2, 1]
    assert next_size(sweep) is None


def test_a_cpu_is_not_filled_once_larger_sizes_bring_nothing():
    sweep = searched(10**6, 16, device="cpu")
    assert sizes_of(sweep).largest == 64
    assert sizes_of(sweep).enough == 16


def test_a_script_that_fails_ends_the_search():
    sweep = searched(0, 1)
    sweep.add(Ended(sweep.plan.order[0], Outcome(RunStatus.FAILED, "no such option", "s"), 1.0))
    assert next_size(sweep) is None


def test_a_search_that_is_read_again_has_all_of_its_sizes():
    sweep = searched(100, 40)
    assert {slot.combination for slot in sweep.plan.slots} == {*range(len(sweep.plan.order))}
    assert all(o.status != Status.RUNNING for o in sweep.outcomes.values())
