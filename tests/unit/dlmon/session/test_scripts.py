"""What a session of a person's own script comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.recorded import folded
from fakes.scripts import SECOND, script_session

from dlmon.records import (
    SCRIPT_PHASE,
    Batches,
    CodeSamples,
    Epoch,
    Frame,
    Model,
    Phase,
    SeenAt,
    StepParts,
    TimePart,
    Trainer,
)
from dlmon.session.loops import Loop, ProcessLoops
from dlmon.session.reasons import NO_LENGTH, NO_WHOLE_RUN, NOTHING_SEEN, NOTHING_SEEN_YET
from dlmon.session.session import Session
from dlmon.session.time_breakdown import DataWait, RecentCode, StepPartSums


def test_before_anything_trains_nothing_is_claimed():
    session = folded(script_session(seconds=0))
    snapshot = session.snapshot(session.header.t + 5 * SECOND)
    assert snapshot.model is snapshot.progress is snapshot.samples_per_second is None
    assert snapshot.why["seconds_per_epoch"] == NOTHING_SEEN_YET
    assert session.snapshot(is_over=True).why["seconds_per_epoch"] == NOTHING_SEEN
    assert snapshot.time_breakdown == {TimePart.STARTUP: pytest.approx(5.0)}
    # What a script does before its first loop is no gap in its training.
    assert snapshot.gaps == ()
    # Once it trained, no figure says that nothing was seen.
    trained = folded(script_session()).snapshot(is_over=True)
    assert trained.why["run_seconds"] == NO_WHOLE_RUN
    assert "run_seconds" not in trained.lacking
    assert NOTHING_SEEN not in trained.why.values()


def test_the_end_of_the_process_is_no_part_of_the_script():
    records = script_session(seconds=20)
    last = max(record.t for record in records if isinstance(record, Batches)) + SECOND // 2
    records += [Phase(last, SCRIPT_PHASE), Phase(last + SECOND, "closing")]
    session = folded(records)
    account = session.snapshot(last + 9 * SECOND, is_over=False).time_breakdown
    assert account[TimePart.CLOSING] == pytest.approx(8.0)
    assert account[TimePart.SCRIPT] == pytest.approx(1.0)


def test_the_wait_for_data_is_a_part_of_the_time_where_it_was_measured():
    waited = folded(script_session(seconds=20)).snapshot().time_breakdown[TimePart.DATA_WAIT]
    assert waited == pytest.approx(8.0, rel=0.02)
    unmeasured = folded(script_session(wait_ms=None)).snapshot()
    assert TimePart.DATA_WAIT not in unmeasured.time_breakdown


def test_processes_that_train_together_are_summed_and_their_spread_is_known():
    alone = folded(script_session()).snapshot()
    session = folded(script_session(trainers=2))
    snapshot = session.snapshot()
    rates = [one.samples_per_second for one in snapshot.trainers]
    assert rates == [pytest.approx(64 / 0.020), pytest.approx(64 / 0.021)]
    assert alone.samples_per_second.mean == pytest.approx(rates[0])
    assert snapshot.samples_per_second.mean == pytest.approx(sum(rates))
    # On the chart too, and an epoch holds the samples of both, but stands there once.
    assert session.throughput.mean == pytest.approx(sum(rates), rel=0.02)
    assert [epoch.samples for epoch in snapshot.epochs][:2] == [12_800, 12_800]
    assert [epoch.epoch for epoch in snapshot.epochs] == list(range(len(snapshot.epochs)))
    assert snapshot.batches == alone.batches


def test_throughput_is_in_steps_where_no_batch_has_a_size():
    snapshot = folded(script_session(samples=None, steps=None)).snapshot()
    assert snapshot.samples_per_second.unit == "steps/s"
    assert snapshot.samples_per_second.mean == pytest.approx(50)
    assert (snapshot.progress.steps, snapshot.progress.epochs) == (None, None)
    assert snapshot.progress.step > 0
    assert snapshot.seconds_per_epoch is None
    assert snapshot.why["seconds_per_epoch"] == NO_LENGTH


def with_samples_in_later_batches(records, samples):
    """Return the records with so many samples in each batch of the later half."""
    batches = [record for record in records if isinstance(record, Batches)]
    later = {id(record) for record in batches[len(batches) // 2 :]}
    return [replace(r, samples=samples) if id(r) in later else r for r in records]


@pytest.mark.parametrize(
    ("samples", "later", "rate", "later_rate"), [(64, None, 3_200, None), (None, 64, 50, 50)]
)
def test_what_is_counted_stays_so_where_later_batches_differ(samples, later, rate, later_rate):
    session = folded(with_samples_in_later_batches(script_session(samples=samples), later))
    snapshot = session.snapshot()
    assert (snapshot.throughput_unit == "steps/s") is (samples is None)
    assert snapshot.samples_per_second.mean == pytest.approx(rate)
    # On the chart, what isn't known is a gap.
    rates = session.throughput.columns(session.training_start, SECOND, 20)
    assert rates[5] == pytest.approx(rate, rel=0.02)
    now = snapshot.samples_per_second_now
    assert rates[15] == (now and now.per_second) == (later_rate and pytest.approx(rate))


def test_an_epoch_is_projected_from_the_loaders_length_before_one_has_ended():
    snapshot = folded(script_session(seconds=20, steps=5000)).snapshot()
    assert snapshot.seconds_per_epoch.projected
    assert snapshot.seconds_per_epoch.value == pytest.approx(100, rel=0.01)
    assert (snapshot.progress.steps, snapshot.progress.run_left_s) == (5000, None)


@pytest.mark.parametrize("phase", ["validating", SCRIPT_PHASE, "closing"])
@pytest.mark.parametrize("steps", [100, None])
@pytest.mark.parametrize("validated", [True, False])
def test_as_long_as_no_other_epoch_has_begun_the_one_that_ended_is_shown(phase, steps, validated):
    records = script_session(steps=100, validated=validated)
    last = max(number for number, each in enumerate(records) if isinstance(each, Epoch))
    ended = records[last]
    seen = [
        replace(each, steps_per_epoch=steps) if isinstance(each, Model) else each
        for each in [*records[: last + 1], Phase(ended.end, phase)]
    ]
    session = folded(seen)
    progress = session.snapshot(ended.end + SECOND).progress
    assert (progress.epoch, progress.step) == (ended.epoch, 100)
    # One that is validated for the first time is not over.
    assert progress.is_over is (validated or phase != "validating")
    if validated:
        assert progress.epoch_left_s == (None if steps is None else 0.0)
    session.add(Phase(ended.end + SECOND, "training"))
    progress = session.snapshot(ended.end + 2 * SECOND).progress
    assert (progress.epoch, progress.step, progress.is_over) == (ended.epoch + 1, 0, False)


def test_an_epoch_that_is_written_again_with_its_validation_counts_once():
    before = folded(script_session(seconds=6)).snapshot()
    snapshot = folded(script_session(seconds=6, validated=True)).snapshot()
    assert len(snapshot.epochs) == len(before.epochs) == 3
    assert all(epoch.validation is not None for epoch in snapshot.epochs)
    assert snapshot.seconds_per_epoch.epochs == before.seconds_per_epoch.epochs
    assert snapshot.seconds_per_epoch.value == pytest.approx(before.seconds_per_epoch.value + 0.1)


def until_validation(records, epochs, phase=None):
    """Return the records up to the end of the training of an epoch, whose validation follows."""
    ends = [number for number, each in enumerate(records) if isinstance(each, Epoch)]
    first = next(n for n in ends if records[n].epoch == epochs - 1)
    ended = records[first]
    return [*records[: first + 1], *([Phase(ended.end, phase)] if phase else [])]


@pytest.mark.parametrize("phase", ["validating", SCRIPT_PHASE, None])
def test_an_epoch_whose_validation_is_to_come_is_not_taken_for_a_whole_one(phase):
    """Else each validation would show a shorter epoch, and a factor of it."""
    records = script_session(steps=100, validated=True)
    ended = next(r for r in records if isinstance(r, Epoch) and r.epoch == 3 and r.validation)
    before = folded([r for r in records if getattr(r, "end", 0) < ended.begin]).snapshot()
    session = folded(until_validation(records, 4, phase))
    snapshot = session.snapshot(session.last_t + SECOND)
    assert snapshot.seconds_per_epoch.epochs == 2
    assert snapshot.seconds_per_epoch.value == pytest.approx(before.seconds_per_epoch.value)
    session.add(ended)
    assert session.snapshot().seconds_per_epoch.epochs == 3


@pytest.mark.parametrize(("phase", "epochs"), [("validating", 2), (SCRIPT_PHASE, 3)])
def test_a_run_that_ends_in_a_validation_has_no_whole_epoch_of_it(phase, epochs):
    session = folded(until_validation(script_session(steps=100, validated=True), 4, phase))
    snapshot = session.snapshot(is_over=True)
    assert snapshot.seconds_per_epoch.epochs == epochs
    assert snapshot.epochs[-1].whole is (phase != "validating")
    # While the first one is validated, an epoch is projected; without validation it counts at once.
    session = folded(until_validation(script_session(steps=400, validated=True), 1, "validating"))
    assert session.snapshot(session.last_t + SECOND).seconds_per_epoch.projected
    session = folded(until_validation(script_session(steps=100), 4, SCRIPT_PHASE))
    assert session.snapshot(session.last_t + SECOND).seconds_per_epoch.epochs == 3


def test_the_gpus_of_a_run_are_those_of_all_its_processes_on_this_machine():
    header, *records = script_session()
    model = next(record for record in records if isinstance(record, Model))
    session = Session(header)
    session.add(Trainer(1, 0, 40, "torch", rank=0))
    session.add(replace(model, device="gpu:1"))
    for number, host in ((1, None), (1000, "n1")):
        session.add(Trainer(1, number, 41, "torch", rank=number, host=host))
        session.add(replace(model, device=f"gpu:{number % 10 + 2}", trainer=number))
    assert session.gpus == session.snapshot().gpus == (1, 3)


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ((0, 1), ["process 0", "process 1"]),
        # Two tasks of Slurm, on one machine or on two.
        ((0, 1000), ["task 0", "task 1"]),
        ((0, 1, 2001), ["task 0", "task 0, process 1", "task 2, process 1"]),
    ],
)
def test_processes_that_train_apart_have_names_that_tell_them_apart(numbers, names):
    trainers = ProcessLoops()
    for number in numbers:
        trainers.add(Trainer(0, number, 40, "torch"))
    nothing = DataWait(), StepPartSums(), RecentCode()
    assert [one.name for one in trainers.rates(Loop(), *nothing)] == names


def test_the_rank_of_each_process_here_is_known_while_it_trains():
    trainers = ProcessLoops()
    for number in range(3):
        trainers.add(Trainer(0, number, 40 + number, "torch", rank=number))
    trainers.add(Trainer(0, 3, 43, "torch"))
    trainers.add(Trainer(0, 4, 44, "torch", rank=4, host="tower"))
    trainers.add(Trainer(9, 1, 41, "torch", rank=1, ended=True))
    assert trainers.ranks == {40: 0, 42: 2}


def test_each_rank_has_its_own_work():
    trainers, own, loop = ProcessLoops(), StepPartSums(), Loop()
    step = StepParts(0, steps=2, step_us=80_000, forward_us=4_000, backward_us=70_000)
    for number in (0, 1):
        trainers.add(Trainer(0, number, 40 + number, "torch", rank=number))
    trainers.add(Batches(0, 0, 16, 10**9, (40_000,) * 20, trainer=1))
    for second in range(10):
        own.add(replace(step, t=second * 10**9))
        slow = replace(step, forward_us=64_000, backward_us=10_000, trainer=1)
        trainers.add(replace(slow, t=second * 10**9))
    line = SeenAt(7, Frame("train.py", 20, "<module>"))
    trainers.add(CodeSamples(9 * 10**9, 9, (line,), trainer=1))
    ranks = trainers.rates(loop, DataWait(), own, RecentCode())
    assert [rank.work.mean_ms for rank in ranks] == [5.0, 35.0]
    assert [rank.parts.forward_us for rank in ranks] == [40_000, 640_000]
    assert [rank.code and rank.code.places[0].looks for rank in ranks] == [None, 7]
