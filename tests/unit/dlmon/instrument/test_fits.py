"""What is reported of fits, people's own and a workload's, with lists that Keras would make.

The order of calls is that of keras/src/backend/tensorflow/trainer.py (Keras 3.15). What real Keras
does with it is tested end to end.
"""

import gc
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.fit_report import FitPlan
from dlmon.instrument.fit_watch import FitWatch, watch_single_batches
from dlmon.instrument.fits import callback_class, watch_fits
from dlmon.instrument.keras_data import BatchSizes, NotedBatchSizes, keep_sizes, plan_of_arrays
from dlmon.records import Batches, Epoch, Evaluation, Model, Phase

MS = 1_000_000


class Callback:
    """Keras's base class, as far as it matters."""

    __module__ = "keras.src.callbacks.callback"

    def set_model(self, model):
        self._model = model

    def set_params(self, params):
        self.params = params

    @property
    def model(self):
        raise AssertionError("the callback asked for the model while training")


class Trainer:
    """A model that trains as Keras does."""

    __module__ = "keras.src.backend.tensorflow.trainer"
    name, built, stop_training, stop_evaluating = "net", True, False, False
    steps_per_execution = 1

    def __init__(self):
        self.train_function = lambda data: None

    def count_params(self):
        return 19

    def train_on_batch(self, x, y=None):
        return {"loss": 0.5}


class EpochIterator:
    def __init__(self, batches):
        self.num_batches = batches


class Keras:
    """Keras's modules under watch, with a clock that only the script moves."""

    def __init__(self, monkeypatch):
        self.now = 1_000 * MS
        monkeypatch.setattr("time.monotonic_ns", lambda: self.now)
        self.reporter = KeptReporter()
        watch = FitWatch(self.reporter, clock=lambda: self.now)
        monkeypatch.setattr("dlmon.instrument.fits.watch_of", lambda reporter: watch)
        monkeypatch.setattr("dlmon.instrument.fit_watch.watch_of", lambda reporter: watch)
        self.running = watch.running

        class CallbackList:
            def __init__(self, callbacks=None, model=None, **params):
                self.callbacks, self._model, self.params = list(callbacks or []), model, params
                for callback in self.callbacks:
                    if isinstance(callback, Callback):
                        callback.set_model(model)
                        callback.set_params(params)

            def __getattr__(self, hook):
                if not hook.startswith("on_"):
                    raise AttributeError(hook)
                heard = [getattr(one, hook) for one in self.callbacks if hasattr(one, hook)]
                return lambda *arguments, **named: [call(*arguments, **named) for call in heard]

        self.CallbackList, self.model = (
            CallbackList,
            type("OfKeras", (Trainer,), vars(Trainer) | {}),
        )
        watch_fits(SimpleNamespace(CallbackList=CallbackList, Callback=Callback), self.reporter)
        trainers = ModuleType(Trainer.__module__)
        trainers.Trainer = self.model
        watch_single_batches(trainers, self.reporter)

    def pass_time(self, ms):
        self.now += ms * MS

    def fit(self, model, samples=25, callbacks=None, epochs=2, validate=None, open_ms=0):
        iterator = EpochIterator(-(-samples // 10))
        plan = plan_of_arrays(10, iterator.num_batches, samples % 10 or None)
        keep_sizes(iterator, BatchSizes(iterator, plan))
        made = self.CallbackList(callbacks, model=model, epochs=epochs, steps=iterator.num_batches)
        made.on_train_begin()
        for epoch in range(epochs):
            made.on_epoch_begin(epoch)
            self.pass_time(open_ms)
            for batch in range(iterator.num_batches):
                made.on_train_batch_begin(batch)
                self.pass_time(10)
                made.on_train_batch_end(batch, {"loss": 1.0})
                if model.stop_training:
                    break
            if validate is not None:
                validate(made)
            made.on_epoch_end(epoch, {"loss": 0.5})
            if model.stop_training:
                break
        made.on_train_end()

    def evaluate(self, model, batches=3, callbacks=None):
        iterator = EpochIterator(batches)
        keep_sizes(iterator, BatchSizes(iterator, plan_of_arrays(10, batches, 5)))
        made = callbacks or self.CallbackList(model=model, steps=batches)
        model.stop_evaluating = False
        made.on_test_begin()
        for batch in range(batches):
            made.on_test_batch_begin(batch)
            self.pass_time(200)
            made.on_test_batch_end(batch)
            if model.stop_evaluating:
                break
        made.on_test_end({"loss": 0.25})

    def workload(self, samples=25, **known):
        """Return the callback of a workload of ours, which knows its samples."""
        return callback_class(Callback, self.reporter)(FitPlan(planned(samples), **known))

    def of(self, *kinds):
        collector = BatchCollector()
        collector.take(self.reporter.queue, now=self.now)
        records = collector.records(finish=True)
        return [record for record in records if isinstance(record, kinds or object)]


def planned(samples):
    """Return the sizes of a pass over so many samples, in batches of ten."""
    return BatchSizes.of_samples(samples, 10)


@pytest.fixture
def keras(monkeypatch):
    return Keras(monkeypatch)


class Hooks:
    """A callback of the script's own."""

    def __init__(self, **hooks):
        self.__dict__.update(hooks)


def counted(epochs):
    return [(epoch.epoch, epoch.samples, epoch.steps, epoch.whole) for epoch in epochs]


def test_nothing_is_added_where_no_monitor_listens(keras):
    keras.reporter.close()
    assert keras.CallbackList([], model=keras.model()).callbacks == []


def test_a_fit_goes_with_its_list_of_callbacks(keras):
    def fail(epoch, logs=None):
        raise ValueError

    gc.disable()
    try:
        try:
            keras.fit(keras.model(), callbacks=[Hooks(on_epoch_end=fail)])
        except ValueError:
            pass
        else:
            pytest.fail("the script's error was lost")
        assert keras.running == []
        assert keras.reporter.take("torch")
    finally:
        gc.enable()


def test_what_runs_within_a_batch_takes_nothing_of_its_time(keras):
    model = keras.model()

    def nest(batch, logs=None):
        if batch == 0:
            keras.evaluate(model)

    keras.fit(model, epochs=1, callbacks=[Hooks(on_train_batch_end=nest)])
    records = keras.of()
    (epoch,) = [record for record in records if isinstance(record, Epoch)]
    assert (epoch.samples, epoch.steps, epoch.whole) == (25, 3, True)
    took = [dt for record in records if isinstance(record, Batches) for dt in record.dt_us]
    assert took == [10_000] * 3
    phases = [record.name for record in records if isinstance(record, Phase)]
    assert phases == ["compiling", "training", "evaluating", "training", "outside training"]


def test_batches_one_by_one_end_when_something_else_trains(keras):
    keras.model().train_on_batch(np.zeros(7))
    assert keras.reporter.take("torch")
    assert keras.running == []
    # What another counts is not counted twice.
    keras.model().train_on_batch(np.zeros(7))
    keras.reporter.let_go("torch")
    assert counted(keras.of(Epoch)) == [(0, 7, 1, False)]


def test_an_error_of_ours_never_reaches_the_script(keras, monkeypatch):
    model = keras.model()
    monkeypatch.setattr("dlmon.instrument.fit_report.parameters_of", lambda model: {}["not there"])
    keras.fit(model)
    assert not keras.reporter.is_on


def test_only_the_wait_after_the_batch_before_is_lost(keras):
    """The host runs ahead: while the device computes, it waits for nothing that is missed."""
    model, iterator = keras.model(), EpochIterator(3)
    data = NotedBatchSizes(iterator, is_waited_for=True, clock=lambda: keras.now)
    keep_sizes(iterator, data)
    callbacks = keras.CallbackList(model=model, epochs=1, steps=3)
    batch = (np.zeros(4),)

    def fetch(ms):
        begin = keras.now
        keras.pass_time(ms)
        data.note(batch, begin)

    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    fetch(5)
    fetch(30)
    keras.pass_time(10)
    callbacks.on_train_batch_end(0)
    keras.pass_time(10)
    callbacks.on_train_batch_end(1)
    fetch(7)
    keras.pass_time(1)
    callbacks.on_train_batch_end(2)
    callbacks.on_epoch_end(0)
    callbacks.on_train_end()
    (batches,) = keras.of(Batches)
    # All of the first, nothing of the second, which came while the device computed, and the third.
    assert batches.wait_us == 5_000 + 0 + 7_000
    assert batches.samples == 4


# A workload of ours


def phases(records):
    return [record.name for record in records if isinstance(record, Phase)]


def test_a_workload_goes_through_its_phases_and_sends_its_own_description(keras):
    model, ours = keras.model(), keras.workload(validation=planned(25), evaluation=planned(25))
    keras.fit(model, callbacks=[ours], validate=lambda made: keras.evaluate(model, callbacks=made))
    keras.evaluate(model, callbacks=keras.CallbackList([ours], model=model))
    records = keras.of()
    assert phases(records) == [
        *("compiling", "training", "compiling", "validating"),
        *("training", "validating", "closing", "evaluating", "closing"),
    ]
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert counted(epochs) == [(0, 25, 3, True), (1, 25, 3, True)]
    assert [epoch.validation.steps for epoch in epochs] == [3, 3]
    (evaluation,) = [record for record in records if isinstance(record, Evaluation)]
    assert (evaluation.steps, evaluation.samples, evaluation.whole) == (3, 25, True)
    assert not [record for record in records if isinstance(record, Model)]


def test_a_stop_ends_training_after_the_current_batch(keras):
    ours, stop = keras.workload(), keras.reporter.reads.ask_to_stop
    hooks = Hooks(on_train_batch_begin=lambda batch, logs=None: batch == 1 and stop())
    keras.fit(keras.model(), callbacks=[ours, hooks], epochs=9)
    assert counted(keras.of(Epoch)) == [(0, 20, 2, False)]


@pytest.mark.parametrize("moment", ["on_test_begin", "on_test_batch_begin", "afterwards"])
def test_a_stop_during_validation_begins_no_other_epoch(keras, moment):
    model, ours = keras.model(), keras.workload(validation=planned(25))
    stops = Hooks(**{moment: lambda *_, **__: keras.reporter.reads.ask_to_stop()})

    def validate(made):
        keras.evaluate(model, callbacks=made)
        if moment == "afterwards":
            stops.afterwards()

    keras.fit(model, callbacks=[ours, stops], epochs=5, validate=validate)
    assert counted(keras.of(Epoch)) == [(0, 25, 3, moment == "afterwards")]


def test_a_script_is_never_stopped_by_what_it_reports_to(keras):
    keras.reporter.reads.ask_to_stop()
    keras.fit(keras.model())
    assert counted(keras.of(Epoch)) == [(0, 25, 3, True), (1, 25, 3, True)]


def test_batch_hooks_of_a_thread_pool_may_come_in_any_order(keras):
    ours = keras.workload(40, validation=planned(30))
    made = keras.CallbackList([ours], model=keras.model())
    made.on_train_begin()
    made.on_epoch_begin(0)
    for batch in (1, 0, 3, 2):
        keras.pass_time(20)
        made.on_train_batch_end(batch)
    made.on_test_begin()
    validated = keras.now
    for batch in (2, 0, 1):
        keras.pass_time(20)
        made.on_test_batch_end(batch)
    made.on_test_end({})
    made.on_epoch_end(0, {})
    (epoch,) = keras.of(Epoch)
    assert (epoch.steps, epoch.validation.steps, epoch.whole) == (4, 3, True)
    assert epoch.validation.first_end == validated + 20 * MS
    assert epoch.validation.last_end == validated + 60 * MS
