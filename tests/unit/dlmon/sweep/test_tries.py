"""Tries of settings: what is run for each of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fakes.screens import A_JOB
from fakes.sweeps import pairs_plan, result_of

from dlmon.records import Model, Outcome, PairRule, RunStatus, Slot
from dlmon.sweep.candidates import FirstRun
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.pairs import is_enough
from dlmon.sweep.runner import SweepRun
from dlmon.sweep.tries import FirstSession, TryRun

MODEL = Model(1000, None, 32, 3200, 100, 1, workers=0)
WAITS = FirstRun("torch", MODEL, waited_share=0.9)
WHOLE = Outcome(RunStatus.COMPLETED, None, "first", result_of(20.0))


@pytest.fixture
def slots_of_round(tmp_path):
    """Return a function that returns the first runs that are made for a setting."""

    def slots(outcome):
        class Tries(TryRun):
            async def _run_as_it_is(self):
                return FirstSession("first", None, None, WAITS, outcome)

        def begin(candidate, rule):
            plan = replace(pairs_plan({"set:num_workers": ["as it is", 2]}), pairs=rule)
            writer = SweepWriter.create(tmp_path, new_header(plan, 1, 1.0))
            return SweepRun(writer, None, lambda combination: None)

        async def make(run):
            assert not is_enough(run.sweep)
            made.extend(slot for slot in run.sweep.remaining() if slot.repeat == 0)
            run.writer.close()

        made = []
        run = Tries(replace(A_JOB, workload="train.py"), PairRule(0.05, 600.0, 10.0), begin)
        asyncio.run(run.run(make))
        assert run.problem is None
        return set(made)

    return slots


def test_the_script_as_it_is_is_not_warmed_up_again(slots_of_round):
    assert slots_of_round(WHOLE) == {Slot(1, 0)}


@pytest.mark.parametrize("outcome", [None, replace(WHOLE, status=RunStatus.NOT_RUN)])
def test_a_first_run_that_was_cut_short_warms_up_nothing(slots_of_round, outcome):
    assert slots_of_round(outcome) == {Slot(0, 0), Slot(1, 0)}
