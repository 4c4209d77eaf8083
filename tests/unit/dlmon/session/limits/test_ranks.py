"""Which rank the others wait for."""

import pytest

from dlmon.records import Trainer
from dlmon.session.limits.ranks import rank_holds_up, straggler_of
from dlmon.session.loops import ProcessRate
from dlmon.session.time_breakdown import StepMean

SPREAD_MS = 0.5


def ranks(waits_ms, steps_ms=(50.0,), error_ms=SPREAD_MS, alone=False, work_ms=()):
    return [
        ProcessRate(
            Trainer(
                *(0, number, number, "torch"),
                rank=None if alone else number,
                host="n1" if number else None,
            ),
            100.0,
            steps_ms[number % len(steps_ms)],
            None if wait_ms is None else StepMean(wait_ms, error_ms),
            StepMean(work_ms[number], error_ms) if work_ms else None,
        )
        for number, wait_ms in enumerate(waits_ms)
    ]


def test_the_rank_that_waits_longer_for_its_own_data_is_the_one_that_others_wait_for():
    held = rank_holds_up(ranks([2.0, 41.0, 2.2, 1.8]), is_over=False)
    assert (
        held.text == "The others wait for rank 1 on n1: it waits 41 ms per step for data, they 2 ms"
    )
    assert (
        held.advice == "look for what rank 1 on n1 loads more slowly: its data, its CPUs, its disk"
    )
    over = rank_holds_up(ranks([41.0, 2.0, 2.0]), is_over=True)
    assert over.text == "The others waited for rank 0: it waited 41 ms per step for data, they 2 ms"
    of_two = rank_holds_up(ranks([41.0, 2.0]), is_over=False)
    assert (of_two.headline, of_two.figures) == (
        "The other waits for rank 0",
        ("it waits 41 ms per step for data, the other 2 ms",),
    )


def test_the_rank_that_takes_longer_by_itself_is_what_others_wait_for_in_backward():
    held = rank_holds_up(ranks([2.0, 2.1, 2.2], work_ms=(3.0, 33.0, 3.2)), is_over=False)
    assert held.headline == "The others wait for rank 1 on n1"
    assert held.figures == ("it takes 33 ms per step outside backward and optimiser, they 3.1 ms",)
    # Loaders may not be watched.
    of_two = rank_holds_up(ranks([None, None], work_ms=(33.0, 3.0)), is_over=True)
    assert of_two.headline == "The other waited for rank 0"
    # What waits for its data takes as much longer by itself: the data is said.
    of_data = rank_holds_up(ranks([2.0, 41.0], work_ms=(3.0, 42.0)), is_over=False)
    assert "for data" in of_data.text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (ranks([2.0, 2.0], work_ms=(3.0, 3.5)), "they work alike"),
        (ranks([2.0, 2.0], work_ms=(3.0, 13.0), error_ms=5.0), "that lies within the spread"),
        (ranks([2.0, 2.0, 2.0], work_ms=(33.0, 3.0, 33.0)), "two of them work as long"),
        (ranks([2.0, 2.0]), "they wait alike"),
        (ranks([2.0, 4.4]), "it is less than 5 % of a step"),
        (ranks([2.0, 12.0], error_ms=5.0), "it lies within the spread"),
        (ranks([41.0, 2.0, 40.5]), "two of them wait as long"),
        (ranks([2.0, 41.0], steps_ms=(50.0, 91.0)), "they don't step together"),
        (ranks([None, 41.0]), "of one it isn't measured"),
        (ranks([41.0]), "it is alone"),
        (ranks([2.0, 41.0], alone=True), "each trains on its own, and as fast by chance"),
    ],
)
def test_no_rank_is_named_where(given, why):
    assert straggler_of(given) is None, why
