"""The 95 % interval of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    mean = math.fsum(values) / count
    deviation = math.hypot(*(value - mean for value in values)) / math.sqrt(count - 1)
    return student_95(count - 1) * deviation / math.sqrt(count)
