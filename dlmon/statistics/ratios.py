"""The ratio of two sides of a comparison, with its interval. Pure.

Figures are compared by their ratio, so on a log scale: a side's figure is the geometric mean of
its runs. The unit is the run: steps of a run are not independent of each other, and runs differ
by more than their steps show (caches, neighbours, clocks), so no number of steps can show that
one side is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from dlmon.records import Throughput, Word
from dlmon.records.record import record
from dlmon.statistics.intervals import student_95, student_95_of, student_p

NOTICEABLE_CHANGE = 0.0005
"""A smaller change would read 0.0 %, and helps nobody even if it is certain."""
# With more degrees of freedom, Student's t hardly changes.
_MOST_DEGREES = 32


class Claim(Word):
    """The verdict of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "about as fast"
    UNCLEAR = "no clear difference"
    UNKNOWN = "how sure is not known"


class Basis(Word):
    """The spread that an interval is computed from."""

    RUNS = "runs"
    """Several runs a side (Welch)."""
    LIKE_RUNS = "like_runs"
    """One run on a side; the spread of other runs under the same conditions."""
    WITHIN_RUNS = "within_runs"
    """One run on a side; the spread within it. How much runs differ is unknown."""


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
        low, high: its 95 % interval; None if no spread is known.
        p: the chance of a ratio at least as far from 1 if the sides are alike; None if it isn't
            known how much runs differ.
        basis: the spread that the interval is computed from.
        degrees: the degrees of freedom of that spread.
    """

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    basis: Basis | None = None
    degrees: float | None = None

    @property
    def is_significant(self) -> bool:
        """True if 1 is outside the interval, which allows for differences between runs."""
        if self.p is None or self.low is None or self.high is None:
            return False
        return not self.low <= 1 <= self.high

    @property
    def may_be_one(self) -> bool:
        """True if its interval includes 1: there is no clear difference."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high

    @property
    def claim(self) -> Claim:
        """The verdict on new against base, for a rate: more is faster."""
        if self.p is None:
            return Claim.UNKNOWN
        if not self.is_significant:
            return Claim.UNCLEAR
        if abs(self.value - 1) < NOTICEABLE_CHANGE:
            return Claim.ALIKE
        return Claim.FASTER if self.value > 1 else Claim.SLOWER


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return _exp(fmean(map(math.log, values)))


def run_spread(groups: Iterable[Sequence[float]]) -> Error | None:
    """Return the standard deviation of runs under the same conditions; None without two such runs.

    Args:
        groups: figures of runs, each group under the same conditions.
    """
    squares, degrees = 0.0, 0
    for group in groups:
        if len(group) > 1:
            squares += _squares([math.log(value) for value in group])
            degrees += len(group) - 1
    return Error(math.sqrt(squares / degrees), degrees) if degrees else None


def throughput_error(rate: Throughput | None) -> Error | None:
    """Return the error of a run's throughput; None if its 95 % half-width, the band, is unknown.

    The degrees of freedom follow from the ratio of the band to the standard error. A band of 0 is
    an unknown one: earlier versions logged it so.
    """
    if rate is None or not rate.standard_error or not rate.band:
        return None
    times = rate.band / rate.standard_error
    degrees = min(range(1, _MOST_DEGREES), key=lambda count: abs(student_95(count) - times))
    return Error(rate.standard_error / rate.mean, degrees)


def ratio_of(
    base: Sequence[float],
    new: Sequence[float],
    spread: Error | None = None,
    within: Sequence[Error | None] = (),
) -> Ratio | None:
    """Return new over base with its interval; None if a figure is missing or isn't positive.

    Args:
        base: the figure of each run of that side.
        new: the same.
        spread: from `run_spread`; used if a side has only one run.
        within: the error within each run of the sides that have only one.
    """
    if not base or not new or not all(0 < value < math.inf for value in (*base, *new)):
        return None
    logs = [[math.log(value) for value in side] for side in (base, new)]
    off = fmean(logs[1]) - fmean(logs[0])
    if len(base) > 1 and len(new) > 1:
        return _ratio(off, _welch(*logs), Basis.RUNS)
    errors = [error for error in within if error is not None]
    if spread is not None:
        between = spread.of_log * math.sqrt(1 / len(base) + 1 / len(new))
        total = math.hypot(between, *(error.of_log for error in errors))
        return _ratio(off, Error(total, spread.degrees), Basis.LIKE_RUNS)
    if not errors or len(errors) < len(within):
        return Ratio(_exp(off))
    total = math.hypot(*(error.of_log for error in errors))
    return _ratio(off, Error(total, min(error.degrees for error in errors)), Basis.WITHIN_RUNS)


def _ratio(off: float, error: Error, basis: Basis) -> Ratio:
    if error.of_log <= 0:
        # Runs that agree to the last digit don't show how much runs differ.
        return Ratio(_exp(off))
    half = student_95_of(error.degrees) * error.of_log
    p = student_p(off / error.of_log, max(1.0, error.degrees))
    return Ratio(
        value=_exp(off),
        low=_exp(off - half),
        high=_exp(off + half),
        p=None if basis is Basis.WITHIN_RUNS else p,
        basis=basis,
        degrees=error.degrees,
    )


def _welch(base: Sequence[float], new: Sequence[float]) -> Error:
    """Return Welch's error of the difference of two means, with its degrees of freedom."""
    shares = [_squares(logs) / (len(logs) - 1) / len(logs) for logs in (base, new)]
    variance = sum(shares)
    pairs = zip(shares, (base, new), strict=True)
    below = sum(share * share / (len(logs) - 1) for share, logs in pairs)
    return Error(math.sqrt(variance), variance * variance / below if below else 1.0)


def _exp(value: float) -> float:
    """Return the exponential, of values beyond anything measured too."""
    return math.exp(min(value, 700.0))


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)
