"""One pass over a loader, as far as it has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from dlmon.instrument.loaders import Loader, Sizes
from dlmon.instrument.losses import EpochLoss
from dlmon.instrument.queued import Interruption, MeasuredBatch

# What becomes of a pass: not yet fetched from; held back until it is known; read beside another
# one; over, or none that counts.
NEW, HELD, TRAINING, VALIDATING, BESIDE, OVER = range(6)

# A script may look at any number of batches without a step.
MOST_LOOKS = 1000


class Thread:
    """What one thread reads and does: the passes that are open, each within the one before."""

    def __init__(self) -> None:
        self.stack: list[Pass] = []
        self.stepping: int | None = None
        """The optimiser that steps, by its id; those that it calls don't count beside it."""
        # Loaders that were read beside another one; a script begins them again within its batches.
        self.beside: deque[Callable[[], Any]] = deque(maxlen=8)
        # Passes that were left, as `next(iter(loader))` is, since the last step.
        self.looks: deque[Pass] = deque(maxlen=MOST_LOOKS)
        self.inside = False
        """Whether a loader is at work: what it reads itself is none of the script's passes."""


NO_THREAD = Thread()
"""Reads what was not fetched from."""


class Pass:
    """One pass over a loader, or a stretch of steps without one: then it has an `optimizer`."""

    def __init__(self, loader: Loader, created: int, created_after: int) -> None:
        self.loader = loader
        self.sizes = Sizes(loader)
        self.certain = self.sizes.certain
        self.state = NEW
        self.thread = NO_THREAD
        self.source: Callable[[], Any] = _nobody
        self.alive: Any = None
        self.optimizer: Callable[[], Any] | None = None
        self.created, self.created_after = created, created_after
        # When its iterator was ready, and its first batch could be asked for.
        self.made = created
        self.begin = self.opened = self.asked = created
        self.fetched_after = 0
        self.with_gradients = True
        self.epoch = 0
        self.phase = ""
        # What is sent once it is known to train; None where that was too much.
        self.held: list[MeasuredBatch | Interruption] | None = []
        # Batches of a whole pass that it leaves out at its beginning.
        self.skipped = loader.skipped
        self.clipped = self.skipped > 0
        self.metrics: dict[str, Any] = {}
        self.loss: EpochLoss | None = None
        # Batches that ended, those of them before the first step, and one that is under way.
        self.number = self.idle = 0
        self.in_hand = False
        self.size: int | tuple[int, ...] | None = None
        self.wait_ns = 0
        self.waits = True
        # What stepped first while it was not known to train, and when that began.
        self.first_step: tuple[Callable[[], Any], int] | None = None
        # Steps in the batch under way, and in all; batches with one; steps after its end.
        self.updates = self.updates_in_all = self.stepped = self.late = 0
        self.most = 1
        # Whether `backward` was called in the batch under way, and in any.
        self.goes_backward = self.has_gone_backward = False
        # Batches that wait for the one that steps.
        self.ahead: list[MeasuredBatch] = []
        self.first_end = self.last_end = self.last_active = created

    @property
    def has_all(self) -> bool:
        """Whether it has as many batches as its loader has.

        Where all others stepped and the last one did not, a loop was left before it did.
        """
        came = self.number + self.in_hand + self.sizes.lost
        if self.loader.steps is None or came != self.loader.steps:
            return False
        is_left = self.in_hand and not self.trains_now and self.stepped == self.number
        return not (is_left and self.state == TRAINING)

    def lose_batch(self) -> None:
        """Note that the next batch raised as it was fetched: the one after it takes its turn."""
        self.sizes.lost += 1
        self.certain = self.sizes.certain

    def skip(self, batches: int) -> None:
        """Leave out so many batches, as a loader does that goes on from a checkpoint."""
        self.skipped = self.sizes.lost = self.loader.skipped + batches
        self.certain, self.clipped = self.sizes.certain, self.skipped > 0

    @property
    def trains_now(self) -> bool:
        return self.updates > 0 or self.goes_backward

    @property
    def has_trained(self) -> bool:
        return self.updates_in_all > 0 or self.has_gone_backward

    @property
    def may_step_late(self) -> bool:
        """Whether a step after its end still belongs to it.

        What reads a batch ahead steps for the last one then; so does what adds up gradients.
        """
        return self.late < self.idle * self.most

    @property
    def waited_ns(self) -> int:
        """How long its batches waited, as far as they are held back."""
        held = self.held or ()
        return sum(item.wait_ns or 0 for item in held if isinstance(item, MeasuredBatch))


def _nobody() -> None:
    """Stand for a loader that is not known."""
