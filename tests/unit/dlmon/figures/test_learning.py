"""What training came to, in one line."""

from dlmon.figures.learning import evaluation_text, metrics_line
from dlmon.records import Evaluation
from dlmon.session.metric_figures import MetricFigure

S = 1_000_000_000


def test_a_line_says_the_last_value_and_the_best_where_that_is_another():
    line = metrics_line(
        [
            MetricFigure("loss", 0.42, "", 0.42, 8, 8),
            MetricFigure("val_loss", 0.5, "", 0.45, 6, 8),
            MetricFigure("lr", 0.001, last_epoch=8),
        ]
    )
    assert line == "loss 0.4200 (best), val_loss 0.5000 (best 0.4500 in epoch 7), lr 0.0010"


def test_the_only_epoch_is_not_called_the_best():
    assert metrics_line([MetricFigure("loss", 0.42, "", 0.42, 0, 0)]) == "loss 0.4200"


def test_a_value_that_was_read_as_it_trained_is_no_value_of_an_epoch():
    assert metrics_line([MetricFigure("loss", 0.42)]) == "loss 0.4200 (last read)"


def test_a_loss_that_is_no_number_says_what_it_is():
    line = metrics_line([MetricFigure("loss", None, "NaN", 2.0, 0, 3)], "pass")
    assert line == "loss NaN (best 2.0000 in pass 1)"


def test_a_line_of_many_metrics_ends():
    line = metrics_line([MetricFigure(f"m{n}", 1.0, last_epoch=1) for n in range(20)])
    assert line.endswith("m7 1.0000, and 12 more")


def test_an_evaluation_says_what_it_came_to_and_over_what():
    evaluation = Evaluation(S, 3 * S, 5, 1000, True, {"accuracy": 0.9, "loss": 0.4})
    assert evaluation_text(evaluation) == "loss 0.4000, accuracy 0.9000 (1,000 samples, 2.00 s)"
    cut = Evaluation(S, 3 * S, 5, None, False, {"loss": None}, why={"loss": "NaN"})
    assert evaluation_text(cut) == "loss NaN (2.00 s, cut short)"
