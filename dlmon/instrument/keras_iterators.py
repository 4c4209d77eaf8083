"""Give each epoch iterator that Keras creates the sizes of its batches."""

from __future__ import annotations

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
    keep_sizes,
    plan_of_arrays,
    plan_of_dataset,
)
from dlmon.instrument.loaders import leading_size
from dlmon.instrument.reporter import Reporter, guarded, wrap
from dlmon.instrument.tokens import tokens_per_sample

# The adapters of Keras 3 and tf_keras, by the source of their batches.
_ARRAYS = {
    "ArrayDataAdapter",
    "TensorLikeDataAdapter",
    "GenericArrayLikeDataAdapter",
    "CompositeTensorDataAdapter",
    "ListsOfScalarsDataAdapter",
}
_DATASETS = {"TFDatasetAdapter", "DatasetAdapter"}
# The method that TensorFlow calls for an iterator of batches.
_STREAMS = {
    "PyDatasetAdapter": "_get_iterator",
    "GeneratorDataAdapter": "generator",
    "TorchDataLoaderAdapter": "get_numpy_iterator",
}


def watch_data(module: ModuleType, reporter: Reporter) -> None:
    """Give every epoch iterator the sizes of its batches.

    `module` is keras.src.trainers.epoch_iterator or tf_keras.src.engine.data_adapter.
    """
    kind = getattr(module, "EpochIterator", None) or getattr(module, "DataHandler", None)
    if kind is None:
        return
    is_handler = kind.__name__ == "DataHandler"
    sizes_of = _sizes_of_handler if is_handler else _sizes_of_epoch_iterator

    def keep(prepared: None, result: None, iterator: Any, *arguments: Any, **named: Any) -> None:
        try:
            sizes = sizes_of(iterator, reporter)
        except (AttributeError, NotImplementedError, TypeError, ValueError):
            # An unknown adapter: its batches are counted without their sizes.
            sizes = BatchSizes(iterator)
        sizes.tokens = _tokens_of(iterator)
        keep_sizes(iterator, sizes)

    wrap(kind, "__init__", reporter, after=keep)


class NotingIterator:
    """Yields batches, and notes the size of each."""

    def __init__(self, batches: Iterable[Any], sizes: NotedBatchSizes, reporter: Reporter) -> None:
        self._batches, self._stream = iter(batches), Stream()
        self._note, self._reporter = sizes.note, reporter

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


def _sizes_of_epoch_iterator(iterator: Any, reporter: Reporter) -> BatchSizes:
    adapter = iterator.data_adapter
    continues = iterator.steps_per_epoch is not None
    plan = None
    if _kind(adapter, _ARRAYS):
        plan = plan_of_arrays(adapter.batch_size, adapter.num_batches, adapter.partial_batch_size)
    if sys.modules["keras.src.backend"].backend() != "tensorflow":
        sizes = NotedBatchSizes(iterator, plan, continues, is_waited_for=True)
        _note_batches(iterator, "_get_iterator", sizes, reporter)
        return sizes
    if plan is None and _kind(adapter, _DATASETS):
        plan = plan_of_dataset(adapter._dataset)
    elif stream := _kind(adapter, _STREAMS):
        return _sizes_of_stream(iterator, adapter, _STREAMS[stream], continues, reporter)
    elif plan is None and isinstance(adapter.batch_size, int):
        inferred = "batches are as large as the first; the last may be smaller"
        plan = BatchPlan(adapter.batch_size, last=None, inferred=inferred)
    return BatchSizes(iterator, plan, continues)


def _tokens_of(iterator: Any) -> tuple[int, str | None] | None:
    """Return the tokens of each sample, if arrays or a dataset say them beforehand."""
    try:
        adapter = getattr(iterator, "data_adapter", None) or iterator._adapter
        inputs = getattr(adapter, "_inputs", None)
        inputs = adapter._dataset.element_spec if inputs is None else inputs
        return tokens_per_sample(inputs[0] if isinstance(inputs, tuple) else inputs)
    except Exception:  # noqa: BLE001 - unreadable inputs count as inputs without tokens
        return None


def _weak_method(owner: Any, name: str) -> Callable[..., Any]:
    """Return a method that its owner can hold without keeping itself, and its data, alive."""
    method = getattr(owner, name)
    if getattr(method, "__self__", None) is not owner:
        return method  # type: ignore[no-any-return]
    weak = weakref.WeakMethod(method)
    return lambda *arguments, **named: weak()(*arguments, **named)  # type: ignore[misc]


def _note_batches(owner: Any, name: str, sizes: NotedBatchSizes, reporter: Reporter) -> None:
    """Note the batches of the iterators that a method of `owner` returns."""
    get = _weak_method(owner, name)

    def noting(*arguments: Any, **named: Any) -> NotingIterator:
        return NotingIterator(get(*arguments, **named), sizes, reporter)

    setattr(owner, name, noting)


def _sizes_of_stream(
    iterator: Any, adapter: Any, name: str, continues: bool, reporter: Reporter
) -> NotedBatchSizes:
    """Return the sizes of the batches that TensorFlow gets from an adapter's method."""
    peeked = getattr(adapter, "_first_batches", None)
    first_size = leading_size(peeked[0]) if peeked else None
    sizes = NotedBatchSizes(iterator, continues=continues, first_size=first_size)
    _note_batches(adapter, name, sizes, reporter)
    if hasattr(adapter, "_standardize_batch"):
        standardize = _weak_method(adapter, "_standardize_batch")
        weak_adapter = weakref.ref(adapter)

        def note_first(batch: Any) -> Any:
            # Keras peeks at a batch before the first epoch, to know its type.
            vars(weak_adapter()).pop("_standardize_batch", None)
            batch = standardize(batch)
            guarded(reporter)(sizes.note)(batch)
            return batch

        adapter._standardize_batch = note_first
    return sizes


def _sizes_of_handler(handler: Any, reporter: Reporter) -> BatchSizes:
    adapter = handler._adapter
    restarts = bool(adapter.should_recreate_iterator())
    plan = None
    if _kind(adapter, _ARRAYS):
        partial = adapter.partial_batch_size() if adapter.has_partial_batch() else None
        plan = plan_of_arrays(adapter.batch_size(), adapter.get_size(), partial)
    elif _kind(adapter, _DATASETS):
        plan = plan_of_dataset(adapter._dataset)
    elif _kind(adapter, {"GeneratorDataAdapter"}):
        return _sizes_of_generator(handler, adapter, restarts, reporter)
    return BatchSizes(handler, plan, not restarts)


def _sizes_of_generator(
    handler: Any, adapter: Any, restarts: bool, reporter: Reporter
) -> NotedBatchSizes:
    """Return the sizes of the batches that tf_keras standardizes one by one."""
    first_size = adapter.representative_batch_size()
    sizes = NotedBatchSizes(handler, continues=not restarts, first_size=first_size)
    note = guarded(reporter)(sizes.note)
    standardize = _weak_method(adapter, "_standardize_batch")

    def standardize_and_note(batch: Any) -> Any:
        batch = standardize(batch)
        note(batch)
        return batch

    adapter._standardize_batch = standardize_and_note
    return sizes
