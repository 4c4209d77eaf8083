"""`dlmon sweep --slurm`: the runs of a sweep are the tasks of a job array."""

from __future__ import annotations

import json
import signal
import time

import pytest
from fakes.sessions import Printing, eventually

from dlmon.log.directory import list_sessions
from dlmon.log.submitted import read_submitted
from dlmon.records import Status


@pytest.fixture
def log_dir(slurm, tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def sweep(log_dir, files, dlmon_command, without_keras, ended_with_test):
    """Return a function that starts a sweep of the scripted workload in Slurm."""

    def begin(*words):
        python = () if "--resume" in words else ("mnist-mlp-small", "--python", without_keras)
        command = [dlmon_command, "sweep", *python, "--plain", "--log-dir", log_dir, *words]
        return ended_with_test(Printing(files(), list(map(str, command))))

    return begin


def test_its_runs_are_tasks_of_one_array_and_so_many_run_at_once(slurm, sweep, log_dir):
    viewer = sweep(
        *("--vary", "batch_size=8,16,32,64", "--epochs", "1", "--steps", "100", "--seconds", "0"),
        *("--slurm", "-c1 -t 10", "--at-once", "2"),
    )
    most = 0
    while viewer.process.poll() is None:
        listed = slurm.run("squeue", "-h", "-r", "-t", "R", "-o", "%F_%K").split()
        most = max(most, len(listed))
        time.sleep(0.1)
    assert viewer.exit_code() == 0, viewer.stderr
    assert most == 2
    entries = list_sessions(log_dir)
    assert [entry.status for entry in entries] == [Status.COMPLETED] * 4
    jobs = {entry.header.slurm.job for entry in entries}
    assert jobs == {read_submitted(entry.path).slurm_job for entry in entries}
    [array] = {job.partition("_")[0] for job in jobs}
    assert jobs == {f"{array}_{task}" for task in range(4)}
    assert viewer.stdout.count("session") >= 4


def test_whoever_resumes_it_takes_up_what_is_queued_and_submits_what_is_missing(
    slurm, sweep, log_dir, dlmon
):
    viewer = sweep(
        *("--vary", "batch_size=8,16,32", "--epochs", "1", "--steps", "300", "--seconds", "0"),
        *("--slurm", "-c1 -t 10", "--at-once", "1"),
    )
    eventually(lambda: slurm.run("squeue", "-h", "-t", "R").strip(), "the first to run")
    viewer.process.send_signal(signal.SIGINT)
    assert viewer.exit_code() == 130
    assert "its jobs stay in Slurm" in viewer.stderr
    waiting = slurm.run("squeue", "-h", "-r", "-t", "PD", "-o", "%F_%K").split()
    assert len(waiting) == 2
    slurm.run("scancel", waiting[-1])
    resumed = sweep("--resume", "last")
    assert resumed.exit_code() == 0, resumed.stderr
    # What was cancelled is made by the next.
    again = sweep("--resume", "last")
    assert again.exit_code() == 0, again.stderr
    statuses = [entry.status for entry in list_sessions(log_dir)]
    assert statuses.count(Status.COMPLETED) == 3
    listed = json.loads(
        dlmon("sweep", "--resume", "last", "--json", "--log-dir", str(log_dir)).stdout
    )
    assert [row["status"] for row in listed["rows"]] == ["completed"] * 3


def test_what_slurm_refuses_ends_the_sweep_with_the_reason(sweep, log_dir):
    viewer = sweep("--vary", "batch_size=8,16", "--slurm", "-p nowhere")
    assert viewer.exit_code() == 1
    assert "Slurm refused it: invalid partition specified: nowhere" in viewer.stderr
    assert list_sessions(log_dir) == []
