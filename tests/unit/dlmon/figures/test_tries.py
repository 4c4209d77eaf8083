"""What is said of an injection that was tried, by its pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.compared import THIS
from fakes.sweeps import ended, pairs_plan, result_of

from dlmon.figures.pairs import pair_findings, verdict_in_short
from dlmon.figures.tries import (
    best_sentences,
    best_so_far,
    candidates_text,
    tries_sections,
    tries_table,
    try_sentences,
    try_text,
)
from dlmon.records import Closed, Model, Outcome, RunStatus, Slot, Status, StepParts
from dlmon.records.sweep import Ended
from dlmon.sweep.candidates import Candidate, FirstRun
from dlmon.sweep.pairs import is_enough
from dlmon.sweep.progress import Sweep
from dlmon.sweep.runner import NEVER_STEADY
from dlmon.sweep.tries import NO_TIME, Judgement, Try

WORKERS = Candidate("num_workers", 4, "waits for data 71 % of a step", 0.71)
AUTOCAST = Candidate("autocast", "bfloat16", "in float32", 0.5)
FASTER = [(2.0, 1.0), (2.02, 1.0), (1.98, 1.0)]
CPU = Model(1000, None, 32, 3200, 100, 1, device="cpu")


def tried(*pairs, candidate=WORKERS):
    """Return a try whose pairs took so long for a sample, after the warm-up."""
    sweep = Sweep(pairs_plan({f"set:{candidate.name}": ["as it is", candidate.value]}))
    for repeat, pair in enumerate([(9.0, 1.0), *pairs]):
        for side, ms in enumerate(pair):
            sweep.add(ended(Slot(side, repeat), result_of(ms)))
    return Try(candidate, "1", sweep)


def test_a_proven_gain_is_kept_and_ends_in_the_line_to_write():
    gain = tried(*FASTER)
    assert gain.judgement == Judgement.KEEP
    assert try_text(gain).startswith("num_workers 4: 2.00× as fast (1.95")
    unknown = "the loss was not compared"
    assert try_text(gain).endswith(f"3 pairs); {unknown}; write DataLoader(..., num_workers=4)")


def test_what_alters_the_training_is_never_kept():
    assert tried(*FASTER, candidate=AUTOCAST).judgement == Judgement.SUGGESTION


@pytest.mark.parametrize(
    ("loss", "judgement", "said"),
    [
        (0.5, Judgement.KEEP, "loss alike over the same 100 steps"),
        (0.6, Judgement.SUGGESTION, "the loss differs over the same 100 steps: 0.5000 in base"),
    ],
)
def test_what_changes_the_loss_is_only_suggested(loss, judgement, said):
    gain = tried(*FASTER)
    for slot, outcome in gain.sweep.outcomes.items():
        mean = (0.5, loss)[slot.combination]
        gain.sweep.figures[outcome.session] = replace(THIS, losses=((100, 100 * mean),))
    assert gain.judgement == judgement
    assert said in try_text(gain)


@pytest.mark.parametrize(
    ("pairs", "judgement"),
    [
        ([(1, 2), (1, 2.02), (1, 1.98)], Judgement.SLOWER),
        ([(1, 1.001), (1.001, 1), (1, 1)], Judgement.NO_GAIN),
        ([(1, 2), (2, 1), (1, 1.1)], Judgement.UNDECIDED),
    ],
)
def test_what_is_slower_is_said_to_be_what_is_not_clear_is_open_and_neither_has_a_line(
    pairs, judgement
):
    slower = tried(*[(float(base), float(new)) for base, new in pairs])
    assert slower.judgement == judgement
    assert "write" not in try_text(slower)


def test_beside_a_headline_a_gain_begins_with_its_line_and_says_if_the_loss_was_not_compared():
    gain = closed(tried(*FASTER))
    assert verdict_in_short(gain.sweep) == "FASTER 2.00×"
    assert try_sentences(gain)[0].startswith("with num_workers 4 (1.95")
    assert try_sentences(gain)[0].endswith("; 3 pairs)")
    assert try_sentences(gain)[1:3] == [
        "write DataLoader(..., num_workers=4)",
        "the loss was not compared",
    ]
    (row,) = tries_table([gain], is_over=True).rows
    assert row == ("num_workers 4", "faster", "2.00×", "the loss was not compared")


def test_what_is_slower_has_the_interval_of_its_figure_and_no_line():
    slower = closed(tried((1.0, 2.0), (1.0, 2.02), (1.0, 1.98)))
    assert verdict_in_short(slower.sweep) == "SLOWER 2.00×"
    assert try_sentences(slower)[0].startswith("with num_workers 4 (1.95")
    assert not any("write" in text for text in try_sentences(slower))
    assert tries_table([slower], is_over=True).rows[0][1] == "slower"


def closed(attempt):
    attempt.sweep.add(Closed(Status.COMPLETED, 1.0))
    return attempt


@pytest.mark.parametrize(
    ("attempt", "text"),
    [
        (tried(), "num_workers 4: no pair was completed in the time (--for)"),
        (tried((2.0, 1.0)), "num_workers 4: 2.00× as fast in 1 pair, which proves nothing"),
        (Try(WORKERS, skipped=NO_TIME), "num_workers 4: no time was left (--for)"),
    ],
)
def test_too_few_pairs_decide_nothing(attempt, text):
    assert attempt.judgement == Judgement.UNDECIDED
    assert try_text(attempt) == text


def test_what_was_not_applied_ends_the_experiment_and_has_no_verdict():
    attempt, said = tried(*FASTER), "set:num_workers was not applied: no DataLoader was made"
    attempt.sweep.add(Ended(Slot(1, 4), Outcome(RunStatus.IMPOSSIBLE, said, "s"), 1.0))
    assert attempt.judgement == Judgement.NOT_APPLIED
    assert is_enough(attempt.sweep)
    assert try_text(attempt) == f"num_workers 4: {said}; the experiment ended with it"
    # `dlmon ab` claims nothing of it either.
    assert pair_findings(attempt.sweep) == [f"{said}; the experiment ended with it"]


def test_a_run_that_failed_is_named_with_its_reason():
    attempt = tried(*FASTER)
    attempt.sweep.add(Ended(Slot(1, 4), Outcome(RunStatus.OUT_OF_MEMORY, "no memory left"), 1.0))
    assert attempt.judgement == Judgement.FAILED
    assert "no memory left" in try_text(attempt)


def test_a_run_that_had_too_little_time_decides_nothing():
    attempt = tried(*FASTER)
    attempt.sweep.add(Ended(Slot(1, 4), Outcome(RunStatus.FAILED, NEVER_STEADY), 1.0))
    assert attempt.judgement == Judgement.UNDECIDED
    assert NEVER_STEADY in try_text(attempt)


def test_several_gains_are_not_added_up():
    fused = Candidate("fused", "on", "", 0.2)
    (section,) = tries_sections([tried(*FASTER), tried(*FASTER, candidate=fused)])
    assert section.heading == "Faster"
    assert section.sentences[2:] == ("each was tried alone: together they may gain less",)
    (section,) = tries_sections([tried(*FASTER)])
    assert len(section.sentences) == 1


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (
            FirstRun(
                *("torch", CPU, StepParts(0, 1, 100, forward_us=40, backward_us=50)),
                cores=8.0,
                run_cores=7.8,
            ),
            "nothing to try: forward and backward take 90 % of a step, on 7.8 of 8 cores",
        ),
        (
            FirstRun("torch", CPU),
            "nothing to try: the parts of its steps were not measured (--window)",
        ),
        (
            FirstRun("keras", CPU),
            "nothing to try: the figures of the run speak for none of the settings",
        ),
        (
            FirstRun("xgboost", CPU),
            "nothing to try: dlmon sets something inside PyTorch and Keras only",
        ),
    ],
)
def test_nothing_to_try_says_why(run, text):
    assert candidates_text((), run) == [text]


def test_what_is_tried_has_its_reason():
    run = FirstRun("torch", CPU)
    assert candidates_text((WORKERS,), run) == [
        "to try: num_workers 4 (waits for data 71 % of a step)"
    ]


def open_try(*pairs):
    attempt = tried(*pairs)
    plan = attempt.sweep.plan
    attempt.sweep.plan = replace(plan, pairs=replace(plan.pairs, until_proven=True))
    return attempt


def test_no_verdict_is_claimed_before_enough_pairs():
    attempt = open_try((1.0, 2.0), (1.0, 2.02))
    assert verdict_in_short(attempt.sweep) == "NOT PROVEN"
    assert try_sentences(attempt)[0].endswith("; 2 pairs, too few to judge by)")
    assert "slow as" in pair_findings(attempt.sweep)[0]
    assert verdict_in_short(open_try((1.0, 2.0), (1.0, 2.02), (1.0, 1.98)).sweep) == "SLOWER 2.00×"


def test_the_best_setting_so_far_stays_while_another_is_tried():
    gain, under_way = closed(tried(*FASTER)), open_try((1.0, 2.0), (1.0, 2.02))
    assert best_so_far([gain, under_way], under_way) is gain
    assert best_so_far([gain, under_way], gain) is None
    assert best_so_far([under_way], under_way) is None
    so_far, now = best_sentences(gain, under_way)
    assert so_far.startswith("best so far, with num_workers 4 (1.95")
    assert now.startswith("trying num_workers 4: 0.498× so far (")
