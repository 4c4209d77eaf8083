"""Notes what Keras's iterators read for `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from dlmon.instrument.keras_data import (
    BatchPlan,
    BatchSizes,
    NotedBatchSizes,
    Stream,
    keep_data,
    plan_of_arrays,
    plan_of_dataset,
)
from dlmon.instrument.loaders import leading_size
from dlmon.instrument.reporter import Reporter, guarded, wrap
from dlmon.instrument.tokens import tokens_per_sample

# Names of the adapters of Keras 3 and of tf_keras, by where their batches come from.
_ARRAYS = {
    "ArrayDataAdapter",
    "TensorLikeDataAdapter",
    "GenericArrayLikeDataAdapter",
    "CompositeTensorDataAdapter",
    "ListsOfScalarsDataAdapter",
}
_DATASETS = {"TFDatasetAdapter", "DatasetAdapter"}
# The method that hands on batches one after another, for TensorFlow to call.
_STREAMS = {
    "PyDatasetAdapter": "_get_iterator",
    "GeneratorDataAdapter": "generator",
    "TorchDataLoaderAdapter": "get_numpy_iterator",
}


def watch_data(module: ModuleType, reporter: Reporter) -> None:
    """Note what each iterator of epochs reads: in Keras 3 or tf_keras, just imported.

    Args:
        module: `keras.src.trainers.epoch_iterator`, or tf_keras's `engine.data_adapter`.
        reporter: the one of this process.
    """
    made = getattr(module, "EpochIterator", None) or getattr(module, "DataHandler", None)
    if made is None:
        return
    data_of: Callable[[Any, Reporter], BatchSizes]
    data_of = _data_of_handler if made.__name__ == "DataHandler" else _data_of_epoch_iterator

    def note(prepared: None, result: None, iterator: Any, *arguments: Any, **named: Any) -> None:
        try:
            data = data_of(iterator, reporter)
        except (AttributeError, NotImplementedError, TypeError, ValueError):
            # An adapter of another kind: its batches are counted, and their sizes aren't known.
            data = BatchSizes(iterator)
        data.tokens = _tokens_of(iterator)
        keep_data(iterator, data)

    wrap(made, "__init__", reporter, after=note)


class HandingIterator:
    """Yields batches, and lets data note each as it comes."""

    def __init__(self, batches: Iterable[Any], data: NotedBatchSizes, reporter: Reporter) -> None:
        self._batches, self._stream = iter(batches), Stream()
        self._note, self._reporter = data.note, reporter

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        begin = time.monotonic_ns()
        batch = next(self._batches)
        try:
            self._note(batch, begin, self._stream)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._reporter.turn_off(error)
        return batch


def _kind(adapter: Any, kinds: Iterable[str]) -> str | None:
    names = [parent.__name__ for parent in type(adapter).__mro__]
    return next((name for name in names if name in kinds), None)


def _data_of_epoch_iterator(iterator: Any, reporter: Reporter) -> BatchSizes:
    adapter = iterator.data_adapter
    continues = iterator.steps_per_epoch is not None
    plan = None
    if _kind(adapter, _ARRAYS):
        plan = plan_of_arrays(adapter.batch_size, adapter.num_batches, adapter.partial_batch_size)
    if sys.modules["keras.src.backend"].backend() != "tensorflow":
        data = NotedBatchSizes(iterator, plan, continues, is_waited_for=True)
        _hand_on(iterator, "_get_iterator", data, reporter)
        return data
    if plan is None and _kind(adapter, _DATASETS):
        plan = plan_of_dataset(adapter._dataset)
    elif stream := _kind(adapter, _STREAMS):
        return _stream(iterator, adapter, _STREAMS[stream], continues, reporter)
    elif plan is None and isinstance(adapter.batch_size, int):
        inferred = "batches are as large as the first; the last may be smaller"
        plan = BatchPlan(adapter.batch_size, last=None, inferred=inferred)
    return BatchSizes(iterator, plan, continues)


def _tokens_of(iterator: Any) -> tuple[int, str | None] | None:
    """Return how many tokens each sample has, where arrays or a dataset say it beforehand."""
    try:
        adapter = getattr(iterator, "data_adapter", None) or iterator._adapter
        arrays = getattr(adapter, "_inputs", None)
        given = adapter._dataset.element_spec if arrays is None else arrays
        return tokens_per_sample(given[0] if isinstance(given, tuple) else given)
    except Exception:  # noqa: BLE001 - what can't be looked at has none
        return None


def _unowned(owner: Any, name: str) -> Callable[..., Any]:
    """Return a method for its owner to keep, without which it would never free its data."""
    method = getattr(owner, name)
    if getattr(method, "__self__", None) is not owner:
        return method  # type: ignore[no-any-return]
    weak = weakref.WeakMethod(method)
    return lambda *arguments, **named: weak()(*arguments, **named)  # type: ignore[misc]


def _hand_on(owner: Any, name: str, data: NotedBatchSizes, reporter: Reporter) -> None:
    """Let the batches pass by that a method of its owner yields."""
    get = _unowned(owner, name)
    made = functools.partial(HandingIterator, data=data, reporter=reporter)
    setattr(owner, name, lambda *arguments, **named: made(get(*arguments, **named)))


def _stream(
    iterator: Any, adapter: Any, name: str, continues: bool, reporter: Reporter
) -> NotedBatchSizes:
    """Let the batches pass by that TensorFlow asks an adapter's method for."""
    peeked = getattr(adapter, "_first_batches", None)
    first = leading_size(peeked[0]) if peeked else None
    data = NotedBatchSizes(iterator, continues=continues, first=first)
    _hand_on(adapter, name, data, reporter)
    if hasattr(adapter, "_standardize_batch"):
        standardize, own = _unowned(adapter, "_standardize_batch"), weakref.ref(adapter)

        def note_first(batch: Any) -> Any:
            # Keras looks at a batch before the first epoch, to know its type.
            vars(own()).pop("_standardize_batch", None)
            batch = standardize(batch)
            guarded(reporter)(data.note)(batch)
            return batch

        adapter._standardize_batch = note_first
    return data


def _data_of_handler(handler: Any, reporter: Reporter) -> BatchSizes:
    adapter = handler._adapter
    restarts = bool(adapter.should_recreate_iterator())
    plan = None
    if _kind(adapter, _ARRAYS):
        partial = adapter.partial_batch_size() if adapter.has_partial_batch() else None
        plan = plan_of_arrays(adapter.batch_size(), adapter.get_size(), partial)
    elif _kind(adapter, _DATASETS):
        plan = plan_of_dataset(adapter._dataset)
    elif _kind(adapter, {"GeneratorDataAdapter"}):
        return _stream_of_handler(handler, adapter, restarts, reporter)
    return BatchSizes(handler, plan, not restarts)


def _stream_of_handler(
    handler: Any, adapter: Any, restarts: bool, reporter: Reporter
) -> NotedBatchSizes:
    """Let the batches pass by that tf_keras brings into shape one after another."""
    first = adapter.representative_batch_size()
    data = NotedBatchSizes(handler, continues=not restarts, first=first)
    note = guarded(reporter)(data.note)
    standardize = _unowned(adapter, "_standardize_batch")

    def standardize_and_note(batch: Any) -> Any:
        batch = standardize(batch)
        note(batch)
        return batch

    adapter._standardize_batch = standardize_and_note
    return data
