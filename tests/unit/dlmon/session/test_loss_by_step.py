"""The sum of the loss over the steps of a run."""

from __future__ import annotations

import math

import pytest

from dlmon.records import Batches, Epoch, Metrics, Trainer
from dlmon.session.loss_by_step import LossBySteps, mean_loss

S = 10**9


def steps(epoch, begin_s, count):
    """Return steps of 0.1 s."""
    return Batches(epoch, 0, 8, begin_s * S + S // 10, (100_000,) * count)


def sums(*records):
    losses = LossBySteps()
    losses.add(records)
    return losses.sums()


def test_a_mean_since_the_last_reading_counts_for_the_steps_since_then():
    read = [Metrics(S, {"loss": 0.5}), Metrics(2 * S, {"loss": 0.3, "lr": 9.0})]
    assert sums(*read, steps(0, 0, 20)) == [(10, pytest.approx(5.0)), (20, pytest.approx(8.0))]


def test_a_mean_since_the_epoch_began_counts_for_all_of_its_steps():
    def ended(number, loss):
        begin, end = number * S, (number + 1) * S
        return Epoch(number, begin, end, end, True, 80, {"loss": loss})

    records = [
        Trainer(0, 0, 1, "keras"),
        *(steps(0, 0, 10), Metrics(S // 2, {"loss": 0.9}), ended(0, 0.5)),
        *(steps(1, 1, 10), Metrics(S + S // 2, {"loss": 0.4}), ended(1, 0.3)),
    ]
    read = sums(*records)
    assert [count for count, _ in read] == [5, 10, 15, 20]
    assert [total for _, total in read] == pytest.approx([4.5, 5.0, 7.0, 8.0])


def test_a_loss_that_is_no_number_stays_none():
    read = sums(steps(0, 0, 20), Metrics(S, {"loss": None}, why={"loss": "NaN"}))
    assert math.isnan(read[-1][1])


def test_other_processes_count_in_nothing():
    other = Metrics(S, {"loss": 9.0}, trainer=1)
    read = sums(steps(0, 0, 10), other, Metrics(S, {"loss": 0.5}))
    assert read == [(10, pytest.approx(5.0))]


def test_the_mean_of_the_first_steps_lies_between_two_readings():
    assert mean_loss([(10, 5.0), (20, 8.0)], 10) == 0.5
    assert mean_loss([(10, 5.0), (20, 8.0)], 15) == pytest.approx(6.5 / 15)
    assert mean_loss([(10, 5.0)], 5) == pytest.approx(0.5)
