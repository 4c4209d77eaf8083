"""What a bench says of its figures: a median with its bootstrap interval, against a bar."""

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
    """Return the median of `values`, which are measured independently of each other."""
    draw = random.Random(seed)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = round(0.025 * RESAMPLES)
    return Estimate(median(values), medians[cut], medians[-cut - 1], len(values))


def verdict(what: str, found: Estimate, bar: float, unit: str = "", digits: int = 2) -> str:
    """Return the line that sets a figure against the most that it may be."""
    reached = "reached" if found.value <= bar else "not reached"
    if found.low <= bar < found.high:
        reached += ", but the interval crosses the bar"
    unit = f" {unit}" if unit else ""
    return (
        f"{what:<44} {found.value:.{digits}f}{unit}  "
        f"[{found.low:.{digits}f} .. {found.high:.{digits}f}]  n={found.count}  "
        f"bar {bar:g}{unit}  {reached}"
    )


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median and the range of `values`."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"
