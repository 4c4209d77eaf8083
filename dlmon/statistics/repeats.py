"""Say how far repeated runs of one combination agree, and which combination is faster.

Runs differ by more than their own batches show: caches, neighbours and clocks
change between them. So only runs, not batches, can show that one combination
is faster than another. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dlmon.records import Result, Status
from dlmon.statistics.intervals import mean_half_width

MIN_RUNS = 3
METRICS = ("seconds_per_epoch", "run_seconds", "step_ms", "ms_per_sample")
"""What repeats are compared by. Each is a time, so that less is faster."""


@dataclass(frozen=True)
class Spread:
    """The time of a combination over its runs.

    Attributes:
        mean: the mean of their times.
        low, high: the 95 % t-interval of that mean, None below `MIN_RUNS` runs.
            It is even about the mean, so `low` may be less than zero.
    """

    mean: float
    low: float | None = None
    high: float | None = None


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
    if not times:
        return None
    mean = math.fsum(time / len(times) for time in times)
    if len(times) < MIN_RUNS:
        return Spread(mean)
    half = mean_half_width(times)
    return Spread(mean, low=mean - half, high=mean + half)


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

    It is clear where both have an interval and the two don't overlap. None doesn't mean that
    `b` is the faster one: ask `faster(b, a)`. Where an interval reaches below zero, which no
    time does, it counts down to zero.
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
