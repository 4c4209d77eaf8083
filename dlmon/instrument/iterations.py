"""One iteration over a loader, and the batches that it gives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from dlmon.instrument.loaders import Loader, Sizes
from dlmon.instrument.losses import EpochLoss
from dlmon.instrument.tokens import Tokens

# States: not yet asked for a batch; read, and not known to train; the epoch under way; one that
# validates; over, or one that does not count.
NEW, READ, EPOCH, VALIDATING, OVER = range(5)

# A loop asks an iterator of its own for the first batch within this time. One that waits for longer
# was made early: an epoch begins with its first batch then.
AT_ONCE_NS = 50_000_000


def _nobody() -> Any:
    return None


class LoaderIteration:
    """One iteration over a loader.

    Args:
        loader: what the loader says of it.
        created_ns: when the script asked for its iterator.
        source: returns the loader; None once that is gone.
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
        # When it was asked for, was ready, was first asked for a batch, and was asked last.
        self.created_ns = self.made_ns = self.opened_ns = self.asked_ns = created_ns
        self.begin_ns = created_ns
        """When the epoch or the validation that it makes begins."""
        self.thread: Any = None
        self.with_gradients = True
        self.phase = ""
        # Batches that came, and those that something trained on.
        self.fetched = self.trained = 0
        self.skipped_batches: list[FetchedBatch] = []
        """Those that the script let go before something trained."""
        self.is_exhausted = False
        self.is_one_of_several = False
        """Whether steps of its epoch took batches of another loader in turn."""
        self.is_left = False
        """Whether its iterator is gone, before or after it had no more."""
        # Of one that does not train: batches whose turn is over, their samples, and when it was.
        self.ended = 0
        self.samples: int | None = 0
        self.first_end_ns = self.last_end_ns = created_ns
        self.longest_ns = 0
        self.has_batch = False
        """Whether a batch came whose turn is not over."""
        # Whether its first batch goes into a network that is in training mode, and how many batches
        # had come then; None where no call was seen.
        self.is_in_training_mode: bool | None = None
        self.fetched_at_call: int | None = None
        self.epoch = 0
        self.skipped = loader.skipped
        """Batches that it leaves out at its beginning, as a run does that goes on."""
        self.metrics: dict[str, Any] = {}
        self.loss: EpochLoss | None = None

    def begin(self, now: int, thread: Any, phase: str) -> None:
        """Take the first request for a batch."""
        is_direct = now - self.made_ns <= AT_ONCE_NS
        self.begin_ns, self.opened_ns = (self.created_ns if is_direct else now), now
        self.last_end_ns = self.opened_ns
        self.thread, self.phase, self.state = thread, phase, READ

    def end_batch(self, now: int) -> None:
        """End the turn of the last batch, where there is one."""
        if not self.has_batch:
            return
        self.has_batch = False
        self.ended += 1
        if self.ended == 1:
            self.first_end_ns = now
        self.longest_ns = max(self.longest_ns, now - self.last_end_ns)
        self.last_end_ns = now

    @property
    def has_all(self) -> bool:
        """Whether as many batches came as its loader has."""
        return self.loader.steps is not None and (
            self.fetched + self.sizes.lost == self.loader.steps
        )

    @property
    def is_whole(self) -> bool:
        """Whether all batches came, and something trained on each."""
        is_over = self.is_exhausted or self.has_all
        return is_over and not self.sizes.lost and self.trained >= self.fetched

    def lose_batch(self) -> None:
        """Note that the next batch raised as it was fetched: the one after it takes its turn."""
        self.sizes.lost += 1
        self.certain = self.sizes.certain

    def skip(self, batches: int) -> None:
        """Leave out batches at its beginning, as a loader does that goes on from a checkpoint."""
        self.skipped = self.sizes.lost = self.loader.skipped + batches
        self.certain = self.sizes.certain


class FetchedBatch:
    """A batch that a loader gave, or that a script made itself of several.

    Args:
        iteration: gave it.
        size: its samples; None where that isn't known.
        tokens: its tokens, likewise.
        wait_ns: how long the script waited for it; None where another thread did.
        asked_ns: when the script asked for it.
        batch: what the script was given.
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
        """Returns what the script was given, or the first thing in it; None once that is gone."""
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
        """Whether the script still holds it; None where that can't be told."""
        return None if self.reference is None else self.reference() is not None
