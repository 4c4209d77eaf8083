"""How many samples the batches hold that Keras hands on, without a look of our own at the data.

Each iterator of epochs that Keras makes gets a `Data`. On TensorFlow, where batches stay within the
graph, arrays and datasets say the sizes beforehand (`PlannedData`), and what runs in Python is
counted as it enters the graph (`StreamedData`). On JAX and Torch every batch passes through Python:
its size is looked at there, and the time that it took to come (`HandedData`).
`keras_iterators` makes them.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dlmon.instrument.batch_plan import BatchPlan
from dlmon.instrument.reporter import Reporter, guarded


def leading_size(batch: Any) -> int | None:
    """Return how many samples a batch holds: the leading size of its first array."""
    try:
        # The usual batch, for which there is little time.
        size = batch[0].shape[0] if type(batch) is tuple else None
    except (AttributeError, IndexError, TypeError):
        size = None
    return size if type(size) is int else _size_of_first(batch)


def _size_of_first(batch: Any) -> int | None:
    while isinstance(batch, (tuple, list, Mapping)):
        parts = batch.values() if isinstance(batch, Mapping) else batch
        batch = next((part for part in parts if part is not None), None)
    shape = getattr(batch, "shape", None)
    try:
        return int(shape[0])  # type: ignore[index]
    except (TypeError, IndexError, ValueError):
        return None


class Data:
    """What an iterator of epochs reads; this one doesn't know how large its batches are.

    Args:
        iterator: Keras's own.
        continues: an epoch goes on where the one before ended.
    """

    inferred: str | None = None
    """How the sizes were found, where that may be wrong."""
    counts_itself = False
    """Whether the sizes are those of the batches themselves."""

    def __init__(self, iterator: Any, continues: bool = False) -> None:
        # Keras says too many once an epoch of unknown length has ended.
        batches = getattr(iterator, "num_batches", None) or getattr(
            iterator, "inferred_steps", None
        )
        self.batches = int(batches) if batches else None
        """How many batches an epoch, or a pass, has; None where that is not known."""
        self.continues = continues
        self.claimed = False
        """Whether somebody asks for the sizes of its batches."""

    @property
    def batch_size(self) -> int | None:
        return None

    @property
    def samples_per_epoch(self) -> int | None:
        return None

    @property
    def is_even(self) -> bool:
        """Whether all batches of this epoch hold `batch_size` samples, but for the last."""
        return False

    def begin(self, stride: int, keep: bool = True) -> None:
        """Begin an epoch, whose batches end so many at a time, or a pass that only `read` sums."""

    def end(self) -> None:
        """End an even epoch, whose batches nobody took one by one."""

    def take(self, index: int, count: int) -> int | tuple[int, ...] | None:
        """Return the sizes of the batches that ended, the last with an index.

        Args:
            index: of the last.
            count: how many they are at most.
        """
        return None

    def read(self, steps: int) -> tuple[int, int | None]:
        """Return how many batches and samples a pass of so many steps at most has read."""
        return min(steps, self.batches or steps), None

    def learn(self, samples: int) -> None:
        """Note how many samples a whole epoch turned out to have."""


class PlannedData(Data):
    """Batches of arrays, or of a `tf.data.Dataset`, whose sizes are known beforehand."""

    def __init__(self, iterator: Any, plan: BatchPlan, continues: bool = False) -> None:
        super().__init__(iterator, continues)
        if iterator is None:
            self.batches = plan.batches
        self.plan = self._first_plan = plan
        self._has_learnt = False
        self._position = 0
        self._stride = 1

    @property
    def inferred(self) -> str | None:  # type: ignore[override]
        return self.plan.inferred

    @property
    def batch_size(self) -> int | None:
        return self.plan.batch_size

    @property
    def _steps(self) -> int | None:
        left = None if self.plan.batches is None else self.plan.batches - self._position
        known = [steps for steps in (left, self.batches) if steps is not None]
        return min(known, default=None)

    @property
    def samples_per_epoch(self) -> int | None:
        steps = self._steps
        return None if steps is None else self.plan.samples(self._position, steps)

    @property
    def is_even(self) -> bool:
        if self._stride > 1 and self.continues:
            return False
        steps = self._steps
        return not self.plan.is_short_within(self._position, None if steps is None else steps - 1)

    def begin(self, stride: int, keep: bool = True) -> None:
        self._stride = stride
        ended = self.plan.batches is not None and self._position >= self.plan.batches
        if ended or not self.continues:
            self._position = 0

    def end(self) -> None:
        if self.continues:
            self._position += self._steps or 0

    def take(self, index: int, count: int) -> int | tuple[int, ...] | None:
        start = self._position
        if count == 1:
            self._position += 1
            return self.plan.size(start)
        if self.plan.batches is not None:
            count = max(1, min(count, self.plan.batches - start))
        self._position += count
        return tuple(self.plan.size(position) for position in range(start, start + count))

    def read(self, steps: int) -> tuple[int, int | None]:
        steps, _ = super().read(steps)
        if self.plan.batches is not None:
            steps = min(steps, self.plan.batches)
        return steps, self.plan.samples(0, steps)

    def learn(self, samples: int) -> None:
        if self.continues or self.plan.samples(0, self.plan.batches or 0) == samples:
            return
        # What an epoch held the next may not: what was learnt first is forgotten for good then.
        learns = self.plan is self._first_plan and not self._has_learnt
        self.plan = self._first_plan.with_total(samples) if learns else self._first_plan
        self._has_learnt = True


class StreamedData(Data):
    """Batches that come from Python one after another, and enter TensorFlow's graph."""

    counts_itself = True

    def __init__(self, iterator: Any, reporter: Reporter, first: int | None = None) -> None:
        super().__init__(iterator)
        self._guard = guarded(reporter)
        self._sizes: deque[int | None] = deque()
        self._first = first
        self.restarts = False
        """Whether each epoch begins another stream, and what was read ahead is dropped."""

    @property
    def batch_size(self) -> int | None:
        return self._first

    def begin(self, stride: int, keep: bool = True) -> None:
        if self.restarts:
            self._sizes.clear()

    def note_first(self, batch: Any) -> None:
        """Note a batch that was looked at before the first epoch, by Keras itself."""
        self._first = leading_size(batch)

    def note(self, batch: Any) -> None:
        if self.claimed:
            self._sizes.append(leading_size(batch))

    def stream(self, batches: Iterable[Any]) -> Iterator[Any]:
        # What reads ahead for a stream that was left writes to its own.
        sizes = self._sizes = deque()

        @self._guard
        def note(batch: Any) -> None:
            sizes.append(leading_size(batch))

        for batch in batches:
            if self.claimed:
                note(batch)
            yield batch

    def take(self, index: int, count: int) -> int | tuple[int, ...] | None:
        sizes = self._sizes
        if count == 1:
            return sizes.popleft() if sizes else None
        taken = [sizes.popleft() for _ in range(min(count, len(sizes)))]
        known = tuple(size for size in taken if size is not None)
        return known if known and len(known) == len(taken) else None

    def read(self, steps: int) -> tuple[int, int | None]:
        sizes = [self._sizes.popleft() for _ in range(min(steps, len(self._sizes)))]
        known = [size for size in sizes if size is not None]
        return len(sizes), sum(known) if len(known) == len(sizes) else None


class HandedData(Data):
    """Batches that pass through Python on their way to the model, as they do on JAX and Torch."""

    counts_itself = True

    def __init__(
        self,
        iterator: Any,
        plan: BatchPlan | None,
        continues: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(iterator, continues)
        self._plan, self._clock = plan, clock
        self._first: int | None = None
        self.handed: dict[int, tuple[int | None, int, int]] = {}
        """For each batch of an epoch, its size, and when the wait for it began and ended."""
        self._keep = False
        self._count = 0
        self._samples: int | None = 0

    @property
    def batch_size(self) -> int | None:
        return self._first if self._plan is None else self._plan.batch_size

    @property
    def samples_per_epoch(self) -> int | None:
        if self._plan is None or self._plan.batches is None:
            return None
        steps = min(self.batches or self._plan.batches, self._plan.batches)
        return self._plan.samples(0, steps)

    def begin(self, stride: int, keep: bool = True) -> None:
        self.handed, self._keep = {}, keep
        self._count, self._samples = 0, 0

    def note(self, batch: Any, begin: int) -> None:
        """Note a batch that was waited for from `begin` on."""
        now = self._clock()
        size = leading_size(batch)
        if self._keep:
            self.handed[self._count] = size, begin, now
        elif not self.claimed:
            self._first = size
            return
        elif size is None or self._samples is None:
            self._samples = None
        else:
            self._samples += size
        self._count += 1

    def take(self, index: int, count: int) -> int | tuple[int, ...] | None:
        found = [self.handed.pop(number, None) for number in range(index + 1 - count, index + 1)]
        sizes = [batch[0] for batch in found if batch is not None]
        known = tuple(size for size in sizes if size is not None)
        return known if known and len(known) == len(sizes) else None

    def read(self, steps: int) -> tuple[int, int | None]:
        return self._count, self._samples


class _Latest(threading.local):
    """The iterator that was made last in a thread, unless a list of callbacks has claimed it."""

    iterator: weakref.ref[Any] | None = None


_LATEST = _Latest()
_DATA = "_dlmon_data"


def keep_data(iterator: Any, data: Data) -> None:
    """Keep the data of an iterator that has just been made, for a list of callbacks to claim."""
    setattr(iterator, _DATA, data)
    _LATEST.iterator = weakref.ref(iterator)


def claim_latest() -> Data | None:
    """Return the data of the iterator that was made last, once; None where none waits for that."""
    latest, _LATEST.iterator = _LATEST.iterator, None
    iterator = None if latest is None else latest()
    data: Data | None = None if iterator is None else getattr(iterator, _DATA, None)
    if data is not None:
        data.claimed = True
    return data
