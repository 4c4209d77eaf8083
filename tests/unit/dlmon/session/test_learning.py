import pytest

from dlmon.records import Batches, Epoch, Evaluation, Metrics, Trainer
from dlmon.session.learning import (
    MOST_METRICS,
    MOST_VALIDATIONS,
    Learning,
    Metric,
    MetricFigure,
    MetricReadings,
    Pass,
    figures_json,
    importance,
    metric_figures,
    metric_of,
)

S = 1_000_000_000


def epoch(number, metrics, why=None, begin=None):
    begin = 10 * S * (number + 1) if begin is None else begin
    return Epoch(number, begin, begin + 8 * S, begin + 10 * S, True, 100, metrics, why=why or {})


def read(t, why=None, **values):
    return Metrics(int(t * S), values, why=why or {})


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("loss", ("loss", False)),
        ("val_loss", ("loss", True)),
        ("eval_loss", ("loss", True)),
        ("train_loss", ("loss", False)),
        ("valid/acc", ("acc", True)),
        ("Validation.acc", ("acc", True)),
        ("val_", ("val_", False)),
        # Some name the pass behind.
        ("Loss/val", ("Loss", True)),
        ("Loss/train", ("Loss", False)),
        ("loss_train", ("loss_train", False)),
        ("value_loss", ("value_loss", False)),
        ("evaluation", ("evaluation", False)),
        ("trainable", ("trainable", False)),
    ],
)
def test_a_metric_and_its_validation_are_of_one_thing(name, of):
    assert metric_of(name) == of


@pytest.mark.parametrize("huge", [1e301, -1e301, 1e100])
def test_a_value_that_no_axis_can_hold_is_a_gap_in_the_curve_and_still_the_newest(huge):
    learning = Learning()
    learning.add(read(11, loss=2.3), 10 * S)
    learning.add(read(12, loss=huge), 10 * S)
    learning.add(read(13, loss=5e-324), 10 * S)
    loss = learning.metrics["loss"]
    assert loss.series.columns(10 * S, S, 3) == [2.3, None, 0.0]
    assert loss.newest == 5e-324


@pytest.mark.parametrize(
    ("readings", "columns", "newest"),
    [
        ([(read(12, loss=3.0), 10), (read(14, loss=1.0), 10)], [3.0, 3.0, 1.0, 1.0, None], 1.0),
        # One that comes again with its time adds nothing.
        ([(read(12, loss=3.0), 10), (read(12, loss=9.0), 10)], [3.0, 3.0, None, None, None], 3.0),
        # A validation in between is no part of the curve.
        ([(read(12, loss=3.0), 10), (read(15, loss=1.0), 14)], [3.0, 3.0, None, None, 1.0], 1.0),
        # What is no number is said and not drawn.
        (
            [(read(11, loss=3.0), 10), (read(12, why={"loss": "NaN"}, loss=None), 10)],
            [3.0, *[None] * 4],
            None,
        ),
    ],
)
def test_a_metric_has_its_value_since_the_one_before(readings, columns, newest):
    learning = Learning()
    for reading, since_s in readings:
        learning.add(reading, since_s * S)
    loss = learning.metrics["loss"]
    assert loss.series.columns(10 * S, S, 5) == columns
    assert (loss.newest, loss.why) == (newest, "" if newest else "NaN")


def test_a_log_without_readings_has_the_values_of_its_epochs():
    learning = Learning()
    for number, value in enumerate((3.0, 2.0)):
        learning.add(epoch(number, {"loss": value, "val_loss": value + 1}))
    loss = learning.metrics["loss"]
    assert loss.series.columns(10 * S, S, 18) == [*[3.0] * 8, None, None, *[2.0] * 8]
    assert list(loss.validations) == [(20 * S, 4.0), (30 * S, 3.0)]


@pytest.mark.parametrize(
    ("values", "trend"),
    [
        ((), 0),
        ((1.0,), 0),
        ((1.0, 2.0), 1),
        ((3.0, 1.0, 2.0, 3.0), 2),
        ((3.0, 2.0, 1.0), -2),
        ((1.0, 2.0, 2.0), 0),
        ((1.0, None, 2.0), 0),
        ((1.0, 2.0, None), 0),
        ((None, 1.0, 2.0), 1),
        # As the loss of a network that learns nothing: all are written as 2.3026.
        ((2.30256, 2.30259, 2.30261), 0),
        ((2.5, 2.4, 2.399), 0),
    ],
)
def test_for_how_many_validations_a_metric_rose_or_fell(values, trend):
    metric = Metric()
    for at, value in enumerate(values, 1):
        metric.add_validation(at, value, "")
    assert metric.trend == trend


def test_memory_is_bounded():
    learning = Learning()
    for number in range(3 * MOST_METRICS):
        learning.add(Metrics(S, {f"metric {number}": 1.0}), 0)
    for at in range(2 * MOST_VALIDATIONS):
        learning.add(Metrics(S + at, {"val_metric 0": 1.0}), 0)
    assert len(learning.metrics) == MOST_METRICS
    assert len(learning.metrics["metric 0"].validations) == MOST_VALIDATIONS


def test_a_loss_by_any_spelling_comes_first_and_what_is_read_of_the_optimizer_last():
    names = ["learning_rate", "acc", "grad_norm", "aux_loss", "Gen_Loss", "loss"]
    expected = ["loss", "aux_loss", "Gen_Loss", "acc", "learning_rate", "grad_norm"]
    assert sorted(names, key=importance) == expected


# ---- what metrics came to ----


def figures_of(*records):
    learning = Learning()
    for record in records:
        learning.add(record)
    return metric_figures([one for one in records if isinstance(one, Epoch)], learning)


def test_each_metric_has_its_last_value_and_its_best():
    assert figures_of(
        epoch(0, {"accuracy": 0.5, "loss": 2.0, "val_loss": 1.9}),
        epoch(1, {"accuracy": 0.7, "loss": 1.0, "val_loss": 1.2}),
        epoch(2, {"accuracy": 0.6, "loss": 0.5, "val_loss": 1.5}),
    ) == (
        MetricFigure("loss", 0.5, "", 0.5, 2, 2),
        MetricFigure("val_loss", 1.5, "", 1.2, 1, 2),
        MetricFigure("accuracy", 0.6, "", 0.7, 1, 2),
    )


@pytest.mark.parametrize(
    ("records", "figure"),
    [
        # Of equal ones the first is the best, and one that is no number never.
        ([epoch(0, {"acc": 0.9}), epoch(1, {"acc": 0.9})], ("acc", 0.9, "", 0.9, 0, 1)),
        (
            [epoch(0, {"loss": 2.0}), epoch(1, {"loss": None}, {"loss": "NaN"})],
            ("loss", None, "NaN", 2.0, 0, 1),
        ),
        # A loss that no epoch says has no best.
        ([read(2, loss=0.9), read(3, loss=1.1)], ("loss", 1.1)),
        # Epochs that all have one number are several.
        (
            [epoch(0, {"loss": loss}, begin=n * S) for n, loss in enumerate((2.0, 0.5, 1.0))],
            ("loss", 1.0, "", 0.5, 0, 0),
        ),
        # Of two figures of one epoch the first counts.
        ([epoch(0, {"loss": 2.0, "train_loss": 3.0})], ("loss", 2.0, "", 2.0, 0, 0)),
    ],
)
def test_what_a_metric_came_to(records, figure):
    assert figures_of(*records) == (MetricFigure(*figure),)


def test_the_best_is_of_the_loop_of_the_last_epoch():
    epochs = [epoch(0, {"loss": 0.1}), epoch(1, {"loss": 2.0}), epoch(2, {"loss": 3.0})]
    learning = Learning()
    for one in epochs:
        learning.add(one)
    (figure,) = metric_figures(epochs, learning, lambda one: "first" if one.epoch == 0 else "last")
    assert figure == MetricFigure("loss", 3.0, "", 2.0, 1, 2)


def test_in_json_epochs_count_from_one_and_a_value_of_one_step_was_only_read_last():
    found = figures_json(figures_of(epoch(0, {"loss": 1.0}), epoch(1, {"loss": 2.0})))
    assert found == {"loss": {"final": 2.0, "best": 1.0, "best_epoch": 1}}
    found = figures_json(figures_of(read(2, loss=0.9), read(3, loss=1.1)))
    assert found == {"loss": {"final": 1.1, "best": None, "best_epoch": None, "last_read": True}}


# ---- each value that training reported ----


def batches(epoch, end_s, trainer=None):
    return Batches(epoch, 0, 32, end_s * S, (1000,), trainer=trainer)


def ended(number, begin_s, end_s, **metrics):
    return Epoch(number, begin_s * S, (end_s - 1) * S, end_s * S, True, 100, metrics)


TORCH = Trainer(0, 0, 1, "torch", "2.0", "3.11")
OF_PARTS = (read(3, loss=2.0), ended(0, 1, 6, loss=1.2), ended(1, 6, 9, loss=1.0))
TRAINED, VALIDATED, EVALUATED = Pass.TRAINING, Pass.VALIDATION, Pass.EVALUATION


@pytest.mark.parametrize(
    ("records", "found"),
    [
        # It belongs to the epoch of its batches, also where it comes before these.
        ([batches(2, 5), read(6, loss=1.5)], [(6, TRAINED, 2, 1.5)]),
        ([batches(0, 5), ended(0, 1, 6), read(7, loss=1.0)], [(7, TRAINED, 1, 1.0)]),
        ([read(3, loss=2.0), read(3, loss=9.0)], [(3, TRAINED, 0, 2.0)]),
        # A validation that follows an epoch belongs to it.
        ([batches(0, 5), ended(0, 1, 6), read(7, eval_loss=1.0)], [(7, VALIDATED, 0, 1.0)]),
        # An epoch says its training at the last batch and its validation at its end, each once.
        ([ended(0, 1, 6, loss=1.0, val_loss=2.0)], [(5, TRAINED, 0, 1.0), (6, VALIDATED, 0, 2.0)]),
        ([read(5, val_loss=2.0), ended(0, 1, 6, val_loss=2.0)], [(5, VALIDATED, 0, 2.0)]),
        # One that is written again adds its validation alone, also where more of that follows.
        (
            [
                ended(0, 1, 6, loss=1.0),
                *(ended(0, 1, end_s, loss=1.0, val_loss=2.0) for end_s in (6, 8)),
            ],
            [(5, TRAINED, 0, 1.0), (6, VALIDATED, 0, 2.0)],
        ),
        # Another figure of it is not put among those that were read, nor the mean of its parts.
        ([read(3, loss=2.0), ended(0, 1, 6, train_loss=1.2)], [(3, TRAINED, 0, 2.0)]),
        ([TORCH, *OF_PARTS], [(3, TRAINED, 0, 2.0), (8, TRAINED, 1, 1.0)]),
        (OF_PARTS, [(3, TRAINED, 0, 2.0), (5, TRAINED, 0, 1.2), (8, TRAINED, 1, 1.0)]),
        # An evaluation has no epoch.
        ([Evaluation(7 * S, 9 * S, 5, 100, True, {"test_loss": 0.7})], [(9, EVALUATED, None, 0.7)]),
    ],
)
def test_a_value_is_told_once_with_its_time_its_epoch_and_what_it_was_taken_over(records, found):
    readings = MetricReadings()
    told = [one for record in records for one in readings.add(record)]
    assert [(one.t // S, one.of, one.epoch, one.value) for one in told] == found
    assert {one.metric for one in told} == {"loss"}


def test_processes_that_train_together_are_kept_apart():
    readings = MetricReadings()
    losses = [Metrics(2 * S, {"loss": float(n + 1)}, trainer=n or None) for n in range(2)]
    records = (batches(0, 1), batches(3, 1, trainer=1), *losses)
    found = [one for record in records for one in readings.add(record)]
    assert [(one.trainer, one.epoch, one.value) for one in found] == [(0, 0, 1.0), (1, 3, 2.0)]


def test_the_newest_value_at_the_end_of_an_epoch_is_the_mean_of_the_epoch():
    learning = Learning()
    learning.add(TORCH)
    learning.add(batches(0, 1))
    learning.add(read(1, loss=0.25))
    learning.add(ended(0, 0, 3, loss=0.5))
    assert learning.metrics["loss"].newest == 0.5
    learning.add(read(4, loss=0.125))
    assert learning.metrics["loss"].newest == 0.125
    assert learning.metrics["loss"].readings == 2
