"""The batches of a run that belong to its steady state, and the time to open its epochs.

Pure. Durations of batches are whole microseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dlmon.records.words import SAMPLES_PER_S, STEPS_PER_S
from dlmon.statistics.histogram import StepHistogram
from dlmon.statistics.intervals import student_95

WARM_UP_BATCHES = 10
WARM_UP_US = 1_000_000
MIN_OPENINGS = 3
# If sizes vary: the first batch of a size compiled if it took this many times the expected time.
COMPILE_FACTOR = 5


@dataclass(eq=False)
class Openings:
    """The times to open the epochs after the first, with the first steps that were left out."""

    histogram: StepHistogram = field(default_factory=StepHistogram)
    _mean_us: float = 0.0
    _squares: float = 0.0
    _steps: int = 0

    def add(self, took_us: int, steps: int) -> None:
        """Add one opening, whose time includes the first `steps` steps of the epoch."""
        self.histogram.add(Counter((took_us,)))
        self._steps += steps
        beyond = took_us - self._mean_us
        self._mean_us += beyond / self.histogram.count
        self._squares += beyond * (took_us - self._mean_us)

    def mean_us(self, step_us: float | None) -> tuple[float | None, float]:
        """Return the mean beyond steps of `step_us`, and the half-width of its 95 % interval.

        None and 0 without `step_us` or below three openings.
        """
        count = self.histogram.count
        if count < MIN_OPENINGS or step_us is None:
            return None, 0.0
        error_us = math.sqrt(self._squares / (count - 1) / count)
        mean_us = max(0.0, self._mean_us - step_us * self._steps / count)
        return mean_us, student_95(count - 1) * error_us


class PickedBatches(NamedTuple):
    """Batches of the steady state: the time and the samples of each; the times of the warm-up."""

    dt_us: Sequence[int]
    samples: Sequence[int]
    warm_up_us: Sequence[int] = ()


@dataclass(eq=False)
class SteadyBatches:
    """Picks the batches of the steady state out of all batches, in order.

    The first batch compiles, and so may the first of every other size (a short last batch). These,
    and at least 10 batches and one second after the first, are left out. From then on only batches
    of the usual size count.

    This holds as long as only last batches of epochs are smaller than the first batch. Once others
    differ in size, batches of every size count; the first of a size is left out only during the
    warm-up, or if it took far longer than expected for its size.
    """

    batch_size: int | None = None
    """The size of the first batch; 1 if sizes aren't known."""
    sizes_vary: bool = False
    """True once a batch that isn't the last of an epoch has another size."""
    _first: list[tuple[int, float]] = field(default_factory=list)
    """The left-out executions with the first batch of a size: the time, and the samples as a
    multiple of the first batch's."""
    warm_up_batches: int = 0
    warm_up_us: int = 0
    opened: Openings = field(default_factory=Openings)
    """Openings of later epochs."""
    _sizes: set[int] = field(default_factory=set)
    counts_steps: bool = False
    """True if each batch counts as one sample: the size of the first, or of most, isn't known."""
    _sized: int = 0
    _unsized: int = 0
    ends_short: bool = False
    # Of all batches that were not left out, with the warm-up.
    _batches: int = 0
    _samples: int = 0
    _us: int = 0

    @property
    def unit(self) -> str:
        """The unit of its throughput."""
        return STEPS_PER_S if self.counts_steps else SAMPLES_PER_S

    @property
    def warm(self) -> bool:
        return self.warm_up_batches >= WARM_UP_BATCHES and self.warm_up_us >= WARM_UP_US

    @property
    def first_batches(self) -> list[tuple[int, float]]:
        """The time of each left-out execution, and the number of usual batches it counts as.

        A short batch counts as its share of one. If sizes vary, a usual batch has the mean size,
        and a larger one may take longer in proportion: that part isn't compilation.
        """
        if not self.sizes_vary or not self._batches:
            return self._first
        of_mean = (self.batch_size or 1) / (self._samples / self._batches or 1.0)
        return [(took_us, max(1.0, share * of_mean)) for took_us, share in self._first]

    @property
    def warm_up_left_us(self) -> int:
        """An estimate of the rest of the warm-up, from its batches so far."""
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
        """Pick the batches of the steady state from consecutive batches of an epoch.

        Args:
            samples: of each batch; one number if all have the same. If None (unknown), each
                counts as one, unless most batches before had known sizes.
            dt_us: the duration of each.
            opening: leave out the first: it begins an epoch that was cut short, in which the
                opening would weigh more than in a whole one.
            opening_us: the time to open the epoch before the first batch; None if it opens none,
                or if that time is part of the first batch.
            per_execution: the number of batches that end together; one of them may have compiled.
            first: the number of the first batch in its epoch.
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
        """Count batches of known and unknown size; switch to steps once most are unknown."""
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
        """Count batches of the usual size after the warm-up."""
        self.take_sizes(not self.counts_steps, count)
        self._batches += count
        self._us += time_us
        self._samples += count * (self.batch_size or 0)

    def compile_again(self) -> None:
        """Take the next batch of each size as the first one."""
        self._sizes.clear()

    @property
    def is_at_start(self) -> bool:
        """True if the next batch is the first of its size, whatever its size."""
        return not self._sizes

    def _compare_sizes(self, sizes: Sequence[int], first: int) -> None:
        """Note whether sizes vary: a batch is larger, or is smaller and not the last."""
        usual = self.batch_size or 0
        goes_on_after_short = self.ends_short and first > 0
        is_other = max(sizes) > usual or min(sizes[:-1], default=usual) < usual
        self.sizes_vary = self.sizes_vary or is_other or goes_on_after_short
        self.ends_short = sizes[-1] < usual and not self.sizes_vary

    def _take_firsts(
        self, sizes: Sequence[int], dt_us: Sequence[int], per_execution: int
    ) -> set[int]:
        """Note executions with the first batch of a size; return the batches to leave out."""
        left_out: set[int] = set()
        new = set(sizes) - self._sizes
        if not new:
            return left_out
        self._sizes |= new
        for start in sorted({sizes.index(size) // per_execution * per_execution for size in new}):
            end = min(start + per_execution, len(dt_us))
            took_us, executed = sum(dt_us[start:end]), sizes[start:end]
            if self.sizes_vary and not self._compiles(took_us, executed):
                continue
            usual = self.batch_size or 1
            self._first.append((took_us, sum(size / usual for size in executed)))
            left_out.update(range(start, end))
        return left_out

    def _compiles(self, took_us: int, sizes: Sequence[int]) -> bool:
        """Return whether an execution with the first batch of a size may have compiled.

        During the warm-up the first ones are assumed to. Not all are: every batch of a run may
        have a size of its own, and such a run has a steady state too.
        """
        if not self.warm and len(self._first) < WARM_UP_BATCHES:
            return True
        if not self._batches:
            return False
        mean_size = self._samples / self._batches or 1.0
        usual = sum(max(1.0, size / mean_size) for size in sizes)
        return took_us > COMPILE_FACTOR * usual * self._us / self._batches

    def _after_warm_up(self, dt_us: Sequence[int], sizes: Sequence[int]) -> PickedBatches:
        """Count batches, and return those after the warm-up."""
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
        return PickedBatches(dt_us[position:], sizes[position:], dt_us[:position])
