"""What a workload has Keras call, driven in the order of Keras's own trainer, without Keras."""

import importlib
import sys
import weakref
from collections import deque
from types import ModuleType, SimpleNamespace

import pytest

import workloads
from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.fit_report import FitPlan
from dlmon.instrument.fit_watch import FitWatch
from dlmon.instrument.reporter import Reporter
from dlmon.records import Batches, Epoch
from workloads.data.feed import Feed

MS = 1_000_000


class KerasCallback:
    """Keras's base class, as far as it matters; reading `model` syncs state on JAX."""

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

    def on_test_begin(self, logs=None):
        """Print nothing."""

    def on_epoch_end(self, epoch, logs=None):
        """Print nothing."""


class Output:
    """A batch of predictions on a device; `read` says whether the host has waited for it."""

    shape = (8, 10)

    def __init__(self):
        self.read = False


class Model:
    """A model that predicts as Keras does; batches take 20 ms."""

    def __init__(self, steps=4, steps_per_execution=1):
        self.steps, self.steps_per_execution = steps, steps_per_execution
        self.stop_training = self.stop_predicting = False
        self.predict_function = lambda: [Output()]
        self.now = 1_000 * MS

    def predict(self, callback):
        callback.set_model(self)
        self.stop_predicting = False
        callback.on_predict_begin()
        kept = []
        for step in range(0, self.steps, self.steps_per_execution):
            self.now += 20 * MS * self.steps_per_execution
            kept.append(self.predict_function())
            callback.on_predict_batch_end(step + self.steps_per_execution - 1)
            if self.stop_predicting:
                break
        callback.on_predict_end()
        return kept


@pytest.fixture
def callbacks(monkeypatch):
    keras = ModuleType("keras")
    keras.callbacks = SimpleNamespace(Callback=KerasCallback, ProgbarLogger=KerasProgress)
    keras.tree = SimpleNamespace(flatten=lambda outputs: list(outputs or ()))
    keras.backend = SimpleNamespace(backend=lambda: "tensorflow")
    keras.ops = SimpleNamespace(convert_to_numpy=lambda output: setattr(output, "read", True))
    monkeypatch.setitem(sys.modules, "keras", keras)
    monkeypatch.delitem(sys.modules, "workloads.callbacks", raising=False)
    yield importlib.import_module("workloads.callbacks")
    # What was imported with the stub must not stay for a test that wants the real one.
    sys.modules.pop("workloads.callbacks", None)
    monkeypatch.delattr(workloads, "callbacks", raising=False)


class Inference:
    """Passes of a model, and what is reported of them."""

    def __init__(self, callbacks, monkeypatch, model, **known):
        self.model, self.reporter, self.queue = model, Reporter(None), deque()
        send = self.queue.append
        self.reporter.attach(SimpleNamespace(send=send, batch_ended=send))
        watch = FitWatch(self.reporter, clock=lambda: model.now)
        monkeypatch.setattr("dlmon.instrument.fits.watch_of", lambda reporter: watch)
        feed = Feed(None, None, 10, 10 * model.steps)
        known = FitPlan(feed.sizes, phase="predicting", **known)
        self.callback = callbacks.inference_callback(self.reporter, known)
        self.callback.set_model(model)

    def predict(self):
        return self.model.predict(self.callback)

    def of(self, kind):
        collector = BatchCollector()
        collector.take(deque(self.queue))
        return [one for one in collector.records(finish=True) if isinstance(one, kind)]


@pytest.fixture
def infer(callbacks, monkeypatch):
    return lambda model, **known: Inference(callbacks, monkeypatch, model, **known)


def test_a_batch_is_timed_after_its_output_has_arrived(infer, callbacks):
    inference = infer(Model(steps=2))

    def wait_for(output):
        inference.model.now += 7 * MS

    callbacks.keras.ops.convert_to_numpy = wait_for
    inference.predict()
    assert inference.of(Batches)[0].dt_us == (27_000, 27_000)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_each_batch_waits_for_its_own_output_in_any_order(infer, order):
    model, outputs = Model(steps=3), []
    model.predict_function = lambda: [outputs.append(Output()) or outputs[-1]]
    inference = infer(model)
    callback = inference.callback
    callback.on_predict_begin()
    for _ in range(3):
        model.predict_function()
    for done, batch in enumerate(order, start=1):
        callback.on_predict_batch_end(batch)
        read = {number for number, output in enumerate(outputs) if output.read}
        assert read == set(order[:done])
    callback.on_predict_end()
    (epoch,) = inference.of(Epoch)
    assert (epoch.steps, epoch.samples, epoch.whole) == (3, 30, True)


def test_keras_is_handed_no_output_to_keep(infer):
    model, made = Model(steps=3), []

    def predict():
        output = Output()
        made.append(weakref.ref(output))
        return [output]

    model.predict_function = predict
    inference = infer(model)
    for _ in range(2):
        assert inference.predict() == [(), (), ()]
        assert model.predict_function is predict
    assert [output() for output in made] == [None] * 6


def test_on_jax_keras_is_handed_the_state_without_the_output(infer, callbacks):
    callbacks.keras.backend.backend = lambda: "jax"
    model, output = Model(steps=2), Output()
    model.predict_function = lambda: ([output], "state")
    assert infer(model).predict() == [((), "state")] * 2
    assert output.read


# The epochs that were asked for, and those that follow


def test_training_ends_with_the_epoch_that_is_the_last(callbacks):
    model, said = Model(), []
    enough = SimpleNamespace(
        should_continue=lambda ended, train_ns: said.append((ended, train_ns)) or ended < 3
    )
    requested = callbacks.RequestedEpochs(2, enough, clock=lambda: model.now)
    assert requested.async_safe
    requested.set_model(model)
    requested.set_params({"verbose": 2, "epochs": 100_002, "steps": 4})
    for epoch in range(1_000):
        requested.on_epoch_begin(epoch)
        model.now += 80 * MS
        if epoch == 1:
            requested.on_test_begin()
            model.now += 30 * MS
        requested.on_epoch_end(epoch)
        if model.stop_training:
            break
    # Validation is no training; and each epoch has a time of its own.
    assert said == [(1, 80 * MS), (2, 80 * MS), (3, 80 * MS)]
    # Keras counts to those that were asked for, and prints no others.
    assert requested.lines == ["Epoch 1/2", "Epoch 2/2"]


def test_of_a_language_models_logits_those_after_the_last_words_are_read(infer, callbacks):
    class Logits:
        shape = (2, 1024, 50)

        def __getitem__(self, part):
            return part

    read = []
    callbacks.keras.ops.convert_to_numpy = read.append
    model = Model(steps=1)
    model.predict_function = lambda: [Logits()]
    infer(model).predict()
    assert read == [(slice(None), -1)]
