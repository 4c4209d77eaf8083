"""Which parts of the time besides the steps may limit a run."""

import pytest

from dlmon.records import COMPILE, NamedPause, TimePart
from dlmon.session.limits.evidence import Evidence
from dlmon.session.limits.find import RuleCheck, limit_of
from dlmon.session.limits.time_parts import NO_TIME, time_shares
from dlmon.session.reasons import PIPELINE

SECOND = 1_000_000_000
STEPS, VALIDATION, STARTUP = TimePart.TRAINING, TimePart.VALIDATION, TimePart.STARTUP


def leading(breakdown, *evidence, is_over=True, **known):
    time = time_shares(breakdown, (), is_over, **known)
    check = RuleCheck(evidence, evidence, ())
    limit = limit_of([check], is_over, time=time)
    return limit.lead.title


@pytest.mark.parametrize(
    ("part", "title"),
    [
        (TimePart.VALIDATION, "VALIDATING 60 %"),
        (TimePart.CHECKPOINT, "CHECKPOINTS 60 %"),
        (TimePart.STALLS, "PAUSES 60 %"),
        (TimePart.BETWEEN_STEPS, "REGULAR SLOW STEPS 60 %"),
        (TimePart.OPENINGS, "EPOCH STARTS 60 %"),
        (TimePart.GAPS, "BETWEEN EPOCHS 60 %"),
        (TimePart.GARBAGE, "GARBAGE COLLECTION 60 %"),
        (TimePart.SCRIPT, "OUTSIDE TRAINING 60 %"),
    ],
)
def test_the_part_that_takes_most_of_the_time_leads(part, title):
    assert leading({STEPS: 20.0, part: 30.0}) == title


@pytest.mark.parametrize(("taken_down_s", "is_said"), [(0.0, False), (3.0, False), (8.0, True)])
def test_pauses_between_epochs_are_those_of_tensorflow_if_most_of_their_time_is(
    taken_down_s, is_said
):
    breakdown = {STEPS: 20.0, TimePart.OPENINGS: 5.0, TimePart.GAPS: 5.0}
    for evidence in time_shares(breakdown, (), True, taken_down_s=taken_down_s).evidence:
        assert (PIPELINE in evidence.reasons) is is_said
        assert ("autotuning" in evidence.advice) is is_said


def test_a_part_of_the_time_competes_with_a_part_of_the_steps_by_its_share_of_the_time():
    data = Evidence("data-wait", "70 %", ("waiting",), share=0.7)
    # Of 50 s, 42 % were waited for data in the steps, and 40 % went into validation.
    assert leading({STEPS: 30.0, VALIDATION: 20.0}, data) == "DATA-BOUND 70 %"
    assert leading({STEPS: 20.0, VALIDATION: 30.0}, data) == "VALIDATING 60 %"
    # Steps of which nothing is known may be any of their parts.
    assert leading({STEPS: 30.0, VALIDATION: 20.0}) == "NOT CLEAR"


def test_the_start_counts_only_in_a_run_that_is_over_and_if_it_took_long():
    run = {STARTUP: 90.0, STEPS: 30.0}
    assert leading(run) == "BEFORE TRAINING 75 %"
    assert leading(run, is_over=False) == "NOT CLEAR"
    assert leading({STARTUP: 20.0, STEPS: 15.0}) == "NOT CLEAR"
    first_compilation = {TimePart.COMPILING: 20.0, STEPS: 15.0}
    assert leading(first_compilation) == "NOT CLEAR"


def test_compiling_again_counts_at_any_time():
    pauses = [NamedPause(n * SECOND, (n + 8) * SECOND, COMPILE, reason="x") for n in (10, 20)]
    first = NamedPause(0, 4 * SECOND, COMPILE)
    time = time_shares({TimePart.COMPILING: 20.0, STEPS: 4.0}, (first, *pauses), False)
    assert [part.title for part in time.evidence] == ["COMPILING 80 %"]
    assert time.of_steps == pytest.approx(0.2)


def test_a_step_that_is_late_is_no_pause_yet():
    stalls = {STEPS: 20.0, TimePart.STALLS: 30.0}
    assert leading(stalls, is_over=False, overdue_s=29.0) == "NOT CLEAR"
    assert leading(stalls, is_over=False) == "PAUSES 60 %"


def test_a_short_time_is_not_judged():
    assert time_shares({STEPS: 2.0, VALIDATION: 7.0}, (), True) is NO_TIME
    assert time_shares({}, (), True) is NO_TIME
