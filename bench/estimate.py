"""Estimate a median with its bootstrap interval, and compare it with a bar."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

RESAMPLES = 4000


@dataclass(frozen=True)
class Estimate:
    """A median and its 95 % percentile bootstrap interval."""

    value: float
    low: float
    high: float
    count: int


def estimate_median(values: Sequence[float], seed: int = 1) -> Estimate:
    """Return the median of `values`, which must be independent measurements."""
    draw = random.Random(seed)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = round(0.025 * RESAMPLES)
    return Estimate(median(values), medians[cut], medians[-cut - 1], len(values))


def verdict(name: str, figure: Estimate, bar: float, unit: str = "", digits: int = 2) -> str:
    """Return the line that compares a figure with its upper bar."""
    reached = "reached" if figure.value <= bar else "not reached"
    if figure.low <= bar < figure.high:
        reached += ", but the interval crosses the bar"
    unit = f" {unit}" if unit else ""
    return (
        f"{name:<44} {figure.value:.{digits}f}{unit}  "
        f"[{figure.low:.{digits}f} .. {figure.high:.{digits}f}]  n={figure.count}  "
        f"bar {bar:g}{unit}  {reached}"
    )


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median and the range of `values`."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"
