import pytest

from dlmon.comparison.metric_names import lower_is_better


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("loss", True),
        ("dense_1_loss", True),
        ("mean_absolute_error", True),
        ("binary_crossentropy", True),
        ("customloss", True),
        ("accuracy", False),
        ("sparse_categorical_accuracy", False),
        ("F1", False),
        ("learning_rate", None),
        ("grad_norm", None),
        ("accuracy_loss", True),
        ("map_error", True),
        ("neg_mean_squared_error", None),
        ("neg_log_loss", None),
        ("Negative_Loss", None),
        ("loss_scale", None),
        ("loss_weight", None),
        ("grad_loss_norm", None),
        ("normal_loss", True),
        ("weighted_accuracy", False),
    ],
)
def test_whether_less_is_better_is_known_by_a_name_or_not_at_all(name, lower):
    assert lower_is_better(name) is lower
