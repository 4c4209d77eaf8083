"""Each value that training reported: once, with its time, its epoch and what it was taken over."""

from dlmon.records import Batches, Epoch, Evaluation, Metrics, Trainer
from dlmon.session.learning import MetricReadings, Pass

S = 1_000_000_000


def readings_of(*records):
    readings = MetricReadings()
    return [
        (one.t // S, one.metric, one.of, one.epoch, one.value)
        for record in records
        for one in readings.fold(record)
    ]


def batches(epoch, end_s, trainer=None):
    return Batches(epoch, 0, 32, end_s * S, (1000,), trainer=trainer)


def epoch(number, begin_s, end_s, **metrics):
    return Epoch(number, begin_s * S, (end_s - 1) * S, end_s * S, True, 100, metrics)


def test_a_value_that_is_read_belongs_to_the_epoch_of_its_batches():
    found = readings_of(batches(2, 5), Metrics(6 * S, {"loss": 1.5}))
    assert found == [(6, "loss", Pass.TRAINING, 2, 1.5)]


def test_the_first_value_of_an_epoch_may_come_before_its_batches():
    found = readings_of(batches(0, 5), epoch(0, 1, 6), Metrics(7 * S, {"loss": 1.0}))
    assert found == [(7, "loss", Pass.TRAINING, 1, 1.0)]


def test_a_validation_that_follows_an_epoch_belongs_to_it():
    found = readings_of(batches(0, 5), epoch(0, 1, 6), Metrics(7 * S, {"eval_loss": 1.0}))
    assert found == [(7, "loss", Pass.VALIDATION, 0, 1.0)]


def test_an_epoch_says_its_training_at_the_last_batch_and_its_validation_at_its_end():
    found = readings_of(epoch(0, 1, 6, loss=1.0, val_loss=2.0))
    assert found == [
        (5, "loss", Pass.TRAINING, 0, 1.0),
        (6, "loss", Pass.VALIDATION, 0, 2.0),
    ]


def test_a_validation_that_was_read_is_not_said_again_by_its_epoch():
    found = readings_of(Metrics(5 * S, {"val_loss": 2.0}), epoch(0, 1, 6, val_loss=2.0))
    assert [value for *_, value in found] == [2.0]


def test_another_figure_of_an_epoch_is_not_put_among_those_that_were_read():
    found = readings_of(Metrics(3 * S, {"loss": 2.0}), epoch(0, 1, 6, train_loss=1.2))
    assert [value for *_, value in found] == [2.0]


def test_the_mean_of_an_epoch_is_not_put_among_those_of_its_parts():
    torch = Trainer(0, 0, 1, "torch", "2.0", "3.11")
    read = (Metrics(3 * S, {"loss": 2.0}), epoch(0, 1, 6, loss=1.2), epoch(1, 6, 9, loss=1.0))
    assert [value for *_, value in readings_of(torch, *read)] == [2.0, 1.0]
    assert [value for *_, value in readings_of(*read)] == [2.0, 1.2, 1.0]


def test_an_evaluation_has_no_epoch():
    metrics = {"test_loss": 0.7, "accuracy": 0.9}
    found = readings_of(Evaluation(7 * S, 9 * S, 5, 100, True, metrics))
    assert found == [
        (9, "loss", Pass.EVALUATION, None, 0.7),
        (9, "accuracy", Pass.EVALUATION, None, 0.9),
    ]


def test_processes_that_train_together_are_kept_apart():
    readings = MetricReadings()
    records = (
        batches(0, 1),
        batches(3, 1, trainer=1),
        Metrics(2 * S, {"loss": 1.0}),
        Metrics(2 * S, {"loss": 2.0}, trainer=1),
    )
    found = [one for record in records for one in readings.fold(record)]
    assert [(one.trainer, one.epoch, one.value) for one in found] == [(0, 0, 1.0), (1, 3, 2.0)]
