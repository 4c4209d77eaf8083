"""The start of a run, part by part, beside that of the run before."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session

from dlmon.figures.session.progress import starting_texts, step_of
from dlmon.figures.session.start import StartRow, doing_rows, start_rows, usual_start
from dlmon.records import TimePart

TRAINING = folded(recorded_session("training")).snapshot()
STARTS = replace(TRAINING, batches=0, time_breakdown={TimePart.STARTUP: 3.0, TimePart.LOADING: 6.0})


def test_each_part_has_its_time_so_far_and_what_it_took_last_time():
    before = {"startup": 3.5, "loading": 12.0, "building": 1.5, "training": 90.0}
    assert start_rows(STARTS, before) == (
        StartRow("start", 0.25, "3.00 s", "last time 3.50 s"),
        StartRow("loading", 0.5, "6.00 s", "last time 12.0 s"),
        StartRow("building", 0.0, "", "last time 1.50 s"),
    )
    assert usual_start(before) == "last time 17.0 s"
    assert usual_start({"training": 90.0}) == ""


def test_what_it_uses_meanwhile_is_shown_until_a_step_has_ended():
    rows = doing_rows(STARTS)
    assert [(row.name, row.now) for row in rows] == [
        ("CPU", "this run 2.8 of 8 cores"),
        ("memory", "this run 1.9 of 32.0 GiB"),
    ]
    limited = replace(STARTS.header.machine, memory_limit_mib=4_096)
    of_limit = replace(STARTS, header=replace(STARTS.header, machine=limited))
    assert doing_rows(of_limit)[1].now == "this run 1.9 of 4.0 GiB"
    assert doing_rows(TRAINING) == ()


def test_without_a_run_before_the_longest_part_fills_its_bar():
    assert start_rows(STARTS, {})[1] == StartRow("loading", 1.0, "6.00 s", "")


@pytest.mark.parametrize(
    ("phase", "step", "starts"),
    [
        (
            "script",
            "no training was seen yet: the script runs",
            "imports, data or the network: no step has ended yet",
        ),
        ("training", "training: no step has ended yet", "training: no step has ended yet"),
    ],
)
def test_a_script_whose_first_step_lasts_long_trains_already(phase, step, starts):
    header = replace(STARTS.header, command=("python", "train.py"))
    script = replace(STARTS, header=header, model=None, progress=None, phase=phase)
    assert step_of(script) == step
    assert starting_texts(script)[0] == starts


@pytest.mark.parametrize("begun", [{"batches": 1}, {"batches": 0, "time_breakdown": {}}])
def test_there_is_no_start_once_a_step_has_ended_or_before_anything_is_known(begun):
    assert start_rows(replace(STARTS, **begun), {}) == ()
