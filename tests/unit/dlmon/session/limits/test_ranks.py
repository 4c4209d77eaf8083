"""The steps of ranks, and which rank the others wait for."""

import pytest

from dlmon.records import CodeSamples, Frame, SeenAt, StepParts, Trainer
from dlmon.session.limits.ranks import rank_holds_up, rank_steps, straggler_of
from dlmon.session.loops import ProcessRate
from dlmon.session.time_breakdown import StepMean

SPREAD_MS = 0.5
STEP_MS = 50.0


def parts_of(own_ms, in_part, others_in="backward_us"):
    """Return the parts of a step: this much own work, in a part, and all else in another one."""
    own = {} if in_part == "rest_us" else {in_part: round(1000 * own_ms)}
    others = {others_in: round(1000 * (STEP_MS - own_ms))}
    return StepParts(0, 1, round(1000 * STEP_MS), **own, **others)


def ranks(
    waits_ms,
    steps_ms=(STEP_MS,),
    error_ms=SPREAD_MS,
    alone=False,
    work_ms=(),
    in_part="forward_us",
    code=None,
    others_in=("backward_us",),
):
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
            parts_of(work_ms[number], in_part, others_in[number % len(others_in)])
            if work_ms
            else None,
            code,
        )
        for number, wait_ms in enumerate(waits_ms)
    ]


def test_the_rank_that_waits_longer_for_its_own_data_is_the_one_that_others_wait_for():
    held = rank_holds_up(ranks([2.0, 41.0, 2.2, 1.8]), is_over=False)
    assert held.text == (
        "WAITING FOR RANK 1, 78 %: rank 1 on n1 waits 41.0 ms a step for data, others 2.00 ms"
    )
    assert (
        held.advice == "look for what rank 1 on n1 loads more slowly: its data, its CPUs, its disk"
    )
    over = rank_holds_up(ranks([41.0, 2.0, 2.0]), is_over=True)
    assert over.text == (
        "WAITING FOR RANK 0, 78 %: it waited 41.0 ms a step for data, others 2.00 ms"
    )
    of_two = rank_holds_up(ranks([41.0, 2.0]), is_over=False)
    assert of_two.reasons == ("it waits 41.0 ms a step for data, the other 2.00 ms",)


def test_the_rank_that_takes_longer_by_itself_is_what_others_wait_for_in_backward():
    ranks_of_three = ranks([2.0, 2.1, 2.2], work_ms=(3.0, 33.0, 3.2))
    held = rank_holds_up(ranks_of_three, is_over=False)
    assert held.title == "WAITING FOR RANK 1, 60 %"
    # Its backward takes 17 ms, and so much of that of the others is no waiting.
    assert held.reasons == (
        "rank 1 on n1 works 50.0 ms a step, others 20.1 ms",
        "29.9 ms more in forward",
    )
    assert (
        straggler_of(ranks_of_three).compared(was=False)
        == "rank 1 on n1 works 50.0 ms a step, others 20.1 ms"
    )
    # Loaders may not be watched.
    of_two = straggler_of(ranks([None, None], work_ms=(33.0, 3.0)))
    assert of_two.compared(was=True) == "rank 0 worked 50.0 ms a step, the other 20.0 ms"


def test_what_it_takes_longer_for_is_named_with_the_line_of_its_own_code():
    of_data = ranks([2.0, 41.0], work_ms=(3.0, 42.0), in_part="wait_us")
    assert straggler_of(of_data).compared(was=False) == (
        "rank 1 on n1 waits 42.0 ms a step for data, the other 3.00 ms"
    )
    places = (SeenAt(7, Frame("train.py", 20, "augment")), SeenAt(1, Frame("train.py", 9, "log")))
    code = CodeSamples(0, 10, places)
    held = straggler_of(ranks([2.0, 2.0], work_ms=(3.0, 33.0), in_part="rest_us", code=code))
    assert held.where == "30.0 ms more in your code"
    assert held.advice == (
        "take train.py:20 out of the loop of rank 1 on n1, or run it every few steps"
    )
    # A line that explains little is not named.
    spread = CodeSamples(0, 10, (places[1], SeenAt(1, Frame("train.py", 10, "log"))))
    held = straggler_of(ranks([2.0, 2.0], work_ms=(3.0, 33.0), in_part="rest_us", code=spread))
    assert "your code, its CPUs" in held.advice


def test_what_a_rank_takes_longer_in_backward_than_the_quickest_is_waiting():
    steps = rank_steps(ranks([None] * 3, work_ms=(3.0, 33.0, 3.0)))
    assert [step.own_ms for step in steps] == [20.0, 50.0, 20.0]
    assert [step.waits_ms for step in steps] == [30.0, 0.0, 30.0]
    assert steps[1].parts_ms == {"forward_us": 33.0, "backward_us": 17.0}
    # Ranks that don't step together don't wait for each other.
    apart = rank_steps(ranks([None] * 2, steps_ms=(50.0, 91.0), work_ms=(3.0, 33.0)))
    assert [(step.own_ms, step.waits_ms) for step in apart] == [(50.0, 0.0)] * 2
    assert rank_steps(ranks([2.0, 2.0])) == ()


def test_where_collectives_are_seen_backward_is_a_ranks_own_work():
    given = ranks(
        [2.0, 2.0], work_ms=(3.0, 33.0), in_part="backward_us", others_in=("collective_us",)
    )
    steps = rank_steps(given)
    # Rank 1 waits least, so what it takes is sending.
    assert [(step.own_ms, step.waits_ms) for step in steps] == [(20.0, 30.0), (50.0, 0.0)]
    assert steps[0].parts_ms == {"backward_us": 3.0, "collective_us": 17.0}
    assert rank_holds_up(given, is_over=False).reasons == (
        "rank 1 on n1 works 50.0 ms a step, the other 20.0 ms",
        "30.0 ms more in backward",
    )


def test_ranks_of_which_only_some_show_their_collectives_are_not_compared():
    given = ranks([2.0, 2.0], work_ms=(3.0, 33.0), others_in=("collective_us", "backward_us"))
    assert rank_steps(given) == ()
    assert straggler_of(given) is None


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
