"""The runs of a sweep whose supervisors answer what a test says, and none starts a session."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from fakes.sweeps import plan_of

from dlmon.launch.job import Refused
from dlmon.records import RunStatus
from dlmon.sweep.log import SweepWriter, new_header, read_sweep
from dlmon.sweep.place import ThisMachine
from dlmon.sweep.runner import SweepRun

NO_GPU = Refused("there is no GPU here: NVML found none; use --device cpu", 2, permanent=True)
FULL = Refused("the log directory can't be written (the disk is full)", 2)
STOPPED = Refused("stopped before it began: asked by its sweep", 1)
DIED = Refused("the supervisor ended before it could start the session", 1)


class RefusedLaunch:
    """A launch that a supervisor refuses."""

    def __init__(self, answer):
        self._answer = answer
        self.process = subprocess.Popen([sys.executable, "-c", ""])
        self.process.wait()

    def answer(self):
        return self._answer

    def send(self, word):
        pass

    def release(self):
        pass


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a sweep of two batch sizes, or takes it up; returns its end."""
    path = None

    def make(answer=None, refusal=lambda combination: None):
        nonlocal path
        if path is None:
            header = new_header(plan_of({"batch_size": [8, 16]}), 1, 1.0)
            writer = SweepWriter.create(tmp_path, header)
        else:
            writer = SweepWriter.resume(path, 2.0)
        path = writer.path
        run = SweepRun(
            writer,
            lambda combination: combination,
            refusal,
            lambda host: ThisMachine(lambda job: answer(job)),
        )
        asyncio.run(run.run())
        assert run.problem is None
        return read_sweep(path)[1]

    return make


def endings(sweep):
    return [sweep.outcomes[slot].status for slot in sweep.plan.order]


def test_what_the_machine_lacks_is_impossible_and_the_sweep_completes(made):
    sweep = made(lambda job: RefusedLaunch(NO_GPU))
    assert endings(sweep) == [RunStatus.IMPOSSIBLE, RunStatus.IMPOSSIBLE]
    assert sweep.closed == RunStatus.COMPLETED


@pytest.mark.parametrize("answer", [FULL, STOPPED, DIED])
def test_trouble_that_may_pass_leaves_a_run_to_be_made_with_its_reason(made, answer):
    sweep = made(lambda job: RefusedLaunch(answer))
    assert endings(sweep) == [RunStatus.NOT_RUN, RunStatus.NOT_RUN]
    assert {outcome.reason for outcome in sweep.outcomes.values()} == {answer.reason}
    assert len(sweep.left()) == 2


def test_a_sweep_with_runs_left_is_stopped_though_nobody_asked(made):
    sizes = {8: NO_GPU, 16: STOPPED}
    sweep = made(lambda job: RefusedLaunch(sizes[job.varied["batch_size"]]))
    assert sorted(endings(sweep)) == [RunStatus.IMPOSSIBLE, RunStatus.NOT_RUN]
    assert sweep.closed == "stopped"


def test_what_could_not_be_where_it_was_resumed_is_judged_again_at_the_next_time(made):
    sweep = made(refusal=lambda combination: "bin/python can't be run")
    assert (endings(sweep), sweep.left()) == ([RunStatus.IMPOSSIBLE, RunStatus.IMPOSSIBLE], [])
    launched = []

    def start(job):
        launched.append(job)
        return RefusedLaunch(NO_GPU)

    sweep = made(start)
    assert len(launched) == 2
    assert {outcome.reason for outcome in sweep.outcomes.values()} == {NO_GPU.reason}
