"""The Keras callback's logic, driven in the order of Keras's own trainer, without Keras.

The order is that of keras/src/backend/tensorflow/trainer.py and callbacks/callback_list.py
(Keras 3.15). What real Keras does with the callback is tested end to end.
"""

import importlib
import sys
import weakref
from collections import deque
from types import ModuleType, SimpleNamespace

import pytest

import dlmon
from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.emitter import Reads
from dlmon.instrument.minimum_time import MinimumTime
from dlmon.instrument.queued import MetricsRead
from dlmon.records import Batches, Epoch, Evaluation, Metrics, Model, Notice, Phase

MS = 1_000_000
MODEL = Model(10, 20, 10, 40, 4, epochs=2)


class KerasCallback:
    """Keras's base class, as far as it matters; reading `model` syncs state on JAX."""

    def __init__(self):
        self._model = None

    def set_model(self, model):
        self._model = model

    @property
    def model(self):
        raise AssertionError("the callback asked for the model while training")


class KerasProgress(KerasCallback):
    """Keras's lines of progress, as far as the callbacks change them."""

    def set_params(self, params):
        self.verbose, self.epochs = params["verbose"], params["epochs"]
        self.lines = []

    def on_epoch_begin(self, epoch, logs=None):
        if self.verbose:
            self.lines.append(f"Epoch {epoch + 1}/{self.epochs}")


class Output:
    """A batch of predictions on a device; `read` says whether the host has waited for it."""

    def __init__(self):
        self.read = False


@pytest.fixture
def callbacks(monkeypatch):
    keras = ModuleType("keras")
    keras.callbacks = SimpleNamespace(Callback=KerasCallback, ProgbarLogger=KerasProgress)
    keras.tree = SimpleNamespace(flatten=lambda outputs: list(outputs or ()))
    keras.backend = SimpleNamespace(backend=lambda: "tensorflow")
    keras.ops = SimpleNamespace(convert_to_numpy=lambda output: setattr(output, "read", True))
    monkeypatch.setitem(sys.modules, "keras", keras)
    monkeypatch.delitem(sys.modules, "dlmon.instrument.keras", raising=False)
    yield importlib.import_module("dlmon.instrument.keras")
    # What was imported with the stub must not stay for a test that wants the real one.
    sys.modules.pop("dlmon.instrument.keras", None)
    monkeypatch.delattr(dlmon, "keras", raising=False)


@pytest.fixture
def callback_class(callbacks):
    return callbacks.TrainingCallback


class Recorder:
    """Stands in for the emitter: keeps what it is given, in order."""

    def __init__(self):
        self.queue = deque()
        self.send = self.batch_ended = self.queue.append
        self.stop_requested = False
        self.steady_left_us = lambda steady_us: steady_us
        self.reads = Reads()

    def send_metrics(self, t, values):
        self.reads.is_due = False
        self.send(MetricsRead(t, values))

    def records(self):
        collector = BatchCollector()
        collector.take(deque(self.queue), finish=True)
        return list(collector.records(finish=True))

    def of(self, kind):
        return [record for record in self.records() if isinstance(record, kind)]

    def phases(self):
        return [record.name for record in self.of(Phase)]


class Trainer:
    """Calls a callback in the order of Keras's `fit` and `evaluate`; batches take 20 ms."""

    def __init__(self, steps=4, validation_steps=0, steps_per_execution=1):
        self.steps = steps
        self.validation_steps = validation_steps
        self.steps_per_execution = steps_per_execution
        self.stop_training = self.stop_evaluating = False
        self.predict_function = lambda: [Output()]
        self.now = 1_000 * MS
        self.cpu = 0
        self.logs = {"loss": 0.5}
        self.events = []
        self.meanwhile = {}
        self.logs_of_batches = []

    def clock(self):
        return self.now

    def fit(self, callback, epochs=1, initial_epoch=0, validation_freq=1):
        callback.set_model(self)
        self.stop_training = False
        self.reach("train begin", callback.on_train_begin)
        for epoch in range(initial_epoch, epochs):
            self.reach(f"epoch {epoch} begin", callback.on_epoch_begin, epoch)
            self.meanwhile.get(f"epoch {epoch} opens", lambda: None)()
            begin, end = callback.on_train_batch_begin, callback.on_train_batch_end
            self.loop("train", self.steps, end, "stop_training", begin)
            logs = dict(self.logs)
            if self.validation_steps and (epoch + 1) % validation_freq == 0:
                self.test(callback, self.validation_steps)
                logs |= {f"val_{name}": value for name, value in self.logs.items()}
            self.reach(f"epoch {epoch} end", callback.on_epoch_end, epoch, logs)
            if self.stop_training:
                break
        self.reach("train end", callback.on_train_end, self.logs)

    def evaluate(self, callback, steps):
        callback.set_model(self)
        self.test(callback, steps)

    def test(self, callback, steps):
        self.stop_evaluating = False
        self.reach("test begin", callback.on_test_begin)
        self.loop("test", steps, callback.on_test_batch_end, "stop_evaluating")
        self.now += 5 * MS
        self.reach("test end", callback.on_test_end, self.logs)

    def predict(self, callback):
        callback.set_model(self)
        self.stop_predicting = False
        self.reach("predict begin", callback.on_predict_begin)
        reported = []

        def batch_ended(batch, logs):
            reported.append(self.predict_function())
            callback.on_predict_batch_end(batch, {"outputs": reported[-1]})

        self.loop("predict", self.steps, batch_ended, "stop_predicting")
        self.reach("predict end", callback.on_predict_end)
        return reported

    def loop(self, kind, steps, batch_ended, stop_flag, batch_begun=None):
        stride = self.steps_per_execution
        for step in range(0, steps, stride):
            if batch_begun is not None:
                batch_begun(step)
            self.now += 20 * MS * stride
            logs = {"loss": object(), "outputs": [Output()]}
            self.logs_of_batches.append(logs)
            self.reach(f"{kind} {step}", batch_ended, step + stride - 1, logs)
            if getattr(self, stop_flag):
                break

    def reach(self, moment, hook, *arguments):
        """Let happen what a test wants to happen just before a hook, then call it."""
        self.events.append(moment)
        self.meanwhile.get(moment, lambda: None)()
        hook(*arguments)


@pytest.fixture
def build(callback_class):
    def made(trainer, **options):
        emitter = Recorder()
        options = {
            "batch_size": 10,
            "samples_per_epoch": 10 * trainer.steps,
            "validation_steps": trainer.validation_steps or None,
            **options,
        }
        clocks = {
            "clock": trainer.clock,
            "cpu_clock": lambda: trainer.cpu,
            "delay_clock": lambda: 0,
        }
        return emitter, callback_class(emitter, **clocks, **options)

    return made


def test_both_declare_themselves_safe_for_asynchronous_dispatch(callbacks):
    assert callbacks.TrainingCallback.async_safe is True
    assert callbacks.InferenceCallback.async_safe is True


def test_an_epoch_without_validation_has_none_of_the_epoch_before(build):
    trainer = Trainer(validation_steps=2)
    emitter, callback = build(trainer)
    trainer.fit(callback, epochs=3, validation_freq=2)
    epochs = emitter.of(Epoch)
    assert [epoch.validation is not None for epoch in epochs] == [False, True, False]
    # Its time is not that of a whole epoch with validation.
    assert [epoch.whole for epoch in epochs] == [False, True, False]


def test_batch_hooks_of_a_thread_pool_may_come_in_any_order(build):
    trainer = Trainer(validation_steps=3)
    emitter, callback = build(trainer)
    callback.set_model(trainer)
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for batch in (1, 0, 3, 2):
        trainer.now += 20 * MS
        callback.on_train_batch_end(batch)
    callback.on_test_begin()
    for batch in (2, 0, 1):
        trainer.now += 20 * MS
        callback.on_test_batch_end(batch)
    callback.on_test_end({})
    callback.on_epoch_end(0, {})
    (epoch,) = emitter.of(Epoch)
    assert (epoch.steps, epoch.validation.steps, epoch.whole) == (4, 3, True)
    assert (epoch.validation.first_end, epoch.validation.last_end) == (1_100 * MS, 1_140 * MS)


@pytest.mark.parametrize("moment", ["test begin", "test 1", "epoch 0 end"])
def test_a_stop_during_validation_begins_no_other_epoch(build, moment):
    trainer = Trainer(validation_steps=3)
    emitter, callback = build(trainer)
    trainer.meanwhile[moment] = lambda: setattr(emitter, "stop_requested", True)
    trainer.fit(callback, epochs=5)
    (epoch,) = emitter.of(Epoch)
    assert epoch.whole == (moment == "epoch 0 end")
    assert "epoch 1 begin" not in trainer.events


def test_a_stop_ends_the_evaluation_after_the_current_batch(build):
    trainer = Trainer()
    emitter, callback = build(trainer, evaluation_samples=95)
    trainer.meanwhile["test 2"] = lambda: setattr(emitter, "stop_requested", True)
    trainer.evaluate(callback, 10)
    (evaluation,) = emitter.of(Evaluation)
    assert (evaluation.steps, evaluation.samples, evaluation.whole) == (3, 30, False)


def test_an_evaluation_counts_the_samples_of_its_short_last_batch(build):
    trainer = Trainer()
    emitter, callback = build(trainer, evaluation_samples=95)
    trainer.fit(callback)
    begun = trainer.now
    trainer.evaluate(callback, 10)
    (evaluation,) = emitter.of(Evaluation)
    first_end = evaluation.first_end
    assert first_end is not None
    assert begun < first_end < begun + 205 * MS
    assert evaluation == Evaluation(begun, begun + 205 * MS, 10, 95, True, {"loss": 0.5}, first_end)


def test_an_epoch_is_whole_when_all_its_batches_came(build):
    trainer = Trainer()
    for samples, whole in ((40, True), (39, True), (41, False)):
        emitter, callback = build(trainer, samples_per_epoch=samples)
        trainer.fit(callback)
        assert emitter.of(Epoch)[0].whole == whole


@pytest.mark.parametrize("capped", [False, True])
def test_an_evaluation_of_all_that_there_is_is_whole_in_a_capped_run_too(build, capped):
    trainer = Trainer()
    options = {"evaluation_samples": 20, "evaluation_capped": capped}
    emitter, callback = build(trainer, capped=True, **options)
    trainer.fit(callback)
    trainer.evaluate(callback, 2)
    assert emitter.of(Evaluation)[0].whole is not capped


def test_a_second_fit_compiles_trains_and_counts_from_its_own_begin(build):
    trainer = Trainer(validation_steps=2)
    emitter, callback = build(trainer)
    trainer.fit(callback, epochs=1)
    trainer.now += 60_000 * MS
    trainer.fit(callback, epochs=2)
    assert emitter.phases() == [
        *("compiling", "training", "compiling", "validating", "closing"),
        *("compiling", "training", "validating", "training", "validating", "closing"),
    ]
    epochs = emitter.of(Epoch)
    assert [epoch.epoch for epoch in epochs] == [0, 0, 1]
    assert all(epoch.end - epoch.begin == (4 * 20 + 2 * 20 + 5) * MS for epoch in epochs)


def test_a_fit_may_begin_at_a_later_epoch(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    trainer.fit(callback, epochs=7, initial_epoch=5)
    assert emitter.phases() == ["compiling", "training", "training", "closing"]
    assert [epoch.epoch for epoch in emitter.of(Epoch)] == [5, 6]


def test_several_batches_an_execution_are_reported_one_by_one(build):
    trainer = Trainer(steps=10, validation_steps=6, steps_per_execution=4)
    emitter, callback = build(trainer, evaluation_samples=90)
    trainer.fit(callback)
    trainer.evaluate(callback, 9)
    (batches,) = emitter.of(Batches)
    (epoch,) = emitter.of(Epoch)
    (evaluation,) = emitter.of(Evaluation)
    assert batches.dt_us[:8] == (20_000,) * 8
    assert len(batches.dt_us) == epoch.steps == 10
    # Keras claims whole executions of four; there are no more batches than that.
    assert (epoch.validation.steps, evaluation.steps, epoch.whole) == (6, 9, True)


def test_a_fit_without_batches_is_an_epoch_without_any(build):
    trainer = Trainer(steps=0)
    emitter, callback = build(trainer, samples_per_epoch=100)
    trainer.fit(callback)
    (epoch,) = emitter.of(Epoch)
    assert (epoch.steps, epoch.samples, epoch.whole) == (0, 0, False)


def test_a_test_pass_without_batches_says_nothing(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    trainer.evaluate(callback, 0)
    assert emitter.of(Evaluation) == []


def test_the_batch_hook_reads_no_metric_and_no_model(build):
    trainer = Trainer(steps=3)
    emitter, callback = build(trainer)
    # Both would raise: the logs can't be turned into numbers, the model can't be read.
    trainer.fit(callback)
    assert len(emitter.of(Batches)[0].dt_us) == 3


# ---- pauses before and after batches ----

TAKEN_DOWN = "TensorFlow takes down the last epoch's input pipeline"


def pausing(trainer, *moments, wall_ms=2_100, cpu_ms=10):
    """Let so much time pass at each moment, and so much of the CPU be used."""

    def pass_time():
        trainer.now += wall_ms * MS
        trainer.cpu += cpu_ms * MS

    trainer.meanwhile |= dict.fromkeys(moments, pass_time)


def test_the_pause_before_an_epochs_first_batch_is_an_opening_and_no_batch(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, "epoch 1 opens")
    trainer.fit(callback, epochs=2)
    first, second = emitter.of(Batches)
    assert (first.opening_us, second.opening_us) == (None, 2_100_000)
    assert second.dt_us == (20_000,) * 4
    assert emitter.of(Phase)[2:] == [
        Phase(1_080 * MS, "opening", 1),
        Phase(3_180 * MS, "training"),
        Phase(3_260 * MS, "closing"),
    ]


def test_a_long_pause_after_validation_is_no_validation(build):
    trainer = Trainer(validation_steps=2)
    emitter, callback = build(trainer)
    pausing(trainer, "epoch 0 end", wall_ms=400)
    trainer.fit(callback, epochs=2)
    closed = [phase.t for phase in emitter.of(Phase) if phase.name == "closing"]
    validated = emitter.of(Epoch)[0].validation.end
    assert closed == [validated, emitter.of(Epoch)[1].end]


def test_the_cause_of_a_short_pause_is_named_once_and_then_counted(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, *(f"epoch {epoch} opens" for epoch in (0, 3, 4, 6)), wall_ms=900)
    trainer.fit(callback, epochs=7)
    assert [notice.text for notice in emitter.of(Notice)] == [
        f"0.9 s at the start of epoch 4: {TAKEN_DOWN}",
        "2.7 s in all at the start of 3 epochs: "
        "TensorFlow took down the input pipelines of the epochs before",
    ]


def test_a_few_long_pauses_are_named_and_any_that_is_longer_yet(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, *(f"epoch {epoch} opens" for epoch in range(1, 9)))
    pausing(trainer, "epoch 9 opens", wall_ms=3000)
    trainer.fit(callback, epochs=11)
    named = [notice.text for notice in emitter.of(Notice)[:-1]]
    assert named == [
        *(f"2.1 s at the start of epoch {epoch}: {TAKEN_DOWN}" for epoch in range(2, 7)),
        f"3.0 s at the start of epoch 10: {TAKEN_DOWN}",
    ]


def test_a_single_pause_is_not_counted_again(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, "epoch 1 opens")
    trainer.fit(callback, epochs=3)
    assert len(emitter.of(Notice)) == 1


def test_no_cause_is_named_of_a_pause_in_which_the_process_worked(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, "epoch 1 opens", cpu_ms=500)
    trainer.fit(callback, epochs=2)
    assert emitter.of(Notice) == []
    assert "opening" in emitter.phases()


def test_no_cause_is_named_of_a_short_pause(build):
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, "epoch 1 opens", wall_ms=499)
    trainer.fit(callback, epochs=2)
    assert emitter.of(Notice) == []


def test_no_cause_is_named_on_another_backend(build, callbacks):
    callbacks.keras.backend.backend = lambda: "jax"
    trainer = Trainer()
    emitter, callback = build(trainer)
    pausing(trainer, "epoch 1 opens")
    trainer.fit(callback, epochs=2)
    assert emitter.of(Notice) == []
    assert "opening" in emitter.phases()


def test_validation_says_how_many_batches_its_first_execution_held(build):
    trainer = Trainer(validation_steps=6, steps_per_execution=4)
    emitter, callback = build(trainer)
    trainer.fit(callback)
    assert emitter.of(Epoch)[0].validation.first_steps == 4


# ---- training for a least time ----


class Asked:
    """Stands in for the least time: so many epochs, and what was reported of them."""

    def __init__(self, epochs):
        self.epochs = epochs
        self.reported = []

    def should_continue(self, ended, train_ns):
        self.reported.append((ended, train_ns))
        return ended < self.epochs


def test_training_ends_with_the_epoch_that_is_set_as_the_last(build):
    trainer = Trainer(steps=4, validation_steps=3)
    minimum_time = Asked(3)
    emitter, callback = build(trainer, minimum_time=minimum_time)
    trainer.fit(callback, epochs=1_000)
    assert [epoch.whole for epoch in emitter.of(Epoch)] == [True] * 3
    # Validation is no training.
    assert minimum_time.reported == [(1, 80 * MS), (2, 80 * MS), (3, 80 * MS)]


def test_the_time_of_training_is_that_of_its_own_epoch(build):
    trainer = Trainer(steps=4, validation_steps=3)
    minimum_time = Asked(4)
    _, callback = build(trainer, minimum_time=minimum_time)
    trainer.fit(callback, epochs=1_000, validation_freq=3)
    assert [train_ns for _, train_ns in minimum_time.reported] == [80 * MS] * 4


def test_a_stop_ends_training_whatever_the_least_time(build):
    trainer = Trainer()
    emitter, callback = build(trainer, minimum_time=Asked(1_000))
    trainer.meanwhile["train 1"] = lambda: setattr(emitter, "stop_requested", True)
    trainer.fit(callback, epochs=1_000)
    (epoch,) = emitter.of(Epoch)
    assert not epoch.whole


def test_keras_prints_the_epochs_that_were_asked_for_and_counts_to_them(callbacks):
    progress = callbacks.RequestedEpochs(2)
    assert progress.async_safe
    progress.set_params({"verbose": 2, "epochs": 100_002, "steps": 4})
    for epoch in range(5):
        progress.on_epoch_begin(epoch)
    assert progress.lines == ["Epoch 1/2", "Epoch 2/2"]


# ---- inference ----


@pytest.fixture
def build_inference(callbacks):
    def made(trainer, **options):
        emitter = Recorder()
        options = {
            "batch_size": 10,
            "samples_per_epoch": 10 * trainer.steps,
            "minimum_time": MinimumTime(emitter, MODEL, 0),
            **options,
        }
        return emitter, callbacks.InferenceCallback(emitter, clock=trainer.clock, **options)

    return made


def test_after_each_pass_of_inference_it_is_known_whether_another_follows(build_inference):
    trainer = Trainer(steps=4)
    minimum_time = Asked(3)
    _, callback = build_inference(trainer, minimum_time=minimum_time)
    while callback.should_continue:
        trainer.predict(callback)
        trainer.now += 500 * MS
    assert minimum_time.reported == [(1, 80 * MS), (2, 80 * MS), (3, 80 * MS)]


def test_a_batch_of_inference_is_timed_after_its_output_has_arrived(build_inference, callbacks):
    trainer = Trainer(steps=2)
    emitter, callback = build_inference(trainer)

    def wait_for(output):
        trainer.now += 7 * MS

    callbacks.keras.ops.convert_to_numpy = wait_for
    trainer.predict(callback)
    assert emitter.of(Batches)[0].dt_us == (27_000, 27_000)


def test_batches_of_inference_may_come_in_any_order(build_inference):
    trainer = Trainer(steps=4)
    emitter, callback = build_inference(trainer)
    callback.set_model(trainer)
    callback.on_predict_begin()
    for _ in range(4):
        trainer.predict_function()
    for batch in (1, 0, 3, 2):
        trainer.now += 20 * MS
        callback.on_predict_batch_end(batch)
    callback.on_predict_end()
    (epoch,) = emitter.of(Epoch)
    assert (epoch.steps, epoch.samples, epoch.whole) == (4, 40, True)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_each_batch_of_inference_waits_for_its_own_output(build_inference, order):
    trainer = Trainer(steps=3)
    outputs = []
    trainer.predict_function = lambda: [outputs.append(Output()) or outputs[-1]]
    _, callback = build_inference(trainer)
    callback.set_model(trainer)
    callback.on_predict_begin()
    for _ in range(3):
        trainer.predict_function()
    for done, batch in enumerate(order, start=1):
        callback.on_predict_batch_end(batch)
        read = {number for number, output in enumerate(outputs) if output.read}
        assert read == set(order[:done])


def test_inference_hands_keras_no_output_to_keep(build_inference):
    trainer = Trainer(steps=3)
    made = []

    def predict():
        output = Output()
        made.append(weakref.ref(output))
        return [output]

    trainer.predict_function = predict
    _, callback = build_inference(trainer)
    for _ in range(2):
        assert trainer.predict(callback) == [(), (), ()]
        assert trainer.predict_function is predict
    assert [output() for output in made] == [None] * 6


def test_on_jax_inference_hands_keras_the_state_without_the_output(build_inference, callbacks):
    callbacks.keras.backend.backend = lambda: "jax"
    trainer = Trainer(steps=2)
    output = Output()
    trainer.predict_function = lambda: ([output], "state")
    _, callback = build_inference(trainer)
    assert trainer.predict(callback) == [((), "state")] * 2
    assert output.read


def test_no_pass_of_a_capped_inference_is_whole(build_inference):
    trainer = Trainer()
    emitter, callback = build_inference(trainer, capped=True)
    trainer.predict(callback)
    assert not emitter.of(Epoch)[0].whole


def test_several_batches_an_execution_of_inference_are_reported_one_by_one(build_inference):
    trainer = Trainer(steps=10, steps_per_execution=4)
    emitter, callback = build_inference(trainer)
    trainer.predict(callback)
    assert len(emitter.of(Batches)[0].dt_us) == emitter.of(Epoch)[0].steps == 10


def test_training_waits_for_no_output(build):
    trainer = Trainer(steps=3)
    _, callback = build(trainer)
    trainer.fit(callback)
    assert not any(output.read for logs in trainer.logs_of_batches for output in logs["outputs"])


def test_metrics_are_read_when_they_are_due(callback_class):
    trainer, emitter = Trainer(), Recorder()
    callback = callback_class(emitter, batch_size=10, samples_per_epoch=40, clock=trainer.clock)
    trainer.fit(callback)
    callback.on_train_batch_end(0, {"loss": 0.7})
    assert emitter.of(Metrics) == []
    emitter.reads.is_due = True
    callback.on_train_batch_end(1, {"loss": 0.5})
    callback.on_train_batch_end(2, {"loss": 0.4})
    (read,) = emitter.of(Metrics)
    assert read.values == {"loss": 0.5}
