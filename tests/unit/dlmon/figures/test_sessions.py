from dataclasses import replace

import pytest
from fakes.recorded import recorded_machine, recorded_session, write_log
from fakes.scripts import script_header, script_session

from dlmon.figures.sessions import (
    after_the_batch,
    outcome,
    status_text,
    stopped_unasked_text,
    use_text,
    workload_of,
)
from dlmon.log.directory import read_entry
from dlmon.records import MachineUse, Requirement, Status, StopCause
from dlmon.session.reasons import NOTHING_SEEN
from dlmon.stop import CAUSE_TEXT


@pytest.fixture
def entry(tmp_path):
    return lambda records: read_entry(write_log(tmp_path, records))


def test_a_recorded_machine_is_listed_as_one_with_how_it_was_used(entry):
    recorded = entry(recorded_machine(energy=True))
    assert workload_of(recorded) == "machine"
    assert outcome(recorded) == "00:29  CPU 36 %, GPU 0 81 %, CPU 1.16 kJ, GPU 0 2.61 kJ"


def test_a_machine_that_is_still_recorded_has_no_outcome_yet(entry):
    recorded = entry(recorded_machine(status=None))
    assert outcome(recorded) in ("left no result", "recorded on another machine")


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (None, ""),
        (MachineUse({}, {}), ""),
        (MachineUse({}, {}, 0.0), "CPU 0 %"),
        (MachineUse({"gpu:1": 99.6}, {"gpu:1": 1.2e6}), "GPU 1 100 %, GPU 1 1.2 MJ"),
    ],
)
def test_what_is_not_known_of_a_machines_use_is_left_out(use, text):
    assert use_text(use) == text


def test_of_a_script_that_ended_before_it_trained_no_training_was_seen(entry):
    lacking = {"seconds_per_epoch": Requirement.MODEL}

    def brief(records):
        ended = entry(records)
        why = dict.fromkeys(lacking, "a reason")
        none = dict.fromkeys(("seconds_per_epoch", "samples_per_second"))
        result = replace(ended.result, **none, why=why, lacking=lacking)
        return outcome(replace(ended, result=result))

    of_script = replace(recorded_session()[-1], session=script_header().id)
    assert brief(script_session(seconds=0, result=of_script)) == NOTHING_SEEN
    assert brief(recorded_session()) == "ended before training"


def test_only_a_workload_has_a_batch_to_wait_for():
    assert after_the_batch(recorded_machine(3)[0]) == ""
    assert after_the_batch(recorded_session()[0]) == " after the current batch"


def test_a_time_that_is_in_doubt_says_so(entry):
    recorded = entry(recorded_session())
    short, busy = "too short: it was never steady", "machine was busy at the start: CPU 71 %"

    def text(whole=False, **against):
        return outcome(
            replace(recorded, result=replace(recorded.result, against=against)), whole=whole
        )

    figure = text()
    assert figure.endswith("per epoch")
    doubts = {"too_short": short, "busy_at_start": busy}
    assert text(**doubts) == f"{figure}, in doubt: too short, busy at the start"
    assert text(whole=True, **doubts) == f"{figure}, in doubt: {short}; {busy}"


def stopped_by(cause):
    return replace(recorded_session(status="stopped")[-1], stopped_by=cause)


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (StopCause.TERMINAL_CLOSED, "stopped: its terminal was closed"),
        (StopCause.CTRL_C, "stopped: asked by Ctrl-C"),
        (StopCause.UNKNOWN, "stopped"),
        (None, "stopped"),
    ],
)
def test_who_stopped_a_session_stands_behind_how_it_stands(cause, text):
    assert status_text(Status.STOPPED, stopped_by(cause)) == text


def test_every_cause_that_is_known_has_words():
    assert set(CAUSE_TEXT) == set(StopCause) - {StopCause.UNKNOWN}


@pytest.mark.parametrize("cause", StopCause)
def test_of_a_stop_that_somebody_asked_for_nothing_is_said(cause):
    unasked = {"terminal_closed", "viewer_terminated", "viewer_gone", "signal"}
    assert bool(stopped_unasked_text(stopped_by(cause))) == (cause in unasked)
