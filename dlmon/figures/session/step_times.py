"""How long the steps of a run take, as a histogram in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dlmon.figures import units
from dlmon.records.record import record
from dlmon.statistics.histogram import weighted_quantile

MOST_ROWS = 6
_SLOW = 0.95


@record(frozen=True)
class StepTimes:
    """A histogram of step times.

    Attributes:
        rows: the longest time of each row in words, and the share of the steps in it, 0 to 1.
        median: the median in words.
        slow: the time that 95 % of the steps take at most, in words.
        longest: the longest time in words.
    """

    rows: tuple[tuple[str, float], ...]
    median: str
    slow: str
    longest: str


def step_times_of(ranked: Sequence[tuple[float, int]]) -> StepTimes | None:
    """Return the histogram of (µs, count) pairs, shortest first; None without any.

    The rows are equally wide up to the time of 95 % of the steps; the last one holds the rest.
    Times that read alike share a row.
    """
    total = sum(count for _, count in ranked)
    if not total:
        return None
    median_us, slow_us = weighted_quantile(ranked, 0.5), weighted_quantile(ranked, _SLOW)
    longest_us = ranked[-1][0]
    shares = (number / (MOST_ROWS - 1) for number in range(1, MOST_ROWS))
    ends_us = [*(ranked[0][0] * (1 - share) + slow_us * share for share in shares), math.inf]
    counts = [0] * len(ends_us)
    for took_us, count in ranked:
        counts[next(n for n, end_us in enumerate(ends_us) if took_us <= end_us)] += count
    counts_by_text: Counter[str] = Counter()
    for end_us, count in zip((*ends_us[:-1], longest_us), counts, strict=True):
        counts_by_text[f"to {units.milliseconds(end_us / 1000)}"] += count
    return StepTimes(
        tuple((text, count / total) for text, count in counts_by_text.items() if count),
        *(units.milliseconds(us / 1000) for us in (median_us, slow_us, longest_us)),
    )
