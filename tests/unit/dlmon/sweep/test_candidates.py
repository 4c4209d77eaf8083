"""Which injections a run of a script speaks for, and which it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlmon.records import Model, StepParts
from dlmon.sweep.candidates import FirstRun, candidates_of

CPU = Model(1000, None, 32, 3200, 100, 1, device="cpu", workers=0, fused=False, threads=8)
GPU = replace(CPU, device="gpu:0", pin_memory=False, compute_precision="float32")
KERAS = replace(CPU, backend="tensorflow", jit=False, workers=None, fused=None)


def run(model=CPU, framework="torch", *, cores=8, run_cores=8.0, **parts):
    """Return a run whose parts took these shares of a step, in per cent."""
    measured = StepParts(0, 1, 100, **{f"{name}_us": pct for name, pct in parts.items()})
    return FirstRun(
        framework, model, measured if parts else None, step_ms=5.0, cores=cores, run_cores=run_cores
    )


def tried(first):
    return {candidate.name: candidate.value for candidate in candidates_of(first)}


NETWORK = {"forward": 35, "backward": 55, "optimizer": 5, "wait": 1}


def test_a_run_that_computes_on_all_cores_has_nothing_to_try():
    assert tried(run(**NETWORK)) == {}


def test_a_run_that_waits_without_workers_tries_workers():
    (candidate,) = candidates_of(run(wait=71, forward=10, backward=10))
    assert (candidate.name, candidate.value) == ("num_workers", 4)
    assert candidate.reason == "waits for data 71 % of a step, and no worker loads it"
    assert candidate.share == pytest.approx(0.71)


@pytest.mark.parametrize(
    ("workers", "wait", "expected"),
    [(0, 9, {}), (None, 71, {}), (2, 71, {"num_workers": 4, "prefetch_factor": 8}), (2, 9, {})],
)
def test_workers_are_tried_only_if_a_known_loader_is_waited_for(workers, wait, expected):
    assert tried(run(replace(CPU, workers=workers), wait=wait, forward=10)) == expected


def test_a_machine_with_few_cores_tries_few_workers():
    assert tried(run(wait=71, cores=1)) == {"num_workers": 2}


def test_workers_persist_only_if_there_are_any_and_epochs_open_slowly():
    slow = replace(run(replace(CPU, workers=2), **NETWORK), opening_share=0.3)
    assert tried(slow) == {"persistent_workers": "on"}
    assert tried(replace(slow, model=CPU)) == {}
    assert tried(replace(slow, opening_share=0.05)) == {}


@pytest.mark.parametrize(
    ("fused", "optimizer", "is_tried"),
    [(False, 30, True), (False, 9, False), (True, 30, False), (None, 30, False)],
)
def test_a_fused_optimizer_is_tried_if_it_takes_long_and_can_be_fused(fused, optimizer, is_tried):
    first = run(replace(CPU, fused=fused), forward=30, backward=30, optimizer=optimizer)
    assert tried(first) == ({"fused": "on"} if is_tried else {})


@pytest.mark.parametrize(
    ("threads", "cores", "parts", "is_tried"),
    [
        (1, 8, NETWORK, True),
        (4, 8, NETWORK, True),
        (8, 8, NETWORK, False),
        (1, 1, NETWORK, False),
        (None, 8, NETWORK, False),
        # The script's own code, or the wait for data, takes the time.
        (1, 8, {"forward": 15, "backward": 15}, False),
    ],
)
def test_threads_are_tried_if_cores_are_left_for_forward_and_backward(
    threads, cores, parts, is_tried
):
    first = run(replace(CPU, workers=None, threads=threads), cores=cores, **parts)
    assert tried(first) == ({"threads": cores} if is_tried else {})


@pytest.mark.parametrize(
    ("lines_a_step", "forward", "is_tried"), [(1.0, 31, True), (0.1, 31, False), (1.0, 35, False)]
)
def test_prints_are_left_out_if_there_is_one_a_step_and_own_code_takes_long(
    lines_a_step, forward, is_tried
):
    first = replace(run(**NETWORK | {"forward": forward}), lines_a_step=lines_a_step)
    assert tried(first) == ({"prints": "off"} if is_tried else {})


def test_a_gpu_has_more_to_try_and_what_alters_the_training_comes_last():
    first = run(GPU, copy=20, forward=30, backward=40)
    names = [candidate.name for candidate in candidates_of(first)]
    assert names[:3] == ["compile", "pin_memory", "cudnn_benchmark"]
    assert set(names[3:]) == {"matmul_precision", "autocast"}
    assert [c.kind.alters_training for c in candidates_of(first)] == [False] * 3 + [True] * 2


def test_on_a_gpu_nothing_is_tried_that_the_script_does_itself():
    done = replace(GPU, pin_memory=True, compute_precision="bfloat16")
    first = replace(run(done, copy=20, forward=30, backward=40), compiles=True)
    assert tried(first) == {"non_blocking": "on", "cudnn_benchmark": "on"}
    assert "non_blocking" not in tried(replace(first, model=GPU))


def test_keras_tries_xla_and_several_batches_a_call():
    assert tried(run(KERAS, "keras")) == {"jit_compile": "on", "steps_per_execution": 16}
    compiled = replace(run(replace(KERAS, jit=True), "keras"), step_ms=50.0)
    assert tried(compiled) == {}
    joined = replace(run(replace(KERAS, jit=True), "keras"), joins_batches=True)
    assert tried(joined) == {}
    assert tried(run(replace(KERAS, backend="torch"), "keras")) == {}


def test_what_comes_first_may_save_most():
    first = run(wait=30, forward=20, backward=10, optimizer=40)
    assert list(tried(first)) == ["fused", "num_workers"]


def test_another_framework_has_nothing_to_try():
    assert tried(run(framework="xgboost", wait=90)) == {}
