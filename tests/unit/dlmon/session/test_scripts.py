"""What a session of a person's own script comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_machine
from fakes.scripts import SECOND, script_header, script_session

from dlmon.records import (
    SCRIPT_PHASE,
    AccountPart,
    Batches,
    Doubt,
    Epoch,
    Machine,
    Model,
    Phase,
)
from dlmon.session.limits.find import limit_of, look
from dlmon.session.limits.seen import Seen
from dlmon.session.reasons import NO_LENGTH, NO_WHOLE_RUN, NOTHING_SEEN, NOTHING_SEEN_YET


def test_before_anything_trains_nothing_is_claimed():
    session = folded(script_session(seconds=0))
    snapshot = session.snapshot(session.header.t + 5 * SECOND)
    assert snapshot.model is snapshot.progress is snapshot.samples_per_second is None
    assert snapshot.why["seconds_per_epoch"] == NOTHING_SEEN_YET
    over = session.snapshot(ended=True)
    assert over.why["seconds_per_epoch"] == NOTHING_SEEN
    assert snapshot.account == {AccountPart.STARTUP: pytest.approx(5.0)}
    # What a script does before its first loop is no gap in its training.
    assert snapshot.gaps == ()


def test_of_a_script_that_trained_no_figure_says_that_nothing_was_seen():
    snapshot = folded(script_session()).snapshot(ended=True)
    assert snapshot.why["run_seconds"] == NO_WHOLE_RUN
    assert "run_seconds" not in snapshot.lacking
    assert NOTHING_SEEN not in snapshot.why.values()


def test_the_end_of_the_process_is_no_part_of_the_script():
    records = script_session(seconds=20)
    last = max(record.t for record in records if isinstance(record, Batches)) + SECOND // 2
    records += [Phase(last, SCRIPT_PHASE), Phase(last + SECOND, "closing")]
    session = folded(records)
    account = session.snapshot(last + 9 * SECOND, ended=False).account
    assert account[AccountPart.CLOSING] == pytest.approx(8.0)
    assert account[AccountPart.SCRIPT] == pytest.approx(1.0)


def test_the_wait_for_data_is_a_part_of_the_time_and_the_parts_add_up():
    session = folded(script_session(seconds=20))
    snapshot = session.snapshot()
    waited = snapshot.account[AccountPart.DATA_WAIT]
    assert waited == pytest.approx(8.0, rel=0.02)
    assert sum(snapshot.account.values()) == pytest.approx(snapshot.elapsed_s)


def test_without_a_measured_wait_there_is_no_such_part():
    snapshot = folded(script_session(wait_ms=None)).snapshot()
    assert AccountPart.DATA_WAIT not in snapshot.account


def test_processes_that_train_together_are_summed_and_their_spread_is_known():
    alone = folded(script_session()).snapshot()
    session = folded(script_session(trainers=2))
    snapshot = session.snapshot()
    rates = [one.samples_per_second for one in snapshot.trainers]
    assert rates == [pytest.approx(64 / 0.020), pytest.approx(64 / 0.021)]
    assert alone.samples_per_second.mean == pytest.approx(rates[0])
    assert snapshot.samples_per_second.mean == pytest.approx(sum(rates))
    # On the chart too, and an epoch holds the samples of both.
    assert session.throughput.mean == pytest.approx(sum(rates), rel=0.02)
    assert [epoch.samples for epoch in snapshot.epochs][:2] == [12_800, 12_800]
    assert snapshot.batches == alone.batches


def test_throughput_is_in_steps_where_no_batch_has_a_size():
    snapshot = folded(script_session(samples=None, steps=None)).snapshot()
    assert snapshot.counts_steps
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


def test_samples_stay_samples_where_later_batches_have_no_known_size():
    session = folded(with_samples_in_later_batches(script_session(), None))
    snapshot = session.snapshot()
    assert not snapshot.counts_steps
    assert snapshot.samples_per_second.mean == pytest.approx(64 / 0.020)
    # On the chart, what isn't known is a gap.
    rates = session.throughput.columns(session.training_start, SECOND, 20)
    assert rates[5] == pytest.approx(64 / 0.020, rel=0.02)
    assert rates[15] is snapshot.samples_per_second_now is None


def test_steps_stay_steps_where_later_batches_have_a_known_size():
    session = folded(with_samples_in_later_batches(script_session(samples=None), 64))
    snapshot = session.snapshot()
    assert snapshot.counts_steps
    assert snapshot.samples_per_second.mean == pytest.approx(50)
    assert session.throughput.columns(session.training_start, SECOND, 20)[15] == pytest.approx(50)


def test_an_epoch_is_projected_from_the_loaders_length_before_one_has_ended():
    snapshot = folded(script_session(seconds=20, steps=5000)).snapshot()
    assert snapshot.seconds_per_epoch.projected
    assert snapshot.seconds_per_epoch.value == pytest.approx(100, rel=0.01)
    assert (snapshot.progress.steps, snapshot.progress.run_left_s) == (5000, None)


@pytest.mark.parametrize("phase", ["validating", SCRIPT_PHASE])
@pytest.mark.parametrize("steps", [100, None])
def test_as_long_as_no_other_epoch_has_begun_the_one_that_ended_is_shown(phase, steps):
    records = script_session(steps=100, validated=True)
    last = max(number for number, each in enumerate(records) if isinstance(each, Epoch))
    ended = records[last]
    seen = [
        replace(each, steps_per_epoch=steps) if isinstance(each, Model) else each
        for each in [*records[: last + 1], Phase(ended.end, phase)]
    ]
    session = folded(seen)
    progress = session.snapshot(ended.end + SECOND).progress
    assert (progress.epoch, progress.step) == (ended.epoch, 100)
    assert progress.epoch_left_s == (None if steps is None else 0.0)
    assert progress.is_over
    session.fold(Phase(ended.end + SECOND, "training"))
    progress = session.snapshot(ended.end + 2 * SECOND).progress
    assert (progress.epoch, progress.step, progress.is_over) == (ended.epoch + 1, 0, False)


def test_an_epoch_that_is_validated_is_not_over():
    records = script_session(steps=100, validated=False)
    last = max(number for number, each in enumerate(records) if isinstance(each, Epoch))
    ended = records[last]
    session = folded([*records[: last + 1], Phase(ended.end, "validating")])
    assert not session.snapshot(ended.end + SECOND).progress.is_over
    session.fold(Phase(ended.end + SECOND, SCRIPT_PHASE))
    assert session.snapshot(ended.end + 2 * SECOND).progress.is_over


def test_an_epoch_that_is_written_again_with_its_validation_counts_once():
    before = folded(script_session(seconds=6)).snapshot()
    snapshot = folded(script_session(seconds=6, validated=True)).snapshot()
    assert len(snapshot.epochs) == len(before.epochs) == 3
    assert all(epoch.validation is not None for epoch in snapshot.epochs)
    assert snapshot.seconds_per_epoch.epochs == before.seconds_per_epoch.epochs
    assert snapshot.seconds_per_epoch.value == pytest.approx(before.seconds_per_epoch.value + 0.1)


def test_inferred_samples_speak_against_the_figures():
    records = [
        _inferred(record) if isinstance(record, Model) else record for record in script_session()
    ]
    validity = folded(records).snapshot().validity
    assert validity.against[Doubt.INFERRED_SAMPLES] == "samples were inferred: the first tensor"


def _inferred(model):
    return replace(model, inferred="the first tensor")


def test_waiting_for_data_is_what_limits_it_and_idle_cores_are_named():
    machine = [record for record in recorded_machine() if isinstance(record, Machine)]
    assert machine
    seen = look(Seen(machine, script_header().machine, waited_share=0.41, workers=2))
    limit = limit_of((seen,), ended=False)
    assert limit.rule == "data-wait"
    assert limit.text.startswith("Waiting for data: 41 % of the last 30 s")


@pytest.mark.parametrize("share", [None, 0.0, 0.09])
def test_a_little_waiting_limits_nothing(share):
    machine = [record for record in recorded_machine() if isinstance(record, Machine)]
    seen = look(Seen(machine, script_header().machine, waited_share=share, workers=2))
    limit = limit_of((seen,), ended=False)
    assert limit.rule != "data-wait"


def test_the_epochs_of_others_are_not_shown_beside_those_of_the_first():
    records = script_session(trainers=3)
    epochs = [record for record in records if isinstance(record, Epoch)]
    shown = folded(records).snapshot().epochs
    assert len(shown) < len(epochs)
    assert [epoch.epoch for epoch in shown] == list(range(len(shown)))


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
    session.fold(ended)
    assert session.snapshot().seconds_per_epoch.epochs == 3


@pytest.mark.parametrize(("phase", "epochs"), [("validating", 2), (SCRIPT_PHASE, 3)])
def test_a_run_that_ends_in_a_validation_has_no_whole_epoch_of_it(phase, epochs):
    session = folded(until_validation(script_session(steps=100, validated=True), 4, phase))
    snapshot = session.snapshot(ended=True)
    assert snapshot.seconds_per_epoch.epochs == epochs
    assert snapshot.epochs[-1].whole is (phase != "validating")


def test_while_the_first_epoch_is_validated_an_epoch_is_projected():
    session = folded(until_validation(script_session(steps=400, validated=True), 1, "validating"))
    assert session.snapshot(session.last_t + SECOND).seconds_per_epoch.projected


def test_epochs_without_validation_count_at_once():
    records = script_session(steps=100)
    ends = [number for number, each in enumerate(records) if isinstance(each, Epoch)]
    session = folded([*records[: ends[3] + 1], Phase(records[ends[3]].end, SCRIPT_PHASE)])
    assert session.snapshot(session.last_t + SECOND).seconds_per_epoch.epochs == 3
