"""What pairs do not prove: one pair, too few, none, or sides that train other steps."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.compared import side
from fakes.sweeps import completed, ended, pairs_plan, result_of

from dlmon.figures.pairs import pair_findings, pair_sections, side_names
from dlmon.figures.sweeps import left_text, missing_file, outcome_text
from dlmon.records import Doubt, Slot
from dlmon.sweep.pairs import is_enough
from dlmon.sweep.progress import Sweep


def experiment(*pairs, for_s=3600.0, vary=None):
    """Return an experiment whose runs took so many milliseconds for a sample, 10 s each."""
    sweep = Sweep(pairs_plan(vary, for_s=for_s))
    for repeat, pair in enumerate([(1.0, 1.0), *pairs]):
        for number, run in enumerate(pair):
            result = result_of(run) if isinstance(run, float) else run
            sweep.add(ended(Slot(number, repeat), result, took_s=10.0))
    return sweep


def test_a_single_pair_proves_nothing():
    (verdict,) = pair_findings(experiment((1.0, 2.0)))
    assert verdict == "workers 8 is 2.00× as slow as workers 4; 1 pair, which proves nothing"


STOLEN = replace(result_of(1.0), against={Doubt.STEAL: "steal 9 %"})


@pytest.mark.parametrize(
    ("pairs", "for_s", "why"),
    [
        ([], 30.0, "no pair fits into --for"),
        ([(result_of(None), 1.0)], 50.0, "no pair has a throughput, so there is no verdict"),
        ([(STOLEN, 1.0)], 50.0, "every pair was set aside, so there is no verdict"),
    ],
)
def test_without_a_verdict_it_says_why(pairs, for_s, why):
    assert pair_findings(experiment(*pairs, for_s=for_s))[0].startswith(why)


def test_a_first_run_without_a_throughput_ends_it_with_its_reason():
    sweep = experiment()
    sweep.add(ended(Slot(1, 0), result_of(None), took_s=10.0))
    assert is_enough(sweep)
    assert pair_findings(sweep) == ["nothing to compare: the run was too short for a figure"]


@pytest.mark.parametrize(
    "line", ["ImportError: cannot import name 'lib' from 'lib'", "No such file or directory: 'd'"]
)
def test_what_a_copy_of_a_commit_may_lack_names_the_option_that_shows_it(line):
    plan = pairs_plan({"commit": ["main", "HEAD"]})
    assert plan.script is not None
    script = replace(plan.script, commit_folder="/repo")
    run = SimpleNamespace(sweep=Sweep(replace(plan, script=script)), last_lines=(line,))
    assert "--link PATH" in missing_file(run)
    run.last_lines = ("ValueError: 3",)
    assert missing_file(run) is None


def test_few_pairs_say_that_no_other_fits_and_many_how_many_more_it_takes():
    few = experiment((1.0, 2.0), (1.0, 2.4), for_s=60.0)
    assert pair_findings(few)[-1].startswith("no further pair fits into --for: the first 5 pairs")
    many = experiment(*[(1.0, 2.0), (1.0, 2.4)] * 3, for_s=140.0)
    assert "more pairs would give ± 2 %" in pair_findings(many)[-1]
    goes_on = experiment((1.0, 2.0), (1.0, 2.4))
    assert "no further pair" not in " ".join(pair_findings(goes_on))


def test_steps_of_other_sizes_are_said_and_are_no_cause():
    sweep = experiment((1.0, 2.0), (1.0, 2.0))
    for slot, outcome in sweep.outcomes.items():
        (run,) = side(outcome.session, 1000.0, values={"step.forward_ms": 5.0})
        sweep.figures[outcome.session] = replace(run, batch_size=(32, 128)[slot.combination])
    sentences = pair_findings(sweep)
    assert any("a step has 32 samples in base and 128 in new" in text for text in sentences)
    assert not any("all of it is" in text for text in sentences)


def test_there_is_no_table_before_a_pair_is_complete():
    assert pair_sections(experiment()) == []
    assert pair_sections(experiment((1.0, 1.0))) != []


def test_what_is_left_counts_no_pairs_that_only_have_room_in_the_plan():
    assert left_text(experiment((1.0, 1.0))) == "more pairs"


def test_a_variable_of_the_environment_keeps_its_name():
    plan = pairs_plan({"env:OMP_NUM_THREADS": [1, 2]}, command=("python", "train.py"))
    assert side_names(plan) == ("env:OMP_NUM_THREADS 1", "env:OMP_NUM_THREADS 2")


def test_the_time_of_a_run_is_that_of_a_step_where_samples_are_not_known():
    outcome = completed(0.5)
    assert "0.500 ms per sample" in outcome_text(outcome, "ms_per_sample")
    rate = replace(outcome.result.samples_per_second, unit="steps/s")
    result = replace(outcome.result, samples_per_second=rate)
    text = outcome_text(replace(outcome, result=result), "ms_per_sample")
    assert text == "completed, 0.500 ms per step, 2,000 steps/s"
