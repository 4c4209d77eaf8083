import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Epoch, Metrics, Trainer
from dlmon.session.learning import (
    MOST_METRICS,
    MOST_VALIDATIONS,
    Learning,
    Metric,
    importance,
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
    learning.fold(read(11, loss=2.3), 10 * S)
    learning.fold(read(12, loss=huge), 10 * S)
    learning.fold(read(13, loss=5e-324), 10 * S)
    loss = learning.metrics["loss"]
    assert loss.series.columns(10 * S, S, 3) == [2.3, None, 0.0]
    assert loss.newest == 5e-324


def test_a_loss_by_any_spelling_stands_before_other_metrics():
    learning = Learning()
    learning.fold(read(11, acc=0.5, Gen_Loss=1.0, aux_loss=2.0, loss=3.0), 10 * S)
    assert learning.names == ["loss", "Gen_Loss", "aux_loss", "acc"]


def test_a_metric_has_its_value_since_the_one_before():
    learning = Learning()
    learning.fold(read(12, loss=3.0), 10 * S)
    learning.fold(read(14, loss=1.0), 10 * S)
    loss = learning.metrics["loss"]
    assert loss.series.columns(10 * S, S, 5) == [3.0, 3.0, 1.0, 1.0, None]
    assert loss.newest == 1.0


def test_a_validation_in_between_is_no_part_of_the_curve():
    learning = Learning()
    learning.fold(read(12, loss=3.0), 10 * S)
    learning.fold(read(15, loss=1.0), 14 * S)
    assert learning.metrics["loss"].series.columns(11 * S, S, 4) == [3.0, None, None, 1.0]


def test_what_is_no_number_is_said_and_not_drawn():
    learning = Learning()
    learning.fold(read(11, loss=3.0), 10 * S)
    learning.fold(read(12, why={"loss": "NaN"}, loss=None), 10 * S)
    loss = learning.metrics["loss"]
    assert (loss.newest, loss.why) == (None, "NaN")
    assert loss.series.columns(10 * S, S, 2) == [3.0, None]


def test_a_log_without_readings_has_the_values_of_its_epochs():
    learning = Learning()
    for number, value in enumerate((3.0, 2.0)):
        learning.fold(epoch(number, {"loss": value, "val_loss": value + 1}))
    loss = learning.metrics["loss"]
    assert loss.series.columns(10 * S, S, 18) == [*[3.0] * 8, None, None, *[2.0] * 8]
    assert list(loss.validations) == [(20 * S, 4.0), (30 * S, 3.0)]


def test_an_epoch_ends_with_its_own_value():
    learning = Learning()
    learning.fold(read(15, loss=3.0), 10 * S)
    learning.fold(epoch(0, {"loss": 2.0}))
    assert learning.metrics["loss"].newest == 2.0


def test_a_figure_of_another_name_does_not_take_the_place_of_what_was_read():
    learning = Learning()
    learning.fold(read(15, loss=3.0), 10 * S)
    learning.fold(epoch(0, {"train_loss": 2.0, "val_loss": 4.0}))
    loss = learning.metrics["loss"]
    assert (loss.newest, loss.newest_validation) == (3.0, 4.0)


def test_an_epoch_that_is_written_again_adds_its_validation_once():
    learning = Learning()
    learning.fold(epoch(0, {"loss": 2.0}))
    learning.fold(epoch(0, {"loss": 2.0, "val_loss": 3.0}))
    learning.fold(epoch(0, {"loss": 2.0, "val_loss": 3.0}))
    assert list(learning.metrics["loss"].validations) == [(20 * S, 3.0)]


def test_an_evaluation_that_was_logged_is_not_taken_from_the_epoch_again():
    learning = Learning()
    learning.fold(read(15, eval_loss=3.0), 10 * S)
    learning.fold(epoch(0, {"eval_loss": 3.0}))
    assert list(learning.metrics["loss"].validations) == [(15 * S, 3.0)]


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


@given(st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=12))
def test_the_trend_is_as_long_as_it_holds(values):
    metric = Metric()
    for at, value in enumerate(values, 1):
        metric.add_validation(at, value, "")
    count = abs(metric.trend)
    last = values[len(values) - count - 1 :] if count else []
    assert None not in last
    assert last == sorted(set(last), reverse=metric.trend < 0)


def test_memory_is_bounded():
    learning = Learning()
    for number in range(3 * MOST_METRICS):
        learning.fold(Metrics(S, {f"metric {number}": 1.0}), 0)
    for at in range(2 * MOST_VALIDATIONS):
        learning.fold(Metrics(S + at, {"val_metric 0": 1.0}), 0)
    assert len(learning.metrics) == MOST_METRICS
    assert len(learning.metrics["metric 0"].validations) == MOST_VALIDATIONS


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        max_size=8,
    )
)
def test_whatever_a_log_claims_can_be_drawn(claims):
    learning = Learning()
    for t, since, value in claims:
        learning.fold(Metrics(t, {"loss": value}), since)
    if claims:
        for column in learning.metrics["loss"].series.columns(0, S, 20):
            assert column is None or not math.isnan(column)


def test_the_mean_of_an_epoch_is_no_point_of_a_curve_that_shows_parts_of_it():
    of_epochs, of_parts = Learning(), Learning()
    for learning, framework in ((of_epochs, "keras"), (of_parts, "pytorch")):
        learning.fold(Trainer(10 * S, 0, 1, framework))
        learning.fold(read(12, loss=3.0), 10 * S)
        learning.fold(epoch(0, {"loss": 2.0}))
    assert of_epochs.metrics["loss"].newest == 2.0
    assert of_parts.metrics["loss"].newest == 3.0
    # Of an epoch that none was read in, it is all that is known.
    of_parts.fold(epoch(1, {"loss": 1.0}))
    assert of_parts.metrics["loss"].newest == 1.0


def test_what_is_read_of_the_optimizer_comes_after_all_other_metrics():
    names = ["learning_rate", "accuracy", "grad_norm", "aux_loss", "loss"]
    expected = ["loss", "aux_loss", "accuracy", "learning_rate", "grad_norm"]
    assert sorted(names, key=importance) == expected
