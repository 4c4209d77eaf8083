"""The arguments of a model of Keras, where the model or the backend doesn't take them."""

import json
from types import SimpleNamespace

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.injections import SET_BY_SCRIPT, VARIABLE
from dlmon.instrument.keras_injections import into_fits, into_models
from dlmon.records import Injection


class Model:
    """Takes what `compile` of Keras takes, and keeps it."""

    def compile(self, optimizer="adam", run_eagerly=False, steps_per_execution=1, jit_compile=None):
        self.steps_per_execution, self.jit_compile = steps_per_execution, jit_compile


@pytest.fixture
def reporter(monkeypatch):
    injected = {"jit_compile": "on", "steps_per_execution": 4, "prefetch": 2}
    monkeypatch.setenv(VARIABLE, json.dumps(injected))
    return KeptReporter()


def keras(reporter, backend="jax", supports_jit=True):
    """Return the class of models in a module whose `compile` is hooked."""
    kind = type("Trainer", (Model,), {"compile": Model.compile})
    module = SimpleNamespace(
        Trainer=kind,
        backend=SimpleNamespace(backend=lambda: backend),
        model_supports_jit=lambda model: supports_jit,
    )
    into_models(module, reporter)
    return kind


def outcomes(reporter):
    reporter.begin_loop()
    last = {record.name: record for record in reporter.queue if isinstance(record, Injection)}
    return {name: (last[name].applied, last[name].reason) for name in last if name != "prefetch"}


@pytest.mark.parametrize(
    ("keras_is", "given", "reasons"),
    [
        ({}, {}, (None, None)),
        ({"backend": "torch"}, {}, (None, "Keras on PyTorch runs each batch alone")),
        ({"supports_jit": False}, {}, ("a layer of the model can't be compiled", None)),
        ({}, {"run_eagerly": True}, ("the model runs eagerly",) * 2),
    ],
)
def test_a_model_gets_what_it_and_the_backend_take(reporter, keras_is, given, reasons):
    model = keras(reporter, **keras_is)()
    model.compile("adam", jit_compile=False, **given)
    jit, steps = (reason is None for reason in reasons)
    assert (model.jit_compile, model.steps_per_execution) == (jit, 4 if steps else 1)
    assert outcomes(reporter) == {
        "jit_compile": (jit, reasons[0]),
        "steps_per_execution": (steps, reasons[1]),
    }


def test_what_a_script_sets_after_compile_is_said_though_the_model_is_gone_at_the_end(reporter):
    model = keras(reporter)()
    model.compile()
    model.steps_per_execution = 8
    expected = {"jit_compile": (True, None), "steps_per_execution": (False, SET_BY_SCRIPT)}
    assert outcomes(reporter) == expected
    del model
    assert outcomes(reporter) == expected


def test_arrays_have_nothing_to_read_ahead(reporter):
    class Trainer:
        def fit(self, x=None, y=None):
            return x, y

    module = SimpleNamespace(__name__=__name__, Trainer=Trainer)
    into_fits(module, reporter)
    assert Trainer().fit([1], [2]) == ([1], [2])
    reporter.begin_loop()
    [prefetch] = [record for record in reporter.queue if getattr(record, "name", "") == "prefetch"]
    assert (prefetch.applied, prefetch.reason) == (False, "fit reads no tf.data.Dataset")
