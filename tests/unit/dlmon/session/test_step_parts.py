"""What a step is made of: sums over a run, what is kept of the last half minute, and its words."""

import json
from dataclasses import replace

import pytest
from fakes.recorded import folded, write_log
from fakes.scripts import script_session

from dlmon.figures.report.report import make_report
from dlmon.figures.report.summary import step_section
from dlmon.figures.session.time_breakdown import step_rows
from dlmon.records import CodeSamples, Frame, SeenAt, StepParts, Trainer
from dlmon.session.loops import ProcessRate
from dlmon.session.time_breakdown import RecentCode, StepPartSums

SECOND = 10**9
ONE = StepParts(
    t=5 * SECOND,
    steps=4,
    step_us=40_000,
    wait_us=4_000,
    forward_us=10_000,
    backward_us=16_000,
    optimizer_us=8_000,
)


def sums(*records):
    found = StepPartSums()
    for record in records:
        found.add(record)
    return found


def test_parts_add_up_over_a_run_and_what_is_left_is_the_rest():
    later = replace(ONE, t=9 * SECOND, copy_us=1_000)
    total = sums(ONE, later).total
    assert (total.t, total.steps, total.step_us, total.backward_us) == (
        9 * SECOND, 8, 80_000, 32_000,
    )  # fmt: skip
    assert (total.copy_us, total.rest_us) == (1_000, 2 * 2_000 - 1_000)
    rows = step_rows(total)
    assert sum(share for _, _, share in rows) == pytest.approx(1)
    assert sum(ms for _, ms, _ in rows) == pytest.approx(10)


def test_what_limits_a_run_looks_at_the_steps_of_the_half_minute_before():
    found = sums(*(replace(ONE, t=second * SECOND) for second in range(0, 100, 10)))
    assert sum(parts.steps for parts in found.items_before(90 * SECOND)) == 4 * 4
    assert found.items_before(200 * SECOND) == []


def test_samples_of_own_code_add_up_over_the_half_minute_before():
    sleep, save = (Frame("train.py", line, "train") for line in (41, 50))
    code = RecentCode()
    for second in (10, 40, 45):
        places = (SeenAt(6, sleep, sleep), SeenAt(second // 10, save, save))
        code.add(CodeSamples(second * SECOND, 20, places))
    assert code.before(50 * SECOND) == CodeSamples(
        45 * SECOND, 40, (SeenAt(12, sleep, sleep), SeenAt(8, save, save))
    )
    assert code.before(100 * SECOND) is None


@pytest.mark.parametrize(
    "forged",
    [{"steps": 0}, {"step_us": 0}, {"wait_us": -1}, {"backward_us": 40_000}],
    ids=lambda change: next(iter(change)),
)
def test_parts_that_do_not_fit_in_their_steps_count_nowhere(forged):
    found = sums(ONE, replace(ONE, **forged))
    assert (found.total, found.items_before(ONE.t)) == (ONE, [ONE])


def with_parts(tmp_path, *records):
    session = script_session()
    return write_log(
        tmp_path, [*session, *(replace(one, t=session[0].t + 9 * SECOND) for one in records)]
    )


def test_a_report_says_what_a_step_is_made_of(tmp_path):
    report = make_report([with_parts(tmp_path, ONE)], [])
    (section,) = (one for one in report.sessions[0].sections if "A step" in str(one))
    assert section.heading == "A step of 10.0 ms (the mean of 4 that were measured)"
    assert [(bar.label, bar.text) for bar in section.bars][-2:] == [
        ("optimiser", "2.00 ms, 20 %"),
        ("your code", "0.50 ms, 5 %"),
    ]
    parts = json.loads(json.dumps(report.sessions[0].as_json))["step_parts"]
    assert parts == {
        "batches": 4,
        "wait_ms": 1.0,
        "forward_ms": 2.5,
        "backward_ms": 4.0,
        "optimizer_ms": 2.0,
        "rest_ms": pytest.approx(0.5),
    }


def test_of_ranks_the_summary_splits_the_step_of_the_first_as_the_live_screen_does():
    slower = replace(ONE, forward_us=22_000, backward_us=4_000)
    ranks = tuple(
        ProcessRate(Trainer(0, number, number, "torch", rank=number), 100.0, 10.0, parts=parts)
        for number, parts in enumerate((ONE, slower))
    )
    snapshot = replace(folded([*script_session(), ONE]).snapshot(), trainers=ranks)
    section = step_section(snapshot)
    texts = {bar.label: bar.text for bar in section.bars}
    assert section.heading.startswith("A step of rank 0 takes 10.0 ms")
    assert (texts["backward"], texts["waiting for other ranks"]) == (
        "1.00 ms, 10 %",
        "3.00 ms, 30 %",
    )


def test_it_says_why_a_step_could_not_be_measured(tmp_path):
    why = "no call of backward was seen in a step"
    unseen = StepParts(1, 0, 0, why={"backward_us": why})
    snapshot = folded([*script_session(), unseen]).snapshot()
    assert step_section(snapshot).sentences == (f"What a step is made of is not known: {why}.",)
    assert step_section(folded(script_session()).snapshot()) is None
    # What was measured later is known.
    assert step_section(folded([*script_session(), unseen, ONE]).snapshot()).bars
    (report,) = make_report([with_parts(tmp_path, unseen)], []).sessions
    assert (report.as_json["step_parts"], report.as_json["why_no_parts"]) == (None, why)
