"""The 95 % interval of a mean, and Student's t for any degrees of freedom. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

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


def mean_half_width(values: Sequence[float]) -> float:
    """Return the half-width of the 95 % t-interval of the mean of two or more values."""
    count = len(values)
    mean = math.fsum(value / count for value in values)
    deviation = math.hypot(*(value - mean for value in values)) / math.sqrt(count - 1)
    return student_95(count - 1) * deviation / math.sqrt(count)


def student_p(t: float, degrees: float) -> float:
    """Return the two-sided p-value of `t`."""
    whole = degrees + t * t
    return _incomplete_beta(degrees / whole, t * t / whole, degrees / 2, 0.5)


# A screen asks for the same degrees for every row of a comparison, each second.
@lru_cache(maxsize=256)
def student_95_of(degrees: float) -> float:
    """Return the two-sided 95 % quantile for fractional degrees of freedom, such as Welch's."""
    degrees = max(1.0, degrees)

    def error(t: float) -> float:
        return math.log(student_p(t, degrees) / 0.05)

    # Regula falsi (Illinois): the logarithm of p is nearly linear in t.
    low, high = 1.9, 12.8
    error_low, error_high = error(low), error(high)
    for _ in range(50):
        middle = high - error_high * (high - low) / (error_high - error_low)
        error_middle = error(middle)
        if abs(error_middle) < 1e-12:
            break
        if error_middle * error_high < 0:
            low, error_low = high, error_high
        else:
            error_low /= 2
        high, error_high = middle, error_middle
    return middle


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction.

    Args:
        x: from 0 to 1.
        rest: 1 - x, given apart because a subtraction from a float near 1 would lose digits.
        a: above 0.
        b: above 0.
    """
    if x <= 0 or rest <= 0:
        return float(rest <= 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(rest, x, b, a)
    fraction = 1.0
    for number in range(200, 0, -1):
        m = number // 2
        if number % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        fraction = 1 + term / fraction
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(logarithm + a * math.log(x) + b * math.log(rest)) / a / fraction
