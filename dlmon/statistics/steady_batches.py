"""Which batches of a run belong to its steady state, and what it took to open its epochs.

Pure. Durations of batches are whole microseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dlmon.statistics.histogram import StepHistogram
from dlmon.statistics.intervals import student_95

WARM_UP_BATCHES = 10
WARM_UP_US = 1_000_000
# So many epochs must have been opened before their openings are used.
MIN_OPENINGS = 3
# Where sizes vary: the first batch of a size compiles if it takes so often what is to be expected.
COMPILE_FACTOR = 5


@dataclass(eq=False)
class Openings:
    """How long the openings of later epochs took, with the first steps that were left out."""

    histogram: StepHistogram = field(default_factory=StepHistogram)
    _mean_us: float = 0.0
    _squares: float = 0.0
    _steps: int = 0

    def add(self, took_us: int, steps: int) -> None:
        """Take one opening; `steps` of its time are first steps of an epoch."""
        self.histogram.add(Counter((took_us,)))
        self._steps += steps
        beyond = took_us - self._mean_us
        self._mean_us += beyond / self.histogram.count
        self._squares += beyond * (took_us - self._mean_us)

    def mean_us(self, step_us: float | None) -> tuple[float | None, float]:
        """Return the mean beyond usual steps of `step_us`, and the half-width of its 95 % interval.

        None and 0 where usual steps, or three openings, are not known.
        """
        count = self.histogram.count
        if count < MIN_OPENINGS or step_us is None:
            return None, 0.0
        error_us = math.sqrt(self._squares / (count - 1) / count)
        mean_us = max(0.0, self._mean_us - step_us * self._steps / count)
        return mean_us, student_95(count - 1) * error_us


class PickedBatches(NamedTuple):
    """Batches of the steady state: how long each took, and its samples."""

    dt_us: Sequence[int]
    samples: Sequence[int]


@dataclass(eq=False)
class SteadyBatches:
    """Picks the batches of the steady state out of all of them, in order.

    The first batch compiles, and so may the first of every other size (a short
    last batch). Those, and at least 10 batches and one second after the first,
    are left out. Only batches of the usual size are counted from then on.

    That is so as long as nothing but the last batch of an epoch is smaller than the first of all.
    Once others have another size, batches of every size count; the first of one is left out only
    before the warm-up is over, or where it took far longer than its size lets expect.
    """

    batch_size: int | None = None
    """The size of the first batch; 1 where sizes aren't known."""
    sizes_vary: bool = False
    """Whether others than the last batch of an epoch have another size."""
    _first: list[tuple[int, float]] = field(default_factory=list)
    """How long each execution took that held the first batch of a size and was left out, and
    how many batches of the first size its samples would be."""
    warm_up_batches: int = 0
    warm_up_us: int = 0
    opened: Openings = field(default_factory=Openings)
    """Openings of later epochs."""
    _sizes: set[int] = field(default_factory=set)
    counts_steps: bool = False
    """Whether each batch counts as one: the size of the first, or of most, is not known."""
    _sized: int = 0
    _unsized: int = 0
    ends_short: bool = False
    # Of all batches but those that were left out; those of the warm-up are among them.
    _batches: int = 0
    _samples: int = 0
    _us: int = 0

    @property
    def warm(self) -> bool:
        return self.warm_up_batches >= WARM_UP_BATCHES and self.warm_up_us >= WARM_UP_US

    @property
    def first_batches(self) -> list[tuple[int, float]]:
        """How long each left-out execution took, and as how many usual batches it counts.

        A short batch counts as its share of one. Where sizes vary, a usual batch has the mean size,
        and a larger one takes as much longer: else it would seem to compile what it only computes.
        """
        if not self.sizes_vary or not self._batches:
            return self._first
        of_mean = (self.batch_size or 1) / (self._samples / self._batches or 1.0)
        return [(took_us, max(1.0, share * of_mean)) for took_us, share in self._first]

    @property
    def warm_up_left_us(self) -> int:
        """How long the warm-up goes on for, by the time of its batches so far."""
        batches_left = max(0, WARM_UP_BATCHES - self.warm_up_batches)
        step_us = self.warm_up_us // self.warm_up_batches if self.warm_up_batches else 0
        return max(WARM_UP_US - self.warm_up_us, batches_left * step_us, 0)

    def pick(
        self,
        samples: int | Sequence[int] | None,
        dt_us: Sequence[int],
        opening: bool = False,
        opening_us: int | None = None,
        per_execution: int = 1,
        first: int = 0,
    ) -> PickedBatches:
        """Return those of consecutive batches of an epoch that belong to the steady state.

        Args:
            samples: of each batch; one number when all hold as many. None where that is not
                known: each counts as one, unless the sizes of most before it were known.
            dt_us: the duration of each.
            opening: leave out the first: an epoch that was cut short begins with it, and what
                it takes to open an epoch would weigh more than in a whole one.
            opening_us: the time before the first of them in which an epoch was opened; None
                where they open none, or where that is not known apart from the first batch.
            per_execution: so many of them ended together, and one of those may have compiled.
            first: the number of the first of them in its epoch.
        """
        sizes = (samples,) * len(dt_us) if isinstance(samples, int) else samples
        if self.batch_size is None:
            self.counts_steps = sizes is None
            self.batch_size = 1 if sizes is None else sizes[0]
        self.take_sizes(sizes is not None, len(dt_us))
        if self.counts_steps:
            sizes = (1,) * len(dt_us)
        elif sizes is None:
            return PickedBatches((), ())
        self._compare_sizes(sizes, first)
        left_out = self._take_firsts(sizes, dt_us, per_execution)
        if 0 not in left_out and (opening or opening_us is not None):
            steps = min(per_execution, len(dt_us)) if opening else 0
            self.opened.add((opening_us or 0) + sum(dt_us[:steps]), steps)
            left_out.update(range(steps))
        if left_out or not (self.sizes_vary or set(sizes) == {self.batch_size}):
            numbers = [
                number
                for number, size in enumerate(sizes)
                if number not in left_out and (self.sizes_vary or size == self.batch_size)
            ]
            dt_us, sizes = [dt_us[n] for n in numbers], [sizes[n] for n in numbers]
        return self._after_warm_up(dt_us, sizes)

    def take_sizes(self, are_known: bool, count: int) -> None:
        """Count steps from then on that most batches have no known size."""
        if are_known:
            self._sized += count
            return
        self._unsized += count
        is_first = self.batch_size is None
        if self._unsized > self._sized and not (self.counts_steps or is_first):
            self.counts_steps, self.sizes_vary, self.ends_short = True, False, False
            self.batch_size, self._sizes = 1, {1}
            self._samples = self._batches

    def count_plain(self, count: int, time_us: int) -> None:
        """Count batches that come after the warm-up and have the usual size."""
        self.take_sizes(not self.counts_steps, count)
        self._batches += count
        self._us += time_us
        self._samples += count * (self.batch_size or 0)

    def compile_again(self) -> None:
        """Take the next batch of each size as the first one."""
        self._sizes.clear()

    @property
    def is_at_start(self) -> bool:
        """Whether the next batch is the first of its size, whatever that is."""
        return not self._sizes

    def _compare_sizes(self, sizes: Sequence[int], first: int) -> None:
        """Find out whether sizes vary, by batches that are larger, or smaller and not the last."""
        usual = self.batch_size or 0
        goes_on_after_short = self.ends_short and first > 0
        is_other = max(sizes) > usual or min(sizes[:-1], default=usual) < usual
        self.sizes_vary = self.sizes_vary or is_other or goes_on_after_short
        self.ends_short = sizes[-1] < usual and not self.sizes_vary

    def _take_firsts(
        self, sizes: Sequence[int], dt_us: Sequence[int], per_execution: int
    ) -> set[int]:
        """Take each execution with the first batch of a size; return the batches to leave out."""
        taken: set[int] = set()
        new = set(sizes) - self._sizes
        if not new:
            return taken
        self._sizes |= new
        for start in sorted({sizes.index(size) // per_execution * per_execution for size in new}):
            end = min(start + per_execution, len(dt_us))
            took_us, held = sum(dt_us[start:end]), sizes[start:end]
            if self.sizes_vary and not self._compiles(took_us, held):
                continue
            usual = self.batch_size or 1
            self._first.append((took_us, sum(size / usual for size in held)))
            taken.update(range(start, end))
        return taken

    def _compiles(self, took_us: int, sizes: Sequence[int]) -> bool:
        """Return whether an execution with the first batch of a size may have compiled.

        As long as little is known, the first ones are taken to; but every batch may have a size of
        its own, and a run of those has a steady state too.
        """
        if not self.warm and len(self._first) < WARM_UP_BATCHES:
            return True
        if not self._batches:
            return False
        mean_size = self._samples / self._batches or 1.0
        usual = sum(max(1.0, size / mean_size) for size in sizes)
        return took_us > COMPILE_FACTOR * usual * self._us / self._batches

    def _after_warm_up(self, dt_us: Sequence[int], sizes: Sequence[int]) -> PickedBatches:
        """Count batches, and return those that come after the warm-up."""
        self._batches += len(dt_us)
        self._us += sum(dt_us)
        self._samples += sum(sizes)
        if self.warm:
            return PickedBatches(dt_us, sizes)
        position = 0
        while position < len(dt_us) and not self.warm:
            self.warm_up_batches += 1
            self.warm_up_us += dt_us[position]
            position += 1
        return PickedBatches(dt_us[position:], sizes[position:])
