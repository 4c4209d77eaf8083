"""Scripts that count for themselves: the records say the same, and they print what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dlmon
from dlmon.instrument.networks import CONVOLUTIONS
from dlmon.records import Batches, Epoch, Evaluation, Metrics, Model, Notice, StepParts
from dlmon.session.time_breakdown import StepPartSums
from workloads.catalog import WORKLOADS

ROOT = str(Path(dlmon.__file__).parent.parent)


def check(ran):
    """Compare what a script that succeeded printed and counted with what was recorded of it."""
    assert ran.watched.returncode == 0, ran.watched.stderr
    if ran.alone is not None:
        assert ran.alone.returncode == 0, ran.alone.stderr
        assert ran.watched.stdout == ran.alone.stdout
    counted = json.loads(ran.watched.stdout.splitlines()[0])
    compare(ran.process, counted)
    return ran.process


def compare(process, counted):
    assert process.of(Notice) == []
    assert process.steps == counted["steps"]
    assert process.samples == counted["samples"]
    epochs = process.epochs
    assert len(epochs) == counted["epochs"]
    if epochs:
        assert sum(epoch.samples for epoch in epochs) == counted["samples"]
        assert sum(epoch.steps for epoch in epochs) == counted["steps"]
    if counted["updates"] is not None:
        updates = sum(epoch.updates for epoch in epochs) if epochs else process.updates
        assert updates == counted["updates"]
    assert all(model.device == "cpu" for model in process.of(Model))
    for batches in process.of(Batches):
        assert min(batches.dt_us) >= 0
        assert batches.wait_us is None or batches.wait_us <= sum(batches.dt_us)


@pytest.mark.parametrize(
    "workers", [("0", ""), ("2", "persistent")], ids=lambda value: "-".join(value)
)
def test_a_loop_with_validation(run, workers):
    ran = run("loops.py", "plain", *workers)
    process = check(ran)
    assert process.updates == process.steps
    assert all(epoch.whole for epoch in process.epochs)
    assert [epoch.validation.steps for epoch in process.epochs] == [3, 3, 3]
    assert process.phases.count("validating") == 3
    [model] = process.of(Model)
    assert (model.batch_size, model.samples_per_epoch, model.steps_per_epoch) == (16, 203, 13)
    assert (model.loop, model.first_epoch, model.inferred) == (0, 0, None)
    assert model.workers == int(workers[0])
    assert process.trainer.framework == "torch"
    assert ran.watched.stderr == ran.alone.stderr


@pytest.mark.parametrize("arguments", ["yolov5 0", "ultralytics 2", "timm 2"])
def test_a_loader_that_keeps_one_iterator_for_all_epochs(run, arguments):
    process = check(run("repeated.py", *arguments.split()))
    assert all(epoch.whole for epoch in process.epochs)
    assert [epoch.validation.steps for epoch in process.epochs] == [4, 4, 4]
    [model] = process.of(Model)
    assert (model.batch_size, model.samples_per_epoch, model.steps_per_epoch) == (16, 203, 13)


def test_a_loop_in_which_none_of_pytorchs_optimisers_steps(run):
    process = check(run("loops.py", "by_hand", "loader"))
    assert [epoch.validation.steps for epoch in process.epochs] == [3, 3, 3]
    assert {epoch.updates for epoch in process.epochs} == {None}


def test_a_loop_without_a_loader_in_which_none_of_pytorchs_optimisers_steps(run):
    check(run("loops.py", "by_hand", ""))


def test_two_optimisers(run):
    process = check(run("loops.py", "gan"))
    assert process.updates == 2 * process.steps
    [model] = process.of(Model)
    assert (model.samples_per_epoch, model.steps_per_epoch) == (120, 6)


def test_a_data_set_without_length(run):
    process = check(run("loops.py", "iterable", "2"))
    [model] = process.of(Model)
    assert (model.batch_size, model.samples_per_epoch, model.steps_per_epoch) == (8, None, None)
    assert {"samples_per_epoch", "steps_per_epoch"} <= set(model.why)


@pytest.mark.parametrize(("how", "workers"), [("dropped", "2"), ("raises", "0"), ("padded", "2")])
def test_samples_that_never_come_are_not_counted(run, how, workers):
    process = check(run("loops.py", "left_out", how, workers))
    *_, model = process.of(Model)
    assert (model.loop, model.batch_size, model.steps_per_epoch) == (0, 32, 10)
    if how == "dropped":
        reason = "the script's collate function leaves samples out"
        assert (model.samples_per_epoch, model.inferred) == (None, reason)
        assert model.why["samples_per_epoch"] == reason
    else:
        assert (model.samples_per_epoch, model.inferred) == (300, None)


def test_a_compiled_model_and_a_compiled_step(run):
    ran = run("loops.py", "compiled")
    check(ran)
    alone, watched = (output.stderr.count("Warning") for output in (ran.alone, ran.watched))
    assert alone == watched


def test_a_loop_without_a_loader(run):
    process = check(run("loops.py", "without_loader"))
    [model] = process.of(Model)
    assert (model.batch_size, model.samples_per_epoch) == (None, None)
    assert {"batch_size", "samples_per_epoch", "epochs"} <= set(model.why)
    assert process.phases.count("validating") == 2


@pytest.mark.parametrize(("workers", "how"), [("0", ""), ("2", "named")])
def test_a_loop_that_takes_single_batches(run, workers, how):
    process = check(run("loops.py", "single_batches", workers, how))
    [model] = process.of(Model)
    assert (model.batch_size, model.workers, model.samples_per_epoch) == (16, int(workers), None)
    # That two processes are started for each batch is time that it waits.
    assert sum(batches.wait_us for batches in process.of(Batches)) > 0


def test_loaders_side_by_side_and_loops_that_are_left(run):
    process = check(run("loops.py", "zipped"))
    assert [epoch.samples for epoch in process.epochs[1:3]] == [90, 90]
    assert [epoch.whole for epoch in process.epochs] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("loop", "whole"),
    [
        ("batched_again 16 12", [True, True, True]),
        ("left_each_time", [True, True, True, False]),
        ("skipped", [False, True, True]),
        # Not every batch that came was trained on.
        ("skipped every", [False, False, False]),
        ("three_times", [True] * 3),
        ("in_background", [True] * 4),
        ("adversaries_in_background", [True] * 4),
        ("cycled", [True]),
        ("labelled_and_not", [True] * 3),
        ("labelled_and_not kept", [True] * 3),
        ("cycled_within_a_step", [True]),
        ("gradients_by_hand", [True, True, True]),
        ("gradients_by_hand functional", [True, True, True]),
        ("updates_statistics", [True, True]),
    ],
)
def test_what_went_into_a_step_counts_and_not_what_was_fetched(run, loop, whole):
    ran = run("unlike_loops.py", *loop.split(), alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    process, counted = ran.process, json.loads(ran.watched.stdout)
    assert process.of(Notice) == []
    assert (process.steps, process.samples) == (counted["steps"], counted["samples"])
    assert process.updates == (counted["updates"] or process.steps)
    epochs = process.epochs
    assert [epoch.whole for epoch in epochs] == whole
    assert sum(epoch.steps for epoch in epochs) == counted.get("in_epochs", counted["steps"])
    loops = {model.loop for model in process.of(Model)}
    assert len(loops) == (2 if "in_epochs" in counted else 1)
    validations = [epoch.validation.steps for epoch in epochs if epoch.validation is not None]
    assert validations == counted.get("validations", [])


def test_steps_that_a_gradient_scaler_leaves_out(run):
    process = check(run("loops.py", "scaled"))
    assert [epoch.updates for epoch in process.epochs] == [8, 9]


def test_processes_that_are_spawned_and_forked(run):
    ran = run("spawned.py", alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    watched = {line["pid"]: line for line in map(json.loads, ran.watched.stdout.splitlines())}
    processes = {process.trainer.pid: process for process in ran.reported}
    assert set(processes) == set(watched)
    for pid, process in processes.items():
        compare(process, watched[pid])


@pytest.mark.parametrize(
    ("package", "options"),
    [
        # Under its older name it is the same code, so each case is run under one of them.
        ("pytorch_lightning", {"max_epochs": 3}),
        (
            "lightning.pytorch",
            {"max_epochs": 2, "accumulate_grad_batches": 4, "val_check_interval": 5},
        ),
        ("pytorch_lightning", {"max_epochs": 2, "limit_train_batches": 7}),
        ("lightning.pytorch", {"max_epochs": 2, "stream": True}),
    ],
    ids=["whole", "accumulates", "limited", "stream"],
)
def test_lightning(run, package, options):
    ran = run("lightning_fit.py", package, json.dumps(options))
    process = check(ran)
    losses = json.loads(ran.watched.stdout.splitlines()[1].partition("]")[0] + "]")
    assert [epoch.metrics["loss"] for epoch in process.epochs] == losses
    [evaluation] = process.of(Evaluation)
    assert evaluation.metrics == json.loads(ran.watched.stdout.splitlines()[2])
    assert (evaluation.steps, evaluation.samples, evaluation.whole) == (4, 50, True)
    [model] = process.of(Model)
    assert (model.epochs, model.network, model.parameters) == (options["max_epochs"], "Module", 9)
    expected = None if "stream" in options else options.get("limit_train_batches", 13)
    assert model.steps_per_epoch == expected
    within = "val_check_interval" in options
    for epoch in process.epochs:
        assert epoch.whole
        assert {"loss", "val_loss"} == set(epoch.metrics)
        assert (epoch.validation is None) == within
        assert within or epoch.validation.steps == 4
    # Before training, and after each epoch, or twice within it.
    assert process.phases.count("validating") == 1 + (4 if within else len(process.epochs))
    # That of the sanity check, and that of the test.
    assert process.phases[0] == "validating"
    assert process.phases[-2:] == ["evaluating", "closing"]


def test_lightning_that_is_asked_for_steps(run):
    process = check(run("lightning_fit.py", "lightning.pytorch", '{"max_steps": 20}'))
    [model] = process.of(Model)
    assert model.epochs is None
    assert model.why["epochs"] == "it was asked for 20 steps"


@pytest.mark.parametrize(
    "options",
    [
        {"num_train_epochs": 2, "eval_strategy": "epoch"},
        {
            "max_steps": 7,
            "gradient_accumulation_steps": 3,
            "eval_strategy": "steps",
            "eval_steps": 2,
        },
    ],
    ids=["epochs", "steps"],
)
def test_transformers(run, options):
    # It logs how long it took, so the losses are what can be compared.
    ran = run("transformers_trainer.py", json.dumps(options))
    assert ran.watched.returncode == 0, ran.watched.stderr
    counts, *losses = ran.watched.stdout.splitlines()[-3:]
    assert losses == ran.alone.stdout.splitlines()[-2:]
    process = ran.process
    compare(process, json.loads(counts))
    [model] = process.of(Model)
    assert (model.epochs, model.network, model.parameters) == (2, "Model", 27)
    validations = process.phases.count("validating")
    assert validations == (2 if "num_train_epochs" in options else 4)
    assert all("eval_loss" in epoch.metrics for epoch in process.epochs)
    for epoch in process.epochs:
        assert 0 < epoch.metrics["loss"] < 10


def test_transformers_that_goes_on_from_within_an_epoch(run):
    options = {"num_train_epochs": 3, "eval_strategy": "epoch"}
    ran = run("transformers_trainer.py", json.dumps(options), "20")
    assert ran.watched.returncode == 0, ran.watched.stderr
    process = ran.process
    # An epoch and seven batches, the rest of that epoch, and one more.
    assert [epoch.steps for epoch in process.epochs] == [13, 7, 6, 13]
    assert [epoch.whole for epoch in process.epochs] == [True, False, False, True]
    assert next(batches.first for batches in process.of(Batches) if batches.epoch == 2) == 13 - 6
    first, second = process.of(Model)
    assert (first.epochs, second.epochs) == (2, 4)
    assert (second.network, second.steps_per_epoch) == ("Model", 13)


@pytest.mark.parametrize("how", ["", "dispatched"], ids=["sharded", "dispatched"])
def test_accelerate(run, how):
    process = check(run("loops.py", "accelerated", how))
    assert [epoch.validation.steps for epoch in process.epochs] == [4, 4, 4]
    # Its loaders read one batch ahead; each batch still ends with the step that was made of it.
    assert process.updates == 3 * 4


def test_operations_are_those_that_pytorch_counts(run):
    ran = run("operations.py", ROOT, alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    found = json.loads(ran.watched.stdout)
    assert found.pop("convolution") == CONVOLUTIONS
    again = {name: hardware for name, (_, hardware) in found.items()}
    assert again == pytest.approx(dict.fromkeys(found, 1), rel=0.02)
    # What is computed again, PyTorch counts too.
    checkpointed = [found.pop(name)[0] for name in again if name.startswith("checkpointed")]
    assert len(checkpointed) == 7
    assert max(checkpointed) < 0.95
    ours = {name: share for name, (share, _) in found.items()}
    assert ours == pytest.approx(dict.fromkeys(found, 1), rel=0.02)


def test_the_operations_of_transformers_are_those_that_pytorch_counts(run):
    words = 8
    ran = run("count_operations.py", ROOT, str(words), alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    # GPT-2 was counted with few words, for which its last product is small.
    more = {"gpt2-124m": 2 * 1024 * 768 * (50_257 - words)}
    for name, ((forward, both), (forward_of_2, both_of_2)) in json.loads(
        ran.watched.stdout.splitlines()[-1]
    ).items():
        logits, workload = more.get(name, 0), WORKLOADS[name]
        of_all = [
            forward + 11 * (forward_of_2 - forward) + logits,
            both + 11 * (both_of_2 - both) + 3 * logits,
        ]
        ours = [workload.forward_flops, workload.train_flops]
        assert ours == pytest.approx(of_all, rel=1e-3), name


def test_the_operations_of_one_step_are_counted_where_that_is_asked_for(run):
    ran = run("counted.py", alone=False)
    process = check(ran)
    model = process.of(Model)[-1]
    assert model.flops_per_sample == json.loads(ran.watched.stdout)["operations"]
    assert (model.network, model.flops_from) == ("Sequential", "counted")
    # And a second one, as the first was interrupted.
    assert sum(batches.count for batches in process.of(Batches) if batches.profiled) in (1, 2)


def tokens_of(process):
    """Return the tokens of all batches, those whose tokens aren't known left out."""
    known = [batches for batches in process.of(Batches) if batches.tokens is not None]
    each = (batches.tokens for batches in known)
    counts = zip(each, (batches.count for batches in known), strict=True)
    return sum(sum(one) if isinstance(one, tuple) else one * count for one, count in counts)


@pytest.mark.parametrize("how", ["loader", "trainer"])
def test_tokens_are_those_that_the_script_counts(run, how):
    ran = run("tokens.py", how, alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    counted = json.loads(ran.watched.stdout.splitlines()[-1])
    process = ran.process
    assert tokens_of(process) == counted["tokens"]
    # The last record of an epoch counts.
    epochs = {epoch.epoch: epoch for epoch in process.of(Epoch)}
    assert sum(epoch.tokens for epoch in epochs.values()) == counted["tokens"]
    assert sum(epoch.updates for epoch in epochs.values()) == counted["steps"]
    assert [model.tokens_inferred for model in process.of(Model)] == [None]


def test_tokens_of_a_loop_without_a_loader(run):
    ran = run("tokens.py", "without_a_loader", alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    counted = json.loads(ran.watched.stdout)
    assert tokens_of(ran.process) == counted["tokens"]
    assert ran.process.steps == ran.process.updates == counted["steps"]
    [model] = ran.process.of(Model)
    assert model.tokens_inferred is not None
    assert (model.network, model.flops_per_token) == ("Network", 6 * 4 * 20)
    # The script calls PyTorch's checkpoint itself.
    assert model.recomputed_flops_per_token == 2 * 4 * 20


def test_tokens_of_a_loop_that_changes_its_weights_itself(run):
    ran = run("tokens.py", "without_an_optimizer", alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    counted = json.loads(ran.watched.stdout)
    assert (tokens_of(ran.process), ran.process.steps) == (counted["tokens"], counted["steps"])


def without_lines(traceback):
    """Leave out at which of its lines PyTorch's loader got a batch: that is a matter of time."""
    return re.sub(r'(dataloader\.py", line )\d+', r"\1N", traceback)


def test_a_script_that_raises_prints_what_it_prints_alone(run):
    ran = run("raises.py", "2")
    assert ran.watched.returncode == ran.alone.returncode == 1
    assert ran.watched.stdout == ran.alone.stdout == "step\n" * 2
    assert without_lines(ran.watched.stderr) == without_lines(ran.alone.stderr)
    [epoch] = ran.process.epochs
    assert (epoch.steps, epoch.whole) == (2, False)


def test_warnings_name_the_lines_that_they_name_alone(run):
    ran = run("warns.py")
    assert ran.watched.returncode == ran.alone.returncode == 1
    assert ran.watched.stderr == ran.alone.stderr
    assert ran.watched.stderr.count("warns.py:") >= 6


def test_what_else_a_script_does_with_loaders(run):
    ran = run("peculiar.py")
    assert (ran.watched.returncode, ran.watched.stderr) == (3, "")
    assert ran.watched.stdout == ran.alone.stdout
    compare(ran.process, json.loads(ran.watched.stdout.splitlines()[0]))
    assert len(ran.process.of(Epoch)) >= 1


@pytest.mark.parametrize("kind", ["plain", "accumulated", "scaled", "lbfgs"])
def test_the_loss_of_an_epoch_is_the_mean_of_those_that_the_script_printed(run, kind):
    ran = run("losses.py", kind)
    process = check(ran)
    printed = json.loads(ran.watched.stdout.splitlines()[1])
    of_epochs = [epoch.metrics["loss"] for epoch in process.epochs]
    assert of_epochs == [pytest.approx(sum(losses) / len(losses), rel=1e-9) for losses in printed]
    read = [metrics.values["loss"] for metrics in process.of(Metrics)]
    # For over three seconds, once a second: each the mean of some steps in a row.
    assert 2 <= len(read) < sum(map(len, printed))
    assert all(min(map(min, printed)) <= one <= max(map(max, printed)) for one in read)
    assert ran.watched.stderr == ran.alone.stderr


@pytest.mark.parametrize("way", ["loader", "closure", "compiled"])
def test_the_parts_of_a_step_are_those_that_it_slept(run, way):
    ran = run("step_parts.py", way, alone=False)
    assert ran.watched.stderr == ""
    process = check(ran) if way != "closure" else ran.process
    sums = StepPartSums()
    for parts in process.of(StepParts):
        sums.add(parts)
    total = sums.total
    assert total.steps >= 3
    known = {"forward_us": 6, "backward_us": 9, "optimizer_us": 4, "rest_us": 5}
    for name, slept_ms in known.items():
        # A busy machine wakes late; what is in another part than its own is missing here.
        assert getattr(total, name) / total.steps / 1000 >= slept_ms, name
    assert (total.wait_us is None) == (way == "closure")
    assert total.copy_us is None
    [model] = process.of(Model)
    assert (model.optimizer, model.fused) == ("Optimizer", False)
