"""Steady state, throughput, seconds per epoch: what a run's times say, honestly.

Pure. Durations of batches are whole microseconds. Nothing is clipped: stalls
are in every mean and are counted beside it. Warm-up and compilation are left
out of the steady state and reported as `compile_s`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dlmon.records import SamplesPerSecond, SecondsPerEpoch, StepTime

WARM_UP_BATCHES = 10
WARM_UP_US = 1_000_000
BLOCK_US = 1_000_000
STALL_FACTOR = 10
MAD_TO_SIGMA = 1.4826
_GROWTH = math.log(1.01)
_EXACT_BELOW_US = 200

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_95(degrees: int) -> float:
    """Return the two-sided 95 % quantile of Student's t."""
    if degrees <= len(_STUDENT_95):
        return _STUDENT_95[max(degrees, 1) - 1]
    return 1.96 + 2.4 / degrees


class StepHistogram:
    """Durations in buckets 1 % wide, so a quantile is right to 0.5 % however long the run."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self._ranked: list[tuple[float, int]] = []
        self.count = 0

    def add(self, durations_us: Counter[int]) -> None:
        """Count durations; the counter says how many of each."""
        for duration, count in durations_us.items():
            self._buckets[_bucket_of(duration)] += count
            self.count += count
        self._ranked = []

    def ranked(self) -> Sequence[tuple[float, int]]:
        """Return (duration in µs, count), shortest first."""
        if not self._ranked:
            self._ranked = [(_middle_of(b), n) for b, n in sorted(self._buckets.items())]
        return self._ranked

    def quantile(self, share: float) -> float:
        """Return a quantile in µs (nearest rank); the histogram must not be empty."""
        return weighted_quantile(self.ranked(), share)


def weighted_quantile(ranked: Sequence[tuple[float, int]], share: float) -> float:
    """Return the nearest-rank quantile of (value, count) pairs, smallest value first."""
    total = sum(count for _, count in ranked)
    rank = max(1, math.ceil(share * total))
    for value, count in ranked:
        rank -= count
        if rank <= 0:
            return value
    return ranked[-1][0]


def _bucket_of(duration_us: int) -> int:
    if duration_us < _EXACT_BELOW_US:
        return max(0, duration_us)
    return _EXACT_BELOW_US + int(math.log(duration_us / _EXACT_BELOW_US) / _GROWTH)


def _middle_of(bucket: int) -> float:
    if bucket < _EXACT_BELOW_US:
        return float(bucket)
    return _EXACT_BELOW_US * math.exp((bucket - _EXACT_BELOW_US + 0.5) * _GROWTH)


class _Blocks:
    """Means over stretches of at least a second: neighbouring batches aren't independent."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = 0.0
        self._squares = 0.0
        self._open_us = 0
        self._open_samples = 0

    def add(self, samples: int, time_us: int) -> None:
        self._open_samples += samples
        self._open_us += time_us
        if self._open_us >= BLOCK_US:
            rate = self._open_samples / (self._open_us / 1e6)
            self.count += 1
            step = rate - self._mean
            self._mean += step / self.count
            self._squares += step * (rate - self._mean)
            self._open_us = self._open_samples = 0

    @property
    def standard_error(self) -> float | None:
        if self.count < 2:
            return None
        return math.sqrt(self._squares / (self.count - 1) / self.count)


class SteadyBatches:
    """Picks the batches of the steady state out of all of them, in order.

    The first batch compiles, and so may the first of every other size (a short
    last batch). Those, and at least 10 batches and one second after the first,
    are left out. Only batches of the usual size are counted from then on.
    """

    def __init__(self) -> None:
        self.batch_size: int | None = None
        self.first_us: dict[int, int] = {}
        """How long the first batch of each size took."""
        self.warm_up_batches = 0
        self.warm_up_us = 0
        self.openings = StepHistogram()
        """How long the first batches of later epochs took that were given as openings."""

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over."""
        return self.warm_up_batches >= WARM_UP_BATCHES and self.warm_up_us >= WARM_UP_US

    @property
    def warm_up_left_us(self) -> int:
        """How long the warm-up goes on for, by the time of its batches so far."""
        batches_left = max(0, WARM_UP_BATCHES - self.warm_up_batches)
        step_us = self.warm_up_us // self.warm_up_batches if self.warm_up_batches else 0
        return max(WARM_UP_US - self.warm_up_us, batches_left * step_us, 0)

    def pick(
        self, samples: int | Sequence[int], dt_us: Sequence[int], opening: bool = False
    ) -> list[int]:
        """Return the durations of those of consecutive batches that belong to the steady state.

        Args:
            samples: of each batch; one number when all hold as many.
            dt_us: the duration of each.
            opening: leave out the first: an epoch that was cut short begins with it, and what
                it takes to open an epoch would weigh more than in a whole one.
        """
        if isinstance(samples, int):
            return list(self._pick_equal(samples, dt_us, opening))
        steady: list[int] = []
        start = 0
        while start < len(dt_us):
            stop = start + 1
            while stop < len(dt_us) and samples[stop] == samples[start]:
                stop += 1
            steady += self._pick_equal(samples[start], dt_us[start:stop], opening and start == 0)
            start = stop
        return steady

    def _pick_equal(self, size: int, dt_us: Sequence[int], opening: bool) -> Sequence[int]:
        if size not in self.first_us:
            self.first_us[size] = dt_us[0]
            dt_us = dt_us[1:]
        elif opening:
            self.openings.add(Counter(dt_us[:1]))
            dt_us = dt_us[1:]
        if self.batch_size is None:
            self.batch_size = size
        if size != self.batch_size:
            return ()
        position = 0
        while position < len(dt_us) and not self.warm:
            self.warm_up_batches += 1
            self.warm_up_us += dt_us[position]
            position += 1
        return dt_us[position:]


class SteadyState:
    """Folds batches in order and says how fast the run is once it is steady."""

    def __init__(self) -> None:
        self.batches = 0
        self._picked = SteadyBatches()
        self._histogram = StepHistogram()
        self._blocks = _Blocks()
        self._steady_samples = 0
        self._steady_us = 0

    @property
    def batch_size(self) -> int | None:
        """The usual size of a batch; None before the first."""
        return self._picked.batch_size

    @property
    def steady(self) -> bool:
        """Whether anything has been measured in the steady state."""
        return self._steady_us > 0

    @property
    def mean_step_us(self) -> float | None:
        """Return the mean duration of a batch in the steady state."""
        if not self.steady:
            return None
        return self._steady_us / self._histogram.count

    @property
    def opening_us(self) -> float:
        """Return what an epoch's first batch takes beyond a usual one, where it was told apart."""
        openings, step_us = self._picked.openings, self.mean_step_us
        if not openings.count or step_us is None:
            return 0.0
        return max(0.0, openings.quantile(0.5) - step_us)

    @property
    def rough_step_us(self) -> float | None:
        """Return the mean duration of a batch, warm-up and all but the first of each size.

        It is no figure to compare by, but all that a run tells that was too short for one.
        """
        count = self._picked.warm_up_batches + self._histogram.count
        return (self._picked.warm_up_us + self._steady_us) / count if count else None

    def add(
        self, samples: int | Sequence[int], dt_us: Sequence[int], opening: bool = False
    ) -> None:
        """Fold consecutive batches; `opening` is as for `SteadyBatches.pick`."""
        self.batches += len(dt_us)
        steady_us = self._picked.pick(samples, dt_us, opening)
        if not steady_us or not self.batch_size:
            return
        self._histogram.add(Counter(steady_us))
        time_us = sum(steady_us)
        self._steady_us += time_us
        self._steady_samples += self.batch_size * len(steady_us)
        if time_us < BLOCK_US:
            self._blocks.add(self.batch_size * len(steady_us), time_us)
        else:
            for duration in steady_us:
                self._blocks.add(self.batch_size, duration)

    def add_summary(
        self, count: int, samples: int, time_us: int, quantiles_us: Sequence[int]
    ) -> None:
        """Fold batches of which only the quantiles 0, 5, 25, 50, 75, 95, 100 % are known."""
        self.batches += count
        if not self.batch_size or not self._picked.warm or not count:
            return
        shares = (0.025, 0.125, 0.225, 0.25, 0.225, 0.125, 0.025)
        durations: Counter[int] = Counter()
        left = count
        for duration, share in zip(quantiles_us, shares, strict=False):
            part = min(left, round(count * share))
            durations[duration] += part
            left -= part
        if left and len(quantiles_us):
            durations[quantiles_us[len(quantiles_us) // 2]] += left
        self._histogram.add(durations)
        self._steady_us += time_us
        self._steady_samples += samples
        self._blocks.add(samples, time_us)

    def samples_per_second(self) -> SamplesPerSecond | None:
        """Return the steady-state throughput, None before there is one."""
        if not self.steady or not self.batch_size:
            return None
        rates = [
            (self.batch_size / max(duration, 0.5) * 1e6, count)
            for duration, count in reversed(self._histogram.ranked())
        ]
        median = weighted_quantile(rates, 0.5)
        deviations = sorted((abs(rate - median), count) for rate, count in rates)
        mean = self._steady_samples / (self._steady_us / 1e6)
        band = self.relative_band()
        return SamplesPerSecond(
            median=median,
            mean=mean,
            standard_error=self._blocks.standard_error,
            jitter=MAD_TO_SIGMA * weighted_quantile(deviations, 0.5),
            band=None if band is None else mean * band,
        )

    def step_time(self) -> StepTime | None:
        """Return the steady-state time of a batch, None before there is one."""
        if not self.steady:
            return None
        return StepTime(
            median=self._histogram.quantile(0.5) / 1000, p95=self._histogram.quantile(0.95) / 1000
        )

    def stalls(self) -> int | None:
        """Count steady batches that took more than ten times the median."""
        if not self.steady:
            return None
        limit = STALL_FACTOR * self._histogram.quantile(0.5)
        return sum(count for duration, count in self._histogram.ranked() if duration > limit)

    def compile_us(self) -> int | None:
        """Return what the first batch of each size took beyond a usual one."""
        if not self.batch_size:
            return None
        usual = self._histogram.quantile(0.5) if self.steady else self._warm_up_mean_us()
        extra = 0.0
        for size, duration in self._picked.first_us.items():
            extra += max(0.0, duration - usual * min(1.0, size / self.batch_size))
        return int(extra)

    def _warm_up_mean_us(self) -> float:
        count = self._picked.warm_up_batches
        return self._picked.warm_up_us / count if count else 0.0

    def relative_band(self) -> float | None:
        """Return the 95 % half-width of the mean step over the mean; None below two blocks."""
        error = self._blocks.standard_error
        if error is None or not self._steady_us or not self._steady_samples:
            return None
        mean = self._steady_samples / (self._steady_us / 1e6)
        return student_95(self._blocks.count - 1) * error / mean


def epoch_interval(whole_s: Sequence[float]) -> SecondsPerEpoch | None:
    """Summarise the wall times of whole epochs.

    The value is their median; the band is min..max below three epochs, else
    the 95 % t-interval of their mean, widened to hold the median.
    """
    count = len(whole_s)
    if not count:
        return None
    ranked = sorted(whole_s)
    middle = count // 2
    value = ranked[middle] if count % 2 else (ranked[middle - 1] + ranked[middle]) / 2
    low, high = ranked[0], ranked[-1]
    if count >= 3:
        mean = math.fsum(whole_s) / count
        variance = math.fsum((s - mean) ** 2 for s in whole_s) / (count - 1)
        half = student_95(count - 1) * math.sqrt(variance / count)
        low, high = max(0.0, min(mean - half, value)), max(mean + half, value)
    return SecondsPerEpoch(value=value, low=low, high=high, epochs=count, projected=False)


@dataclass(frozen=True)
class ValidationTime:
    """A validation pass as its fixed part and its time per batch."""

    fixed_s: float
    step_s: float

    def seconds(self, steps: int) -> float:
        """Return the time of a pass of `steps` batches."""
        return self.fixed_s + self.step_s * steps


def project_epoch(steady: SteadyState, samples: int, validation_s: float) -> SecondsPerEpoch | None:
    """Project the wall time of a whole epoch: its batches at the mean step, and validation.

    The band is the 95 % interval of means over at least a second each, so there
    is no projection before two of them.
    """
    step_us = steady.mean_step_us
    band = steady.relative_band()
    if step_us is None or band is None or not steady.batch_size or samples < 1:
        return None
    train_s = (samples / steady.batch_size * step_us + steady.opening_us) / 1e6
    half = train_s * min(band, 1.0)
    value = train_s + validation_s
    return SecondsPerEpoch(
        value=value, low=value - half, high=value + half, epochs=0, projected=True
    )
