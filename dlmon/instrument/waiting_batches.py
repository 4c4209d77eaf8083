"""Keep fetched batches until a step trains on them, and tell which batches a step takes.

Usually one batch waits, and the next `backward` takes it. If several wait, the calls of the network
tell how many went backward, the oldest first. A batch that the script dropped before was skipped.
If the network's input is neither a batch of the loader nor several joined, the script makes its own
batches, and the network's input counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from dlmon.instrument.graphs import calls_behind
from dlmon.instrument.iterations import FetchedBatch, LoaderIteration
from dlmon.instrument.loaders import Loader
from dlmon.instrument.outermost import Outermost

# After this many steps of one batch each, the calls of the network tell nothing new.
REGULAR_STEPS = 8

NO_LOADER = Loader(
    why={"batch_size": "there is no loader that says how many samples a step has"}
).without_passes("a loop without a loader has no epochs")

NO_ITERATION = LoaderIteration(NO_LOADER, 0)
"""The source of batches that a script makes without a loader."""


class WaitingBatches:
    """The fetched batches that no step has trained on.

    Args:
        outermost: counts the calls of the network that trains.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, outermost: Outermost, clock: Callable[[], int]) -> None:
        self._outermost, self._clock = outermost, clock
        self.batches: deque[FetchedBatch] = deque()
        """The waiting batches, the oldest first."""
        self.is_usual = False
        """Has each step so far taken the only batch that waited?"""
        self._regular_steps = 0
        # The number of samples per row of the network's input.
        self._samples_per_input: float | None = None
        self.are_made = False
        """Does the script make its own batches of those of its loader?"""
        self.always_looks = False
        """Do the calls of the network tell where steps end? They do if another thread reads."""

    def add(self, batches: Iterable[FetchedBatch]) -> None:
        self.batches.extend(batches)

    def add_first(self, batches: list[FetchedBatch]) -> None:
        """Let batches wait again."""
        self.batches.extendleft(reversed(batches))

    def of(self, iteration: LoaderIteration) -> list[FetchedBatch]:
        """Return the waiting batches of an iteration, the oldest first."""
        # Another thread may append to them meanwhile.
        return [batch for batch in tuple(self.batches) if batch.iteration is iteration]

    def forget(self, batches: Iterable[FetchedBatch]) -> None:
        for batch in batches:
            self.batches.remove(batch)

    def look_closely(self) -> None:
        """Watch the calls of the network during the next steps."""
        self._regular_steps, self.is_usual = 0, False
        self._outermost.wake()

    def rest(self) -> None:
        """Stop watching the network once each step takes the only batch that waits."""
        if self._regular_steps >= REGULAR_STEPS and not (self.always_looks or self.are_made):
            self.is_usual = True
            self._outermost.rest()

    def goes_backward(self, loss: Any) -> None:
        """Count the calls of the network behind a loss, if several batches wait.

        A loss may come from several batches, and a script may drop one that isn't finite.
        """
        outermost = self._outermost
        if outermost.calls > 1:
            calls = calls_behind(loss)
            if calls is not None and calls < outermost.calls:
                outermost.samples = outermost.samples * calls // outermost.calls
                outermost.calls = calls

    def claim(self, thread: Any, is_alone: bool, all_of_them: bool = False) -> list[FetchedBatch]:
        """Take the batches that went backward.

        Args:
            thread: the training thread; it didn't wait for batches that another one fetched.
            is_alone: whether the network's input counts if no batch waits.
            all_of_them: take all waiting batches, as no call of `backward` was seen.
        """
        outermost, batches = self._outermost, self.batches
        if len(batches) == 1 and not self.are_made:
            claim = [batches.popleft()]
            if self._regular_steps < REGULAR_STEPS:
                self._learn_from(claim[0])
        elif all_of_them and batches:
            claim = list(batches)
            batches.clear()
        elif batches:
            self._regular_steps, self.is_usual = 0, False
            if not outermost.is_watching:
                outermost.watch_first()
            outermost.wake()
            self._forget_what_is_gone()
            iterations = list(dict.fromkeys(batch.iteration for batch in tuple(batches)))
            # Another thread reads its iterations one after the other: only the first counts.
            ahead = [i for i in iterations if i.thread is not thread][1:]
            iterations = [i for i in iterations if i not in ahead]
            claim = [batch for iteration in iterations for batch in self._take(iteration, thread)]
        else:
            is_made = outermost.calls and (is_alone or self.are_made)
            claim = [self._made(NO_ITERATION)] if is_made else []
        for batch in claim:
            if batch.iteration.thread is not thread and not self.are_made:
                batch.wait_ns = None
        outermost.forget_calls()
        return claim

    def _forget_what_is_gone(self) -> None:
        """Forget the batches of an exhausted iteration if the script holds none of them.

        Another thread has read them for something other than training.
        """
        iterations = dict.fromkeys(batch.iteration for batch in tuple(self.batches))
        for iteration in iterations if len(iterations) > 1 else ():
            waiting = self.of(iteration)
            if iteration.is_exhausted and all(batch.is_held is False for batch in waiting):
                self.forget(waiting)

    def _learn_from(self, batch: FetchedBatch) -> None:
        """Learn how a batch goes into the network, in the first regular steps."""
        outermost = self._outermost
        if outermost.samples and batch.size:
            self._samples_per_input = batch.size / outermost.samples
        if not outermost.is_watching:
            outermost.watch_first()
        self._regular_steps += 1
        self.rest()

    def _take(self, iteration: LoaderIteration, thread: Any) -> list[FetchedBatch]:
        """Take the batches of one iteration that went backward."""
        waiting = self.of(iteration)
        is_read_ahead = iteration.thread is not thread
        count = 1 if is_read_ahead else self._count(waiting)
        if count is None:
            self.are_made = True
            own_batch = self._made(iteration)
            own_batch.wait_ns = sum(batch.wait_ns or 0 for batch in waiting)
            self.forget(waiting)
            return [own_batch]
        held = [batch for batch in waiting if batch.is_held is not False]
        claim = (held if len(held) >= count else waiting)[:count]
        before = waiting[: waiting.index(claim[-1])]
        skipped = [batch for batch in before if batch.is_held is False and batch not in claim]
        iteration.skipped_batches += skipped
        self.forget([*skipped, *claim])
        return [joined(claim)] if len(claim) > 1 and self._outermost.calls == 1 else claim

    def _count(self, waiting: list[FetchedBatch]) -> int | None:
        """Return how many batches went backward; None if the script made its own of them.

        The network's input may hold each sample several times, or not have it as first dimension.
        """
        if self.are_made:
            return None
        outermost, size = self._outermost, waiting[0].size
        if not outermost.samples or not size:
            return min(max(1, outermost.calls), len(waiting))
        samples, held = outermost.samples, sum(batch.size or 0 for batch in waiting)
        is_whole = not samples % size or not size % samples or size in outermost.shape
        if not is_whole and samples <= held and len(waiting) > 1:
            return None
        count = max(1, round(samples / size))
        if count > len(waiting) and count % len(waiting):
            # Each batch goes in as often, so only one did: several times, as into a discriminator.
            return 1
        return min(count, len(waiting))

    def _made(self, iteration: LoaderIteration) -> FetchedBatch:
        """Return the network's input as a batch, if it is no batch of a loader."""
        outermost, size = self._outermost, None
        if self.are_made:
            size = outermost.samples or None
        elif self._samples_per_input is not None and outermost.samples:
            size = round(outermost.samples * self._samples_per_input)
        return FetchedBatch(iteration, size, outermost.take(), 0, self._clock())


def joined(batches: list[FetchedBatch]) -> FetchedBatch:
    """Return batches that went into the network together as one batch."""
    first = batches[0]
    return FetchedBatch(
        first.iteration,
        _sum(batch.size for batch in batches),
        _sum(batch.tokens for batch in batches),
        _sum(batch.wait_ns for batch in batches),
        first.asked_ns,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    terms = tuple(counts)
    return None if None in terms else sum(terms)  # type: ignore[arg-type]
