"""A loss that is no number comes before all that makes a run slow."""

import pytest
from fakes.recorded import folded, recorded_session

from dlmon.records import Batches, Epoch, Machine, Metrics, Model
from dlmon.session.learning import Learning
from dlmon.session.limits.evidence import LimitKind
from dlmon.session.limits.find import loss_is_no_number

SECOND_NS = 1_000_000_000


def epoch(number, loss, name="loss"):
    begin, end = 10 * number * SECOND_NS, 10 * (number + 1) * SECOND_NS
    metrics = {} if loss == "unknown" else {name: loss}
    why = {name: "NaN"} if loss is None else {}
    return Epoch(number, begin, end, end, True, 100, metrics, why=why)


def read(t_s, loss, why="NaN"):
    why_not = {"loss": why} if loss is None else {}
    return Metrics(round(t_s * SECOND_NS), {"loss": loss}, why=why_not)


def found(*records, epoch_now=0, precision="float32", is_script=True, ended=False):
    learning = Learning()
    for record in records:
        learning.add(record)
    epochs = [record for record in records if isinstance(record, Epoch)]
    return loss_is_no_number(learning.metrics, epochs, epoch_now, precision, is_script, ended)


@pytest.mark.parametrize(
    ("records", "epoch_now", "since"),
    [
        ([read(3, None)], 0, " from epoch 1 on"),
        ([epoch(0, 0.5), epoch(1, 0.4), read(23, None)], 2, " from epoch 3 on"),
        ([epoch(0, 0.5), epoch(1, None)], 2, " from epoch 2 on"),
        ([epoch(0, 0.5), epoch(1, None), epoch(2, None), read(33, None)], 3, " from epoch 2 on"),
        ([epoch(0, None), epoch(1, 0.4), epoch(2, None)], 3, " from epoch 3 on"),
        ([epoch(0, 0.5, "train_loss"), read(13, None)], 1, " from epoch 2 on"),
        ([read(3, None)], None, ""),
        # An epoch that says nothing of its loss may have had one that was no number.
        ([epoch(0, "unknown"), read(13, None)], 1, ""),
        ([epoch(0, 0.5), epoch(1, "unknown"), epoch(2, None)], 3, ""),
    ],
)
def test_it_says_from_which_epoch_on(records, epoch_now, since):
    evidence = found(*records, epoch_now=epoch_now)
    assert evidence.title == "NAN LOSS"
    assert evidence.reasons[0] == f"the loss is NaN{since}"


def test_its_last_number_is_named():
    assert found(read(3, 0.5), read(4, None)).reasons[1:] == ("0.5 before",)
    assert found(read(3, None)).reasons[1:] == ()


@pytest.mark.parametrize(
    ("epoch_now", "since", "text"),
    [
        (2, (2, 40), "from about step 40 of epoch 3 on"),
        (None, (0, 1234), "from about step 1,234 on"),
        # It was a number again since, or the epoch isn't that of the reading.
        (2, (1, 40), "from epoch 3 on"),
    ],
)
def test_it_says_from_which_step_on_if_the_loss_was_read_there(epoch_now, since, text):
    learning = Learning()
    learning.add(read(23, None))
    epochs = [] if epoch_now is None else [epoch(0, 0.5), epoch(1, 0.4)]
    arguments = learning.metrics, epochs, epoch_now, "float32", True, False, since
    assert loss_is_no_number(*arguments).text == f"NAN LOSS: the loss is NaN {text}"


def test_a_loss_that_is_a_number_or_unknown_is_none():
    of_others = {"val_loss": None, "accuracy": None}
    assert found() is found(read(3, 0.5)) is found(read(3, None), read(4, 0.5)) is None
    assert found(read(3, None, "not a single number")) is None
    assert found(Metrics(SECOND_NS, of_others, why={"val_loss": "NaN"})) is None
    assert found(read(3, None, "infinite")).text.startswith("INFINITE LOSS: the loss is inf")


@pytest.mark.parametrize(
    ("precision", "is_script", "ended", "advice"),
    [
        (
            "float32",
            True,
            False,
            "stop it (s, dlmon stop): then a lower learning rate or gradient clipping",
        ),
        (
            "mixed_float16",
            True,
            False,
            "stop it (s, dlmon stop): then float32, a lower learning rate or gradient clipping",
        ),
        ("mixed_bfloat16", True, True, "a lower learning rate or gradient clipping"),
        # How a workload of dlmon's own learns is fixed.
        ("float32", False, False, "stop it (s, dlmon stop)"),
        ("float32", False, True, ""),
        ("mixed_float16", False, False, "stop it (s, dlmon stop): then train in float32"),
        ("mixed_float16", False, True, "train in float32"),
    ],
)
def test_what_to_try_fits_the_run(precision, is_script, ended, advice):
    evidence = found(read(3, None), precision=precision, is_script=is_script, ended=ended)
    assert evidence.advice == advice
    assert evidence.reasons[0].startswith("the loss was" if ended else "the loss is")


def limit_of(records, ended=False):
    return folded(records).snapshot(is_over=ended).limit


def test_of_a_run_it_comes_first_and_what_makes_it_slow_after_it():
    records = recorded_session("training", ended=2, nan_loss=True)
    limit = limit_of(records)
    assert limit.kind is LimitKind.LOSS
    assert limit.text.startswith(
        "NAN LOSS: the loss is NaN from about step 1 of epoch 2 on, 1.8 before. GPU-BOUND 97 %"
    )
    assert limit.also[0] == "GPU-BOUND 97 %"
    assert limit.advice == "stop it (s, dlmon stop)"
    # Once it is over, nothing is tried that would make it faster.
    over = limit_of(records, ended=True)
    assert (over.lead.title, over.advice) == ("NAN LOSS", "")
    assert over.evidence[1].title == "GPU-BOUND 97 %"


def test_it_needs_no_steady_training():
    kept = (Model, Metrics, Batches)
    records = recorded_session("training", ended=2, nan_loss=True)
    early = [records[0], *(record for record in records[1:] if isinstance(record, kept))]
    assert not any(isinstance(record, Machine) for record in early)
    limit = limit_of(early)
    assert (limit.rule, limit.measured) == ("loss", ())
