"""Set the injections of Keras 3."""

from __future__ import annotations

import sys
import weakref
from functools import partial
from types import ModuleType
from typing import Any

from dlmon.instrument.injections import (
    SET_BY_SCRIPT,
    Arguments,
    Changed,
    Injections,
    injections_of,
    replace_arguments,
    set_up,
)
from dlmon.instrument.reporter import Reporter
from dlmon.records.injections import ON

_JIT, _STEPS, _PREFETCH, _PRECISION = "jit_compile", "steps_per_execution", "prefetch", "precision"


def into_models(module: ModuleType, reporter: Reporter) -> None:
    """Replace arguments of `compile`; `module` is keras.src.trainers.trainer."""
    injections = injections_of(reporter)

    def install() -> None:
        change = partial(_change_compile, module, injections)
        replace_arguments(module.Trainer, "compile", injections, (_JIT, _STEPS), change)

    set_up(injections, (_JIT, _STEPS), "no model of Keras was compiled", install)


def _change_compile(module: Any, injections: Injections, given: Arguments) -> Changed:
    value, refused = injections.value, injections.refused
    others: Arguments = {}
    is_eager = bool(given.get("run_eagerly"))
    if (steps := value(_STEPS)) is not None:
        if module.backend.backend() == "torch":
            refused((_STEPS,), "Keras on PyTorch runs each batch alone")
        elif is_eager:
            refused((_STEPS,), "the model runs eagerly")
        else:
            others[_STEPS] = steps
    if (jit := value(_JIT)) is not None:
        if jit == ON and is_eager:
            refused((_JIT,), "the model runs eagerly")
        elif jit == ON and not module.model_supports_jit(given["self"]):
            refused((_JIT,), "a layer of the model can't be compiled")
        else:
            others[_JIT] = jit == ON
    model = weakref.ref(given["self"])
    return others, {name: partial(_check_model, model, name, others[name]) for name in others}


def _check_model(reference: Any, name: str, value: Any) -> str | None:
    model = reference()
    return None if model is None or getattr(model, name) == value else SET_BY_SCRIPT


def into_fits(module: ModuleType, reporter: Reporter) -> None:
    """Let datasets be read ahead; `module` is keras.src.backend.<backend>.trainer."""
    injections = injections_of(reporter)

    def change(given: Arguments) -> Changed:
        ahead, dataset = injections.value(_PREFETCH), given.get("x")
        tensorflow = sys.modules.get("tensorflow")
        if ahead is None:
            return {}, {}
        if tensorflow is None or not isinstance(dataset, tensorflow.data.Dataset):
            injections.refused((_PREFETCH,), "fit reads no tf.data.Dataset")
            return {}, {}
        if type(dataset).__name__ == "_PrefetchDataset":
            dataset = dataset._input_dataset
        return {"x": dataset.prefetch(ahead)}, {_PREFETCH: None}

    def install() -> None:
        for kind in list(vars(module).values()):
            is_defined_here = isinstance(kind, type) and kind.__module__ == module.__name__
            if is_defined_here and "fit" in vars(kind):
                replace_arguments(kind, "fit", injections, (_PREFETCH,), change, retries=False)

    set_up(injections, (_PREFETCH,), "fit was not called", install)


def into_policies(module: Any, reporter: Reporter) -> None:
    """Set the default policy of layers; `module` is keras.src.dtype_policies.dtype_policy."""
    injections = injections_of(reporter)

    def check(value: str) -> str | None:
        return None if module.dtype_policy().name == value else SET_BY_SCRIPT

    def install() -> None:
        value = injections.value(_PRECISION)
        if value is not None:
            module.set_dtype_policy(value)
            injections.applied(_PRECISION, partial(check, value))

    set_up(injections, (_PRECISION,), "Keras was not imported", install)
