"""One workload on several devices: each batch is divided among them, and counted once."""

from __future__ import annotations

import json
import os

import pytest
from fakes.costly import with_costly
from fakes.sessions import Log, the_log_in

from dlmon.records import Epoch, Evaluation, Model

OPTIONS = ("--device", "cpu", "--devices", "2", "--data", "synthetic", "--json")


@pytest.fixture
def run(dlmon, log_dir):
    """Return a function that runs a workload on two devices."""

    def run_on_two(*options):
        command = ("run", "mnist-mlp-small", *OPTIONS, *options)
        return dlmon(*command, "--log-dir", str(log_dir))

    return run_on_two


@pytest.fixture(params=with_costly(["tensorflow", "jax"], but="tensorflow"))
def backend(request):
    """The words of a command line for a backend that can, in an interpreter that has it."""
    if request.param == "tensorflow":
        return ()
    frameworks = os.environ.get("DLMON_TEST_FRAMEWORKS")
    if not frameworks:
        pytest.skip("DLMON_TEST_FRAMEWORKS names no interpreter with Keras on JAX")
    return ("--backend", "jax", "--python", frameworks)


def test_a_batch_is_as_large_as_all_of_them_take_and_every_sample_is_seen_once(
    run, log_dir, backend
):
    ran = run("--epochs", "1", "--batch-size", "8002", *backend)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    log = Log(the_log_in(log_dir))
    (model,) = log.records(Model)
    assert (model.devices, model.device, model.batch_size) == (2, "cpu", 8002)
    assert (result["devices"], result["device"]) == (2, "cpu")
    (epoch,) = log.records(Epoch)
    assert (epoch.steps, epoch.samples, epoch.whole) == (8, 60_000, True)
    assert log.count_batches() == 8
    assert [evaluation.samples for evaluation in log.records(Evaluation)] == [10_000]


def test_each_has_a_batch_of_the_workloads_size_unless_the_whole_is_given(run, log_dir):
    ran = run("--mode", "inference", "--epochs", "1", "--steps", "3")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["options"]["batch_size"] == 64
    log = Log(the_log_in(log_dir))
    assert [model.devices for model in log.records(Model)] == [2]
    assert [(epoch.steps, epoch.samples) for epoch in log.records(Epoch)] == [(3, 192)]
    assert log.records(Evaluation) == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--batch-size", "33"), "a batch of 33 samples can't be divided among 2 devices: use"),
        (("--backend", "torch"), "dlmon exec -- torchrun --nproc-per-node N train.py"),
        (("--device", "gpu:0"), "--device gpu:0 names one GPU and --devices asks for 2"),
    ],
)
def test_what_can_not_be_divided_is_refused_in_a_sentence(refused, log_dir, options, why):
    command = ("run", "mnist-mlp-small", *OPTIONS, *options)
    ran = refused(*command, "--log-dir", str(log_dir))
    assert ran.returncode != 0
    assert why in ran.stderr
