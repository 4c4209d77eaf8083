"""An experiment of pairs: which pairs count, and when there are enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.sweeps import ended, pairs_plan, plan_of, result_of

from dlmon.records import (
    Closed,
    Doubt,
    Ended,
    Outcome,
    Result,
    Resumed,
    RunStatus,
    Slot,
    Status,
    SweptScript,
)
from dlmon.sweep.pairs import broken_run, is_enough, is_slower_by, pairs_of, verdict_of
from dlmon.sweep.progress import Sweep

STEAL = {Doubt.STEAL: "steal 5 %"}


def experiment(*pairs, to=0.02, for_s=3600.0, until_proven=False):
    """Return an experiment whose runs took so long for a sample, or had such results."""
    plan = pairs_plan(to=to, for_s=for_s)
    sweep = Sweep(replace(plan, pairs=replace(plan.pairs, until_proven=until_proven)))
    for repeat, pair in enumerate([(1.0, 1.0), *pairs]):
        for side, run in enumerate(pair):
            result = result_of(run) if isinstance(run, float) else run
            sweep.add(ended(Slot(side, repeat), result, took_s=10.0))
    return sweep


def with_warning(ms_per_sample, against):
    return replace(result_of(ms_per_sample), against=against)


def test_the_first_run_of_each_side_counts_in_nothing():
    sweep = experiment((2.0, 1.0))
    sweep.add(ended(Slot(0, 0), result_of(500.0)))
    (pair,) = pairs_of(sweep)
    assert pair.number == 1
    assert pair.ratio == pytest.approx(2)


def test_a_pair_counts_once_both_of_its_runs_completed():
    sweep = experiment((1.0, 1.0))
    sweep.add(ended(Slot(0, 2), result_of(1.0)))
    assert len(pairs_of(sweep)) == 1


def test_what_one_run_of_a_pair_alone_met_sets_the_pair_aside():
    sweep = experiment((1.0, 2.0), (with_warning(9.0, STEAL), 2.0), (1.0, 2.0), (1.0, 2.0))
    verdict = verdict_of(sweep)
    (aside,) = verdict.set_aside
    assert (aside.number, aside.set_aside) == (2, (Doubt.STEAL, 0))
    assert verdict.ratio.value == pytest.approx(0.5)
    assert verdict.ratio.pairs == 3
    assert verdict.with_all.pairs == 4


def test_a_pair_in_turns_is_never_set_aside_for_both_runs_met_the_same():
    sweep = experiment((1.0, 1.0))
    for side, (result, rate) in enumerate([(with_warning(9.0, STEAL), 100.0), (1.0, 50.0)]):
        result = result if isinstance(result, Result) else result_of(result)
        end = ended(Slot(side, 2), result)
        sweep.add(replace(end, outcome=replace(end.outcome, rate=rate)))
    pair = pairs_of(sweep)[-1]
    assert (pair.set_aside, pair.ratio) == (None, 0.5)


@pytest.mark.parametrize(("counts_steps", "metric"), [(True, "steps"), (False, "samples")])
def test_turns_count_samples_or_steps_also_where_tokens_are_known(counts_steps, metric):
    result = result_of(1.0)
    result = replace(
        result, tokens_per_second=result.samples_per_second, counts_steps=counts_steps or None
    )
    sweep = experiment((result, result))
    for side in (0, 1):
        sweep.add(ended(Slot(side, 0), result))
    assert verdict_of(sweep).metric == "tokens_per_second"
    for side in (0, 1):
        end = ended(Slot(side, 1), result)
        sweep.add(replace(end, outcome=replace(end.outcome, rate=20.0)))
    assert verdict_of(sweep).metric == f"{metric}_per_second"


def test_what_both_runs_of_a_pair_met_sets_it_not_aside():
    met = with_warning(1.0, STEAL)
    assert verdict_of(experiment((met, met), (1.0, 1.0), (1.0, 1.0))).set_aside == ()


def test_what_a_side_brings_about_itself_counts():
    hot = with_warning(2.0, {Doubt.THROTTLED: "throttled by heat"})
    sweep = experiment((1.0, hot), (1.0, hot), (1.0, hot), (1.0, 2.0))
    assert verdict_of(sweep).set_aside == ()


def test_no_pair_is_set_aside_for_its_value():
    assert verdict_of(experiment((1.0, 1.0), (1.0, 1.0), (1.0, 40.0))).set_aside == ()


def test_a_run_that_can_not_begin_ends_it_until_it_is_resumed():
    sweep = experiment((1.0, 1.0))
    refused = Outcome(RunStatus.NOT_RUN, "there is no command /nope")
    sweep.add(Ended(Slot(0, 2), refused, 1.0))
    assert broken_run(sweep) == (Slot(0, 2), refused)
    assert is_enough(sweep)
    sweep.add(Resumed(2.0))
    assert not is_enough(sweep)


def test_it_ends_when_the_interval_is_as_narrow_as_asked():
    steady = [(1.0, 1.1)] * 4
    assert not is_enough(experiment(*steady))
    assert is_enough(experiment(*steady, (1.0, 1.1)))
    loose = [(1.0, 1.0), (1.0, 1.3), (1.0, 0.8), (1.0, 1.1), (1.0, 0.9)]
    assert not is_enough(experiment(*loose))
    assert verdict_of(experiment(*loose)).missing > 0


def test_a_clear_difference_alone_is_no_reason_to_end():
    far_apart = [(1.0, 2.0), (1.0, 2.4), (1.0, 1.7), (1.0, 2.1), (1.0, 1.9)]
    assert verdict_of(experiment(*far_apart)).ratio.is_proven
    assert not is_enough(experiment(*far_apart))


def test_a_try_ends_once_a_difference_is_proven():
    gain = [(1.0, 0.5), (1.0, 0.48), (1.0, 0.49)]
    assert not is_enough(experiment(*gain))
    assert not is_enough(experiment(*gain[:2], until_proven=True))
    tried = experiment(*gain, until_proven=True)
    assert is_enough(tried)
    assert verdict_of(tried).missing == 0
    assert verdict_of(tried).ratio.half_width > 0.02
    alike = [(1.0, 1.1), (1.0, 0.9), (1.0, 1.0)]
    assert not is_enough(experiment(*alike, until_proven=True))


def test_it_ends_before_its_time_is_over():
    # Each pair takes 20 s, and so does the warm-up.
    assert not is_enough(experiment((1.0, 1.1), for_s=60.0))
    assert is_enough(experiment((1.0, 1.1), (1.0, 1.2), for_s=60.0))


def test_a_pair_that_has_begun_is_completed():
    sweep = experiment((1.0, 1.1), (1.0, 1.2), for_s=60.0)
    del sweep.outcomes[Slot(1, 2)]
    assert not is_enough(sweep)


def test_a_run_that_fails_ends_it():
    sweep = experiment((1.0, 1.0))
    sweep.add(ended(Slot(1, 2), result_of(None, status="failed", error="KeyError: 'x'")))
    assert is_enough(sweep)
    slot, outcome = broken_run(sweep)
    assert (slot, outcome.status) == (Slot(1, 2), RunStatus.FAILED)


def test_repeats_of_one_command_end_with_one_that_failed():
    repeats = replace(plan_of(repeats=3), script=SweptScript(("python", "train.py"), "/home/ada"))
    sweep = Sweep(repeats)
    sweep.add(ended(Slot(0, 0), result_of(1.0)))
    assert not is_enough(sweep)
    sweep.add(ended(Slot(0, 1), result_of(None, status="failed", error="KeyError: 'x'")))
    assert is_enough(sweep)


def test_nothing_is_left_of_an_experiment_that_has_ended_until_it_is_resumed():
    sweep = experiment((1.0, 1.1))
    assert sweep.remaining()
    sweep.add(Closed(Status.COMPLETED, 2.0))
    assert sweep.remaining() == []
    sweep.add(Resumed(3.0))
    assert sweep.remaining()


def test_only_all_of_the_interval_makes_it_slower():
    slower = [(1.0, 1.10), (1.0, 1.11), (1.0, 1.10), (1.0, 1.09), (1.0, 1.10)]
    assert is_slower_by(verdict_of(experiment(*slower)), 0.03)
    assert not is_slower_by(verdict_of(experiment(*slower)), 0.095)
    assert is_slower_by(verdict_of(experiment()), 0.0) is None
    assert is_slower_by(verdict_of(experiment((1.0, 9.0))), 0.0) is None
