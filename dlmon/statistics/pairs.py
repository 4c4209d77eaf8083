"""The ratio of two sides from pairs of runs, and how many pairs it takes. Pure.

Each pair gives the logarithm of the ratio of its two rates. The spread of the first `FIRST_PAIRS`
pairs says how many pairs give the width that is asked for, and the interval by that spread covers
95 % although the number of pairs follows from the data (C. Stein, Annals of Mathematical Statistics
16 (1945), 243-258). A busy machine has outliers that the first pairs may lack: the interval is
Student's of all pairs if that is the wider one. Few pairs agree by chance: where it is known how
far a pair may be off, by the turns of its runs, the interval is as wide as that at least.
`bench/pairs.py` has the coverage.

Who only wants to know which side is faster looks earlier: a difference that is proven at 99.9 %
after 3, 4, 5, 7 or 10 pairs ends the experiment. At most 0.5 % more experiments claim a difference
that isn't there, and the interval at such an end covers 93 to 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlmon.records.record import record
from dlmon.statistics.intervals import student_95

FIRST_PAIRS = 5
"""The pairs whose spread says how many are needed."""
# Student's two-sided quantile of 99.9 % by the number of pairs.
_EARLY_LOOKS = {3: 31.60, 4: 12.92, 5: 8.61, 7: 5.96, 10: 4.78}
_NORMAL_95, _NORMAL_99_9 = 1.96, 3.29
FIRST_LOOK = min(_EARLY_LOOKS)


@record(frozen=True)
class PairedRatio:
    """The ratio of two sides, new over base.

    Attributes:
        value: the geometric mean of the pairs' ratios.
        low, high: its 95 % interval; None with a single pair.
        pairs: the number of pairs.
    """

    value: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def is_proven(self) -> bool:
        """True if 1 is outside the interval."""
        return self.low is not None and not self.holds(1)

    def holds(self, value: float) -> bool:
        """Return whether a value is within the interval."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high

    @property
    def half_width(self) -> float | None:
        """The half-width of the interval as a share: 0.02 for ± 2 %."""
        if self.low is None or self.high is None:
            return None
        return math.sqrt(self.high / self.low) - 1


def paired_ratio(
    ratios: Sequence[float], errors: Sequence[float | None] = ()
) -> PairedRatio | None:
    """Return the ratio of two sides, and its interval; None without a pair.

    Args:
        ratios: new over base of each pair, in the order in which they were run; all positive.
        errors: the standard error of the logarithm of each, as far as known.
    """
    if not ratios:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.fsum(logs) / len(logs)
    half = paired_half_width(logs, errors)
    if half is None:
        return PairedRatio(math.exp(mean), None, None, len(logs))
    return PairedRatio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))


def paired_half_width(values: Sequence[float], errors: Sequence[float | None] = ()) -> float | None:
    """Return the half-width of the 95 % interval of the mean of pairs; None with a single one.

    Args:
        values: a figure of each pair, such as a difference, in the order in which they were run.
        errors: the standard error of each, as far as known.
    """
    if len(values) < 2:
        return None
    widths = [student_95(len(v) - 1) * _deviation(v) for v in (values[:FIRST_PAIRS], values)]
    return max(*widths, _NORMAL_95 * _usual_error(errors)) / math.sqrt(len(values))


def pairs_needed(ratios: Sequence[float], errors: Sequence[float | None], to: float) -> int | None:
    """Return how many pairs give an interval of ± `to`; None before `FIRST_PAIRS` pairs.

    Args:
        ratios: new over base of each pair, in the order in which they were run.
        errors: the standard error of the logarithm of each, as far as known.
        to: the half-width as a share, 0.02 for ± 2 %.
    """
    if len(ratios) < FIRST_PAIRS:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    half = paired_half_width(logs, errors)
    assert half is not None
    width = half * math.sqrt(len(logs)) / math.log1p(to)
    return max(FIRST_PAIRS, math.ceil(width * width))


def is_proven_early(ratios: Sequence[float], errors: Sequence[float | None] = ()) -> bool:
    """Return whether a planned look at so many pairs proves that their ratio is not 1.

    `errors` are the standard errors of their logarithms, as far as known.
    """
    if len(ratios) not in _EARLY_LOOKS:
        return False
    logs, count = [math.log(ratio) for ratio in ratios], len(ratios)
    width = max(_EARLY_LOOKS[count] * _deviation(logs), _NORMAL_99_9 * _usual_error(errors))
    return abs(math.fsum(logs) / count) > width / math.sqrt(count)


def _usual_error(errors: Sequence[float | None]) -> float:
    """Return the root mean square of the errors that are known; 0 without one."""
    known = [error for error in errors if error is not None]
    return math.sqrt(math.fsum(error * error for error in known) / len(known)) if known else 0.0


def _deviation(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
