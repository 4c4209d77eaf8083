"""What metrics came to: the last value, and the best with its epoch where a name shows which."""

from dataclasses import replace

from dlmon.records import Epoch, Metrics
from dlmon.session.learning import Learning, MetricFigure, figures_json, metric_figures

S = 1_000_000_000


def epoch(number, why=None, **metrics):
    begin = 10 * S * (number + 1)
    return Epoch(number, begin, begin + 8 * S, begin + 9 * S, True, 1, metrics, why=why or {})


def figures_of(*records):
    learning = Learning()
    epochs = [record for record in records if isinstance(record, Epoch)]
    for record in records:
        learning.fold(record)
    return metric_figures(epochs, learning)


def test_each_metric_has_its_last_value_and_its_best():
    found = figures_of(
        epoch(0, accuracy=0.5, loss=2.0, val_loss=1.9),
        epoch(1, accuracy=0.7, loss=1.0, val_loss=1.2),
        epoch(2, accuracy=0.6, loss=0.5, val_loss=1.5),
    )
    assert found == (
        MetricFigure("loss", 0.5, "", 0.5, 2, 2),
        MetricFigure("val_loss", 1.5, "", 1.2, 1, 2),
        MetricFigure("accuracy", 0.6, "", 0.7, 1, 2),
    )


def test_of_equal_values_the_first_is_the_best():
    (figure,) = figures_of(epoch(0, accuracy=0.9), epoch(1, accuracy=0.9))
    assert figure.best_epoch == 0


def test_a_last_value_that_is_no_number_says_so_and_is_never_the_best():
    (figure,) = figures_of(epoch(0, loss=2.0), epoch(1, {"loss": "NaN"}, loss=None))
    assert figure == MetricFigure("loss", None, "NaN", 2.0, 0, 1)


def test_a_loss_that_no_epoch_says_has_no_best():
    (figure,) = figures_of(Metrics(2 * S, {"loss": 0.9}), Metrics(3 * S, {"loss": 1.1}))
    assert figure == MetricFigure("loss", 1.1)


def test_as_json_a_value_of_one_step_says_that_it_was_only_read_last():
    read = figures_json(figures_of(Metrics(2 * S, {"loss": 0.9}), Metrics(3 * S, {"loss": 1.1})))
    assert read == {"loss": {"final": 1.1, "best": None, "best_epoch": None, "last_read": True}}
    assert "last_read" not in figures_json(figures_of(epoch(0, loss=1.0)))["loss"]


def test_epochs_that_all_have_one_number_are_several():
    ends = [replace(epoch(n, loss=loss), epoch=0) for n, loss in enumerate([2.0, 0.5, 1.0])]
    assert figures_of(*ends) == (MetricFigure("loss", 1.0, "", 0.5, 0, 0),)


def test_of_two_figures_of_one_epoch_the_first_counts():
    (figure,) = figures_of(epoch(0, loss=2.0, train_loss=3.0))
    assert figure == MetricFigure("loss", 2.0, "", 2.0, 0, 0)


def test_epochs_count_from_one_in_json():
    found = figures_json(figures_of(epoch(0, loss=1.0), epoch(1, loss=2.0)))
    assert found == {"loss": {"final": 2.0, "best": 1.0, "best_epoch": 1}}
