"""Which rank the others wait for."""

import pytest

from dlmon.records import Trainer
from dlmon.session.account import StepWait
from dlmon.session.limits.ranks import rank_holds_up, straggler_of
from dlmon.session.loops import TrainerRate

SPREAD_MS = 0.5


def ranks(waits_ms, steps_ms=(50.0,), error_ms=SPREAD_MS, alone=False):
    return [
        TrainerRate(
            Trainer(
                *(0, number, number, "torch"),
                rank=None if alone else number,
                host="n1" if number else None,
            ),
            100.0,
            steps_ms[number % len(steps_ms)],
            None if wait_ms is None else StepWait(wait_ms, error_ms),
        )
        for number, wait_ms in enumerate(waits_ms)
    ]


def test_the_rank_that_waits_longer_for_its_own_data_is_the_one_that_others_wait_for():
    held = rank_holds_up(ranks([2.0, 41.0, 2.2, 1.8]), ended=False)
    assert (
        held.text == "The others wait for rank 1 on n1: it waits 41 ms per step for data, they 2 ms"
    )
    assert (
        held.advice == "look for what rank 1 on n1 loads more slowly: its data, its CPUs, its disk"
    )
    over = rank_holds_up(ranks([41.0, 2.0, 2.0]), ended=True)
    assert over.text == "The others waited for rank 0: it waited 41 ms per step for data, they 2 ms"
    of_two = rank_holds_up(ranks([41.0, 2.0]), ended=False)
    assert (of_two.headline, of_two.figures) == (
        "The other waits for rank 0",
        ("it waits 41 ms per step for data, the other 2 ms",),
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
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
