"""Where the sides of an experiment differ: their loss over the same steps, and their waiting."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from fakes.compared import THIS
from fakes.sweeps import ended, pairs_plan, result_of

from dlmon.sweep.pair_causes import causes_of, loss_difference
from dlmon.sweep.progress import Sweep


def experiment(base, new, steps=100):
    """Return an experiment whose runs had these mean losses over so many steps."""
    sweep = Sweep(pairs_plan())
    for slot in sweep.plan.order:
        side = (base, new)[slot.combination]
        if slot.repeat < len(side):
            end = ended(slot, result_of(1.0))
            sweep.add(end)
            losses = ((steps, steps * side[slot.repeat]),)
            sweep.figures[end.outcome.session] = replace(THIS, losses=losses)
    return sweep


@pytest.mark.parametrize(
    ("base", "new", "alike"),
    [
        ((0.50, 0.50, 0.50), (0.5002, 0.5002, 0.5002), True),
        ((0.50, 0.50, 0.50), (0.51, 0.51, 0.51), False),
        ((0.48, 0.50, 0.52), (0.51, 0.51, 0.51), True),
        ((0.50, 0.51, 0.50), (0.50, math.nan, 0.50), False),
        ((-0.50, -0.50, -0.50), (-0.50, -0.50, -0.50), True),
    ],
)
def test_a_loss_is_alike_within_what_two_runs_of_one_side_differ_by(base, new, alike):
    difference = loss_difference(experiment(base, new))
    assert (difference.is_alike, difference.steps) == (alike, 100)


def test_nothing_is_said_of_two_runs_a_side_or_of_steps_of_unlike_sizes():
    assert loss_difference(experiment((0.5, 0.5), (0.5, 0.5))) is None
    sweep = experiment((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    session = next(iter(sweep.figures))
    sweep.figures[session] = replace(THIS, batch_size=1, losses=((100, 50.0),))
    assert loss_difference(sweep) is None


def test_nothing_is_said_if_a_run_has_no_loss():
    assert loss_difference(experiment((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), steps=0)) is None


def test_the_waiting_for_data_is_that_of_all_steps_not_of_the_few_that_were_measured():
    def run(measured_ms, waited_s):
        values = {**THIS.values, "step.wait_ms": measured_ms, "account.data_wait": waited_s}
        return replace(THIS, values=values, batches=1000)

    causes = causes_of([(run(9.0, 2.0), run(1.0, 5.0))])
    (wait,) = (part for part in causes.parts if "wait" in part.part)
    assert (wait.part, wait.base_ms, wait.new_ms) == ("step.wait_ms", 2.0, 5.0)


@pytest.mark.parametrize(
    ("longer_waits_ms", "leading"), [((1.9, 2.0, 2.1), ["step.wait_ms"]), ((1.0, 5.0, -3.0), [])]
)
def test_a_small_part_that_is_proven_is_not_most_of_a_difference(longer_waits_ms, leading):
    def run(rate, wait_ms, forward_ms):
        values = {"samples_per_second": rate, "step.wait_ms": wait_ms}
        return replace(
            THIS, values=values | {"step.forward_ms": forward_ms}, batch_size=10, batches=None
        )

    # A step takes 10 and 12 ms; of that, forward surely takes 0.02 ms.
    pairs = [
        (run(1000.0, 5.0, 3.0), run(1000 / 1.2, 5.0 + longer_ms, 3.02))
        for longer_ms in longer_waits_ms
    ]
    assert [part.part for part in causes_of(pairs).leading] == leading
