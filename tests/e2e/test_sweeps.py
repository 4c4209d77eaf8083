"""Sweeps of real processes: made to their end, stopped, killed, resumed, and refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from fakes.sessions import FAKES, Log, Printing, eventually

from dlmon.log.directory import list_sessions
from dlmon.log.folder import LOG_NAME
from dlmon.records import Batches, RunStatus
from dlmon.sweep.log import SWEEP_NAME, read_sweep
from workloads.__main__ import REFUSED

SMALL = "mnist-mlp-small"
QUICK = {"epochs": 1, "steps": 12}
LONG = {"epochs": 1, "steps": 4000, "step_s": 0.005}


class Sweeper(Printing):
    """A process that makes a sweep of the scripted workload."""

    def __init__(self, reported, folder, *arguments):
        self.log_dir = Path(reported["log_dir"])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
        command = [sys.executable, str(FAKES / "sweeper.py"), *arguments]
        super().__init__(folder, command, stdin=subprocess.PIPE, env=environment)
        self.process.stdin.write(json.dumps(reported).encode() + b"\n")
        self.process.stdin.close()

    @property
    def path(self):
        """The file of the sweep, once it is there."""
        return eventually(
            lambda: next(
                (p for p in self.log_dir.glob(f"*/{SWEEP_NAME}") if p.stat().st_size), None
            ),
            "the file of a sweep",
        )

    @property
    def sweep(self):
        return read_sweep(self.path)[1]

    def running_session(self):
        """Return the log of the session that runs, once its training is under way."""

        def find():
            (began,) = self.sweep.running.values() or (None,)
            return began and self.log_dir / began.session / LOG_NAME

        log = Log(eventually(find, "a run to begin"))
        log.wait_for(Batches)
        return log


@pytest.fixture
def sweeper(log_dir, files, ended_with_test):
    """Return a function that starts a sweep of the scripted workload."""
    return lambda *arguments, **reported: ended_with_test(
        Sweeper({"log_dir": str(log_dir), **reported}, files(), *arguments)
    )


def statuses(sweep):
    """Return how each combination's runs ended, by what is varied."""
    return {
        tuple(combination.varied.values()): [
            sweep.outcomes[slot].status
            for slot in sorted(sweep.outcomes, key=lambda slot: slot.repeat)
            if slot.combination == combination.index
        ]
        for combination in sweep.plan.combinations
    }


def sessions_of(log_dir):
    return [entry.header.id for entry in list_sessions(log_dir)]


# ---- to the end ----


def test_every_combination_is_run_as_a_session_of_its_own_and_a_row(sweeper, log_dir):
    one = sweeper(vary={"batch_size": [8, 16]}, repeats=2, options=QUICK)
    assert one.exit_code() == 0, one.stderr
    sweep = one.sweep
    assert statuses(sweep) == {(8,): [RunStatus.COMPLETED] * 2, (16,): [RunStatus.COMPLETED] * 2}
    assert sweep.closed == RunStatus.COMPLETED
    reported = [sweep.outcomes[slot] for slot in sweep.plan.order]
    assert [outcome.session for outcome in reported] == sessions_of(log_dir)
    assert [outcome.result.options["batch_size"] for outcome in reported] == [
        sweep.plan.combinations[slot.combination].varied["batch_size"] for slot in sweep.plan.order
    ]
    entries = list_sessions(log_dir)
    for before, after in pairwise(entries):
        assert before.result.t <= after.header.t, "two ran at once"
    assert one.stderr == ""
    lines = one.stdout.splitlines()
    assert "sweep 20" in lines[0]
    assert "4 runs" in lines[1]
    assert sum(": session 20" in line for line in lines) == 4
    assert sum(": completed" in line for line in lines) == 4
    table = [line.split() for line in lines[lines.index("") :] if line.strip()]
    assert table[0][:2] == ["batch", "runs"]
    assert [row[0] for row in table[1:3]] == ["8", "16"]


def test_what_cannot_be_run_is_a_row_and_the_sweep_goes_on(sweeper, log_dir):
    scripts = {
        "8": {"building": [["fail", "on purpose"]]},
        "16": {"building": [["run_out_of_memory", "no room"]]},
        "32": {"building": [["leave", REFUSED]]},
    }
    sizes = [8, 16, 32, 64, 128]
    one = sweeper(vary={"batch_size": sizes}, options=QUICK, scripts=scripts, refused=[64])
    assert one.exit_code() == 0
    assert statuses(one.sweep) == {
        (8,): [RunStatus.FAILED],
        (16,): [RunStatus.OUT_OF_MEMORY],
        (32,): [RunStatus.IMPOSSIBLE],
        (64,): [RunStatus.IMPOSSIBLE],
        (128,): [RunStatus.COMPLETED],
    }
    assert len(sessions_of(log_dir)) == 4, "what was refused has no session"
    assert "on purpose" in one.stdout
    assert "a batch of 64 can't be" in one.stdout


# ---- stopped, killed, resumed ----


def test_ctrl_c_stops_the_run_and_the_sweep_and_resume_makes_what_is_left(sweeper, log_dir):
    one = sweeper(vary={"batch_size": [8, 16]}, options=LONG)
    log = one.running_session()
    one.process.send_signal(signal.SIGINT)
    assert one.exit_code() == 130
    assert log.status == "stopped"
    assert "2 runs left: dlmon sweep --resume" in one.stderr
    assert one.sweep.closed == "stopped"
    again = sweeper(resume=str(one.path), options=QUICK)
    assert again.exit_code() == 0, again.stderr
    assert statuses(again.sweep) == {(8,): [RunStatus.COMPLETED], (16,): [RunStatus.COMPLETED]}
    assert len(sessions_of(log_dir)) == 3


def test_a_killed_supervisor_costs_its_run_and_no_other(sweeper, log_dir):
    one = sweeper(vary={"batch_size": [8, 16]}, options={"epochs": 1, "steps": 5000})
    log = one.running_session()
    os.kill(log.supervisor_pid, signal.SIGKILL)
    assert one.exit_code() == 0
    reported = sorted(status for (status,) in statuses(one.sweep).values())
    assert reported == [RunStatus.COMPLETED, RunStatus.NOT_RUN]
    assert "interrupted" in one.stdout
    assert len(one.sweep.remaining()) == 1
    assert one.sweep.closed == "stopped"


def test_a_second_sweep_learns_who_holds_the_first(sweeper, dlmon, log_dir):
    one = sweeper(vary={"batch_size": [8, 16]}, options=LONG)
    one.running_session()
    for arguments in (
        ["sweep", SMALL, "--vary", "batch_size=32,64"],
        ["sweep", "--resume", "last"],
    ):
        refused = dlmon(*arguments, "--log-dir", str(log_dir))
        assert refused.returncode == 2
        assert f"process {one.process.pid}" in refused.stderr
    assert one.process.poll() is None
    one.process.send_signal(signal.SIGINT)
    one.exit_code()


# ---- the command itself ----


def test_what_the_command_sweeps_is_listed_and_what_cannot_be_is_reported(
    dlmon, log_dir, without_keras
):
    done = dlmon(
        *("sweep", SMALL, "--vary", "batch_size=32,70000", "--vary", "device=cpu,gpu:99"),
        *("--steps", "20", "--epochs", "1", "--data", "synthetic", "--python", without_keras),
        *("--json", "--log-dir", str(log_dir)),
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert [row["status"] for row in reported["rows"]] == [
        RunStatus.COMPLETED,
        RunStatus.IMPOSSIBLE,
        RunStatus.IMPOSSIBLE,
        RunStatus.IMPOSSIBLE,
    ]
    assert reported["rows"][0]["result"]["options"]["steps"] == 20
    assert "there is no GPU" in reported["rows"][1]["reason"]
    assert "from 1 to 60,000" in reported["rows"][2]["reason"]
    (entry,) = list_sessions(log_dir)
    assert entry.header.id == reported["rows"][0]["runs"][0]["session"]
    listed = dlmon("sessions", "--json", "--log-dir", str(log_dir))
    (session,) = json.loads(listed.stdout)
    assert (session["sweep"]["id"], session["sweep"]["combinations_done"]) == (reported["sweep"], 4)
    assert reported["sweep"] in dlmon("sessions", "--log-dir", str(log_dir)).stdout
    # Nothing is left of it, and so nothing is run.
    again = dlmon("sweep", "--resume", reported["sweep"], "--log-dir", str(log_dir))
    assert again.returncode == 0, again.stderr
    assert len(list_sessions(log_dir)) == 1
