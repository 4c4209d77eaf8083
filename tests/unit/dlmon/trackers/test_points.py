"""What a log holds becomes rows, always the same ones."""

import math
from pathlib import Path

import pytest

from dlmon.log.log_follower import LogFollower
from dlmon.records import Metrics, StepParts
from dlmon.trackers.points import MOST_NAMES, WINDOW_NS, SessionRows, facts_of, safe_name

SESSIONS = Path(__file__).parents[3] / "golden" / "sessions"


def read(name):
    follower = LogFollower(SESSIONS / name / "session.jsonl")
    rows = SessionRows(follower.header)
    found = [row for record in follower.poll() for row in rows.add(record)]
    found += rows.finish()
    follower.close()
    return rows, found


@pytest.fixture(scope="module")
def loop():
    return read("pytorch-stalls")


def values(rows, name):
    return [(row.step, row.values[name]) for row in rows if name in row.values]


def test_every_five_seconds_have_a_row_of_means_on_the_steps_of_the_training(loop):
    _, rows = loop
    rates = values(rows, "dlmon/samples_per_second")
    assert rates[-1][0] == 600
    assert [step for step, _ in rates] == sorted(step for step, _ in rates)
    # 31 s were recorded, of which the first ten trained nothing.
    assert 4 <= len(rates) <= 6
    assert len(values(rows, "dlmon/cpu_pct")) == 7
    assert all(0 <= pct <= 100 for _, pct in values(rows, "dlmon/data_wait_pct"))


def test_metrics_have_rows_of_their_own_times(loop):
    _, rows = loop
    losses = values(rows, "dlmon/loss")
    assert len(losses) > 10
    [row, *_] = [row for row in rows if "dlmon/loss" in row.values]
    assert "dlmon/learning_rate" in row.values


def test_rows_are_numbered_from_one_and_the_same_each_time(loop):
    _, rows = loop
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert read("pytorch-stalls")[1] == rows


def test_the_outcome_has_the_final_figures_the_doubts_and_the_marks(loop):
    outcome = loop[0].outcome()
    assert outcome.status == "completed"
    assert outcome.figures["dlmon/final/batches"] == 600
    assert outcome.figures["dlmon/final/samples_per_second"] == pytest.approx(1641.8, abs=0.1)
    assert "busy at the start" in outcome.facts["dlmon/doubts"]
    assert "19 s stall 4.03016" in outcome.facts["dlmon/marks"]


def test_the_facts_of_a_run_have_no_arguments(loop):
    header = LogFollower(SESSIONS / "pytorch-stalls" / "session.jsonl").header
    facts = facts_of(header)
    assert facts["dlmon/script"] == "loop.py"
    assert "command" not in " ".join(facts)


def test_the_parts_of_a_step_are_means_of_the_window(loop):
    follower = LogFollower(SESSIONS / "pytorch-stalls" / "session.jsonl")
    rows, t = SessionRows(follower.header), follower.header.t
    follower.close()
    assert not list(rows.add(StepParts(t + 1, 3, 90_000, forward_us=30_000, wait_us=0)))
    assert not list(rows.add(StepParts(t + 2, 1, 50_000, forward_us=50_000)))
    [row] = rows.add(Metrics(t + WINDOW_NS, {}))
    assert row.values == {"dlmon/step/forward_ms": 20.0, "dlmon/step/wait_ms": 0.0}


def test_hostile_names_are_made_safe_and_beyond_a_number_left_out(loop):
    assert safe_name("a\nb\x1b[31m'\"`") == "dlmon/a_b__31m___"
    assert len(safe_name("x" * 10**6)) < 300
    assert safe_name("") == safe_name("//") == "dlmon/_"
    follower = LogFollower(SESSIONS / "pytorch-stalls" / "session.jsonl")
    rows, t = SessionRows(follower.header), follower.header.t
    follower.close()
    many = {f"metric {number}": 1.0 for number in range(10_000)}
    [row] = rows.add(Metrics(t + 1, many))
    assert len(row.values) == MOST_NAMES
    assert rows.names_left_out


def test_a_value_that_is_no_number_has_no_row(loop):
    follower = LogFollower(SESSIONS / "pytorch-stalls" / "session.jsonl")
    rows, t = SessionRows(follower.header), follower.header.t
    follower.close()
    assert not list(rows.add(Metrics(t + 1, {"loss": None}, why={"loss": "NaN"})))
    assert not list(rows.add(Metrics(t + 2, {"loss": math.inf})))


def test_a_jump_of_years_makes_few_rows(loop):
    follower = LogFollower(SESSIONS / "pytorch-stalls" / "session.jsonl")
    rows, t = SessionRows(follower.header), follower.header.t
    follower.close()
    assert len(list(rows.add(Metrics(t + 10**9 * WINDOW_NS, {"loss": 1.0})))) <= 2


def test_a_rate_of_steps_is_not_sent_as_one_of_samples():
    rows, found = read("xgboost")
    names = {*rows.outcome().figures, *(name for row in found for name in row.values)}
    assert "dlmon/final/steps_per_second" in names
    assert not [name for name in names if "samples_per_second" in name]
