"""Keep the batches that loaders gave until something trains on them, and say which a step takes.

Usually one waits, and whatever goes backward takes it. Of several, the calls of the network tell
how many went backward, the oldest first. A batch that the script has let go of before something
trained was skipped. Where what goes into the network is no batch of the loader's, nor several, the
script makes its batches itself: then the network's input counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from dlmon.instrument.graphs import calls_behind
from dlmon.instrument.iterations import FetchedBatch, LoaderIteration
from dlmon.instrument.loaders import Loader
from dlmon.instrument.outermost import Outermost

# After so many steps of one batch each, the calls of the network say nothing new.
REGULAR_STEPS = 8

NO_LOADER = Loader(
    has_passes=False,
    why={
        "batch_size": "there is no loader that says how many samples a step has",
        "samples_per_epoch": "a loop without a loader has no epochs",
        "steps_per_epoch": "a loop without a loader has no epochs",
        "epochs": "a loop without a loader has no epochs",
    },
)

NO_ITERATION = LoaderIteration(NO_LOADER, 0)
"""Gives what a script makes without a loader."""


class WaitingBatches:
    """The batches that came, and that nothing has trained on.

    Args:
        outermost: counts the calls of the network that trains.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, outermost: Outermost, clock: Callable[[], int]) -> None:
        self._outermost, self._clock = outermost, clock
        self.batches: deque[FetchedBatch] = deque()
        """Those that wait, the oldest first."""
        self.is_usual = False
        """Whether each step has taken the one batch that waited, so far as is known."""
        self._regular_steps = 0
        # How many samples one of the network's input stands for.
        self._samples_per_input: float | None = None
        self.are_made = False
        """Whether the script makes batches of its own of those that its loader gives."""
        self.always_looks = False
        """Whether calls of the network say where steps end: another thread reads."""

    def add(self, batches: Iterable[FetchedBatch]) -> None:
        self.batches.extend(batches)

    def add_first(self, batches: list[FetchedBatch]) -> None:
        """Let batches wait again."""
        self.batches.extendleft(reversed(batches))

    def of(self, iteration: LoaderIteration) -> list[FetchedBatch]:
        """Return those that an iteration gave, the oldest first."""
        # Another thread may add to them meanwhile.
        return [batch for batch in tuple(self.batches) if batch.iteration is iteration]

    def forget(self, batches: Iterable[FetchedBatch]) -> None:
        for batch in batches:
            self.batches.remove(batch)

    def look_closely(self) -> None:
        """Look at the calls of the network for the next steps."""
        self._regular_steps, self.is_usual = 0, False
        self._outermost.wake()

    def rest(self) -> None:
        """Look at no calls of the network once each step takes the one batch that waits."""
        if self._regular_steps >= REGULAR_STEPS and not (self.always_looks or self.are_made):
            self.is_usual = True
            self._outermost.rest()

    def goes_backward(self, loss: Any) -> None:
        """Look with how many calls of the network a loss was computed, where several batches wait.

        A loss may be that of several batches; a script may leave out one that is not finite.
        """
        outermost = self._outermost
        if outermost.calls > 1:
            calls = calls_behind(loss)
            if calls is not None and calls < outermost.calls:
                outermost.samples = outermost.samples * calls // outermost.calls
                outermost.calls = calls

    def claim(self, thread: Any, is_alone: bool, all_of_them: bool = False) -> list[FetchedBatch]:
        """Return the batches that went backward, which wait no longer.

        Args:
            thread: trains; what another one waited for, this one did not.
            is_alone: whether what the network was called with counts where no batch waits.
            all_of_them: whether nothing is known of what went backward.
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
            # What another thread reads comes one after the other.
            read_ahead = [one for one in iterations if one.thread is not thread][1:]
            iterations = [one for one in iterations if one not in read_ahead]
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
        """Forget the batches of an iteration that is over, if the script holds none of them.

        Another thread has read them for something that did not train.
        """
        iterations = dict.fromkeys(batch.iteration for batch in tuple(self.batches))
        for iteration in iterations if len(iterations) > 1 else ():
            waiting = self.of(iteration)
            if iteration.is_exhausted and all(batch.is_held is False for batch in waiting):
                self.forget(waiting)

    def _learn_from(self, batch: FetchedBatch) -> None:
        """Learn how a batch goes into the network, until that is known well enough."""
        outermost = self._outermost
        if outermost.samples and batch.size:
            self._samples_per_input = batch.size / outermost.samples
        if not outermost.is_watching:
            outermost.watch_first()
        self._regular_steps += 1
        self.rest()

    def _take(self, iteration: LoaderIteration, thread: Any) -> list[FetchedBatch]:
        """Take those of an iteration's batches that went backward."""
        waiting = self.of(iteration)
        is_read_ahead = iteration.thread is not thread
        count = 1 if is_read_ahead else self._count(waiting)
        if count is None:
            self.are_made = True
            made = self._made(iteration)
            made.wait_ns = sum(batch.wait_ns or 0 for batch in waiting)
            self.forget(waiting)
            return [made]
        held = [batch for batch in waiting if batch.is_held is not False]
        taken = (held if len(held) >= count else waiting)[:count]
        before = waiting[: waiting.index(taken[-1])]
        skipped = [batch for batch in before if batch.is_held is False and batch not in taken]
        iteration.skipped_batches += skipped
        self.forget([*skipped, *taken])
        return [joined(taken)] if len(taken) > 1 and self._outermost.calls == 1 else taken

    def _count(self, waiting: list[FetchedBatch]) -> int | None:
        """Return how many batches went backward; None where the script made others of them.

        What goes into the network may hold each sample several times, or have another size first.
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
        return min(max(1, round(samples / size)), len(waiting))

    def _made(self, iteration: LoaderIteration) -> FetchedBatch:
        """Return what went into the network, where no loader gave it as it is."""
        outermost, size = self._outermost, None
        if self.are_made:
            size = outermost.samples or None
        elif self._samples_per_input is not None and outermost.samples:
            size = round(outermost.samples * self._samples_per_input)
        return FetchedBatch(iteration, size, outermost.take(), 0, self._clock())


def joined(batches: list[FetchedBatch]) -> FetchedBatch:
    """Return batches that went into the network as one."""
    first = batches[0]
    return FetchedBatch(
        first.iteration,
        _sum(batch.size for batch in batches),
        _sum(batch.tokens for batch in batches),
        _sum(batch.wait_ns for batch in batches),
        first.asked_ns,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = tuple(counts)
    return None if None in known else sum(known)  # type: ignore[arg-type]
