"""The loss of both sides of an experiment over the same steps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from fakes.compared import THIS
from fakes.sweeps import ended, pairs_plan, result_of

from dlmon.sweep.pair_causes import loss_difference
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
