"""What a report says of epochs: which of them were cut."""

from dlmon.figures.epoch_tables import epoch_table
from dlmon.records import Epoch, Model

S = 10**9
MODEL = Model(1, 1, 32, 60_000, 1_875, 3, steps_cap=120)


def numbers(epochs, model):
    return [row[0] for row in epoch_table(epochs, model).rows]


def test_only_an_epoch_that_ended_before_the_steps_that_were_asked_for_is_cut():
    epochs = [
        Epoch(number, 0, S, S, whole, 1_000, {}, steps=steps)
        for number, (whole, steps) in enumerate([(True, 1_875), (False, 120), (False, 119)])
    ]
    assert numbers(epochs, MODEL) == ["1", "2", "3 (cut)"]
    assert numbers(epochs, None) == ["1", "2 (cut)", "3 (cut)"]
