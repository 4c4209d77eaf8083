"""What a sweep found: a row for each combination, and the best of them.

Pure. Combinations are judged by the time of a sample in the steady state:
what an epoch or a run takes holds the compilation as well. Which one is faster their runs decide,
as those of the two sides of `dlmon compare` do: only these show how far runs differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from dlmon.records import Outcome, Result, RunStatus, Slot, Status, Value, Variation
from dlmon.records.record import record
from dlmon.statistics.intervals import mean_half_width
from dlmon.statistics.ratios import Claim, Ratio, ratio_of
from dlmon.sweep.plan import Combination
from dlmon.sweep.progress import Sweep

# Where the runs of a combination ended differently, its status is the first of these.
_STATUS_ORDER = (
    RunStatus.COMPLETED,
    RunStatus.OUT_OF_MEMORY,
    RunStatus.FAILED,
    RunStatus.IMPOSSIBLE,
    RunStatus.UNKNOWN,
    RunStatus.NOT_RUN,
)
MIN_RUNS = 3
"""So many runs have an interval of their mean."""
MAX_P = 0.05
"""What is as likely by chance as this is no difference."""
RANKING_METRIC = "ms_per_sample"
"""The metric by which the best combination is found."""

DEVICES = "devices"
"""The option that says how many devices share each batch."""
SAME_WORK = ("mode",)
"""What a sample takes is compared only where these are the same: a forward pass does less."""


@record(frozen=True)
class CombinationRow:
    """What came of one combination.

    Attributes:
        outcomes: how its runs ended, None for those still to be made.
        status: the first of these that any of its runs has: completed, out of memory, failed,
            impossible, not run.
        reason: why not all of its runs give a time; None where they do.
        metric: one of `METRICS`; seconds or milliseconds follow from it.
        times: of its completed runs.
        value: their mean from `MIN_RUNS` on, else their median; None without any.
        low, high: the 95 % interval of that mean. It is even about it, so it may reach below 0.
        projected: the time stands for an epoch or a run that had not ended.
        samples_per_second: the median throughput over its completed runs.
        tokens_per_second: that in tokens; None where its samples have none.
        peak_share: the median share of the peak; None where that isn't known.
        cost_usd: the median price of a run, None where no price was given.
        usd_per_million: the median price of a million samples in the steady state: runs
            may be of different lengths, so theirs says nothing of what is cheaper.
    """

    combination: Combination
    outcomes: tuple[Outcome | None, ...]
    status: RunStatus
    reason: str | None
    metric: str
    times: tuple[float, ...]
    value: float | None
    low: float | None
    high: float | None
    projected: bool
    samples_per_second: float | None
    cost_usd: float | None
    usd_per_million: float | None
    tokens_per_second: float | None = None
    peak_share: float | None = None

    @property
    def completed(self) -> int:
        return sum(1 for o in self.outcomes if o is not None and o.status == RunStatus.COMPLETED)

    def beside(self, other: CombinationRow) -> Ratio | None:
        """Return how many times as fast it is as another one; None where one has no time."""
        return ratio_of(self.times, other.times)

    def is_faster_than(self, other: CombinationRow, among: int = 1) -> bool:
        """Return whether its runs and those of another one show that it is faster.

        Args:
            other: the other one.
            among: beside how many each by itself is judged; the more there are, the more sure each
                has to be (Bonferroni), or one of many that are alike seemed slower by chance.
        """
        ratio = self.beside(other)
        if ratio is None or ratio.claim is not Claim.FASTER:
            return False
        return ratio.p is not None and ratio.p * among < MAX_P


def time_of(metric: str, result: Result) -> float | None:
    """Return what a run took by one of `METRICS` (seconds, or milliseconds), None without a value.

    A number that is no time (zero, negative, infinite, NaN) is none.
    """
    if result.status not in (Status.COMPLETED, Status.STOPPED):
        return None
    timing = {
        "seconds_per_epoch": result.seconds_per_epoch,
        "run_seconds": result.run_seconds,
    }.get(metric)
    rate, time = result.samples_per_second, None
    if timing is not None:
        time = timing.value
    elif metric == "step_ms" and result.step_ms is not None:
        time = result.step_ms.median
    elif metric == RANKING_METRIC and rate is not None and rate.mean > 0:
        time = 1000 / rate.mean
    return time if time is not None and 0 < time < math.inf else None


def rows_of(sweep: Sweep, metric: str | None = None) -> tuple[CombinationRow, ...]:
    """Return a row for each combination, in the order of the plan.

    Args:
        sweep: as far as it has come.
        metric: what to compare by, in place of each workload's own.
    """
    plan = sweep.plan
    return tuple(
        _row(
            combination,
            tuple(sweep.outcomes.get(Slot(combination.index, r)) for r in range(plan.repeats)),
            metric or plan.metrics[combination.workload],
        )
        for combination in plan.combinations
    )


def _row(
    combination: Combination, outcomes: tuple[Outcome | None, ...], metric: str
) -> CombinationRow:
    ended = [outcome for outcome in outcomes if outcome is not None]
    statuses = {outcome.status for outcome in ended}
    results = [o.result for o in ended if o.status == RunStatus.COMPLETED and o.result is not None]
    times = tuple(t for t in (time_of(metric, result) for result in results) if t is not None)
    rates = (r.samples_per_second.mean if r.samples_per_second else None for r in results)
    value = fmean(times) if len(times) >= MIN_RUNS else _median(times)
    half = mean_half_width(times) if len(times) >= MIN_RUNS else None
    can_be_projected = metric in ("run_seconds", "seconds_per_epoch")
    timings = [getattr(result, metric) for result in results] if can_be_projected else []
    return CombinationRow(
        combination=combination,
        outcomes=outcomes,
        status=next((status for status in _STATUS_ORDER if status in statuses), RunStatus.NOT_RUN),
        reason=_reason(ended, metric),
        metric=metric,
        times=times,
        value=value,
        low=None if value is None or half is None else value - half,
        high=None if value is None or half is None else value + half,
        projected=any(timing is not None and timing.projected for timing in timings),
        samples_per_second=_median(rates),
        cost_usd=_median(result.cost_usd for result in results),
        usd_per_million=_median(map(_usd_per_million, results)),
        tokens_per_second=_median(
            r.tokens_per_second.mean if r.tokens_per_second else None for r in results
        ),
        peak_share=_median(result.peak_share for result in results),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _usd_per_million(result: Result) -> float | None:
    rate = result.samples_per_second
    if result.cost_usd is None or rate is None or not (rate.mean > 0 and result.wall_s > 0):
        return None
    return result.cost_usd / result.wall_s / rate.mean * 1e6


def _reason(ended: Sequence[Outcome], metric: str) -> str | None:
    """Say why a combination has no time, or one of its runs has none."""
    for outcome in ended:
        if outcome.reason is not None:
            return outcome.reason
    field = "samples_per_second" if metric == "ms_per_sample" else metric
    for outcome in ended:
        if outcome.result is not None and time_of(metric, outcome.result) is None:
            return outcome.result.why.get(field, "it gave no figure")
    return None


def ranking_rows(sweep: Sweep) -> tuple[CombinationRow, ...]:
    """Return a row for each combination, with its time by `RANKING_METRIC`."""
    return rows_of(sweep, RANKING_METRIC)


def comparable_groups(rows: Sequence[CombinationRow]) -> list[list[CombinationRow]]:
    """Return the rows in groups that did the same work: of one workload, and in one mode."""
    groups: dict[tuple[Value | None, ...], list[CombinationRow]] = {}
    for row in rows:
        varied = row.combination.varied
        work = (row.combination.workload, *(varied.get(key) for key in SAME_WORK))
        groups.setdefault(work, []).append(row)
    return list(groups.values())


def best_of(rows: Sequence[CombinationRow]) -> CombinationRow | None:
    """Return the row of the least time, None where there is none to compare with another.

    Args:
        rows: a group of `comparable_groups`, as they are judged.
    """
    timed = [(row.value, row) for row in rows if row.value is not None]
    return min(timed, key=lambda pair: pair[0])[1] if len(timed) > 1 else None


def best_rows(sweep: Sweep) -> dict[int, CombinationRow]:
    """Return the best of the rows that are like each combination's, by its index."""
    found: dict[int, CombinationRow] = {}
    for like in comparable_groups(ranking_rows(sweep)):
        best = best_of(like)
        if best is not None:
            found |= {row.combination.index: best for row in like}
    return found


@record(frozen=True)
class Scaling:
    """How a combination compares with the same on the fewest devices.

    Attributes:
        base: that combination.
        speed_up: how many times as fast it is.
        efficiency: the speed-up over how many times as many devices it has, 0 to about 1.
    """

    base: CombinationRow
    speed_up: Ratio
    efficiency: float


def scaling_of(rows: Sequence[CombinationRow]) -> dict[int, Scaling]:
    """Return how the throughput grows with the devices, by the index of each combination.

    Args:
        rows: of all combinations, as they are judged.
    """
    alike: dict[tuple[object, ...], list[tuple[int, CombinationRow]]] = {}
    for row in rows:
        varied = dict(row.combination.varied)
        devices = varied.pop(DEVICES, None)
        if isinstance(devices, int) and row.times:
            key = (row.combination.workload, *varied.items())
            alike.setdefault(key, []).append((devices, row))
    found = {}
    for group in alike.values():
        fewest, base = min(group, key=lambda pair: pair[0])
        for devices, row in group:
            ratio = row.beside(base)
            if devices > fewest and ratio is not None:
                scaling = Scaling(base, ratio, ratio.value * fewest / devices)
                found[row.combination.index] = scaling
    return found


def of_workload(rows: Sequence[CombinationRow], workload: str) -> list[CombinationRow]:
    """Return the rows of one workload."""
    return [row for row in rows if row.combination.workload == workload]


def axis_of(variations: Sequence[Variation]) -> str | None:
    """Return the first option whose values are numbers, and more than one."""
    for key, values in ((variation.key, variation.values) for variation in variations):
        if len(values) > 1 and all(isinstance(value, (int, float)) for value in values):
            return key
    return None
