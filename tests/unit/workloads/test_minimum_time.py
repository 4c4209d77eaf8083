"""How many epochs follow those that were asked for, and what is reported of it."""

from __future__ import annotations

import pytest

from dlmon.records import Model
from workloads.minimum_time import MAX_EXTRA_EPOCHS, MinimumTime

ASKED = 2
MODEL = Model(10, 20, 32, 60_000, 1875, ASKED)


class Training:
    """Stands in for the reporter: epochs of 1 s, of which a part is steady."""

    def __init__(self, steady_an_epoch_us=1_000_000, warm_up_us=0):
        self.steady_an_epoch_us = steady_an_epoch_us
        self.warm_up_us = warm_up_us
        self.trained = 0
        self.reported = []

    def send(self, record):
        self.reported.append((self.trained, record.extra_epochs))

    def steady_left_us(self, steady_us):
        return max(0, self.warm_up_us + steady_us - self.trained * self.steady_an_epoch_us)

    def run(self, seconds):
        minimum_time = MinimumTime(self, MODEL, seconds)
        for ended in range(1, minimum_time.max_epochs + 1):
            self.trained = ended
            if not minimum_time.should_continue(ended, 1_000_000_000):
                break
        return self.trained


@pytest.mark.parametrize("seconds", [0, 0.5, 2])
def test_the_epochs_that_were_asked_for_are_enough_where_they_last_long_enough(seconds):
    training = Training()
    assert training.run(seconds) == ASKED
    assert training.reported == []


def test_more_follow_until_the_steady_state_has_lasted_long_enough():
    training = Training()
    assert training.run(7) == 7
    # How many is known once those that were asked for have ended.
    assert training.reported == [(ASKED, 5)]


def test_an_estimate_that_was_too_low_is_mended_by_what_epochs_have_added():
    training = Training(steady_an_epoch_us=100_000)
    assert training.run(3) == 30
    assert training.reported == [(ASKED, 3), (ASKED + 1, 28)]


def test_where_fewer_were_needed_the_last_word_is_how_many_there_were():
    training = Training()
    training.steady_left_us = lambda steady_us: 0 if training.trained == 4 else steady_us
    assert training.run(60) == 4
    assert training.reported == [(ASKED, 60), (4, 2)]


def test_a_clock_that_stands_still_trains_no_one_for_ever():
    training = Training(steady_an_epoch_us=0)
    assert training.run(3) == ASKED + MAX_EXTRA_EPOCHS
    assert training.reported[-1][1] <= MAX_EXTRA_EPOCHS
