"""Real Keras on the CPU, through the real command: few runs, and short ones."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest
from fakes.sessions import DEADLINE_S, Log, Session

from dlmon.log.folder import log_directory
from dlmon.options.jobs import make_job
from dlmon.options.run_options import RunOptions
from dlmon.records import Batches, Epoch, Evaluation, Model, Phase
from workloads.catalog import find

SMALL = "mnist-mlp-small"
# Design, section 5: what `--json` prints.
DOCUMENTED = {
    "status",
    "session",
    "log",
    "workload",
    "device",
    "options",
    "wall_s",
    "seconds_per_epoch",
    "samples_per_second",
    "step_ms",
    "compile_s",
    "account",
    "valid",
    "against",
}


@pytest.fixture
def start_real(log_dir, launch_job):
    """Return a function that starts a session of a real workload."""

    def begin(name, **options):
        options = RunOptions(device="cpu", **options)
        job = make_job(find(name), log_directory(log_dir), options)
        # A machine that is busy lets a batch take longer than a person waits for a stop.
        return Session(launch_job(replace(job, terminate_after_s=DEADLINE_S)))

    return begin


def test_a_capped_run_is_completed_and_its_json_has_the_documented_keys(dlmon, log_dir):
    done = dlmon(
        *("run", SMALL, "--json", "--epochs", "2", "--steps", "4", "--batch-size", "64"),
        *("--device", "cpu", "--data", "synthetic", "--log-dir", str(log_dir)),
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result.keys() >= DOCUMENTED
    assert result["status"] == "completed"
    assert result["workload"] == SMALL
    assert result["device"] == "cpu"
    assert result["data"] == "synthetic"
    assert result["exit_code"] == 0
    assert result["options"]["batch_size"] == 64
    assert (result["epochs"], result["batches"]) == (2, 8)
    assert result["compile_s"] > 0
    # 8 batches are too few to be steady, on a slow machine too, and so it says.
    assert result["samples_per_second"] is None
    assert "too short" in result["why"]["samples_per_second"]
    assert result["valid"] is False
    assert result["against"]["too_short"] == "too short: it was never steady"
    account = result["account"]
    assert sum(account.values()) == pytest.approx(result["wall_s"], rel=0.01)
    measured = {"startup", "loading", "building", "compiling", "training", "evaluation", "closing"}
    assert account.keys() >= measured

    log = Log(result["log"])
    assert log.result.session == result["session"] == log.header.id
    (model,) = log.records(Model)
    # Keras leaves XLA off where there is only a CPU.
    assert (model.mode, model.precision, model.jit) == ("train", "float32", False)
    assert (model.parameters, model.flops_per_sample) == (101_770, find(SMALL).train_flops)
    assert (model.samples_per_epoch, model.steps_per_epoch, model.steps_cap) == (60_000, 938, 4)
    assert log.count_batches() == 8
    epochs = log.records(Epoch)
    assert [(epoch.steps, epoch.samples, epoch.whole) for epoch in epochs] == [
        (4, 256, False),
        (4, 256, False),
    ]
    assert all(epoch.metrics.keys() == {"loss", "accuracy"} for epoch in epochs)
    (evaluation,) = log.records(Evaluation)
    assert not evaluation.whole
    # An epoch may be opened slowly on a busy machine.
    phases = [phase.name for phase in log.records(Phase) if phase.name != "opening"]
    assert phases == [
        *("importing", "loading", "building", "compiling", "training", "training"),
        *("closing", "evaluating", "closing"),
    ]


def test_whole_epochs_are_measured_with_their_short_last_batch(dlmon, log_dir):
    done = dlmon(
        *("run", SMALL, "--json", "--epochs", "2", "--batch-size", "4096"),
        *("--device", "cpu", "--data", "synthetic", "--log-dir", str(log_dir)),
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    timing = result["seconds_per_epoch"]
    assert (timing["epochs"], timing["projected"], timing["first_left_out"]) == (1, False, True)
    assert 0 < timing["value"] <= result["wall_s"]
    if timing["low"] is None:
        assert timing["high"] is None
        assert result["why"]["seconds_per_epoch.band"]
    else:
        assert 0 <= timing["low"] <= timing["value"] <= timing["high"]
    whole_run = result["run_seconds"]
    assert not whole_run["projected"]
    assert 2 * timing["value"] < whole_run["value"] < result["wall_s"]

    log = Log(result["log"])
    epochs = log.records(Epoch)
    assert [(epoch.steps, epoch.samples, epoch.whole) for epoch in epochs] == [
        (15, 60_000, True),
        (15, 60_000, True),
    ]
    assert log.count_batches() == 30
    last = log.records(Batches)[-1]
    sizes = last.samples if isinstance(last.samples, tuple) else (last.samples,)
    assert sizes[-1] == 60_000 - 14 * 4096
    for epoch in epochs:
        took_us = sum(
            (batches.opening_us or 0) + sum(batches.dt_us)
            for batches in log.records(Batches)
            if batches.epoch == epoch.epoch
        )
        assert took_us == epoch.train_end // 1000 - epoch.begin // 1000


def test_a_stop_in_the_middle_of_an_epoch_cuts_it_after_the_current_batch(start_real):
    session = start_real(SMALL, epochs=1000, batch_size=8, data="synthetic")
    session.wait_for(Batches)
    session.say("stop")
    result = session.wait_for_end()
    assert result.status == "stopped"
    assert result.exit_code == 75
    assert result.error is None
    last = session.records(Epoch)[-1]
    assert not last.whole
    assert 0 < last.steps < 7500
    assert last.metrics["loss"] is not None
    assert session.count_batches() == sum(epoch.steps for epoch in session.records(Epoch))
    assert result.batches == session.count_batches()
    assert session.records(Evaluation) == []


def test_a_stop_before_the_first_batch_ends_the_run(start_real):
    session = start_real(SMALL, epochs=1000, data="synthetic")
    session.wait_for(Phase, lambda record: record.name == "compiling")
    os.kill(session.supervisor_pid, signal.SIGTERM)
    result = session.wait_for_end()
    assert result.status == "stopped"
    assert result.error is None
    assert "Traceback" not in " ".join(line for line in session.notices())
