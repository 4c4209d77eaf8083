"""How many samples the batches hold that Keras hands on, without a look of our own at the data.

Each iterator of epochs that Keras makes gets a `Data`. On TensorFlow, where batches stay within the
graph, arrays and datasets say the sizes beforehand, and what runs in Python is counted as it enters
the graph (`StreamedData`). On JAX and Torch every batch passes through Python: its size is looked
at there, and the time that it took to come (`HandedData`). `keras_iterators` makes them.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dlmon.instrument.batch_plan import BatchPlan, plan_of_arrays
from dlmon.instrument.loaders import leading_size
from dlmon.instrument.reporter import Reporter, guarded

# So many batches wait at most to be taken: more only where nobody takes them any more.
MOST_WAITING = 50_000


class Data:
    """What an iterator of epochs reads, and how large its batches are, as far as a plan says it.

    Args:
        iterator: Keras's own; None for one that reads as many batches as its plan has.
        plan: the sizes; None where they are not known beforehand.
        continues: an epoch goes on where the one before ended.
    """

    counts_itself = False
    """Whether the sizes are those of the batches themselves."""

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
    def of_samples(cls, samples: int, batch_size: int) -> Data:
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

    def begin(self, keep: bool = True) -> None:
        """Begin an epoch, or a pass that only `read` sums."""

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
        if not plan.is_short_within(start, count):
            return [plan.batch_size] * count, []
        return [plan.size(position) for position in range(start, start + count)], []


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

    def begin(self, keep: bool = True) -> None:
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

    def sizes_of(self, count: int) -> int | tuple[int, ...] | None:
        """Return the sizes of the next batches: no more than so many have ended."""
        known = [size for size in self._pop(count) if size is not None]
        if count == 1:
            return known[0] if known else None
        return tuple(known) or None

    def _pop(self, count: int) -> list[int | None]:
        sizes = self._sizes
        return [sizes.popleft() for _ in range(min(count, len(sizes)))]

    def read(self, steps: int) -> tuple[int, int | None]:
        sizes = self._pop(steps)
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
        super().__init__(iterator, plan, continues)
        self._clock = clock
        self._first: int | None = None
        # What each epoch of its own begins with is None.
        self._handed: deque[tuple[int | None, int, int] | None] = deque(maxlen=MOST_WAITING)
        self._keep = False
        self._count = 0
        self._samples: int | None = 0

    @property
    def batch_size(self) -> int | None:
        return self._first if self.plan is None else self.plan.batch_size

    def begin(self, keep: bool = True) -> None:
        self._keep = keep
        self._count, self._samples = 0, 0
        if keep and not self.continues:
            self._handed.append(None)

    def note(self, batch: Any, begin: int) -> None:
        """Note a batch that was waited for from `begin` on."""
        now = self._clock()
        size = leading_size(batch)
        if self._keep:
            self._handed.append((size, begin, now))
        elif not self.claimed:
            self._first = size
        else:
            self._count += 1
            known = size is not None and self._samples is not None
            self._samples = self._samples + size if known else None  # type: ignore[operator]

    def open(self, stride: int) -> int | None:
        handed = self._handed
        # What was read of the epoch before, and not trained with, is left out.
        while handed and not self.continues:
            if handed.popleft() is None:
                break
        return super().open(stride)

    def take(self, count: int) -> tuple[list[int | None], list[tuple[int, int]]]:
        handed, unknown = self._handed, (None, 0, 0)
        taken = [handed.popleft() or unknown if handed else unknown for _ in range(count)]
        return [size for size, _, _ in taken], [(begin, end) for _, begin, end in taken]

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
