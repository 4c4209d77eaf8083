"""Count the steps of a script's own loop on TensorFlow by the calls of its Keras optimizer.

An eager `for batch in dataset` is an iteration over a loader, like in PyTorch, and each `apply` of
an optimizer is a step. In a `tf.function`, Python runs only during tracing: the graphs into which
an `apply` was traced are noted, and each call of one is a step. If the loop itself is in the graph,
its steps are hidden, and none is counted.

TensorFlow is never imported here.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from dlmon.instrument.facts import device_of_keras
from dlmon.instrument.first_step import watch_first_step
from dlmon.instrument.keras_data import plan_of_dataset
from dlmon.instrument.loaders import LEADING, Loader
from dlmon.instrument.loop_reports import LoopReports
from dlmon.instrument.pytorch import fetching, opening
from dlmon.instrument.reporter import Reporter, wrap
from dlmon.instrument.step_counter import StepCounter

OWNER = "tape"
_TENSORFLOW = "tensorflow"
_NO_LENGTH = "the dataset does not say how many batches it has"
_NO_SIZE = "the dataset does not say its batch size"


@cache
def steps_of(reporter: Reporter) -> StepCounter:
    """Return the one `StepCounter` of a reporter for loops over datasets."""
    reports = LoopReports(
        reporter,
        version=lambda: getattr(sys.modules.get("keras"), "__version__", None),
        describe=lambda optimizer: {
            "backend": _TENSORFLOW,
            "backend_version": getattr(sys.modules.get(_TENSORFLOW), "__version__", None),
            **device_of_keras(_TENSORFLOW),
        },
        owner=OWNER,
        framework=("keras", _TENSORFLOW),
    )
    return StepCounter(reports)


@cache
def graphs_of(reporter: Reporter) -> Graphs:
    """Return the one `Graphs` of a reporter."""
    return Graphs(reporter)


class Graphs:
    """The graphs into which the `apply` of an optimizer was traced."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._optimizers: weakref.WeakKeyDictionary[Any, list[Callable[[], Any]]] = (
            weakref.WeakKeyDictionary()
        )
        self._with_loops: weakref.WeakSet[Any] = weakref.WeakSet()

    def trace(self, graph: Any, optimizers: list[Callable[[], Any]]) -> None:
        """Add weak references of optimizers to a graph that is traced, and to those around it."""
        in_loop = False
        while getattr(graph, "building_function", False):
            if in_loop:
                self._with_loops.add(graph)
            else:
                self._optimizers.setdefault(graph, []).extend(optimizers)
            in_loop = in_loop or _is_body_of_loop(graph)
            graph = graph.outer_graph

    def optimizers_of(self, graph: Any) -> list[Any]:
        """Return the optimizers that step in a call of a graph, repeated for each step."""
        if graph in self._with_loops:
            self._reporter.saw("keras loop in a graph")
            return []
        optimizers = (reference() for reference in self._optimizers.get(graph, ()))
        return [optimizer for optimizer in optimizers if optimizer is not None]

    def traced_in(self, graph: Any) -> list[Callable[[], Any]]:
        return self._optimizers.get(graph, [])


def watch_datasets(module: ModuleType, reporter: Reporter) -> None:
    """Watch eager loops over datasets; `module` is tensorflow.python.data.ops.dataset_ops."""
    steps, dataset, base = steps_of(reporter), module.DatasetV2, module.iterator_ops.OwnedIterator
    base._dlmon_iteration = None
    dataset.__iter__ = opening(dataset.__iter__, base, steps, reporter, describe)
    base.__next__ = fetching(base.__next__, steps, reporter, _runs_eagerly)


def watch_optimizers(module: ModuleType, reporter: Reporter) -> None:
    """Watch every optimizer's `apply`; `module` is keras.src.optimizers.base_optimizer."""
    wrap(
        module.BaseOptimizer,
        "__init__",
        reporter,
        before=lambda *arguments, **named: watch_first_step(reporter),
    )
    if sys.modules["keras.src.backend"].backend() != _TENSORFLOW:
        return
    steps, graphs = steps_of(reporter), graphs_of(reporter)

    def began(optimizer: Any, *arguments: Any, **named: Any) -> bool:
        if not _runs_eagerly():
            graphs.trace(_graph(), [weakref.ref(optimizer)])
        elif _may_step(reporter):
            steps.step_began(optimizer)
            return True
        return False

    def ended(counts: bool, applied: Any, optimizer: Any, *arguments: Any, **named: Any) -> None:
        if counts:
            steps.step_ended(optimizer)

    wrap(module.BaseOptimizer, "apply", reporter, before=began, after=ended)


def watch_functions(module: ModuleType, reporter: Reporter) -> None:
    """Count the steps in calls of graphs.

    `module` is tensorflow.python.eager.polymorphic_function.concrete_function.
    """
    steps, graphs = steps_of(reporter), graphs_of(reporter)

    def began(function: Any, *arguments: Any, **named: Any) -> list[Any]:
        if not _runs_eagerly():
            graphs.trace(_graph(), graphs.traced_in(function.graph))
            return []
        stepping = graphs.optimizers_of(function.graph) if _may_step(reporter) else []
        for optimizer in stepping[:1]:
            steps.step_began(optimizer)
        return stepping

    def ended(stepping: list[Any], result: Any, *arguments: Any, **named: Any) -> None:
        for number, optimizer in enumerate(stepping):
            if number:
                steps.step_began(optimizer)
            steps.step_ended(optimizer)

    wrap(module.ConcreteFunction, "_call_flat", reporter, before=began, after=ended)


def describe(dataset: Any) -> Loader:
    """Return the description of a dataset, without reading its data."""
    plan = plan_of_dataset(dataset)
    if plan is None:
        cardinality = int(dataset.cardinality())
        steps = cardinality if cardinality >= 0 else None
        why = {"batch_size": _NO_SIZE, "samples_per_epoch": _NO_SIZE}
        if steps is None:
            why["steps_per_epoch"] = _NO_LENGTH
        return Loader(steps=steps, inferred=LEADING, why=why)
    steps = plan.batches
    samples = None if steps is None else plan.samples(0, steps)
    unknown = {"samples_per_epoch": samples, "steps_per_epoch": steps}
    return Loader(
        batch_size=plan.batch_size,
        samples=samples,
        steps=steps,
        # Every batch is inspected.
        may_vary=True,
        why={name: _NO_LENGTH for name, value in unknown.items() if value is None},
    )


def _is_body_of_loop(graph: Any) -> bool:
    """Return whether a graph is the body of a loop in another graph."""
    return "While" in type(graph).__name__ or str(graph.name).startswith("Dataset_")


def _may_step(reporter: Reporter) -> bool:
    """Return whether a step counts: not one of Keras's `fit`, nor one of several replicas."""
    if not reporter.may_take(OWNER):
        return False
    if sys.modules[_TENSORFLOW].distribute.get_strategy().num_replicas_in_sync > 1:
        reporter.saw("keras replicas")
        return False
    return True


def _runs_eagerly() -> bool:
    return bool(sys.modules[_TENSORFLOW].executing_eagerly())


def _graph() -> Any:
    return sys.modules[_TENSORFLOW].compat.v1.get_default_graph()
