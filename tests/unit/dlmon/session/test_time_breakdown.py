from dataclasses import replace
from pathlib import Path

import pytest
from fakes.recorded import folded, recorded_machine, recorded_session
from fakes.scripts import script_session
from fakes.strategies import ANY_RECORDS, SECOND_NS, TRAINING_RECORDS, header
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmon.records import (
    SCRIPT_PHASE,
    Batches,
    BatchSummary,
    Epoch,
    Evaluation,
    Machine,
    NamedPause,
    Phase,
    Result,
    TimePart,
    Trainer,
    Validation,
    decode,
)
from dlmon.session.session import Session
from dlmon.session.time_breakdown import DataWait

DATA = Path(__file__).parents[3] / "data"
LOGS = sorted(DATA.rglob("session.jsonl"))


def account_of(*records, now_s=None, **changes):
    session = Session(header(**changes))
    for record in records:
        session.add(record)
    snapshot = session.snapshot(None if now_s is None else at(now_s))
    assert_adds_up(snapshot)
    return {str(part): pytest.approx(seconds) for part, seconds in snapshot.time_breakdown.items()}


def assert_adds_up(snapshot):
    total = sum(snapshot.time_breakdown.values())
    assert total == pytest.approx(snapshot.elapsed_s, rel=0.001, abs=1e-6)
    assert all(seconds > 0 for seconds in snapshot.time_breakdown.values())
    parts = snapshot.time_breakdown
    assert list(parts) == [part for part in TimePart if part in parts]


def at(seconds):
    return round(seconds * SECOND_NS)


def batches(epoch, start_s, *steps_s, first=0, opening_s=None, samples=100, **more):
    dt_us = tuple(round(step_s * 1e6) for step_s in steps_s)
    opening_us = None if opening_s is None else round(opening_s * 1e6)
    t = at(start_s) + dt_us[0] * 1000
    return Batches(epoch, first, samples, t, dt_us, opening_us=opening_us, **more)


def phase(start_s, name, **more):
    return Phase(at(start_s), name, **more)


def epoch(number, begin_s, train_end_s, end_s, validation=None):
    times = (at(begin_s), at(train_end_s), at(end_s))
    return Epoch(number, *times, whole=True, samples=1000, metrics={}, validation=validation)


STARTED = (
    phase(0.1, "importing"),
    phase(3.0, "loading"),
    phase(4.0, "building"),
    phase(4.5, "compiling"),
    phase(6.0, "training"),
)
FIRST_EPOCH = (*STARTED, batches(0, 5.0, 1.0, *[0.1] * 40))


def test_each_part_of_a_run_has_its_time():
    account = account_of(
        *FIRST_EPOCH,
        phase(10.0, "validating"),
        epoch(0, 5.0, 10.0, 11.5, Validation(at(10.0), at(10.1), at(11.0), at(11.0), 10)),
        phase(12.0, "opening", epoch=1),
        phase(14.0, "training"),
        batches(1, 14.0, *[0.1] * 20, opening_s=2.0),
        epoch(1, 12.0, 16.0, 16.0),
        phase(16.0, "closing"),
        phase(17.0, "evaluating"),
        Evaluation(at(17.0), at(19.0), 10, 1000, True, {}),
        phase(19.0, "closing"),
        Result("completed", "id", "log", "cifar10-cnn", None, {}, wall_s=20.0, t=at(20.0)),
    )
    assert account == {
        "startup": 3.0,
        "loading": 1.0,
        "building": 0.5,
        "compiling": 1.4,
        "training": 6.1,
        "openings": 2.0,
        "validation": 1.0,
        "evaluation": 2.0,
        "gaps": 2.0,
        "closing": 1.0,
    }


def test_a_step_that_takes_over_ten_times_as_long_has_stalled_and_one_of_a_new_size_compiles():
    stalled = batches(0, 10.0, 0.1, 3.1, 0.1, first=41)
    assert account_of(*FIRST_EPOCH, stalled)["stalls"] == pytest.approx(3.0, rel=0.01)
    slow = batches(0, 10.0, 0.1, 0.9, 0.1, first=41)
    assert "stalls" not in account_of(*FIRST_EPOCH, slow)
    steps_us = (100_000,) * 6 + (3_000_000,)
    summary = BatchSummary(0, 41, 10, 1000, at(10.1), at(13.9), 3_900_000, steps_us, stalls=1)
    account = account_of(*FIRST_EPOCH, summary)
    assert account["stalls"] == pytest.approx(2.9)
    assert account["training"] == pytest.approx(5.1, rel=0.01)
    short = batches(0, 10.0, 1.05, first=41, samples=50)
    assert account_of(*FIRST_EPOCH, short)["compiling"] == pytest.approx(1.4 + 1.0)


def test_what_runs_now_has_the_time_since_the_last_record():
    assert account_of(now_s=2) == {"startup": 2.0}
    assert account_of(*STARTED[:4], now_s=7)["compiling"] == 2.5
    assert account_of(*FIRST_EPOCH, now_s=11)["training"] == 5.1
    assert account_of(*FIRST_EPOCH, Machine(at(15), 0.0), now_s=15)["stalls"] == 5.0
    # The supervisor may be suspended while training goes on.
    assert "stalls" not in account_of(*FIRST_EPOCH, Machine(at(11), 0.0), now_s=15)
    closing = account_of(*FIRST_EPOCH, epoch(0, 5, 10, 10), phase(10, "closing"), now_s=14)
    assert (closing["closing"], "gaps" in closing) == (4.0, False)


def test_what_comes_after_the_last_batch_of_a_run_that_is_over_is_its_end():
    ended = Result("failed", "id", "log", "cifar10-cnn", None, {}, wall_s=13.0, t=at(13.0))
    assert account_of(*FIRST_EPOCH, ended)["closing"] == 3.0
    failed = account_of(*STARTED[:3], ended)
    assert (failed["building"], "closing" in failed) == (9.0, False)


@pytest.mark.parametrize(
    ("status", "exit_code", "in_step_s"),
    [("stopped", None, 3.0), ("failed", -15, 3.0), ("failed", 1, 0.0), ("completed", 0, 0.0)],
)
def test_a_step_that_a_stop_or_a_signal_cut_short_is_no_shutdown(status, exit_code, in_step_s):
    ended = Trainer(at(13.0), 0, 40, "torch", ended=True)
    over = Result(
        *(status, "id", "log", "x.py", None, {}), wall_s=14.0, exit_code=exit_code, t=at(14.0)
    )
    account = account_of(*FIRST_EPOCH, ended, over)
    assert account["closing"] == 4.0 - in_step_s
    before = account_of(*FIRST_EPOCH, now_s=10)["training"].expected
    assert account["training"] == before + in_step_s


@pytest.mark.parametrize(
    ("status", "exit_code", "stalled_s"),
    [(None, None, 75.0), ("stopped", None, 73.0), ("failed", 1, 73.0), ("completed", 0, 0.0)],
)
def test_what_was_a_stall_while_it_ran_is_one_after_the_end(status, exit_code, stalled_s):
    hung = (*FIRST_EPOCH, Machine(at(82.9), 0.0))
    assert account_of(*hung, now_s=82.9)["stalls"] == 72.9
    result = (*(status, "id", "log", "x.py", None, {}), 85.0)
    ended = Trainer(at(83.0), 0, 40, "torch", ended=True)
    over = () if status is None else (ended, Result(*result, exit_code=exit_code, t=at(85.0)))
    session = Session(header())
    for record in (*hung, *over):
        session.add(record)
    account = session.snapshot(at(85.0), is_over=True).time_breakdown
    assert account.get(TimePart.STALLS, 0.0) == pytest.approx(stalled_s)
    assert account.get(TimePart.CLOSING, 0.0) == pytest.approx(75.0 - stalled_s)


def test_a_step_that_was_under_way_when_its_loop_was_left_is_no_time_outside_of_training():
    begun = (phase(1.0, SCRIPT_PHASE), phase(5.0, "training"), *FIRST_EPOCH[-1:])
    cut = replace(epoch(0, 5.0, 10.0, 10.0), whole=False)
    later = Machine(at(13.0), 0.0)
    left = phase(10.0, SCRIPT_PHASE)
    account = account_of(*begun, later, cut, left, now_s=14, command=("python", "x.py"))
    assert (account["script"], account["stalls"]) == (1.0, 3.0)
    slow = (phase(1.0, SCRIPT_PHASE), phase(5.0, "training"), batches(0, 5.0, *[1.0] * 5))
    account = account_of(*slow, later, cut, left, now_s=14, command=("python", "x.py"))
    assert (account["script"], "stalls" in account) == (1.0, False)
    whole = account_of(*begun, later, replace(cut, whole=True), left, now_s=14, command=("x",))
    assert whole["script"] == 4.0


def test_how_long_a_step_waits_for_data_is_known_of_the_last_half_minute():
    waits = DataWait()
    for second in range(60):
        waits.add(batches(0, second, *[0.1] * 10, wait_us=500_000 if second < 29 else 10_000))
    assert waits.per_step().mean_ms == 1.0


def test_a_wait_is_a_share_of_all_steps_and_not_of_those_that_it_is_known_of():
    waits = DataWait()
    for second in range(20):
        waits.add(batches(0, second, *[0.1] * 10, wait_us=100_000 if second == 19 else None))
    assert waits.before(at(20)) == (pytest.approx(0.1 / 20), pytest.approx(20.0))
    # What lies between, as a validation, is no step.
    waits.add(batches(0, 29.0, *[0.1] * 10, wait_us=1_000_000))
    assert waits.before(at(30)) == (pytest.approx(1.1 / 21), pytest.approx(21.0))
    assert waits.before(at(18)) is None
    for second in range(30, 120):
        waits.add(batches(0, second, *[0.1] * 10, wait_us=100_000))
    share, of_s = waits.before(at(120))
    assert (share, of_s) == (pytest.approx(0.1), pytest.approx(30.0))


def pause(start_s, end_s, name="checkpoint", **more):
    return NamedPause(at(start_s), at(end_s), name, **more)


def test_saving_in_a_step_is_no_stall_and_leaves_other_stalls_as_they_are():
    stalled = batches(0, 10.0, 0.1, 3.1, 0.1, first=41)
    account = account_of(*FIRST_EPOCH, pause(10.1, 13.0), stalled)
    assert account["checkpoint"] == 2.9
    assert account["stalls"] == pytest.approx(0.1, abs=0.02)
    assert account["training"] == account_of(*FIRST_EPOCH, stalled)["training"]
    other = batches(0, 10.0, 3.1, 0.5, 0.1, first=41)
    account = account_of(*FIRST_EPOCH, pause(13.15, 13.55), other)
    assert account["checkpoint"] == pytest.approx(0.4)
    assert account["stalls"] == pytest.approx(3.0, rel=0.01)
    # Of a name that is not known, the time stays where it was.
    unnamed = account_of(*FIRST_EPOCH, pause(10.1, 13.0, "tea"), stalled)
    assert unnamed == account_of(*FIRST_EPOCH, stalled)


def test_saving_every_so_many_steps_is_not_counted_between_steps():
    records, start_s = list(FIRST_EPOCH), 10.0
    for number in range(5):
        records += [
            pause(start_s + 1.9, start_s + 3.8),
            batches(0, start_s, *[0.1] * 19, 2.0, first=41 + 20 * number),
        ]
        start_s += 3.9
    records.append(batches(0, start_s, 3.1, first=141))
    account = account_of(*records)
    assert account["checkpoint"] == pytest.approx(9.5)
    assert account["stalls"] == pytest.approx(3.0, rel=0.05)
    assert account.get("between_steps", 0) == pytest.approx(0.0, abs=0.2)


def test_saving_between_epochs_and_within_validation_is_taken_out_of_these():
    validation = Validation(at(10.0), at(10.1), at(13.0), at(13.0), 10)
    account = account_of(
        *FIRST_EPOCH,
        phase(10.0, "validating"),
        pause(11.0, 12.5),
        epoch(0, 5.0, 10.0, 13.0, validation),
        pause(13.5, 14.5),
        phase(15.0, "opening", epoch=1),
    )
    assert (account["checkpoint"], account["validation"], account["gaps"]) == (2.5, 1.5, 1.0)


def test_nothing_counts_twice_that_lies_in_another_pause_or_beside_the_training():
    within = pause(10.5, 11.0, "garbage"), pause(10.1, 13.0), pause(10.0, 13.0, beside=True)
    account = account_of(*FIRST_EPOCH, *within, batches(0, 10.0, 0.1, 3.1, first=41))
    assert (account["garbage"], account["checkpoint"]) == (0.5, 2.4)


def test_what_compiles_is_compiling_wherever_it_does():
    in_first = account_of(*STARTED[:4], pause(4.6, 5.5, "compile"), *FIRST_EPOCH[4:])
    assert in_first["compiling"] == account_of(*FIRST_EPOCH)["compiling"]
    again = batches(0, 10.0, 0.1, 3.1, first=41)
    account = account_of(*FIRST_EPOCH, pause(10.1, 13.1, "compile"), again)
    assert account["compiling"] == pytest.approx(1.4 + 3.0, rel=0.01)
    assert account.get("stalls", 0) == pytest.approx(0, abs=0.05)
    of_another_size = batches(0, 10.0, 3.1, first=41, samples=50)
    account = account_of(*FIRST_EPOCH, pause(10.0, 13.0, "compile"), of_another_size)
    assert account["compiling"] == account_of(*FIRST_EPOCH, of_another_size)["compiling"]


def test_a_pause_is_known_before_the_step_that_it_lies_in_and_so_is_any_number_of_them():
    saved = pause(10.0, 13.0), Machine(at(13.5), 0.0)
    account = account_of(*FIRST_EPOCH, *saved, now_s=13.5)
    assert (account["checkpoint"], account["stalls"]) == (3.0, pytest.approx(0.5))
    pauses = [pause(10 + number / 10, 10.05 + number / 10) for number in range(300)]
    account = account_of(*FIRST_EPOCH, *pauses, now_s=50)
    assert account["checkpoint"] == pytest.approx(15.0)


SCRIPT = {"command": ("python", "train.py")}
OUTSIDE = "outside training"


def test_all_that_a_script_does_before_it_trains_is_its_start_and_what_follows_is_not():
    account = account_of(
        *(phase(0.04, OUTSIDE), phase(5.5, "compiling"), batches(0, 5.5, 1.0, *[0.1] * 40)),
        *(epoch(0, 5.5, 10.5, 10.5), phase(10.5, OUTSIDE)),
        *(phase(12.0, "training"), batches(1, 12.0, *[0.1] * 10), epoch(1, 12.0, 13.0, 13.0)),
        phase(13.0, OUTSIDE),
        now_s=14,
        **SCRIPT,
    )
    assert (account["startup"], account["script"]) == (5.5, pytest.approx(2.5))
    # Without a phase of compiling, too; and who never trained was outside of it.
    trains = phase(3.0, "training"), batches(0, 3.0, *[0.1] * 40)
    account = account_of(phase(0.04, OUTSIDE), *trains, **SCRIPT)
    assert (account["startup"], "script" in account) == (3.0, False)
    ended = Result("completed", "id", "log", "train.py", None, {}, wall_s=4.0, t=at(4.0))
    for name in ("compiling", "training"):
        for over in ((), (replace(ended, status="failed", wall_s=65.0, t=at(65.0)),)):
            start = phase(0.04, OUTSIDE), phase(5.0, name)
            account = account_of(*start, *over, now_s=65, **SCRIPT)
            assert (account["startup"], "script" in account) == (5.0, False)
    assert account_of(phase(0.04, OUTSIDE), now_s=4, **SCRIPT) == {"startup": 4.0}
    assert account_of(phase(0.04, OUTSIDE), ended, **SCRIPT) == {"script": 4.0}
    # It was stopped while it compiled, as was said again and again.
    compiles = [pause(1.0, 1.0 + seconds, "compile") for seconds in (1, 2, 2.5)]
    account = account_of(phase(0.04, OUTSIDE), *compiles, ended, **SCRIPT)
    assert account == {"compiling": 2.5, "script": 1.5}


def test_passes_of_inference_are_steps_and_so_are_batches_that_were_not_recorded():
    account = account_of(
        *(phase(1, "compiling"), phase(3, "predicting"), batches(0, 1.0, 2.0, *[0.1] * 30)),
        *(epoch(0, 1.0, 6.0, 6.0), phase(6.0, "closing")),
        *(phase(7.0, "predicting"), batches(1, 7.0, *[0.1] * 10)),
    )
    assert account == {"startup": 1.0, "compiling": 1.9, "training": 4.1, "gaps": 1.0}
    account = account_of(*STARTED, batches(0, 8.0, 0.1, first=20), epoch(0, 5.0, 12.0, 12.5))
    assert (account["training"], account["gaps"]) == (pytest.approx(6.0), pytest.approx(0.5))
    # A recorded machine has no account, and no figure to doubt.
    machine = folded(recorded_machine()).snapshot()
    assert (machine.time_breakdown, machine.validity) == ({}, None)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_the_parts_of_a_recorded_run_add_up(path):
    first, *records = [decode(line) for line in path.read_bytes().splitlines()]
    session = Session(first)
    for record in records:
        session.add(record)
        assert_adds_up(session.snapshot())
    account = session.snapshot().time_breakdown
    result = session.result
    assert sum(account.values()) == pytest.approx(result.wall_s, rel=0.01)
    assert account[TimePart.STARTUP] > 1
    if result.status == "completed":
        assert account[TimePart.TRAINING] > 0.2
        assert account[TimePart.EVALUATION] > 0.1


SCRIPT_RUNS = (
    script_session(),
    script_session(seconds=0),
    script_session(validated=True),
    script_session(samples=None, steps=None),
)
RUNS = (
    recorded_session("training", ended=1, samples=4_000),
    recorded_session(workload="mnist-mlp-small", samples=6_400, epochs=2),
    recorded_session(samples=4_000, status="stopped"),
    recorded_session("training", ended=0, samples=4_000, steps_cap=120),
)


@given(st.sampled_from(RUNS + SCRIPT_RUNS), st.data())
@settings(deadline=None, max_examples=80)
def test_at_any_moment_and_wherever_pauses_lie_the_parts_add_up(records, data):
    first, *records = records[: data.draw(st.integers(1, len(records)))]
    names = st.sampled_from(["checkpoint", "compile", "garbage", "tea"])
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(records)))
        t = getattr(records[place - 1], "t", None) if records else None
        begin = (t or first.t) + data.draw(st.integers(-20 * SECOND_NS, 5 * SECOND_NS))
        end = begin + data.draw(st.integers(-SECOND_NS, 20 * SECOND_NS))
        records.insert(place, NamedPause(begin, end, data.draw(names)))
    session = folded([first, *records])
    later_ns, ended = data.draw(st.integers(0, 100 * SECOND_NS)), data.draw(st.booleans())
    assert_adds_up(session.snapshot(session.last_t + later_ns, ended))


@pytest.mark.slow
@given(TRAINING_RECORDS | ANY_RECORDS)
@settings(deadline=None, max_examples=200)
def test_whatever_a_log_holds_adds_up(records):
    session = Session(header())
    for record in records:
        session.add(record)
    assert_adds_up(session.snapshot())
