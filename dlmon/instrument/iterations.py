"""One iteration over a loader and its batches."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

from dlmon.instrument.loaders import Loader, Sizes
from dlmon.instrument.losses import EpochLoss
from dlmon.instrument.tokens import Tokens

# States: not yet asked for a batch; read, but not known to train; the epoch under way; a
# validation; over, or not counted.
NEW, READ, EPOCH, VALIDATING, OVER = range(5)

# A loop asks its iterator for the first batch within this time. If it waits for longer, the
# iterator was made early, and the epoch begins with the first batch.
AT_ONCE_NS = 50_000_000


def _nobody() -> Any:
    return None


class LoaderIteration:
    """One iteration over a loader.

    Args:
        loader: the description of the loader.
        created_ns: the time at which the script asked for the iterator.
        source: returns the loader, or None once that is gone.
    """

    def __init__(
        self, loader: Loader, created_ns: int, source: Callable[[], Any] = _nobody
    ) -> None:
        self.loader, self.source = loader, source
        self.sizes = Sizes(loader)
        self.certain = self.sizes.certain
        self.counter = Tokens()
        self.state = NEW
        self.iterator: Any = None
        """A weak reference to the iterator; its callback notes that it is gone."""
        # The times at which the iterator was asked for, and was asked for its first and its last
        # batch.
        self.created_ns = self.opened_ns = self.asked_ns = created_ns
        self.ready_ns = [created_ns]
        """When it was ready, and all others that the script made right after it."""
        self.begin_ns = created_ns
        """The begin of its epoch or validation."""
        self.thread: Any = None
        self.phase = ""
        # The number of batches that came, and of those trained on.
        self.fetched = self.trained = 0
        self.skipped_batches: list[FetchedBatch] = []
        """Batches that the script dropped without training on them."""
        self.is_exhausted = False
        self.is_one_of_several = False
        """Do the steps of its epoch take batches of several loaders in turn?"""
        self.ends_within_step = False
        """Has it no more though a step under way holds its last batches?"""
        self.is_left = False
        """Is its iterator gone?"""
        self.is_continued = False
        """Did the script begin its loader again within its epoch?"""
        self.was_interrupted = False
        """Did the script validate between two of its steps?"""
        # For a validation: the batches that are done, their samples, and the times.
        self.ended = 0
        self.samples: int | None = 0
        self.first_end_ns = self.last_end_ns = created_ns
        self.longest_ns = 0
        self.has_batch = False
        """Is a batch under way?"""
        # Is the network in training mode at its first call, and how many batches had come by then?
        # None if no call was seen.
        self.is_in_training_mode: bool | None = None
        self.fetched_at_call: int | None = None
        # If another thread reads it: the calls of the network without gradients meanwhile.
        self.calls = self.called_ns = self.longest_call_ns = 0
        self.epoch = 0
        self.skipped = loader.skipped
        """The number of batches skipped at its beginning, as by a resumed run."""
        self.metrics: dict[str, Any] = {}
        self.loss: EpochLoss | None = None

    def begin(self, now: int, thread: Any, phase: str) -> None:
        """Note the first request for a batch."""
        is_direct = now - self.ready_ns[0] <= AT_ONCE_NS
        self.begin_ns, self.opened_ns = (self.created_ns if is_direct else now), now
        self.last_end_ns = self.opened_ns
        self.thread, self.phase, self.state = thread, phase, READ

    def begin_again(self, created_ns: int) -> None:
        """Go on with another iterator over the same loader."""
        self.created_ns = created_ns
        self.sizes = Sizes(self.loader)
        self.certain, self.fetched = self.sizes.certain, 0
        self.is_continued, self.is_exhausted = True, False

    def split(self, now: int) -> LoaderIteration:
        """Return the epoch so far, and go on as one that isn't known to train."""
        so_far = copy(self)
        # Its callback would note once more that the iterator is gone.
        so_far.iterator = None
        self.begin_ns = self.opened_ns = self.last_end_ns = now
        self.state, self.trained, self.ended, self.has_batch = READ, 0, 0, False
        self.metrics, self.loss, self.was_interrupted = {}, None, False
        return so_far

    def end_batch(self, now: int) -> None:
        """End the batch under way, if there is one."""
        if not self.has_batch:
            return
        self.has_batch = False
        self.ended += 1
        if self.ended == 1:
            self.first_end_ns = now
        self.longest_ns = max(self.longest_ns, now - self.last_end_ns)
        self.last_end_ns = now

    def call(self, now: int) -> None:
        """Note a call of the network without gradients, while another thread reads."""
        if self.calls:
            self.longest_call_ns = max(self.longest_call_ns, now - self.called_ns)
        if self.calls == 1:
            self.first_end_ns = now
        self.calls, self.called_ns = self.calls + 1, now

    @property
    def has_all(self) -> bool:
        """Have all batches of its loader come?"""
        steps = None if self.is_continued else self.loader.steps
        return steps is not None and self.fetched + self.sizes.lost == steps

    @property
    def is_whole(self) -> bool:
        """Have all batches come, and was each trained on?"""
        is_over = (self.is_exhausted and not self.is_continued) or self.has_all
        return is_over and not self.sizes.lost and self.trained >= self.fetched

    @property
    def is_left_early(self) -> bool:
        """Did the script leave it though its loader may have more batches, and lose none?"""
        return self.is_continued or not (self.is_exhausted or self.has_all or self.sizes.lost)

    def lose_batch(self) -> None:
        """Note that fetching the next batch raised an error, so it is lost."""
        self.sizes.lost += 1
        self.certain = self.sizes.certain

    def skip(self, batches: int) -> None:
        """Skip batches at its beginning, as a loader does that is resumed from a checkpoint."""
        self.skipped = self.sizes.lost = self.loader.skipped + batches
        self.certain = self.sizes.certain


class FetchedBatch:
    """A batch of a loader, or one that the script made of several.

    Args:
        iteration: the iteration that it came from.
        size: its number of samples; None if unknown.
        tokens: its number of tokens; None if unknown.
        wait_ns: the time that the script waited for it; None if another thread waited.
        asked_ns: the time of the request.
        batch: the batch itself; only a weak reference to it is kept.
    """

    __slots__ = ("asked_ns", "iteration", "reference", "size", "tokens", "wait_ns")

    def __init__(
        self,
        iteration: LoaderIteration,
        size: int | None,
        tokens: int | None,
        wait_ns: int | None,
        asked_ns: int,
        batch: Any = None,
    ) -> None:
        self.iteration, self.size, self.tokens = iteration, size, tokens
        self.wait_ns, self.asked_ns = wait_ns, asked_ns
        kind = type(batch)
        self.reference: Callable[[], Any] | None
        """Returns the batch or its first array, or None once that is gone."""
        try:
            if kind is list or kind is tuple:
                batch = batch[0]
            elif kind is dict:
                batch = next(iter(batch.values()))
            self.reference = weakref.ref(batch)
        except Exception:  # noqa: BLE001 - whatever a script's batch is, it is counted
            self.reference = None

    @property
    def is_held(self) -> bool | None:
        """Does the script still hold the batch? None if that can't be told."""
        return None if self.reference is None else self.reference() is not None
