"""How much more one side of a comparison has than the other, and how sure that is. Pure.

Figures are compared by their ratio, so on a log scale: a side's figure is the geometric mean of
its runs. A run is the unit. Its steps, and its seconds, are not independent of each other, and
runs differ by more than their steps show (caches, neighbours, clocks), so that no number of steps
can show that one side is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dlmon.records import Word
from dlmon.records.record import record
from dlmon.statistics.intervals import student_95_of, student_p

Windows = Sequence[tuple[int, int]]
"""Samples and microseconds of consecutive windows of one run."""

MIN_WINDOWS = 4
NOTICEABLE_CHANGE = 0.0005
"""A smaller one is 0.0 %, however sure it is: nobody is better off by it."""


class Claim(Word):
    """What may be said of one thing beside another."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "about as fast"
    UNCLEAR = "no clear difference"
    UNKNOWN = "how sure is not known"


class Basis(Word):
    """What an interval rests on."""

    RUNS = "runs"
    """Several runs a side (Welch)."""
    LIKE_RUNS = "like_runs"
    """One run on a side, and how other runs of the same conditions differ."""
    WITHIN_RUNS = "within_runs"
    """One run on a side, and how its windows differ: nothing is known of how runs do."""


@record(frozen=True)
class Error:
    """The standard error of a logarithm, with its degrees of freedom."""

    of_log: float
    degrees: float


@record(frozen=True)
class Ratio:
    """New over base.

    Attributes:
        value: the ratio of the geometric means.
        low, high: its 95 % interval; None where nothing is known of how sure it is.
        p: how likely it is to be at least as far from 1 by chance; None where it isn't known how
            runs differ.
        basis: what the interval rests on.
    """

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    basis: Basis | None = None

    @property
    def is_significant(self) -> bool:
        """Whether its interval, which allows for how runs differ, holds no 1."""
        if self.p is None or self.low is None or self.high is None:
            return False
        return not self.low <= 1 <= self.high

    @property
    def claim(self) -> Claim:
        """What may be said of new beside base: of a rate that more is faster."""
        if self.p is None:
            return Claim.UNKNOWN
        if not self.is_significant:
            return Claim.UNCLEAR
        if abs(self.value - 1) < NOTICEABLE_CHANGE:
            return Claim.ALIKE
        return Claim.FASTER if self.value > 1 else Claim.SLOWER


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return _exp(_mean([math.log(value) for value in values]))


def run_spread(groups: Iterable[Sequence[float]]) -> Error | None:
    """Return how far a single run lies from the mean of its like, None where no two are alike.

    Args:
        groups: figures of runs, each group of the same conditions.
    """
    squares, degrees = 0.0, 0
    for group in groups:
        if len(group) > 1:
            squares += _squares([math.log(value) for value in group])
            degrees += len(group) - 1
    return Error(math.sqrt(squares / degrees), degrees) if degrees else None


def window_error(windows: Windows) -> Error | None:
    """Return the error of a run's throughput by how its windows differ; None below `MIN_WINDOWS`.

    It is what a circular block bootstrap gives: blocks of neighbouring windows are drawn again
    and again. What infinitely many draws come to is known in closed form, so none is made.
    """
    count = len(windows)
    samples, time_us = sum(w[0] for w in windows), sum(w[1] for w in windows)
    if count < MIN_WINDOWS or not samples or not time_us:
        return None
    rate = samples / time_us
    residuals = [done - rate * took_us for done, took_us in windows]
    # Noise may last for several windows; see Politis and White on the cube root.
    length = max(2, round(count ** (1 / 3)))
    around = [*residuals, *residuals[: length - 1]]
    blocks = [math.fsum(around[start : start + length]) for start in range(count)]
    variance = math.fsum(block * block for block in blocks) / count / length * count
    # Blocks of one run lie closer to its own mean than to the true one.
    variance *= count / (count - length)
    return Error(math.sqrt(variance) / samples, max(1.0, count / length - 1))


def ratio_of(
    base: Sequence[float],
    new: Sequence[float],
    spread: Error | None = None,
    within: Sequence[Error | None] = (),
) -> Ratio | None:
    """Return new over base with its interval; None where a figure is missing or is not positive.

    Args:
        base: the figure of each run of that side.
        new: the same.
        spread: what `run_spread` says of like runs; it counts where a side has one run.
        within: what `window_error` says of the runs of the sides that have one.
    """
    if not base or not new or not all(0 < value < math.inf for value in (*base, *new)):
        return None
    logs = [[math.log(value) for value in side] for side in (base, new)]
    off = _mean(logs[1]) - _mean(logs[0])
    if len(base) > 1 and len(new) > 1:
        return _ratio(off, _welch(*logs), Basis.RUNS)
    known = [error for error in within if error is not None]
    if spread is not None:
        between = spread.of_log * math.sqrt(1 / len(base) + 1 / len(new))
        error = math.hypot(between, *(one.of_log for one in known))
        return _ratio(off, Error(error, spread.degrees), Basis.LIKE_RUNS)
    if not known or len(known) < len(within):
        return Ratio(_exp(off))
    error = math.hypot(*(one.of_log for one in known))
    return _ratio(off, Error(error, min(one.degrees for one in known)), Basis.WITHIN_RUNS)


def _ratio(off: float, error: Error, basis: Basis) -> Ratio:
    if error.of_log <= 0:
        # Runs that agree to the last digit say nothing of how runs differ.
        return Ratio(_exp(off))
    half = student_95_of(error.degrees) * error.of_log
    p = student_p(off / error.of_log, max(1.0, error.degrees))
    return Ratio(
        value=_exp(off),
        low=_exp(off - half),
        high=_exp(off + half),
        p=None if basis is Basis.WITHIN_RUNS else p,
        basis=basis,
    )


def _welch(base: Sequence[float], new: Sequence[float]) -> Error:
    """Return Welch's error of the difference of two means, and his degrees of freedom."""
    shares = [_squares(logs) / (len(logs) - 1) / len(logs) for logs in (base, new)]
    variance = sum(shares)
    pairs = zip(shares, (base, new), strict=True)
    below = sum(share * share / (len(logs) - 1) for share, logs in pairs)
    return Error(math.sqrt(variance), variance * variance / below if below else 1.0)


def _exp(value: float) -> float:
    """Return the exponential; of what nothing that is measured comes to, still a number."""
    return math.exp(min(value, 700.0))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)
