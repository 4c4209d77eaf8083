"""Steady state and throughput of a run, from the times of its batches.

Pure. Durations of batches are whole microseconds. Nothing is clipped: stalls are in every mean and
are counted apart. Warm-up and compilation are left out of the steady state and reported as
`compile_s`. Long steps that come regularly, such as those with an evaluation in them, are not
stalls; they are in the mean too, because a GPU may finish in them what earlier steps have queued.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import mul

from dlmon.records import BatchSummary, StepTime, Throughput
from dlmon.statistics.histogram import StepHistogram, weighted_quantile
from dlmon.statistics.intervals import student_95
from dlmon.statistics.regular_gaps import LongStep, RegularGaps, RegularSteps
from dlmon.statistics.steady_batches import PickedBatches, SteadyBatches

BLOCK_US = 1_000_000
"""The length of a block at first; see `docs/measuring.md`."""
MAX_BLOCKS = 20
MAX_AUTOCORRELATION = 0.9
MIN_BLOCKS_OF_HALF = 5
# With fewer batches the 95 % quantile is the longest one.
LEAST_FOR_P95 = 20
STALL_FACTOR = 10
MAD_TO_SIGMA = 1.4826


def _rounded(value: float) -> float:
    """Round the middle of a bucket to four digits; three would add an error of up to 0.5 %."""
    return float(f"{value:.4g}")


@dataclass(eq=False)
class Blocks:
    """Samples and time of consecutive blocks, for the error of the throughput.

    Neighbouring batches aren't independent, nor are neighbouring seconds: noise may last for
    seconds. The blocks grow with the run, so that there are always 10 to 19.
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
        """Turn samples into steps of `samples` each."""
        samples = max(1.0, samples)
        self.done = [(round(done / samples), time_us) for done, time_us in self.done]
        self._open_samples = round(self._open_samples / samples)

    def relative_error(self) -> tuple[float, int] | None:
        """Return the relative standard error of samples over time, with its degrees of freedom.

        None below two blocks. Blocks differ in length, so it is the error of a ratio. Noise that
        lasts longer than a block makes neighbours alike: they count as fewer independent blocks.
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
        """Return the relative change of the rate from the first half to the second.

        None below ten blocks, or if chance may explain it: the halves differ by no more than the
        blocks within them do, apart from a trend within each half.
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
    times = [number - (count - 1) / 2 for number in range(count)]
    changes = [done / time_us / rate - 1 for done, time_us in blocks]
    mean, square = math.fsum(changes) / count, math.fsum(time**2 for time in times)
    slope = math.fsum(map(mul, times, changes)) / square
    residuals = [change - mean - slope * time for time, change in zip(times, changes, strict=True)]
    squares, independent = _spread(residuals)
    return math.sqrt(squares / (count - 2) / independent), max(1, int(independent) - 2)


def _spread(residuals: Sequence[float]) -> tuple[float, float]:
    """Return the sum of squares and the effective sample size."""
    squares = math.fsum(residual**2 for residual in residuals)
    products = math.fsum(a * b for a, b in pairwise(residuals))
    autocorrelation = min(max(products / squares, 0.0), MAX_AUTOCORRELATION) if squares else 0.0
    return squares, len(residuals) * (1 - autocorrelation) / (1 + autocorrelation)


def _stalled_us(summary: BatchSummary) -> int:
    """Estimate the time of the stalls of a summary beyond that of usual batches."""
    usual_us, longest_us = summary.step_us[len(summary.step_us) // 2], summary.step_us[-1]
    stalls = summary.stalls or 0
    beyond_us = summary.time_us - (summary.first_us or 0) - usual_us * summary.count
    return max(0, min(beyond_us, stalls * (longest_us - usual_us)))


def _steps_of(
    some_us: Sequence[int], number: int, dt_us: Sequence[int], per_execution: int
) -> Iterator[LongStep]:
    """Yield the steps whose batches are some of those from `number` on."""
    remaining = Counter(some_us)
    for at in range(0, len(dt_us) if some_us else 0, per_execution):
        took_us = dt_us[at]
        if remaining[took_us] > 0:
            together = min(per_execution, len(dt_us) - at)
            remaining[took_us] -= together
            yield LongStep(number + at, took_us, together)


@dataclass(eq=False)
class SteadyState(SteadyBatches):
    """The throughput and step time of a run, from its batches in order."""

    batches: int = 0
    time_us: int = 0
    """The time of all batches."""
    _histogram: StepHistogram = field(default_factory=StepHistogram)
    # Of batches whose single times are not known.
    _summarised: StepHistogram = field(default_factory=StepHistogram)
    _summarised_stalls: int | None = 0
    _summarised_stalled_us: int = 0
    # If sizes vary: durations scaled to the size of the first batch.
    _in_proportion: StepHistogram = field(default_factory=StepHistogram)
    blocks: Blocks = field(default_factory=Blocks)
    regular: RegularGaps = field(default_factory=RegularGaps)
    # The median when the last long batch came.
    _usual_us: float = 0.0
    _steady_samples: int = 0
    _steady_us: int = 0

    @property
    def steady(self) -> bool:
        return self._steady_us > 0

    @property
    def seconds(self) -> float:
        """The time of all batches of the steady state."""
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
        """The time to open an epoch, beyond its steps, and the half-width of its interval."""
        return self.opened.mean_us(self.mean_step_us)

    @property
    def rough_step_us(self) -> float | None:
        """Return the mean duration of a batch, with the warm-up, without the first of each size.

        Too rough to compare by, but a very short run has nothing better.
        """
        count = self.warm_up_batches + self._steady_batches
        return (self.warm_up_us + self._steady_us) / count if count else None

    @property
    def usual_step_us(self) -> float | None:
        """Return the median duration of a batch; during the warm-up the mean."""
        return self._median_us if self.steady else self.rough_step_us

    @property
    def _median_us(self) -> float:
        if not self._summarised.count:
            return self._histogram.quantile(0.5)
        return weighted_quantile(self.ranked(), 0.5)

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
        """Add consecutive batches of an epoch; the arguments are those of `SteadyBatches.pick`.

        `wait_us` is the time they waited for data, if measured.
        """
        number = self.batches
        self.batches += len(dt_us)
        self.time_us += sum(dt_us)
        counted_steps = self.counts_steps
        picked = self.pick(samples, dt_us, opening, opening_us, per_execution, first)
        self.regular.begin_at(number - first)
        self._count_steps_since(counted_steps)
        for step in _steps_of(picked.warm_up_us, number, dt_us, per_execution):
            if (wait_us or 0) <= step.together_us / 2:
                self.regular.keep_of_warm_up(step)
        steady_us, sizes = picked.dt_us, picked.samples
        if not steady_us or not self.batch_size:
            return
        if self.sizes_vary:
            self._add_in_proportion(picked)
        self._histogram.add(steady_us)
        time_us = sum(steady_us)
        self._steady_us += time_us
        self._steady_samples += sum(sizes)
        if max(steady_us) > STALL_FACTOR / 2 * self._usual_us:
            self._find_regular(number, dt_us, steady_us, per_execution, wait_us or 0)
        self._add_to_blocks(sizes, steady_us, time_us)

    @property
    def is_even(self) -> bool:
        """True if the run is steady and all counted batches have one size."""
        is_of_one_size = not self.sizes_vary and not self.ends_short
        has_size = bool(self.batch_size) and self.batch_size in self._sizes
        return self.steady and is_of_one_size and has_size

    @property
    def plain_limit_us(self) -> float:
        """The duration up to which a batch can't be one of the long regular ones."""
        return STALL_FACTOR / 2 * self._usual_us

    def add_plain(
        self, dt_us: Sequence[Sequence[int]], times_us: Sequence[int], first: int
    ) -> None:
        """Add the steady batches of many records at once, with the same result as `add`.

        They must be of one epoch, but not its first, all of the usual size, and none longer than
        `plain_limit_us`.

        Args:
            dt_us: the duration of each batch, record by record.
            times_us: the time of all batches of each record.
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
        """Add the long steady batches among those from `number` on to the regular gaps."""
        self._usual_us = self._median_us
        limit_us = STALL_FACTOR * self._usual_us
        long_us = [took_us for took_us in steady_us if took_us > limit_us]
        if wait_us > sum(long_us) / 2:
            # They waited for data: that isn't part of the loop, however regular it is.
            return
        for step in _steps_of(long_us, number, dt_us, per_execution):
            self.regular.add(step)

    def _count_steps_since(self, counted_steps: bool) -> None:
        """Count each batch so far as one step, if steps are counted only from now on."""
        if counted_steps or not self.counts_steps:
            return
        self.blocks.count_steps(self._steady_samples / max(1, self._steady_batches))
        self._steady_samples = self._steady_batches
        self._in_proportion = StepHistogram()

    def _add_in_proportion(self, picked: PickedBatches) -> None:
        """Add durations scaled to the usual size; call it before `_histogram` gets the batches."""
        if not self._in_proportion.count:
            # All batches so far had one size.
            self._in_proportion.add(
                Counter({round(took): count for took, count in self._histogram.ranked()})
            )
        usual = self.batch_size or 1
        pairs = zip(picked.dt_us, picked.samples, strict=True)
        self._in_proportion.add(Counter(round(took * usual / size) for took, size in pairs if size))

    def add_summary(self, summary: BatchSummary, opening: bool = False) -> None:
        """Add batches of which only the quantiles are known; `opening` is as for `add`."""
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
        remaining = count
        for duration, share in zip(summary.step_us, shares, strict=True):
            part = min(remaining, round(count * share))
            durations[duration] += part
            remaining -= part
        durations[summary.step_us[len(shares) // 2]] += remaining
        self._summarised.add(durations)
        self._steady_us += time_us
        self._steady_samples += samples
        self.blocks.add(samples, time_us)

    def throughput(self) -> Throughput | None:
        """Return the steady-state throughput, None before there is one."""
        if not self.steady or not self.batch_size:
            return None
        rates = [
            (self.batch_size / max(duration, 0.5) * 1e6, count)
            for duration, count in reversed(self._in_proportion.ranked() or self.ranked())
        ]
        median = weighted_quantile(rates, 0.5)
        deviations = sorted((abs(rate - median), count) for rate, count in rates)
        mean = self._steady_samples / self.seconds
        error, band = self.blocks.relative_error(), self.relative_band()
        return Throughput(
            median=_rounded(median),
            mean=mean,
            standard_error=None if error is None else mean * error[0],
            jitter=_rounded(MAD_TO_SIGMA * weighted_quantile(deviations, 0.5)),
            band=None if band is None else mean * band,
            unit=self.unit,
        )

    def seconds_of(self, samples: int) -> float | None:
        """Return the mean time of steps with `samples` in total; None before it is known."""
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
        ranked = self.ranked()
        has_p95 = sum(count for _, count in ranked) >= LEAST_FOR_P95
        return StepTime(
            median=_rounded(weighted_quantile(ranked, 0.5) / 1000),
            p95=_rounded(weighted_quantile(ranked, 0.95) / 1000) if has_p95 else None,
            mean=mean_us / 1000,
        )

    def ranked(self) -> Sequence[tuple[float, int]]:
        """Return (duration in µs, count) pairs of all steady batches, shortest first."""
        if not self._summarised.count:
            return self._histogram.ranked()
        return sorted([*self._histogram.ranked(), *self._summarised.ranked()])

    def stalls(self) -> int | None:
        """Count steady batches and openings of epochs that took over ten times the median.

        Batches that come regularly are not stalls. None before the steady state, or if a summary
        of batches lacks the count.
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
        """Return the time of the stalls of steady batches beyond that of usual batches."""
        if self.stalls() == self.opening_stalls():
            return 0.0
        long_us = self._beyond_us(self._histogram) + self._summarised_stalled_us
        return max(0.0, long_us - self._regular_us)

    def regular_steps(self) -> RegularSteps | None:
        """Return the long batches that come regularly, with those of the warm-up; None for none."""
        limit_us, every = self.stall_limit_us(), self.regular.every
        if limit_us is None or every is None:
            return None
        regular, of_warm_up = self.regular, self.regular.of_warm_up
        count = regular.histogram.count_over(limit_us) + regular.summarised
        count += of_warm_up.count_over(limit_us)
        took_us = self._regular_us + self._beyond_us(of_warm_up)
        return RegularSteps(every, count, took_us / 1e6) if count else None

    def is_expected(self, number: int, took_us: int) -> bool:
        """Return whether a step of this duration would be a regular long one."""
        limit_us = self.stall_limit_us()
        is_long = limit_us is not None and took_us > limit_us
        return is_long and self.regular.is_expected(number, took_us)

    @property
    def _regular_us(self) -> float:
        return self._beyond_us(self.regular.histogram) + self.regular.summarised_us

    def _beyond_us(self, histogram: StepHistogram) -> float:
        """Return the time of the long batches of a histogram beyond that of usual batches."""
        limit_us = self.stall_limit_us()
        if limit_us is None:
            return 0.0
        usual_us = limit_us / STALL_FACTOR
        long = [(took_us, count) for took_us, count in histogram.ranked() if took_us > limit_us]
        return math.fsum((took_us - usual_us) * count for took_us, count in long)

    def stall_limit_us(self) -> float | None:
        return STALL_FACTOR * self._median_us if self.steady else None

    def compile_us(self) -> int | None:
        """Return the time of the first batch of each size beyond that of a usual one."""
        if not self.batch_size:
            return None
        usual = self.warm_up_us / max(1, self.warm_up_batches)
        if self._steady_batches:
            usual = self._median_us
        return int(sum(max(0.0, took - usual * steps) for took, steps in self.first_batches))

    def relative_band(self) -> float | None:
        """Return the 95 % half-width of the mean step over the mean; None below two blocks."""
        error_and_degrees = self.blocks.relative_error()
        if error_and_degrees is None:
            return None
        error, degrees = error_and_degrees
        return student_95(degrees) * error

    def band_of_span_s(self, span_s: float) -> float | None:
        """Return the 95 % half-width of a training time of `span_s`, from chance alone.

        It follows from how much the run's steady windows differ: a span as long as all of them
        has their relative band, a shorter one a wider one. None below two blocks.
        """
        band = self.relative_band()
        if band is None:
            return None
        return min(band * math.sqrt(self.seconds * span_s), span_s)
