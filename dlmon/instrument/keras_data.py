"""How many samples the batches hold that Keras hands on, without a look of our own at the data.

Each iterator of epochs that Keras makes gets a `BatchSizes`. On TensorFlow, where batches stay within the
graph, arrays and datasets say the sizes beforehand. What passes through Python, which is all on JAX
and Torch, is looked at there (`NotedBatchSizes`). `keras_iterators` makes them.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dlmon.instrument.loaders import leading_size

# So many batches wait at most to be taken: more only where nobody takes them any more.
MOST_WAITING = 200_000

_UNKNOWN = (None, 0, 0)

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
    """The sizes of the batches, from the first on, as arrays or a `tf.data.Dataset` say them.

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


class BatchSizes:
    """What an iterator of epochs reads, and how large its batches are, as far as a plan says it.

    Args:
        iterator: Keras's own; None for one that reads as many batches as its plan has.
        plan: the sizes; None where they are not known beforehand.
        continues: an epoch goes on where the one before ended.
    """

    counts_itself = False
    """Whether the sizes are those of the batches themselves."""
    tokens: tuple[int, str | None] | None = None
    """How many tokens each sample has, and how they were found; None where that isn't known."""

    def __init__(
        self, iterator: Any = None, plan: BatchPlan | None = None, continues: bool = False
    ) -> None:
        # Keras says too many once an epoch of unknown length has ended.
        batches = getattr(iterator, "num_batches", None) or getattr(
            iterator, "inferred_steps", None
        )
        if iterator is None and plan is not None:
            batches = plan.batches
        self.batches = int(batches) if batches else None
        """How many batches an epoch, or a pass, has; None where that is not known."""
        self.continues = continues
        self.claimed = False
        """Whether somebody asks for the sizes of its batches."""
        self.plan = plan
        self._position, self._stride = 0, 1

    @classmethod
    def of_samples(cls, samples: int, batch_size: int) -> BatchSizes:
        """Return what reads so many samples, of which the last batch may have fewer."""
        batches, last = -(-samples // batch_size), samples % batch_size
        return cls(None, plan_of_arrays(batch_size, batches, last or None))

    @property
    def inferred(self) -> str | None:
        """How the sizes were found, where that may be wrong."""
        return None if self.plan is None else self.plan.inferred

    @property
    def batch_size(self) -> int | None:
        return None if self.plan is None else self.plan.batch_size

    @property
    def is_exact(self) -> bool:
        """Whether the samples of each batch are known for certain."""
        return self.counts_itself or (self.plan is not None and self.plan.inferred is None)

    @property
    def _next(self) -> tuple[int, int | None]:
        """Where in the plan the next epoch begins, and how many batches it is to have."""
        ends = None if self.plan is None else self.plan.batches
        start = self._position if self.continues and self._position < (ends or math.inf) else 0
        known = [steps for steps in (ends and ends - start, self.batches) if steps is not None]
        return start, min(known, default=None)

    @property
    def samples_per_epoch(self) -> int | None:
        start, steps = self._next
        if steps is None or self.plan is None:
            return None
        return self.plan.samples(start, steps)

    def begin_epoch(self) -> None:
        """Begin an epoch of training."""

    def begin_pass(self) -> None:
        """Begin a pass that only `read` sums."""

    def read(self, steps: int) -> tuple[int, int | None]:
        """Return how many batches and samples a pass of so many steps at most has read."""
        ends = None if self.plan is None else self.plan.batches
        steps = min(known for known in (steps, self.batches, ends) if known is not None)
        return steps, None if self.plan is None else self.plan.samples(0, steps)

    # What the side thread asks, which takes the batches of each epoch in their order.

    def open(self, stride: int) -> int | None:
        """Begin to take an epoch whose batches end so many at a time; return how many are due."""
        self._stride, (self._position, steps) = stride, self._next
        # With steps_per_execution, Keras may run more than it was asked for.
        return steps if stride == 1 or not self.continues else None

    def take(self, count: int) -> tuple[list[int | None], list[tuple[int, int]]]:
        """Return the samples of the next batches, of several that end together what is left.

        And when the wait for each began and ended, where that is known.
        """
        plan, start = self.plan, self._position
        if plan is None:
            return [None] * count, []
        if plan.batches is not None and self._stride > 1:
            count = max(1, min(count, plan.batches - start))
        self._position += count
        return [plan.size(position) for position in range(start, start + count)], []


class Stream(deque[tuple[int | None, int, int]]):
    """Sizes of batches that nobody has taken yet, and when the wait for each began and ended."""

    is_known = False

    def __init__(self) -> None:
        super().__init__(maxlen=MOST_WAITING)


class NotedBatchSizes(BatchSizes):
    """Batches that pass through Python, each noted with its size as it is handed on.

    Each epoch reads a stream of its own, unless it `continues`. What reads ahead for a stream that
    was left writes to that one, and what was read and not trained with is left out with it.

    Args:
        iterator: as above.
        plan: as above.
        continues: as above.
        is_waited_for: training waits for each batch, as on JAX and Torch.
        first: the size of the first batch, where that is known.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    counts_itself = True

    def __init__(
        self,
        iterator: Any,
        plan: BatchPlan | None = None,
        continues: bool = False,
        is_waited_for: bool = False,
        first: int | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(iterator, plan, continues)
        self._is_waited_for, self._first, self._clock = is_waited_for, first, clock
        self.stream = Stream()
        """What is noted to that names none."""
        self._streams: deque[Stream] = deque()
        self._taken = Stream()
        self._epochs_due = 0

    @property
    def batch_size(self) -> int | None:
        return self._first if self.plan is None else self.plan.batch_size

    def note(self, batch: Any, began: int = 0, stream: Stream | None = None) -> None:
        """Note a batch of a stream, which was waited for from `began` on."""
        now = self._clock()
        size = leading_size(batch)
        if not self.claimed:
            # Keras looks at the first batch before the first epoch.
            self._first = size
            return
        if stream is None:
            stream = self.stream
        if not stream.is_known:
            stream.is_known = True
            self._streams.append(stream)
        stream.append((size, began, now))

    def begin_epoch(self) -> None:
        if not self.continues:
            self.stream = Stream()

    def begin_pass(self) -> None:
        self._streams.clear()
        self.stream = Stream()

    def read(self, steps: int) -> tuple[int, int | None]:
        noted = [size for stream in self._streams for size, _, _ in stream][:steps]
        known = [size for size in noted if size is not None]
        return len(noted), sum(known) if len(known) == len(noted) else None

    def open(self, stride: int) -> int | None:
        self._epochs_due += not self.continues
        return super().open(stride)

    def take(self, count: int) -> tuple[list[int | None], list[tuple[int, int]]]:
        taken = [self._take_one() for _ in range(count)]
        if self._stride > 1:
            taken = [one for one in taken if one is not _UNKNOWN] or [_UNKNOWN]
        waits = [(begin, end) for _, begin, end in taken] if self._is_waited_for else []
        return [size for size, _, _ in taken], waits

    def _take_one(self) -> tuple[int | None, int, int]:
        while self._streams and (self._epochs_due or (self.continues and not self._taken)):
            self._taken = self._streams.popleft()
            self._epochs_due = max(0, self._epochs_due - 1)
        return self._taken.popleft() if self._taken else _UNKNOWN


# The iterator that was made last in a thread, unless a list of callbacks has claimed it.
_LATEST = threading.local()
_DATA = "_dlmon_data"


def keep_data(iterator: Any, data: BatchSizes) -> None:
    """Keep the data of an iterator that has just been made, for a list of callbacks to claim."""
    setattr(iterator, _DATA, data)
    _LATEST.iterator = weakref.ref(iterator)


def claim_latest() -> BatchSizes | None:
    """Return the data of the iterator that was made last, once; None where none waits for that."""
    latest, _LATEST.iterator = getattr(_LATEST, "iterator", None), None
    iterator = None if latest is None else latest()
    data: BatchSizes | None = None if iterator is None else getattr(iterator, _DATA, None)
    if data is not None:
        data.claimed = True
    return data
