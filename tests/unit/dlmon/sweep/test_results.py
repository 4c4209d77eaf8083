"""What a sweep found: each combination's row, the best, and where the lead changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.sweeps import completed, plan_of, sweep_of

from dlmon.figures.sweeps import label
from dlmon.records import (
    Ended,
    Outcome,
    Result,
    RunSeconds,
    RunStatus,
    SecondsPerEpoch,
    Slot,
    StepTime,
    Throughput,
    Variation,
    decode,
    encode,
)
from dlmon.sweep.plan import METRICS
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import axis_of, rows_of, time_of

BROKEN = Outcome(RunStatus.FAILED, "ValueError: on purpose", "s", None, 2.0)


def test_three_runs_are_represented_by_their_mean_which_their_interval_is_about():
    plan = plan_of({"batch_size": [32]}, repeats=3)
    (row,) = rows_of(sweep_of(plan, [completed(t) for t in (0.9, 0.3, 0.4)]))
    assert row.value == pytest.approx(1.6 / 3)
    assert row.samples_per_second == pytest.approx(2500)
    assert (row.status, row.reason, row.completed) == (RunStatus.COMPLETED, None, 3)
    assert row.low == pytest.approx(row.value - 0.7986, abs=1e-4)
    assert row.high == pytest.approx(row.value + 0.7986, abs=1e-4)


@pytest.mark.parametrize(
    ("outcomes", "value", "count", "reason"),
    [
        ([completed(0.3), BROKEN, BROKEN], 0.3, 1, "ValueError: on purpose"),
        # Two of three are represented by their median.
        ([completed(0.3), completed(0.5), BROKEN], 0.4, 2, "ValueError: on purpose"),
        ([completed(None)] * 3, None, 3, "the run was too short for a figure"),
    ],
)
def test_of_runs_of_which_some_have_no_figure_the_others_count(outcomes, value, count, reason):
    (row,) = rows_of(sweep_of(plan_of({"batch_size": [32]}, repeats=3), outcomes))
    assert (row.status, row.completed, row.reason) == (RunStatus.COMPLETED, count, reason)
    assert (row.value, row.low) == (value and pytest.approx(value), None)


@pytest.mark.parametrize(
    "status", [RunStatus.FAILED, RunStatus.OUT_OF_MEMORY, RunStatus.IMPOSSIBLE]
)
def test_a_combination_none_of_whose_runs_completed_says_how_they_ended(status):
    plan = plan_of({"batch_size": [32]}, repeats=2)
    ended = Outcome(status, "why")
    (row,) = rows_of(sweep_of(plan, [ended, Outcome(RunStatus.NOT_RUN, "stopped before its end")]))
    assert (row.status, row.reason, row.value) == (status, "why", None)


def test_the_cost_of_a_run_is_the_median_of_what_was_reported():
    plan = plan_of({"threads": [1, 2]}, repeats=3)
    reported = [completed(0.5, cost_usd=cost) for cost in (0.01, 0.04, 0.02)]
    priced, free = rows_of(sweep_of(plan, reported, [completed(0.5)] * 3))
    assert (priced.cost_usd, free.cost_usd) == (0.02, None)


# ---- the best ----


def rows_with(*times, repeats=1, **plan):
    """Return rows of batch sizes 1, 2, 4, …, each with the times of its runs."""
    sizes = [2**number for number in range(len(times))]
    reported = [[completed(t) for t in of_one] for of_one in times]
    return rows_of(sweep_of(plan_of({"batch_size": sizes}, repeats, **plan), *reported))


def test_one_is_faster_than_another_only_where_their_runs_show_it():
    slow, fast = rows_with([0.40, 0.41, 0.42], [0.20, 0.21, 0.22], repeats=3)
    assert fast.speed_up_over(slow).value == pytest.approx(0.41 / 0.21, rel=0.01)
    assert fast.is_faster_than(slow)
    assert not slow.is_faster_than(fast)
    first, second = rows_with([0.2, 0.3, 0.4], [0.25, 0.35, 0.45], repeats=3)
    assert not first.is_faster_than(second)
    once, other = rows_with([0.2], [0.9])
    assert not once.is_faster_than(other)
    assert once.speed_up_over(rows_with([None])[0]) is None


def test_the_more_are_judged_the_more_sure_each_has_to_be():
    slow, fast = rows_with([0.25, 0.27, 0.29], [0.20, 0.22, 0.24], repeats=3)
    assert 0.005 < fast.speed_up_over(slow).p < 0.05
    assert fast.is_faster_than(slow)
    assert not fast.is_faster_than(slow, comparisons=10)


@pytest.mark.parametrize(
    ("metric", "figures", "time"),
    [
        ("seconds_per_epoch", {"seconds_per_epoch": SecondsPerEpoch(9.0, 8, 10, 3, False)}, 9.0),
        ("run_seconds", {"run_seconds": RunSeconds(52.0, 51, 53, False)}, 52.0),
        ("run_seconds", {"run_seconds": RunSeconds(float("inf"), 51, 53, False)}, None),
        ("step_ms", {"step_ms": StepTime(4.0, 5.0)}, 4.0),
        ("ms_per_sample", {"samples_per_second": Throughput(260.0, 250.0, None, 1.0)}, 4.0),
        *((metric, {}, None) for metric in METRICS),
    ],
)
def test_each_metric_is_read_from_a_result(metric, figures, time):
    result = Result("completed", "id", "log", "mnist-mlp", "cpu", {}, 1.0, **figures)
    assert time_of(metric, result) == time
    assert time_of(metric, replace(result, status="failed")) is None


# ---- names ----


def test_a_combination_is_named_by_what_is_varied_in_it():
    plan = plan_of({"device": ["cpu"], "batch_size": [32], "threads": [4], "jit": ["on"]})
    (combination,) = plan.combinations
    assert label(combination) == "cpu, batch 32, threads 4, JIT on"
    assert label(combination, ["threads"]) == "threads 4"
    assert label(plan_of().combinations[0]) == "mnist-mlp-small"


def test_the_axis_is_the_first_option_of_several_numbers():
    device, batch_size = Variation("device", ("cpu", "gpu")), Variation("batch_size", (1, 2))
    threads = Variation("threads", (1, 2))
    assert axis_of([device, batch_size, threads]) == "batch_size"
    assert axis_of([Variation("batch_size", (1,)), threads]) == "threads"
    assert axis_of([device]) is None
    assert axis_of([]) is None


def test_a_run_that_ended_as_only_a_newer_version_knows_is_over():
    ended = encode(Ended(Slot(0, 0), completed(2.0), 1.0)).replace(b'"completed"', b'"evicted"', 1)
    sweep = Sweep(plan_of(), {Slot(0, 0): decode(ended).outcome})
    (row,) = rows_of(sweep)
    assert (row.status, sweep.remaining()) == ("unknown", [])
