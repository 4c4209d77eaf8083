"""The results of a sweep: a row for each combination, and the best of them. Pure.

Combinations are ranked by the steady-state time of a sample, as the time of an epoch or a run
includes compilation. A combination is faster than another if the variation between runs allows the
claim, as in `dlmon compare`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean, median
from typing import TYPE_CHECKING

from dlmon.records import Outcome, Result, RunStatus, Slot, Status, Value, Variation
from dlmon.records.record import record
from dlmon.statistics.intervals import mean_half_width
from dlmon.statistics.ratios import Claim, Error, Ratio, ratio_of, throughput_error
from dlmon.sweep.plan import Combination
from dlmon.sweep.progress import Sweep

if TYPE_CHECKING:
    from dlmon.comparison.compared_run import RunFigures

# If the runs of a combination ended differently, its status is the first of these.
_STATUS_ORDER = (
    RunStatus.COMPLETED,
    RunStatus.OUT_OF_MEMORY,
    RunStatus.FAILED,
    RunStatus.IMPOSSIBLE,
    RunStatus.UNKNOWN,
    RunStatus.NOT_RUN,
)
MIN_RUNS = 3
"""The number of runs from which their mean has an interval."""
MAX_P = 0.05
"""The p-value below which a difference is significant."""
_PROJECTED = ("seconds_per_epoch", "run_seconds")
RANKING_METRIC = "ms_per_sample"
"""The metric for ranking combinations."""

Loss = float | str | None
"""A loss; a text says that it is NaN or infinite."""

DEVICES = "devices"
"""The name of the option for the number of devices that share each batch."""
SAME_WORK = ("mode",)
"""Options that must be equal to compare the times of a sample: a forward pass does less work."""


@record(frozen=True)
class CombinationRow:
    """The result of a combination.

    Attributes:
        combination: the combination.
        outcomes: the outcomes of its runs; None for the remaining ones.
        status: the first of these that any of its runs has: completed, out of memory, failed,
            impossible, not run.
        reason: why a run has no time; None if all have one.
        metric: one of `METRICS`, in seconds or milliseconds as its name says.
        times: the times of its completed runs.
        value: the mean of `MIN_RUNS` times or more, else the median; None without times.
        low, high: the 95 % interval of the mean; symmetric, so it may reach below 0.
        projected: the time is a projection from an epoch or run that was cut short.
        samples_per_second: the median throughput of its completed runs.
        tokens_per_second: the throughput in tokens; None without tokens.
        peak_share: the median share of the peak FLOP/s; None if unknown.
        losses: the median losses of its completed runs, of training and of validation.
        cost_usd: the median cost of a run; None without a price.
        usd_per_million: the median cost of a million samples in the steady state; unlike the cost
            of a run, it doesn't depend on the run's length.
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
    losses: tuple[Loss, Loss] = (None, None)

    @property
    def diverged(self) -> str | None:
        """What a loss is instead of a number, such as NaN; None if all are numbers."""
        return next((loss for loss in self.losses if isinstance(loss, str)), None)

    @property
    def completed(self) -> int:
        return sum(1 for o in self.outcomes if o is not None and o.status == RunStatus.COMPLETED)

    def speed_up_over(self, slower: CombinationRow) -> Ratio | None:
        """Return the speed-up over another combination; None if either has no time.

        With one run of either, the interval allows for the variation within it.
        """
        within = [row._error_within for row in (self, slower) if len(row.times) == 1]
        return ratio_of(self.times, slower.times, within=within)

    @property
    def _error_within(self) -> Error | None:
        """The error of the only time by the ranking metric; None if unknown."""
        results = [o.result for o in self.outcomes if o is not None and o.result is not None]
        timed = [result for result in results if time_of(self.metric, result) is not None]
        if self.metric != RANKING_METRIC or len(timed) != 1:
            return None
        return throughput_error(timed[0].samples_per_second)

    def is_faster_than(self, slower: CombinationRow, comparisons: int = 1) -> bool:
        """Return whether it is significantly faster than another combination.

        Args:
            slower: the other combination.
            comparisons: the number of such comparisons (Bonferroni correction).
        """
        ratio = self.speed_up_over(slower)
        if ratio is None or ratio.claim is not Claim.FASTER:
            return False
        return ratio.p is not None and ratio.p * comparisons < MAX_P


def time_of(metric: str, result: Result) -> float | None:
    """Return the time of a run by one of `METRICS`, in seconds or milliseconds.

    None without a value, or if it is no time (zero, negative, infinite, NaN).
    """
    if result.status not in (Status.COMPLETED, Status.STOPPED):
        return None
    timing = getattr(result, metric) if metric in _PROJECTED else None
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
        sweep: the sweep.
        metric: one of `METRICS`; None for the metric of each workload.
    """
    plan = sweep.plan
    return tuple(
        _row(
            combination,
            tuple(sweep.outcomes.get(Slot(combination.index, r)) for r in range(plan.repeats)),
            metric or plan.metrics[combination.workload],
            sweep.figures,
        )
        for combination in plan.combinations
    )


def _row(
    combination: Combination,
    outcomes: tuple[Outcome | None, ...],
    metric: str,
    figures: Mapping[str, RunFigures],
) -> CombinationRow:
    over = [outcome for outcome in outcomes if outcome is not None]
    statuses = {outcome.status for outcome in over}
    results = [o.result for o in over if o.status == RunStatus.COMPLETED and o.result is not None]
    times = tuple(t for t in (time_of(metric, result) for result in results) if t is not None)
    rates = (r.samples_per_second.mean if r.samples_per_second else None for r in results)
    runs = [figures[result.session] for result in results if result.session in figures]
    value = fmean(times) if len(times) >= MIN_RUNS else _median(times)
    half = mean_half_width(times) if len(times) >= MIN_RUNS else None
    timings = [getattr(result, metric) for result in results] if metric in _PROJECTED else []
    return CombinationRow(
        combination=combination,
        outcomes=outcomes,
        status=next((status for status in _STATUS_ORDER if status in statuses), RunStatus.NOT_RUN),
        reason=_reason(over, metric),
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
        losses=(_loss(runs, "loss"), _loss(runs, "val_loss")),
    )


def _loss(runs: Sequence[RunFigures], name: str) -> Loss:
    why = (run.not_numbers[name] for run in runs if name in run.not_numbers)
    return next(why, None) or _median(run.values.get(f"metric.{name}") for run in runs)


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def _usd_per_million(result: Result) -> float | None:
    rate = result.samples_per_second
    if result.cost_usd is None or rate is None or not (rate.mean > 0 and result.wall_s > 0):
        return None
    return result.cost_usd / result.wall_s / rate.mean * 1e6


def _reason(outcomes: Sequence[Outcome], metric: str) -> str | None:
    """Return why one of the runs has no time; None if all have one."""
    for outcome in outcomes:
        if outcome.reason is not None:
            return outcome.reason
    field = "samples_per_second" if metric == "ms_per_sample" else metric
    for outcome in outcomes:
        if outcome.result is not None and time_of(metric, outcome.result) is None:
            return outcome.result.why.get(field, "it gave no figure")
    return None


def ranking_rows(sweep: Sweep) -> tuple[CombinationRow, ...]:
    """Return a row for each combination, with its time by `RANKING_METRIC`."""
    return rows_of(sweep, RANKING_METRIC)


def comparable_groups(rows: Sequence[CombinationRow]) -> list[list[CombinationRow]]:
    """Group the rows that do the same work: one workload in one mode."""
    groups: dict[tuple[Value | None, ...], list[CombinationRow]] = {}
    for row in rows:
        varied = row.combination.varied
        work = (row.combination.workload, *(varied.get(key) for key in SAME_WORK))
        groups.setdefault(work, []).append(row)
    return list(groups.values())


def best_of(rows: Sequence[CombinationRow], least: int = 2) -> CombinationRow | None:
    """Return the row with the least time of a comparable group; None if fewer than `least` do.

    A run whose loss is NaN or infinite has trained nothing, so it is never the best.
    """
    timed = [(row.value, row) for row in rows if row.value is not None and row.diverged is None]
    return min(timed, key=lambda pair: pair[0])[1] if len(timed) >= least else None


def order_by_result(sweep: Sweep, running: Collection[int] = ()) -> list[int]:
    """Return the combinations' indices: those that run, then the best first, failures, the rest."""

    def rank(row: CombinationRow) -> tuple[float, ...]:
        if row.combination.index in running:
            return (0,)
        if row.value is not None:
            return (1, row.diverged is not None, row.value)
        return (3 if row.status == RunStatus.NOT_RUN else 2,)

    groups = comparable_groups(ranking_rows(sweep))
    ranked = [(rank(row)[0], n, rank(row), row) for n, group in enumerate(groups) for row in group]
    ranked.sort(key=itemgetter(0, 1, 2))
    return [row.combination.index for *_, row in ranked]


def best_rows(sweep: Sweep) -> dict[int, CombinationRow]:
    """Return the best row that is comparable with each combination, by its index."""
    by_index: dict[int, CombinationRow] = {}
    for group in comparable_groups(ranking_rows(sweep)):
        best = best_of(group)
        if best is not None:
            by_index |= {row.combination.index: best for row in group}
    return by_index


@record(frozen=True)
class Scaling:
    """The speed-up of a combination over the same one on the fewest devices.

    Attributes:
        base: the combination on the fewest devices.
        speed_up: the speed-up.
        efficiency: the speed-up over the ratio of devices, 0 to about 1.
    """

    base: CombinationRow
    speed_up: Ratio
    efficiency: float


def scaling_of(rows: Sequence[CombinationRow]) -> dict[int, Scaling]:
    """Return the scaling with the number of devices, by the index of each combination."""
    groups: dict[tuple[object, ...], list[tuple[int, CombinationRow]]] = {}
    for row in rows:
        varied = dict(row.combination.varied)
        devices = varied.pop(DEVICES, None)
        if isinstance(devices, int) and row.times:
            key = (row.combination.workload, *varied.items())
            groups.setdefault(key, []).append((devices, row))
    by_index = {}
    for group in groups.values():
        fewest, base = min(group, key=lambda pair: pair[0])
        for devices, row in group:
            ratio = row.speed_up_over(base)
            if devices > fewest and ratio is not None:
                scaling = Scaling(base, ratio, ratio.value * fewest / devices)
                by_index[row.combination.index] = scaling
    return by_index


def of_workload(rows: Sequence[CombinationRow], workload: str) -> list[CombinationRow]:
    """Return the rows of one workload."""
    return [row for row in rows if row.combination.workload == workload]


def axis_of(variations: Sequence[Variation]) -> str | None:
    """Return the first varied option with several values, all of them numbers."""
    for variation in variations:
        values = variation.values
        if len(values) > 1 and all(isinstance(value, (int, float)) for value in values):
            return variation.key
    return None
