"""How sure a factor is: its 95 % interval, by how runs differ where that is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.comparison.compare import ComparisonRow, factor
from dlmon.comparison.like_runs import Settings
from dlmon.statistics.intervals import student_95_of
from dlmon.statistics.ratios import Error, Ratio, ratio_of, run_spread

# The intervals of single times say nothing of their degrees of freedom: as of many.
_MANY = 1e6


def factor_with_interval(
    this: ComparisonRow, other: ComparisonRow, rows: Sequence[ComparisonRow], steady: bool
) -> Ratio | None:
    """Return how many times as fast as `other` this run is, with its 95 % interval.

    It allows for how runs differ where some of `rows` were made under the same conditions, else
    only for how each of the two varied by itself (see `Ratio.basis`). None where `factor` is.
    """
    if factor(this, other, steady) is None:
        return None
    errors = [_error_of(row) for row in (this, other) if row.kind != "published"]
    if other.kind == "published":
        # A published figure counts as exact.
        return ratio_of([this.pace], [other.pace], None, errors)
    spread = run_spread(_like_runs(rows))
    return ratio_of([this.pace], [other.pace], spread, errors)


def _like_runs(rows: Sequence[ComparisonRow]) -> list[list[float]]:
    """Return the times of earlier runs in groups of the same device and the same settings."""
    groups: dict[tuple[str, Settings | None], list[float]] = {}
    for row in rows:
        if row.kind == "earlier" and row.comparable and not row.projected:
            groups.setdefault((row.label, row.settings), []).append(row.pace)
    return list(groups.values())


def _error_of(row: ComparisonRow) -> Error | None:
    """Return the error of a time by its own interval; None where that isn't known."""
    interval = row.interval
    if interval is None:
        return None
    half = max(interval[1] - row.pace, row.pace - interval[0])
    return Error(half / row.pace / student_95_of(_MANY), _MANY)
