"""People's own scripts of Keras, XGBoost and LightGBM: what they counted is what is reported."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fakes.costly import with_costly
from fakes.listener import Listener

from dlmon.instrument.reporter import SOCKET
from dlmon.launch.bundle import script_folder
from dlmon.records import (
    Batches,
    Epoch,
    Evaluation,
    Metrics,
    Model,
    NamedPause,
    Notice,
    Phase,
    Trainer,
)
from dlmon.session.loops import in_tokens

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SCRIPT = HERE / "keras_script.py"
CALLBACK_SCRIPT = HERE / "callback_script.py"
FRAMEWORKS = os.environ.get("DLMON_TEST_FRAMEWORKS")

COMMON = [
    "arrays",
    "arrays_in_parts",
    "stopped_early",
    "stopped_within_an_epoch",
    "from_an_epoch_on",
    "evaluated_and_predicted",
    "dataset_in_python",
    "dataset_with_workers",
    "generator",
    "one_by_one",
    "own_step",
    "broken_off",
    "one_within_the_other",
    "own_loop",
    "words",
]
ON_TENSORFLOW = ["several_steps_at_once", "datasets", "datasets_of_unknown_length"]
# The last one of each, so that what is reported in it is what comes after the epochs before.
LAST = "losses_of_batches"
# Each case begins with the same random numbers, so the others need not run as well. Torch has
# hooks of its own below those of Keras; JAX has none.
ALONE = {"tensorflow": ["arrays"], "tf_keras": ["arrays"], "torch": ["arrays"]}
# These compile for seconds in each case; what does not depend on that is run on Torch.
COMPILED = [
    *("arrays", "stopped_within_an_epoch", "evaluated_and_predicted", "own_step", "own_loop"),
    "several_steps_at_once",
]
FLAVOURS = {
    "tensorflow": [
        *(*COMPILED, "dataset_in_python", "generator", "broken_off", "one_within_the_other"),
        *("one_by_one", "datasets", "datasets_of_unknown_length", "words", "named_callback", LAST),
    ],
    "tf_keras": [*COMMON, *ON_TENSORFLOW, LAST],
    # It reads its data as Torch does.
    "jax": [*COMPILED, "torch_loader", LAST],
    "torch": [*COMMON, "torch_loader", LAST],
}


def interpreter(flavour):
    """Return the interpreter that has a flavour of Keras, or skip the test."""
    if flavour in ("jax", "torch"):
        if not FRAMEWORKS:
            pytest.skip("DLMON_TEST_FRAMEWORKS names no interpreter with Keras on JAX and Torch")
        return FRAMEWORKS
    if importlib.util.find_spec(flavour) is None:
        pytest.skip(f"{flavour} is not installed")
    return sys.executable


def watching(listener):
    """Return the environment in which `dlmon exec` enters a script's Python."""
    return {**listener.environment(), "PYTHONPATH": f"{script_folder() / 'entry'}:{ROOT}"}


def start(flavour, environment, *arguments):
    backend = "tensorflow" if flavour == "tf_keras" else flavour
    environment = {
        "PYTHONPATH": str(ROOT),
        **environment,
        "FLAVOUR": flavour,
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [interpreter(flavour), *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def without_monitor():
    return {name: value for name, value in os.environ.items() if name != SOCKET}


def output_of(process):
    printed, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    return printed


class Run:
    """A script's output alone and watched, and what was reported."""

    def __init__(self, flavour, printed, printed_alone, records):
        self.alone = ALONE.get(flavour, [])
        self.printed, self.printed_alone, self.records = printed, printed_alone, records
        self.cases = [json.loads(line) for line in self.printed.splitlines()]

    def of(self, kind):
        return [record for record in self.records if isinstance(record, kind)]

    def epochs_by_case(self):
        """Yield each case with the epochs that were reported in it."""
        epochs = iter(self.of(Epoch))
        for case in self.cases:
            yield case, [next(epochs) for _ in case["epochs"]]
        assert not list(epochs)


def run(flavour):
    with Listener() as listener:
        watched = start(flavour, watching(listener), SCRIPT, *FLAVOURS[flavour])
        of_alone = ALONE.get(flavour, [])
        alone = of_alone and start(flavour, without_monitor(), SCRIPT, *of_alone)
        printed, printed_alone = output_of(watched), output_of(alone) if alone else ""
        [records] = listener.records()
    return Run(flavour, printed, printed_alone, records)


def run_with_tensorflow(tensorflow, folder):
    ran = tensorflow.run(SCRIPT, *FLAVOURS["tensorflow"], directory=folder, alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    alone = tensorflow.run_alone(SCRIPT, *ALONE["tensorflow"], directory=folder)
    assert alone.returncode == 0, alone.stderr
    return Run("tensorflow", ran.watched.stdout, alone.stdout, ran.process.records)


def test_a_callback_that_the_script_names_counts_without_hooks(tensorflow, tmp_path):
    with Listener() as named:
        ran = tensorflow.run_alone(
            CALLBACK_SCRIPT, directory=tmp_path, environment=named.environment()
        )
        [records] = named.records()
    assert ran.returncode == 0, ran.stderr
    assert "Epoch 2/2" in ran.stdout
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert [(e.epoch, e.samples, e.steps) for e in epochs] == [(0, 25, 3), (1, 25, 3)]


def the_script_prints_what_it_prints_alone(run):
    printed = {json.loads(line)["case"]: line for line in run.printed.splitlines()}
    assert [printed[case] for case in run.alone] == run.printed_alone.splitlines()


def nothing_went_wrong(run):
    assert [notice.text for notice in run.of(Notice) if "stopped watching" in notice.text] == []


def epochs_hold_the_samples_and_batches_that_the_script_counted(run):
    for case, epochs in run.epochs_by_case():
        found = [[epoch.samples, epoch.steps] for epoch in epochs]
        assert found == case["epochs"], case["case"]


def batches_add_up_to_their_epochs(run):
    unknown = {"datasets_of_unknown_length", "own_loop"}
    for case, epochs in run.epochs_by_case():
        for epoch in epochs:
            batches = [record for record in run.of(Batches) if record.epoch == epoch.epoch]
            assert sum(len(record.dt_us) for record in batches) == epoch.steps
            if case["case"] not in unknown:
                samples = [record.counted for record in batches]
                assert sum(map(sum, samples)) == epoch.samples, case["case"]


def each_fit_is_a_loop_and_its_epochs_count_on(run):
    models = {model.loop: model for model in run.of(Model)}
    assert len(models) == sum(case["loops"] for case in run.cases)
    assert list(models) == list(range(len(models)))
    assert [epoch.epoch for epoch in run.of(Epoch)] == list(range(len(run.of(Epoch))))
    first_epochs = [model.first_epoch for model in models.values()]
    assert first_epochs == sorted(first_epochs)


def losses_of_epochs_are_those_of_the_script(run):
    for case, epochs in run.epochs_by_case():
        reported = [epoch.metrics["loss"] for epoch in epochs if "loss" in epoch.metrics]
        if case["case"] in ("arrays", "datasets", "generator", "own_step", "dataset_in_python"):
            assert reported == case["losses"]


def validation_belongs_to_its_epoch(run):
    for case, epochs in run.epochs_by_case():
        validated = [epoch for epoch in epochs if epoch.validation is not None]
        steps = [epoch.validation.steps for epoch in validated]
        assert steps == case["validations"], case["case"]
        for epoch in validated:
            validation = epoch.validation
            # On JAX, the first batch of a validation may be said to end too early.
            trained = min(epoch.train_end, validation.first_end)
            assert trained <= validation.begin < validation.end <= epoch.end


def evaluations_hold_what_the_script_counted(run):
    counted = [evaluation for case in run.cases for evaluation in case["evaluations"]]
    assert [[one.samples, one.steps] for one in run.of(Evaluation)] == counted


def whole_epochs_and_those_that_were_cut_are_told_apart(run):
    cut = {"stopped_within_an_epoch": [False], "one_by_one": [False]}
    cut["broken_off"] = [False, True, False, True]
    for case, epochs in run.epochs_by_case():
        expected = cut.get(case["case"], [True] * len(epochs))
        assert [epoch.whole for epoch in epochs] == expected, case["case"]


def waiting_for_data_is_measured_where_batches_pass_through_python(run):
    measured = run.of(Trainer)[0].backend in ("jax", "torch")
    for case, epochs in run.epochs_by_case():
        numbers = {epoch.epoch for epoch in epochs}
        for record in run.of(Batches):
            if record.epoch in numbers and case["case"] not in ("one_by_one", "own_loop"):
                known = measured and record.per_execution is None
                assert (record.wait_us is not None) == known, case["case"]
                assert (record.wait_us or 0) <= sum(record.dt_us) + len(record.dt_us)


def losses_that_are_read_are_those_that_the_script_counted(run):
    *_, (last, epochs) = run.epochs_by_case()
    assert last["case"] == LAST
    before = run.of(Epoch)[run.of(Epoch).index(epochs[0]) - 1]
    reported = run.records[run.records.index(before) :]
    read = [one.values["loss"] for one in reported if isinstance(one, Metrics)]
    # For about three seconds, once a second.
    assert 2 <= len(read) < len(last["losses_of_batches"])
    assert set(read) <= set(last["losses_of_batches"])


def the_last_phases_are_outside_training_and_the_end_of_the_process(run):
    assert [phase.name for phase in run.of(Phase)[-2:]] == ["outside training", "closing"]
    assert run.of(Phase)[0].name == "compiling"


def what_the_model_is_gets_reported(run):
    trainer, models = run.of(Trainer)[0], {model.loop: model for model in run.of(Model)}
    first = models[0]
    assert (first.parameters, first.batch_size, first.samples_per_epoch) == (19, 10, 82)
    assert (first.steps_per_epoch, first.epochs, first.precision) == (9, 3, "float32")
    assert (first.validation_steps, first.validation_samples) == (3, 21)
    assert first.network == "sequential"
    assert first.backend == trainer.backend
    assert first.keras_version == trainer.framework_version
    assert {model.device for model in models.values()} == {"cpu"}
    # Nothing ever builds the model of the script's own loop.
    assert [model.parameters for model in models.values()].count(None) == 1


def tokens_are_those_of_texts_of_one_length(run):
    for case, epochs in run.epochs_by_case():
        expected = [each and each * 103 for each in case["tokens"]] or [None] * len(epochs)
        assert [epoch.tokens for epoch in epochs] == expected, case["case"]
        for epoch in epochs:
            batches = [record for record in run.of(Batches) if record.epoch == epoch.epoch]
            each = [in_tokens(record).counted for record in batches if record.tokens is not None]
            assert sum(map(sum, each)) == (epoch.tokens or 0), case["case"]
    models = {model.loop: model for model in run.of(Model)}
    inferred = [model.tokens_inferred for model in models.values() if model.sequence]
    if inferred:
        by_name = inferred.pop(1)
        assert by_name is None
        assert None not in inferred


def compilations_of_jax_are_pauses(run):
    pauses = [pause.name for pause in run.of(NamedPause)]
    assert ("compile" in pauses) == (run.of(Trainer)[0].backend == "jax")


def test_what_scripts_count_is_what_is_reported(tensorflow, tmp_path):
    check(run_with_tensorflow(tensorflow, tmp_path))


@pytest.mark.costly
@pytest.mark.parametrize("flavour", ["tf_keras", "jax", "torch"])
def test_what_scripts_count_is_what_is_reported_with_other_kerases(flavour):
    check(run(flavour))


def check(run):
    # At once, for starting the script again for each of them would take minutes.
    the_script_prints_what_it_prints_alone(run)
    nothing_went_wrong(run)
    epochs_hold_the_samples_and_batches_that_the_script_counted(run)
    batches_add_up_to_their_epochs(run)
    each_fit_is_a_loop_and_its_epochs_count_on(run)
    losses_of_epochs_are_those_of_the_script(run)
    validation_belongs_to_its_epoch(run)
    evaluations_hold_what_the_script_counted(run)
    whole_epochs_and_those_that_were_cut_are_told_apart(run)
    waiting_for_data_is_measured_where_batches_pass_through_python(run)
    losses_that_are_read_are_those_that_the_script_counted(run)
    the_last_phases_are_outside_training_and_the_end_of_the_process(run)
    what_the_model_is_gets_reported(run)
    tokens_are_those_of_texts_of_one_length(run)
    compilations_of_jax_are_pauses(run)


# ---- loops of their own with Keras on TensorFlow ----


def test_what_an_optimizer_applies_is_a_step_and_what_keras_trains_counts_once(
    tensorflow, tmp_path
):
    ran = tensorflow.run("tapes.py", directory=tmp_path, alone=False)
    assert ran.watched.returncode == 0, ran.watched.stderr
    process = ran.process
    assert process.of(Notice) == []
    counted = json.loads(ran.watched.stdout.splitlines()[-1])
    validated = [epoch.validation.steps for epoch in process.epochs]
    epochs = zip(process.epochs, validated, strict=True)
    assert [[epoch.samples, epoch.steps, steps] for epoch, steps in epochs] == counted["epochs"]
    assert process.steps == counted["steps"]
    assert {epoch.whole for epoch in process.epochs} == {True}
    assert process.epochs[4].updates == 14
    trainer, models = process.trainer, process.of(Model)
    assert (trainer.framework, trainer.backend) == ("keras", "tensorflow")
    assert {model.device for model in models} == {"cpu"}
    first = models[0]
    assert (first.batch_size, first.samples_per_epoch, first.inferred) == (16, 103, None)
    assert models[-1].has_epochs is False


# ---- XGBoost and LightGBM ----


@pytest.mark.parametrize("package", with_costly(["xgboost", "lightgbm"], but="xgboost"))
def test_each_round_is_a_step_in_every_way_to_train(run_with, package):
    ran = run_with(package, "boosting.py", package)
    assert ran.alone.returncode == 0
    assert (ran.watched.stdout, ran.watched.stderr) == (ran.alone.stdout, ran.alone.stderr)
    process = ran.process
    assert process.trainer.framework == package
    assert process.of(Notice) == []
    rounds = Counter()
    for batches in process.of(Batches):
        rounds[batches.epoch] += len(batches.dt_us)
    counted = json.loads(ran.watched.stdout.splitlines()[-1])
    assert [rounds[loop] for loop in range(len(counted))] == counted
    models = process.of(Model)
    assert [model.steps for model in models] == [7, 6, 5, 3, 3, 50]
    assert {(model.has_epochs, model.device) for model in models} == {(False, "cpu")}
    # Four of the loops have metrics, and each sends those of its last round.
    assert len(process.of(Metrics)) >= 4
    assert process.phases[-2:] == ["outside training", "closing"]
