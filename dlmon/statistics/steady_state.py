"""Steady state and throughput: what the times of a run's batches say, honestly.

Pure. Durations of batches are whole microseconds. Nothing is clipped: stalls
are in every mean and are counted beside it. Warm-up and compilation are left
out of the steady state and reported as `compile_s`. Long steps that come every so
many steps, as those with an evaluation in them, are no stalls; they are in the mean
too, for a GPU may work off in them what earlier steps have queued.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import mul

from dlmon.records import BatchSummary, SamplesPerSecond, StepTime
from dlmon.statistics.histogram import StepHistogram, weighted_quantile
from dlmon.statistics.intervals import student_95
from dlmon.statistics.regular_gaps import RegularGaps, RegularSteps
from dlmon.statistics.steady_batches import PickedBatches, SteadyBatches

BLOCK_US = 1_000_000
"""How long a block is at first; see `docs/measuring.md`."""
MAX_BLOCKS = 20
MAX_AUTOCORRELATION = 0.9
MIN_BLOCKS_OF_HALF = 5
# Of fewer batches the 95 % quantile is the longest.
LEAST_FOR_P95 = 20
STALL_FACTOR = 10
MAD_TO_SIGMA = 1.4826


def _rounded(value: float) -> float:
    """Round what a bucket's middle says to four digits, the first finer than the bucket.

    Three would be off by up to 0.5 % once more.
    """
    return float(f"{value:.4g}")


@dataclass(eq=False)
class Blocks:
    """Samples and time of consecutive blocks, from which the error of the throughput follows.

    Neighbouring batches aren't independent, nor are neighbouring seconds: noise may last for
    seconds. The blocks get longer with the run, so that at any time 10 to 19 remain.
    """

    _length_us: int = BLOCK_US
    done: list[tuple[int, int]] = field(default_factory=list)
    _open_samples: int = 0
    _open_us: int = 0

    def add(self, samples: int, time_us: int) -> None:
        self._open_samples += samples
        self._open_us += time_us
        if self._open_us < self._length_us:
            return
        self.done.append((self._open_samples, self._open_us))
        self._open_samples = self._open_us = 0
        if len(self.done) == MAX_BLOCKS:
            pairs = zip(self.done[::2], self.done[1::2], strict=True)
            self.done = [(a[0] + b[0], a[1] + b[1]) for a, b in pairs]
            self._length_us *= 2

    def count_steps(self, samples: float) -> None:
        """Count steps of so many samples each, in place of their samples."""
        steps = max(1.0, samples)
        self.done = [(round(done / steps), time_us) for done, time_us in self.done]
        self._open_samples = round(self._open_samples / steps)

    def relative_error(self) -> tuple[float, int] | None:
        """Return the relative standard error of samples over time, with its degrees of freedom.

        None below two blocks. Blocks don't last equally long, so it is the error of a ratio.
        Under noise that lasts longer than a block, blocks are like those before them, and say as
        much as fewer independent ones.
        """
        count = len(self.done)
        samples = sum(block[0] for block in self.done)
        if count < 2 or not samples:
            return None
        rate = _ratio(self.done)
        residuals = [done - rate * time_us for done, time_us in self.done]
        squares, independent = _spread(residuals)
        error = math.sqrt(squares / (count - 1) / independent) / (samples / count)
        return error, max(1, int(independent) - 1)

    def drift(self) -> float | None:
        """Return by what share the second half was faster than the first, below 0 where slower.

        None below ten blocks, and where chance may have done it: the halves differ by no more
        than the blocks of each do, apart from a trend within the half.
        """
        middle = len(self.done) // 2
        if middle < MIN_BLOCKS_OF_HALF:
            return None
        halves = self.done[:middle], self.done[-middle:]
        before, after = (_ratio(half) for half in halves)
        if not before or not after:
            return None
        (error, degrees), (other_error, other_degrees) = map(_error_beside_trend, halves)
        band = student_95(degrees + other_degrees) * math.hypot(error, other_error)
        change = after / before - 1
        return change if abs(change) > band else None


def _ratio(blocks: Sequence[tuple[int, int]]) -> float:
    return sum(block[0] for block in blocks) / sum(block[1] for block in blocks)


def _error_beside_trend(blocks: Sequence[tuple[int, int]]) -> tuple[float, int]:
    """Return the relative standard error of samples over time, apart from a trend in them."""
    count, rate = len(blocks), _ratio(blocks)
    places = [number - (count - 1) / 2 for number in range(count)]
    changes = [done / time_us / rate - 1 for done, time_us in blocks]
    mean, square = math.fsum(changes) / count, math.fsum(place**2 for place in places)
    slope = math.fsum(map(mul, places, changes)) / square
    residuals = [
        change - mean - slope * place for place, change in zip(places, changes, strict=True)
    ]
    squares, independent = _spread(residuals)
    return math.sqrt(squares / (count - 2) / independent), max(1, int(independent) - 2)


def _spread(residuals: Sequence[float]) -> tuple[float, float]:
    """Return the sum of squares and the effective sample size."""
    squares = math.fsum(residual**2 for residual in residuals)
    products = math.fsum(a * b for a, b in pairwise(residuals))
    autocorrelation = min(max(products / squares, 0.0), MAX_AUTOCORRELATION) if squares else 0.0
    return squares, len(residuals) * (1 - autocorrelation) / (1 + autocorrelation)


def _stalled_us(summary: BatchSummary) -> int:
    """Estimate how much longer the stalls among batches took than as many usual batches."""
    usual_us, longest_us = summary.step_us[len(summary.step_us) // 2], summary.step_us[-1]
    stalls = summary.stalls or 0
    beyond_us = summary.time_us - (summary.first_us or 0) - usual_us * summary.count
    return max(0, min(beyond_us, stalls * (longest_us - usual_us)))


@dataclass(eq=False)
class SteadyState(SteadyBatches):
    """Folds batches in order and says how fast the run is once it is steady."""

    batches: int = 0
    time_us: int = 0
    """How long all batches took together."""
    _histogram: StepHistogram = field(default_factory=StepHistogram)
    # Of batches whose own times are not known.
    _summarised: StepHistogram = field(default_factory=StepHistogram)
    _summarised_stalls: int | None = 0
    _summarised_stalled_us: int = 0
    # Where sizes vary: what a batch of the first one's size would have taken in proportion.
    _in_proportion: StepHistogram = field(default_factory=StepHistogram)
    blocks: Blocks = field(default_factory=Blocks)
    regular: RegularGaps = field(default_factory=RegularGaps)
    # About the median, as of the last long batch.
    _usual_us: float = 0.0
    _steady_samples: int = 0
    _steady_us: int = 0

    @property
    def steady(self) -> bool:
        return self._steady_us > 0

    @property
    def seconds(self) -> float:
        """How long the batches of the steady state took together."""
        return self._steady_us / 1e6

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Samples and microseconds of consecutive windows of a second or more, 19 at most."""
        return tuple(self.blocks.done)

    @property
    def mean_step_us(self) -> float | None:
        if not self.steady:
            return None
        return self._steady_us / self._steady_batches

    @property
    def _steady_batches(self) -> int:
        return self._histogram.count + self._summarised.count

    @property
    def opening_us(self) -> tuple[float | None, float]:
        """What it takes to open an epoch, beyond its steps, and the half-width of its interval."""
        return self.opened.mean_us(self.mean_step_us)

    @property
    def rough_step_us(self) -> float | None:
        """Return the mean duration of a batch, warm-up and all but the first of each size.

        It is no figure to compare by, but all there is of a run that was too short for one.
        """
        count = self.warm_up_batches + self._steady_batches
        return (self.warm_up_us + self._steady_us) / count if count else None

    @property
    def usual_step_us(self) -> float | None:
        """Return the median duration of a batch, the mean of the warm-up until that is known."""
        return self._median_us if self.steady else self.rough_step_us

    @property
    def _median_us(self) -> float:
        if not self._summarised.count:
            return self._histogram.quantile(0.5)
        return weighted_quantile(self._ranked(), 0.5)

    def add(
        self,
        samples: int | Sequence[int] | None,
        dt_us: Sequence[int],
        opening: bool = False,
        opening_us: int | None = None,
        per_execution: int = 1,
        first: int = 0,
        wait_us: int | None = None,
    ) -> None:
        """Fold consecutive batches of an epoch, as `SteadyBatches.pick` takes them.

        `wait_us` is how long they waited for data, where that was measured.
        """
        number = self.batches
        self.batches += len(dt_us)
        self.time_us += sum(dt_us)
        counted_steps = self.counts_steps
        picked = self.pick(samples, dt_us, opening, opening_us, per_execution, first)
        self.regular.begin_at(number - first)
        self._count_steps_since(counted_steps)
        steady_us, held = picked
        if not steady_us or not self.batch_size:
            return
        if self.sizes_vary:
            self._add_in_proportion(picked)
        self._histogram.add(steady_us)
        time_us = sum(steady_us)
        self._steady_us += time_us
        self._steady_samples += sum(held)
        if max(steady_us) > STALL_FACTOR / 2 * self._usual_us:
            self._find_regular(number, dt_us, steady_us, per_execution, wait_us or 0)
        self._add_to_blocks(held, steady_us, time_us)

    @property
    def is_even(self) -> bool:
        """Whether it is steady, and all batches that count have had one size so far."""
        is_of_one_size = not self.sizes_vary and not self.ends_short
        has_size = bool(self.batch_size) and self.batch_size in self._sizes
        return self.steady and is_of_one_size and has_size

    @property
    def plain_limit_us(self) -> float:
        """How long a batch may take that is surely none of those that may come regularly."""
        return STALL_FACTOR / 2 * self._usual_us

    def add_plain(
        self, dt_us: Sequence[Sequence[int]], times_us: Sequence[int], first: int
    ) -> None:
        """Fold steady batches, many records at once: `add` comes to the same for each of them.

        It takes that they are of one epoch, but don't begin it, that all have the size that others
        had, and that none takes longer than `plain_limit_us`.

        Args:
            dt_us: the duration of each batch, record by record.
            times_us: how long those of each record took together.
            first: the number in its epoch of the first batch of the last record.
        """
        count, time_us, size = sum(map(len, dt_us)), sum(times_us), self.batch_size or 1
        self.regular.begin_at(self.batches + count - len(dt_us[-1]) - first)
        self.batches += count
        self.time_us += time_us
        self.count_plain(count, time_us)
        self._histogram.add(list(chain.from_iterable(dt_us)))
        self._steady_us += time_us
        self._steady_samples += count * size
        for took_us, together_us in zip(dt_us, times_us, strict=True):
            self._add_to_blocks((size,) * len(took_us), took_us, together_us)

    def _add_to_blocks(self, sizes: Sequence[int], dt_us: Sequence[int], time_us: int) -> None:
        if time_us < BLOCK_US:
            self.blocks.add(sum(sizes), time_us)
            return
        for size, took_us in zip(sizes, dt_us, strict=True):
            self.blocks.add(size, took_us)

    def _find_regular(
        self,
        number: int,
        dt_us: Sequence[int],
        steady_us: Sequence[int],
        per_execution: int,
        wait_us: int,
    ) -> None:
        """Take those of the batches from `number` on that are long, and count as steady."""
        self._usual_us = self._median_us
        limit_us = STALL_FACTOR * self._usual_us
        counted = Counter(took_us for took_us in steady_us if took_us > limit_us)
        if wait_us > sum(counted.elements()) / 2:
            # They waited for data: however regularly, that is no part of the loop.
            return
        for at in range(0, len(dt_us), per_execution):
            took_us = dt_us[at]
            if counted[took_us] > 0:
                together = min(per_execution, len(dt_us) - at)
                counted[took_us] -= together
                self.regular.add(number + at, took_us, together)

    def _count_steps_since(self, counted_steps: bool) -> None:
        """Count each batch so far as one step, if it is only now that steps are counted."""
        if counted_steps or not self.counts_steps:
            return
        self.blocks.count_steps(self._steady_samples / max(1, self._steady_batches))
        self._steady_samples = self._steady_batches
        self._in_proportion = StepHistogram()

    def _add_in_proportion(self, picked: PickedBatches) -> None:
        """Count the rates of batches, before they are in the histogram of all."""
        if not self._in_proportion.count:
            # All so far had one size.
            self._in_proportion.add(
                Counter({round(took): count for took, count in self._histogram.ranked()})
            )
        usual = self.batch_size or 1
        pairs = zip(*picked, strict=True)
        self._in_proportion.add(Counter(round(took * usual / size) for took, size in pairs if size))

    def add_summary(self, summary: BatchSummary, opening: bool = False) -> None:
        """Fold batches of which only the quantiles are known; `opening` is as for `add`."""
        count, time_us, number = summary.count, summary.time_us, self.batches
        counted_steps = self.counts_steps
        self.take_sizes(summary.samples is not None, count)
        self._count_steps_since(counted_steps)
        samples = summary.counted_in(self.counts_steps)
        self.batches += count
        self.time_us += time_us
        if samples is None or not self.batch_size or not self.warm:
            return
        stalled_us = _stalled_us(summary)
        if self._summarised_stalls is not None:
            stalls = summary.stalls
            self._summarised_stalls = None if stalls is None else self._summarised_stalls + stalls
        self._summarised_stalled_us += stalled_us
        self.regular.begin_at(number - summary.first)
        self.regular.add_summary(number, count, summary.stalls or 0, stalled_us)
        if summary.first_us is not None and (opening or summary.opening_us is not None):
            steps = min(summary.first_steps or 1, count) if opening else 0
            first_us = summary.first_us if steps else 0
            self.opened.add((summary.opening_us or 0) + first_us, steps)
            count -= steps
            samples = max(0, samples - steps * self.batch_size)
            time_us = max(0, time_us - first_us)
        if not count:
            return
        shares = (0.025, 0.125, 0.225, 0.25, 0.225, 0.125, 0.025)
        durations: Counter[int] = Counter()
        left = count
        for duration, share in zip(summary.step_us, shares, strict=True):
            part = min(left, round(count * share))
            durations[duration] += part
            left -= part
        durations[summary.step_us[len(shares) // 2]] += left
        self._summarised.add(durations)
        self._steady_us += time_us
        self._steady_samples += samples
        self.blocks.add(samples, time_us)

    def samples_per_second(self) -> SamplesPerSecond | None:
        """Return the steady-state throughput, None before there is one."""
        if not self.steady or not self.batch_size:
            return None
        rates = [
            (self.batch_size / max(duration, 0.5) * 1e6, count)
            for duration, count in reversed(self._in_proportion.ranked() or self._ranked())
        ]
        median = weighted_quantile(rates, 0.5)
        deviations = sorted((abs(rate - median), count) for rate, count in rates)
        mean = self._steady_samples / (self._steady_us / 1e6)
        error, band = self.blocks.relative_error(), self.relative_band()
        return SamplesPerSecond(
            median=_rounded(median),
            mean=mean,
            standard_error=None if error is None else mean * error[0],
            jitter=_rounded(MAD_TO_SIGMA * weighted_quantile(deviations, 0.5)),
            band=None if band is None else mean * band,
        )

    def seconds_of(self, samples: int) -> float | None:
        """Return what the steps of so many samples take at the mean; None before that is known."""
        mean_us = self.mean_step_us
        if mean_us is None or not self.batch_size:
            return None
        if self.sizes_vary and self._steady_samples:
            return samples / self._steady_samples * self._steady_us / 1e6
        return samples / self.batch_size * mean_us / 1e6

    def step_time(self) -> StepTime | None:
        """Return the steady-state time of a batch, None before there is one."""
        mean_us = self.mean_step_us
        if mean_us is None:
            return None
        ranked = self._ranked()
        has_p95 = sum(count for _, count in ranked) >= LEAST_FOR_P95
        return StepTime(
            median=_rounded(weighted_quantile(ranked, 0.5) / 1000),
            p95=_rounded(weighted_quantile(ranked, 0.95) / 1000) if has_p95 else None,
            mean=mean_us / 1000,
        )

    def _ranked(self) -> Sequence[tuple[float, int]]:
        """Return (duration in µs, count) of all steady batches, shortest first."""
        if not self._summarised.count:
            return self._histogram.ranked()
        return sorted([*self._histogram.ranked(), *self._summarised.ranked()])

    def stalls(self) -> int | None:
        """Count steady batches, and openings of epochs, that took over ten times the median.

        Those that come regularly are none. None before there are any, and where some batches are
        only summarised without the count.
        """
        at_openings, limit_us = self.opening_stalls(), self.stall_limit_us()
        if at_openings is None or limit_us is None or self._summarised_stalls is None:
            return None
        regular = self.regular.histogram.count_over(limit_us) + self.regular.summarised
        long = self._histogram.count_over(limit_us) + self._summarised_stalls
        return at_openings + max(0, long - regular)

    def opening_stalls(self) -> int | None:
        limit_us = self.stall_limit_us()
        return None if limit_us is None else self.opened.histogram.count_over(limit_us)

    def stalled_us(self) -> float:
        """Return how much longer the stalls of steady batches took than as many usual batches."""
        if self.stalls() == self.opening_stalls():
            return 0.0
        long_us = self._beyond_us(self._histogram) + self._summarised_stalled_us
        return max(0.0, long_us - self._regular_us)

    def regular_steps(self) -> RegularSteps | None:
        """Return the long steady batches that come every so many steps; None for none."""
        limit_us, every = self.stall_limit_us(), self.regular.every
        if limit_us is None or every is None:
            return None
        count = self.regular.histogram.count_over(limit_us) + self.regular.summarised
        return RegularSteps(every, count, self._regular_us / 1e6) if count else None

    def is_expected(self, number: int, took_us: int) -> bool:
        """Return whether a step that took so long would be one that comes regularly."""
        limit_us = self.stall_limit_us()
        is_long = limit_us is not None and took_us > limit_us
        return is_long and self.regular.is_expected(number, took_us)

    @property
    def _regular_us(self) -> float:
        return self._beyond_us(self.regular.histogram) + self.regular.summarised_us

    def _beyond_us(self, histogram: StepHistogram) -> float:
        """Return how much longer the long batches of a histogram took than as many usual ones."""
        limit_us = self.stall_limit_us()
        if limit_us is None:
            return 0.0
        usual_us = limit_us / STALL_FACTOR
        long = [(took_us, count) for took_us, count in histogram.ranked() if took_us > limit_us]
        return math.fsum((took_us - usual_us) * count for took_us, count in long)

    def stall_limit_us(self) -> float | None:
        return STALL_FACTOR * self._median_us if self.steady else None

    def compile_us(self) -> int | None:
        """Return what the first batch of each size took beyond a usual one."""
        if not self.batch_size:
            return None
        usual = self.warm_up_us / max(1, self.warm_up_batches)
        if self._steady_batches:
            usual = self._median_us
        return int(sum(max(0.0, took - usual * steps) for took, steps in self.first_batches))

    def relative_band(self) -> float | None:
        """Return the 95 % half-width of the mean step over the mean; None below two blocks."""
        found = self.blocks.relative_error()
        if found is None:
            return None
        error, degrees = found
        return student_95(degrees) * error

    def band_of_span_s(self, span_s: float) -> float | None:
        """Return the 95 % half-width of a time of training, as far as that varies by chance.

        It goes by how the run's own steady windows differ: training as long as all of them has
        their band, a shorter one a relatively wider one. None below two blocks.
        """
        band = self.relative_band()
        if band is None:
            return None
        return min(band * math.sqrt(self._steady_us / 1e6 * span_s), span_s)
