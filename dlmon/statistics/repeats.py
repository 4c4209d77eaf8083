"""Say how far repeated runs of one combination agree, and which combination is faster.

Runs differ by more than their own batches show: caches, neighbours and clocks
change between them. So only runs, not batches, can show that one combination
is faster than another. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlmon.records import Result, Status
from dlmon.statistics.intervals import student_95

MIN_RUNS = 3
TOO_FEW_RUNS = f"an interval needs {MIN_RUNS} runs of the same combination"
METRICS = ("seconds_per_epoch", "run_seconds", "step_ms", "ms_per_sample")
"""What repeats are compared by. Each is a time, so that less is faster."""


@dataclass(frozen=True)
class Spread:
    """The time of a combination over its runs.

    Attributes:
        runs: how many runs stand behind it, at least one.
        mean: the mean of their times.
        low, high: the 95 % t-interval of that mean, None below `MIN_RUNS` runs.
            It is even about the mean, so `low` may be less than zero.
    """

    runs: int
    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def why(self) -> str | None:
        """Why there is no interval, in words; None where there is one."""
        return TOO_FEW_RUNS if self.low is None else None


@dataclass(frozen=True)
class Speedup:
    """How many times as fast: `times` is more than 1, and so is its whole interval.

    `low`..`high` holds the true ratio in at least 95 of 100 cases: it is what two
    95 % intervals allow at most. `high` is None where that has no upper bound.
    """

    times: float
    low: float
    high: float | None


def spread_of_repeats(times: Sequence[float]) -> Spread | None:
    """Return mean and 95 % t-interval of one combination's times, None when there are none.

    A number that is no time (zero, negative, infinite, NaN) is left out.
    """
    times = [time for time in times if 0 < time < math.inf]
    count = len(times)
    if not count:
        return None
    mean = math.fsum(time / count for time in times)
    if count < MIN_RUNS:
        return Spread(count, mean)
    deviation = math.hypot(*(time - mean for time in times)) / math.sqrt(count - 1)
    half = student_95(count - 1) * deviation / math.sqrt(count)
    return Spread(count, mean, low=mean - half, high=mean + half)


def spread_of_results(metric: str, results: Iterable[Result]) -> Spread | None:
    """Return the spread of a metric over the results of one combination.

    Runs that failed or have no such value are left out; None when none is left.

    Args:
        metric: one of `METRICS`.
        results: of runs with the same workload, device and options.

    Raises:
        ValueError: the metric is not known.
    """
    values = [time_of(metric, result) for result in results]
    return spread_of_repeats([value for value in values if value is not None])


def time_of(metric: str, result: Result) -> float | None:
    """Return what a run took by a metric (seconds, or milliseconds), None without a value.

    Raises:
        ValueError: the metric is not one of `METRICS`.
    """
    if metric not in METRICS:
        raise ValueError(f"no such metric: {metric}")
    if result.status not in (Status.COMPLETED, Status.STOPPED):
        return None
    if metric == "seconds_per_epoch":
        return result.seconds_per_epoch.value if result.seconds_per_epoch else None
    if metric == "run_seconds":
        return result.run_seconds.value if result.run_seconds else None
    if metric == "step_ms":
        return result.step_ms.median if result.step_ms else None
    rate = result.samples_per_second
    return 1000 / rate.mean if rate and rate.mean > 0 else None


def faster(a: Spread | None, b: Spread | None) -> Speedup | None:
    """Return how many times as fast as `b` combination `a` is; None where that is unclear.

    It is clear where both have an interval and the two don't overlap. None is
    false, so `if faster(a, b):` reads as it should. It doesn't mean that `b` is
    the faster one: ask `faster(b, a)`. Where an interval reaches below zero,
    which no time does, it counts down to zero.
    """
    if a is None or b is None:
        return None
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return None
    if not 0 < a.high < b.low:
        return None
    times, low = b.mean / a.mean, b.low / a.high
    high = b.high / a.low if a.low > 0 else math.inf
    if not times < math.inf:
        return None
    return Speedup(times, low, high if high < math.inf else None)
