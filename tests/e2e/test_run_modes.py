"""What the options of a run change in real Keras on the CPU: mode, precision, CPUs, seconds."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from fakes.hostile_folder import HostileFolder
from fakes.sessions import Session

from dlmon.records import Batches, Epoch, Evaluation, Model, Output, Phase
from workloads.catalog import find

SMALL = "mnist-mlp-small"
OPTIONS = {
    "batch_size": 64,
    "epochs": 1,
    "steps": 20,
    "data": "synthetic",
    "interval": 1.0,
}
# Batches of 2 ms: without more epochs, none of this would ever be steady.
SHORT = {"epochs": 2, "steps": 20}


@pytest.fixture
def start_job(launch_workload):
    """Return a function that starts a session of a real workload with options of the child's."""

    def begin(workload=SMALL, before=(), **options):
        return Session(launch_workload(workload, {**OPTIONS, **options}, before))

    return begin


def test_inference_goes_through_the_samples_once_an_epoch_whatever_the_working_directory_holds(
    start_job, tmp_path, monkeypatch
):
    hostile = HostileFolder(tmp_path / "hostile")
    monkeypatch.chdir(hostile.path)
    session = start_job(mode="inference", steps=None, epochs=2, batch_size=4096)
    result = session.wait_for_end()
    assert (result.status, result.error) == ("completed", None)
    (model,) = session.records(Model)
    assert model.mode == "inference"
    assert model.flops_per_sample == find(SMALL).forward_flops
    assert (model.samples_per_epoch, model.steps_per_epoch) == (60_000, 15)
    assert model.validation_steps is model.evaluation_steps is None
    # A pass may be closed slowly.
    phases = [phase.name for phase in session.records(Phase) if phase.name != "closing"]
    assert phases == [
        *("importing", "loading", "building", "compiling", "predicting", "predicting"),
    ]
    passes = session.records(Epoch)
    assert [(e.epoch, e.steps, e.samples, e.whole, e.metrics) for e in passes] == [
        (0, 15, 60_000, True, {}),
        (1, 15, 60_000, True, {}),
    ]
    for reported in passes:
        took_us = sum(
            sum(batches.dt_us)
            for batches in session.records(Batches)
            if batches.epoch == reported.epoch
        )
        assert took_us == reported.train_end // 1000 - reported.begin // 1000
    assert session.records(Evaluation) == []
    assert result.seconds_per_epoch is None
    assert result.why["seconds_per_epoch"] == "inference has no epochs"
    assert result.why["energy_j_per_epoch"] == "inference has no epochs"
    assert hostile.imported == []


def test_gradients_are_computed_batch_by_batch_as_in_training_but_without_its_epochs(start_job):
    session = start_job(mode="gradients", steps=None, epochs=2, batch_size=4096)
    result = session.wait_for_end()
    assert (result.status, result.error) == ("completed", None)
    (model,) = session.records(Model)
    assert model.mode == "gradients"
    assert model.flops_per_sample == find(SMALL).train_flops
    assert (model.samples_per_epoch, model.steps_per_epoch) == (60_000, 15)
    assert model.validation_steps is model.evaluation_steps is None
    phases = [phase.name for phase in session.records(Phase)]
    _, *passing, last = phases[phases.index("compiling") :]
    assert passing.count("computing gradients") >= 2
    # A machine that is busy opens a pass so slowly that it is a phase of its own.
    assert {*passing, last} - {"opening"} == {"computing gradients", "closing"}
    assert last == "closing"
    passes = session.records(Epoch)
    assert [(e.epoch, e.steps, e.samples, e.whole) for e in passes] == [
        (0, 15, 60_000, True),
        (1, 15, 60_000, True),
    ]
    # The loss is computed, and stays what it was but for dropout: nothing is learnt.
    first, second = (e.metrics["loss"] for e in passes)
    assert second == pytest.approx(first, rel=0.05)
    assert session.records(Evaluation) == []
    assert result.seconds_per_epoch is result.run_seconds is None
    assert "no weight is updated" in result.why["seconds_per_epoch"]


def test_inference_beyond_its_passes_is_measured_on_the_cpus_it_may_use_until_a_stop(start_job):
    session = start_job(
        mode="inference",
        jit="on",
        precision="mixed_bfloat16",
        epochs=2,
        steps=400,
        seconds=3600.0,
        price="3.6",
        cpus=1,
    )
    enough = session.wait_for(Batches, lambda record: record.epoch == 1)
    assert enough.first == 0, "a pass does not count its batches from 0"
    pid = session.child("workloads")
    first = [min(os.sched_getaffinity(0))]
    assert psutil.Process(pid).cpu_affinity() == first
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    assert all(sorted(os.sched_getaffinity(thread)) == first for thread in threads)
    session.wait_for(Epoch, lambda epoch: epoch.epoch >= 4)
    session.say("stop")
    result = session.wait_for_end()
    assert (result.status, result.exit_code, result.error) == ("stopped", 75, None)
    model = session.records(Model)[0]
    assert (model.precision, model.jit) == ("mixed_bfloat16", True)
    assert {epoch.steps for epoch in session.records(Epoch)[:4]} == {400}
    assert session.records(Evaluation) == []
    said = "\n".join(output.text for output in session.records(Output))
    assert (said.count("400/400"), "Epoch 2/2" in said) == (2, False)
    assert result.samples_per_second.median > 0
    assert result.step_ms.median > 0
    flop_s = find(SMALL).forward_flops * result.samples_per_second.mean
    assert result.effective_flop_s == pytest.approx(flop_s)
    assert result.cost_usd == pytest.approx(result.wall_s / 1000, rel=0.01)


def test_a_batch_that_memory_cannot_hold_is_reported_with_its_size(start_job):
    """TensorFlow's CPU kernels say so and then crash, so the error comes from its last words.

    Real memory that runs out ends it now so, now otherwise: a shell says and does what it does.
    """
    words = "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[50000,32,32,32]"
    crash = ("sh", "-c", f"echo '{words}' >&2; kill -SEGV $$")
    result = start_job(before=crash, batch_size=50_000).wait_for_end()
    assert result.status == "failed"
    assert result.error == ("memory ran out (batch size 50,000): the workload ended by SIGSEGV")


# ---- training that goes on beyond its epochs until it was steady for so long (`--seconds`) ----


def test_epochs_follow_until_throughput_has_a_figure_and_a_band(start_job):
    session = start_job(**SHORT, seconds=2.5)
    result = session.wait_for_end()
    assert (result.status, result.error) == ("completed", None)
    assert result.samples_per_second.standard_error is not None
    epochs = session.records(Epoch)
    assert result.epochs == len(epochs) > 2
    assert {epoch.steps for epoch in epochs} == {20}
    assert not any(epoch.whole for epoch in epochs)
    first, *later = session.records(Model)
    assert (first.epochs, first.extra_epochs) == (2, None)
    # How many there were is the last word on it.
    assert later[-1].epochs_in_all == len(epochs)
    assert later[-1].epochs == 2
    # Not a word of the most that there could have been, and no line for each.
    said = "\n".join(output.text for output in session.records(Output))
    assert said.count("20/20") == 3
    assert "Epoch 2/2" in said
    assert len(session.records(Evaluation)) == 1
