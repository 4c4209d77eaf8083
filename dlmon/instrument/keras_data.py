"""The sizes of the batches that Keras trains on.

`keras_iterators` gives each epoch iterator of Keras a `BatchSizes`. On TensorFlow, batches stay in
the graph, and arrays and datasets say the sizes beforehand. Batches that pass through Python, as
all do on JAX and Torch, are noted there (`NotedBatchSizes`).
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

# If more sizes than this wait, nobody takes them any more.
MOST_WAITING = 200_000

_UNKNOWN = (None, 0, 0)

_OF_BATCH_STEP = "batches are as large as the dataset's batch() step makes them"
_LAST_UNKNOWN = f"{_OF_BATCH_STEP}; the last may be smaller"

_BATCHES = {"BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset", "DenseToRaggedDataset"}
# Datasets that hand on the same batches in the same order.
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
# Datasets that drop batches or change their order.
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
    """The sizes of all batches, as arrays or a `tf.data.Dataset` say them.

    Attributes:
        batch_size: samples of a whole batch.
        last: samples of the last batch of each `period`; None if unknown.
        period: batches until the samples begin again; None if they don't, or if unknown.
        batches: their number; None if endless or unknown.
        inferred: how the sizes were inferred, if they may be wrong.
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
        """Return the samples of `count` batches from `start` on; None if unknown."""
        if self.last is None:
            return None
        short = 0 if self.period is None else (start + count) // self.period - start // self.period
        return count * self.batch_size - short * (self.batch_size - self.last)


def plan_of_arrays(batch_size: int, batches: int, last: int | None) -> BatchPlan:
    """Return the plan of arrays; only the last batch may be smaller."""
    return BatchPlan(batch_size, last or batch_size, batches, batches)


def plan_of_dataset(dataset: Any) -> BatchPlan | None:
    """Return the plan of a `tf.data.Dataset` from how it was built, without reading its data."""
    batches = _cardinality(dataset)
    fixed_size = _fixed_size(dataset)
    if fixed_size is not None:
        return BatchPlan(fixed_size, fixed_size, batches=batches)
    plan = _walk(dataset)
    return None if plan is None else replace(plan, batches=batches)


def _walk(dataset: Any) -> BatchPlan | None:
    """Follow a dataset's inputs to its batch() step, and return the plan of that."""
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
    """Return a plan whose samples begin again after `batches` batches."""
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
    # A cardinality of -1 is endless.
    if drops or samples == -1:
        return BatchPlan(size, size, inferred=_OF_BATCH_STEP)
    return BatchPlan(size, None, inferred=_LAST_UNKNOWN)


def _cardinality(dataset: Any) -> int | None:
    cardinality = dataset.cardinality
    batches = int(cardinality() if callable(cardinality) else cardinality)
    return batches if batches >= 0 else None


def _fixed_size(dataset: Any) -> int | None:
    """Return the size that TensorFlow guarantees for every batch; None without a guarantee."""
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
    """The sizes of the batches of an epoch iterator, from its plan.

    Args:
        iterator: Keras's iterator; None to read as many batches as the plan has.
        plan: the sizes; None if unknown beforehand.
        continues: each epoch begins at the batch after the last one read, not at the first.
    """

    counts_itself = False
    """Measured from the batches, not planned."""
    tokens: tuple[int, str | None] | None = None
    """The tokens of each sample, and how they were inferred; None if unknown."""

    def __init__(
        self, iterator: Any = None, plan: BatchPlan | None = None, continues: bool = False
    ) -> None:
        # Read now: after an epoch of unknown length, Keras says too many.
        batches = getattr(iterator, "num_batches", None) or getattr(
            iterator, "inferred_steps", None
        )
        if iterator is None and plan is not None:
            batches = plan.batches
        self.batches = int(batches) if batches else None
        """The batches of an epoch or a pass; None if unknown."""
        self.continues = continues
        self.is_claimed = False
        """Set by `claim_latest`: a list of callbacks reads these sizes."""
        self.plan = plan
        self._position, self._stride = 0, 1

    @classmethod
    def of_samples(cls, samples: int, batch_size: int) -> BatchSizes:
        """Return the sizes of a pass over `samples` samples; the last batch may be smaller."""
        batches, last = -(-samples // batch_size), samples % batch_size
        return cls(None, plan_of_arrays(batch_size, batches, last or None))

    @property
    def inferred(self) -> str | None:
        """The inference of the sizes, if they may be wrong."""
        return None if self.plan is None else self.plan.inferred

    @property
    def batch_size(self) -> int | None:
        return None if self.plan is None else self.plan.batch_size

    @property
    def is_exact(self) -> bool:
        """Measured, or planned without inference."""
        return self.counts_itself or (self.plan is not None and self.plan.inferred is None)

    @property
    def _next(self) -> tuple[int, int | None]:
        """The next epoch's first batch in the plan, and its number of batches."""
        planned = None if self.plan is None else self.plan.batches
        start = self._position if self.continues and self._position < (planned or math.inf) else 0
        limits = [n for n in (planned and planned - start, self.batches) if n is not None]
        return start, min(limits, default=None)

    @property
    def samples_per_epoch(self) -> int | None:
        start, steps = self._next
        if steps is None or self.plan is None:
            return None
        return self.plan.samples(start, steps)

    def begin_epoch(self) -> None:
        """Begin an epoch of training."""

    def begin_pass(self) -> None:
        """Begin a validation or evaluation, whose batches `read` sums."""

    def read(self, steps: int) -> tuple[int, int | None]:
        """Return the batches and samples read by a pass of at most `steps` steps."""
        planned = None if self.plan is None else self.plan.batches
        steps = min(n for n in (steps, self.batches, planned) if n is not None)
        return steps, None if self.plan is None else self.plan.samples(0, steps)

    # The side thread calls these, and takes the batches of each epoch in order.

    def open(self, stride: int) -> int | None:
        """Begin an epoch that runs `stride` batches at a time; return how many batches are due."""
        self._stride, (self._position, steps) = stride, self._next
        # With steps_per_execution, Keras may run more than it was asked for.
        return steps if stride == 1 or not self.continues else None

    def take(self, count: int) -> tuple[list[int | None], list[tuple[int, int]]]:
        """Return the samples of the next batches, and the begin and end of each wait for one.

        An execution of several batches may have fewer than `count` left. The waits are empty if
        unknown.
        """
        plan, start = self.plan, self._position
        if plan is None:
            return [None] * count, []
        if plan.batches is not None and self._stride > 1:
            count = max(1, min(count, plan.batches - start))
        self._position += count
        return [plan.size(position) for position in range(start, start + count)], []


class Stream(deque[tuple[int | None, int, int]]):
    """The sizes of batches not yet taken, with the begin and end of the wait for each."""

    is_listed = False

    def __init__(self) -> None:
        super().__init__(maxlen=MOST_WAITING)


class NotedBatchSizes(BatchSizes):
    """The sizes of batches that pass through Python, noted one by one.

    Each epoch reads a stream of its own, unless it `continues`. Batches that were prefetched for an
    earlier epoch stay in its stream, and aren't counted.

    Args:
        iterator: as above.
        plan: as above.
        continues: as above.
        is_waited_for: training waits for each batch, as on JAX and Torch.
        first_size: samples of the first batch, if known.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    counts_itself = True

    def __init__(
        self,
        iterator: Any,
        plan: BatchPlan | None = None,
        continues: bool = False,
        is_waited_for: bool = False,
        first_size: int | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(iterator, plan, continues)
        self._is_waited_for, self._first_size, self._clock = is_waited_for, first_size, clock
        self.stream = Stream()
        """The stream of a batch that is noted without one."""
        self._streams: deque[Stream] = deque()
        self._epoch_stream = Stream()
        self._epochs_due = 0

    @property
    def batch_size(self) -> int | None:
        return self._first_size if self.plan is None else self.plan.batch_size

    def note(self, batch: Any, wait_begin_ns: int = 0, stream: Stream | None = None) -> None:
        """Add the size of a batch that has just come to a stream."""
        now = self._clock()
        size = leading_size(batch)
        if not self.is_claimed:
            # Keras peeks at the first batch before the first epoch.
            self._first_size = size
            return
        if stream is None:
            stream = self.stream
        if not stream.is_listed:
            stream.is_listed = True
            self._streams.append(stream)
        stream.append((size, wait_begin_ns, now))

    def begin_epoch(self) -> None:
        if not self.continues:
            self.stream = Stream()

    def begin_pass(self) -> None:
        self._streams.clear()
        self.stream = Stream()

    def read(self, steps: int) -> tuple[int, int | None]:
        sizes = [size for stream in self._streams for size, _, _ in stream][:steps]
        return len(sizes), None if None in sizes else sum(sizes)  # type: ignore[arg-type]

    def open(self, stride: int) -> int | None:
        self._epochs_due += not self.continues
        return super().open(stride)

    def take(self, count: int) -> tuple[list[int | None], list[tuple[int, int]]]:
        batches = [self._take_next() for _ in range(count)]
        if self._stride > 1:
            batches = [batch for batch in batches if batch is not _UNKNOWN] or [_UNKNOWN]
        waits = [(begin, end) for _, begin, end in batches] if self._is_waited_for else []
        return [size for size, _, _ in batches], waits

    def _take_next(self) -> tuple[int | None, int, int]:
        while self._streams and (self._epochs_due or (self.continues and not self._epoch_stream)):
            self._epoch_stream = self._streams.popleft()
            self._epochs_due = max(0, self._epochs_due - 1)
        return self._epoch_stream.popleft() if self._epoch_stream else _UNKNOWN


# The newest iterator of each thread, unless a list of callbacks has claimed it.
_LATEST = threading.local()
_SIZES = "_dlmon_batch_sizes"


def keep_sizes(iterator: Any, sizes: BatchSizes) -> None:
    """Keep the sizes of a new iterator for a list of callbacks to claim."""
    setattr(iterator, _SIZES, sizes)
    _LATEST.iterator = weakref.ref(iterator)


def claim_latest() -> BatchSizes | None:
    """Return the sizes of this thread's newest iterator; None if none is unclaimed."""
    latest, _LATEST.iterator = getattr(_LATEST, "iterator", None), None
    iterator = None if latest is None else latest()
    sizes: BatchSizes | None = None if iterator is None else getattr(iterator, _SIZES, None)
    if sizes is not None:
        sizes.is_claimed = True
    return sizes
