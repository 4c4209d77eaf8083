"""How large a data set's batches are, as far as arrays or a `tf.data.Dataset` say it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_OF_BATCH_STEP = "batches are as large as the dataset's batch() step makes them"
_LAST_UNKNOWN = f"{_OF_BATCH_STEP}; the last may be smaller"

_BATCHES = {"BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset", "DenseToRaggedDataset"}
# What hands on the same batches in the same order.
_SAME = {
    "MapDataset",
    "ParallelMapDataset",
    "PrefetchDataset",
    "OptionsDataset",
    "CacheDataset",
    "AssertCardinalityDataset",
    "ModelDataset",
    "ZipDataset",
}
_REPEATED, _FIRST = "RepeatDataset", "TakeDataset"
# What hands on batches of which some may be missing, or in another order.
_SOME = {
    "ShuffleDataset",
    "SkipDataset",
    "FilterDataset",
    "ShardDataset",
    "TakeWhileDataset",
    "IgnoreErrorsDataset",
    "ConcatenateDataset",
}


@dataclass(frozen=True)
class BatchPlan:
    """The sizes of the batches, from the first on.

    Attributes:
        batch_size: of a whole batch.
        last: of the last batch of each `period`; None where it is not known.
        period: after so many batches the samples begin again; None where they don't, or where that
            is not known.
        batches: how many there are; None for no end, or where that is not known.
        inferred: how this was found, where it may be wrong.
    """

    batch_size: int
    last: int | None
    period: int | None = None
    batches: int | None = None
    inferred: str | None = None

    def size(self, position: int) -> int:
        is_last = self.period is not None and (position + 1) % self.period == 0
        return self.last if is_last and self.last is not None else self.batch_size

    def samples(self, start: int, count: int) -> int | None:
        """Return the sum of so many batches from one on; None where that is not known."""
        if self.last is None:
            return None
        short = 0 if self.period is None else (start + count) // self.period - start // self.period
        return count * self.batch_size - short * (self.batch_size - self.last)


def plan_of_arrays(batch_size: int, batches: int, last: int | None) -> BatchPlan:
    """Return the plan of arrays, whose last batch may have a size of its own."""
    return BatchPlan(batch_size, last or batch_size, batches, batches)


def plan_of_dataset(dataset: Any) -> BatchPlan | None:
    """Return the plan of a `tf.data.Dataset`, which nothing is asked for but how it was made."""
    batches = _cardinality(dataset)
    fixed = _fixed_size(dataset)
    if fixed is not None:
        return BatchPlan(fixed, fixed, batches=batches)
    found = _walk(dataset)
    return None if found is None else replace(found, batches=batches)


def _walk(dataset: Any) -> BatchPlan | None:
    """Follow a dataset's inputs to the one that makes batches, and return the sizes behind it."""
    name = type(dataset).__name__.strip("_")
    if name in _BATCHES:
        return _plan_of_batch_step(dataset)
    if name not in {*_SAME, *_SOME, _REPEATED, _FIRST}:
        return None
    source = dataset._inputs()[0]
    plan = _walk(source)
    if plan is None or name in _SAME or plan.period is None:
        return plan
    batches = _cardinality(source)
    if name == _REPEATED and batches != plan.period:
        return _without_period(plan, batches)
    return _without_period(plan, None) if name in _SOME else plan


def _without_period(plan: BatchPlan, batches: int | None) -> BatchPlan:
    """Return the plan of what begins again after so many batches of the plan."""
    never_short = batches is not None and plan.period is not None and batches < plan.period
    if never_short or plan.last == plan.batch_size:
        return replace(plan, last=plan.batch_size, period=None)
    return replace(plan, last=None, period=None, inferred=_LAST_UNKNOWN)


def _plan_of_batch_step(dataset: Any) -> BatchPlan:
    size = int(dataset._batch_size)
    samples = int(dataset._inputs()[0].cardinality())
    drops = bool(getattr(dataset, "_drop_remainder", False))
    if samples >= 0:
        period = samples // size if drops else -(-samples // size)
        last = size if drops else samples - (period - 1) * size
        return BatchPlan(size, last, period or None, inferred=_OF_BATCH_STEP)
    # -1: its samples have no end.
    if drops or samples == -1:
        return BatchPlan(size, size, inferred=_OF_BATCH_STEP)
    return BatchPlan(size, None, inferred=_LAST_UNKNOWN)


def _cardinality(dataset: Any) -> int | None:
    cardinality = dataset.cardinality
    batches = int(cardinality() if callable(cardinality) else cardinality)
    return batches if batches >= 0 else None


def _fixed_size(dataset: Any) -> int | None:
    """Return the size that TensorFlow guarantees for every batch, if there is one."""
    spec = dataset.element_spec
    while isinstance(spec, (tuple, list, Mapping)):
        parts = list(spec.values()) if isinstance(spec, Mapping) else spec
        spec = next((part for part in parts if part is not None), None)
    shape = getattr(spec, "shape", None)
    if shape is None or shape.rank in (None, 0):
        return None
    size = shape[0]
    return None if size is None else int(size)
