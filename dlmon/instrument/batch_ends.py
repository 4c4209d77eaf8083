"""Reports the ends of an epoch's batches: the fast path of a person's own `fit`."""

from __future__ import annotations

from collections.abc import Callable

from dlmon.instrument.keras_data import Data, HandedData
from dlmon.instrument.queued import MeasuredBatch
from dlmon.instrument.reporter import Reporter

_new = tuple.__new__


def last_of(batch: int, stride: int) -> int:
    """Return the last of the batches that ended together, with the index that a hook was given.

    Until Keras 3.9 it is that of the first of them.
    """
    return batch + stride - 1 if batch % stride == 0 else batch


class BatchEnds:
    """Reports batches in the way that fits what is known of their data.

    Args:
        reporter: takes them.
        clock: CLOCK_MONOTONIC in nanoseconds.
        data: where they come from; None where that is not known.
        stride: Keras's steps_per_execution.

    `ended` takes the index of a batch that ended.
    """

    def __init__(
        self, reporter: Reporter, clock: Callable[[], int], data: Data | None, stride: int
    ) -> None:
        self._reporter, self._clock, self._stride = reporter, clock, stride
        # One that knows nothing stands for none.
        self._data = Data(None) if data is None else data
        self._data.begin(stride)
        self.batch_size: int | None = None
        """The size of all batches but the last, if `samples` and it say everything."""
        self.samples: int | None = None
        self._last_index, self._last_end = -1, 0
        data = self._data
        self.ended: Callable[[int], None]
        if isinstance(data, HandedData) and stride == 1:
            # Of several that end together, nobody knows for which of them the device had to wait.
            self._take_handed = data.handed.pop
            self.ended = self._waited
        elif data.counts_itself:
            self.ended = self._sized
        elif data.batch_size is None:
            self.ended = self._unsized
        elif data.is_even:
            self.ended = self._even if stride == 1 else self._several_even
            self.batch_size, self.samples = data.batch_size, data.samples_per_epoch
        else:
            self.ended = self._sized

    @property
    def steps(self) -> int | None:
        """How many batches the epoch has to have, where `samples` doesn't say it."""
        # With steps_per_execution, Keras may run more than it was asked for.
        known = self._stride == 1 or not self._data.continues
        return self._data.batches if known and self.samples is None else None

    @property
    def are_exact(self) -> bool:
        """Whether the samples of these batches are known for certain."""
        data = self._data
        return data.counts_itself or (data.inferred is None and data.batch_size is not None)

    def opened(self, t: int) -> None:
        """Note that the epoch's first batch begins: what was waited before is no part of it."""
        self._last_end = t

    def finish(self, samples: int | None) -> None:
        """End the epoch, which held so many samples as far as Keras knows it."""
        if self.batch_size is not None:
            self._data.end()
        if samples is not None:
            self._data.learn(samples)

    def _even(self, batch: int) -> None:
        self._reporter.batch_ended((batch, self._clock()))

    def _several_even(self, batch: int) -> None:
        self._reporter.batch_ended((last_of(batch, self._stride), self._clock()))

    def _unsized(self, batch: int) -> None:
        batch = last_of(batch, self._stride)
        self._reporter.batch_ended(MeasuredBatch(batch, self._clock()))

    def _sized(self, batch: int) -> None:
        now = self._clock()
        batch = last_of(batch, self._stride)
        self._reporter.batch_ended(MeasuredBatch(batch, now, self._data.take(batch, self._stride)))

    def _waited(self, batch: int) -> None:
        """Report a batch, and how long nothing could be computed for want of data.

        The host may run ahead of the device: only what it waited after the batch before had ended
        is lost. Hooks run on a thread pool; one that comes before that of the batch before has
        found the device busy.
        """
        now = self._clock()
        handed = self._take_handed(batch, None)
        if handed is None:
            self._reporter.batch_ended(MeasuredBatch(batch, now))
            return
        size, begin, end = handed
        last = self._last_end if self._last_index == batch - 1 else now
        self._last_index, self._last_end = batch, now
        since = begin if begin > last else last
        wait = end - since if end > since else 0
        # What a NamedTuple's own call does, in half the time.
        self._reporter.batch_ended(_new(MeasuredBatch, (batch, now, size, wait, None)))
