"""What a sweep found: a row for each combination, the best of them, and where the lead changes.

Pure. Combinations are judged by the time of a sample in the steady state:
what an epoch or a run takes holds the compilation as well. A combination
counts as faster only where `dlmon.statistics.repeats` says so, which takes at least three
runs of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dlmon.records import Result
from dlmon.statistics.repeats import LEAST_RUNS, Speedup, Spread, faster, spread_of_repeats, time_of
from dlmon.sweep.plan import Combination, Slot, Value
from dlmon.sweep.progress import (
    COMPLETED,
    FAILED,
    IMPOSSIBLE,
    NOT_RUN,
    OUT_OF_MEMORY,
    Outcome,
    Sweep,
)

# What a combination is said to be whose runs ended differently: the first of these.
_TELLING = (COMPLETED, OUT_OF_MEMORY, FAILED, IMPOSSIBLE, NOT_RUN)
JUDGED_BY = "ms_per_sample"
"""The metric that tells which combination is the best."""

SAME_WORK = ("mode",)
"""What a sample takes is compared only where these are the same: a forward pass does less."""

# These options' values say by themselves what they are.
_SPEAKING = ("device", "precision", "mode", "backend")


@dataclass(frozen=True)
class Row:
    """What came of one combination.

    Attributes:
        outcomes: how its runs ended, None for those still to be made.
        status: one of `progress.STATUSES`.
        reason: why not all of its runs give a time; None where they do.
        metric: one of `repeats.METRICS`; seconds or milliseconds follow from it.
        value: the time of its completed runs: their mean where `spread` has an
            interval, which is about that; else their median; None without any.
        projected: the time stands for an epoch or a run that had not ended.
        spread: how far its runs agree.
        samples_per_second: the median throughput over its completed runs.
        cost_usd: the median price of a run, None where no price was given.
        usd_per_million: the median price of a million samples in the steady state: runs
            may be of different lengths, so theirs tells nothing of what is cheaper.
    """

    combination: Combination
    outcomes: tuple[Outcome | None, ...]
    status: str
    reason: str | None
    metric: str
    value: float | None
    projected: bool
    spread: Spread | None
    samples_per_second: float | None
    cost_usd: float | None
    usd_per_million: float | None

    @property
    def completed(self) -> int:
        """How many of its runs completed."""
        return sum(1 for o in self.outcomes if o is not None and o.status == COMPLETED)


def rows_of(sweep: Sweep, metric: str | None = None) -> tuple[Row, ...]:
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


def _row(combination: Combination, outcomes: tuple[Outcome | None, ...], metric: str) -> Row:
    ended = [outcome for outcome in outcomes if outcome is not None]
    statuses = {outcome.status for outcome in ended}
    results = [o.result for o in ended if o.status == COMPLETED and o.result is not None]
    times = [time for time in (time_of(metric, result) for result in results) if time is not None]
    rates = [r.samples_per_second.mean for r in results if r.samples_per_second is not None]
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    prices = [price for price in map(_usd_per_million, results) if price is not None]
    spread = spread_of_repeats(times)
    typical = median(times) if times else None
    timing = "run_seconds" if metric == "run_seconds" else "seconds_per_epoch"
    timings = [getattr(r, timing) for r in results] if metric == timing else []
    return Row(
        combination=combination,
        outcomes=outcomes,
        status=next((status for status in _TELLING if status in statuses), NOT_RUN),
        reason=_reason(ended, metric),
        metric=metric,
        value=spread.mean if spread is not None and spread.low is not None else typical,
        projected=any(timing is not None and timing.projected for timing in timings),
        spread=spread,
        samples_per_second=median(rates) if rates else None,
        cost_usd=median(costs) if costs else None,
        usd_per_million=median(prices) if prices else None,
    )


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


def judged_rows(sweep: Sweep) -> tuple[Row, ...]:
    """Return a row for each combination, with the time that the best is found by."""
    return rows_of(sweep, JUDGED_BY)


def like_rows(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows in groups that did the same work: of one workload, and in one mode."""
    groups: dict[tuple[Value | None, ...], list[Row]] = {}
    for row in rows:
        varied = row.combination.varied
        work = (row.combination.workload, *(varied.get(key) for key in SAME_WORK))
        groups.setdefault(work, []).append(row)
    return list(groups.values())


def shared_text(rows: Sequence[Row]) -> str:
    """Name what a group of `like_rows` has in common, as far as that is varied."""
    combination = rows[0].combination
    keys = [key for key in SAME_WORK if key in combination.varied]
    return label(combination, keys) if keys else ""


def best_of(rows: Sequence[Row]) -> Row | None:
    """Return the row of the least time, None where there is none to compare with another.

    Args:
        rows: a group of `like_rows`, as they are judged.
    """
    timed = [(row.value, row) for row in rows if row.value is not None]
    return min(timed, key=lambda pair: pair[0])[1] if len(timed) > 1 else None


def leaders(sweep: Sweep) -> dict[int, Row]:
    """Return the best of the rows that are like each combination's, by its index."""
    found: dict[int, Row] = {}
    for like in like_rows(judged_rows(sweep)):
        best = best_of(like)
        if best is not None:
            found |= {row.combination.index: best for row in like}
    return found


def lead(best: Row, other: Row) -> Speedup | None:
    """Return how many times as fast the best row is as another, None unless it surely is."""
    return faster(best.spread, other.spread)


def of_workload(rows: Sequence[Row], workload: str) -> list[Row]:
    """Return the rows of one workload."""
    return [row for row in rows if row.combination.workload == workload]


def label(combination: Combination, keys: Sequence[str] | None = None) -> str:
    """Name a combination by what is varied in it, or by some of that: `batch 32, cpu`."""
    varied = combination.varied
    told = [value_text(key, varied[key]) for key in (varied if keys is None else keys)]
    return ", ".join(told) or combination.workload


def value_text(key: str, value: Value) -> str:
    """Name one value of an option: `batch 32`, `cpu`, `threads 4`."""
    if key in _SPEAKING:
        return f"{value}"
    return f"{key_text(key)} {value}"


def key_text(key: str) -> str:
    """Name an option as a sentence would."""
    return "batch" if key == "batch_size" else key.replace("_", " ")


def axis_of(variations: Mapping[str, Sequence[Value]]) -> str | None:
    """Return the first option whose values are numbers, and more than one."""
    return next(
        (
            key
            for key, values in variations.items()
            if len(values) > 1 and all(isinstance(value, (int, float)) for value in values)
        ),
        None,
    )


def lead_changes(rows: Sequence[Row], by: str, axis: str | None) -> list[str]:
    """Say which value of one option takes less time, and where along another that changes.

    `cpu up to batch 64, gpu:0 from batch 128`. Where at least three runs of each
    are asked for and can't tell two values apart, neither leads; of fewer, the
    sentence says that it isn't sure. Nothing is said of fewer than two points,
    or where no two values can be compared.

    Args:
        rows: of all combinations, as they are judged.
        by: the option whose values compete, such as device.
        axis: an option whose values are numbers; None for the workloads.
    """
    groups: dict[object, dict[object, list[Row]]] = {}
    for row in rows:
        varied = row.combination.varied
        if row.value is None or by not in varied:
            continue
        workload = None if axis is None else row.combination.workload
        fixed = tuple((k, v) for k, v in varied.items() if k not in (by, axis))
        place: object = row.combination.workload if axis is None else varied[axis]
        groups.setdefault((workload, fixed), {}).setdefault(place, []).append(row)
    told = []
    for (workload, fixed), places in groups.items():  # type: ignore[misc]
        leaders = {place: _leader(rivals, by) for place, rivals in places.items()}
        sentence = _in_words(leaders, axis)
        if sentence:
            if not _are_repeated(rows[0]):
                runs = len(rows[0].outcomes)
                made = "single runs" if runs == 1 else f"{runs} runs of each"
                sentence += f" ({made}; --repeat {LEAST_RUNS} would tell)"
            where = [value_text(key, value) for key, value in fixed]
            if workload is not None and len({row.combination.workload for row in rows}) > 1:
                where.insert(0, workload)
            told.append(f"{', '.join(where)}: {sentence}" if where else sentence)
    return told


def _leader(rivals: Sequence[Row], by: str) -> str | None:
    """Return the value that takes the least time; None where that can't be told."""
    if len(rivals) < 2:
        return None
    first, second = sorted(rivals, key=lambda row: row.value or 0.0)[:2]
    if _are_repeated(first) and lead(first, second) is None:
        return None
    return value_text(by, first.combination.varied[by])


def _are_repeated(row: Row) -> bool:
    """Tell whether the plan has runs enough of each combination for an interval."""
    return len(row.outcomes) >= LEAST_RUNS


def _in_words(leaders: Mapping[object, str | None], axis: str | None) -> str:
    """Say who leads where; empty where fewer than two places have a leader."""
    known = {place: leader for place, leader in leaders.items() if leader is not None}
    if len(known) < 2:
        return ""
    if axis is None:
        by_leader: dict[str, list[str]] = {}
        for place, leader in known.items():
            by_leader.setdefault(leader, []).append(f"{place}")
        told = [f"{leader} on {' and '.join(where)}" for leader, where in by_leader.items()]
        return f"less time: {'; '.join(told)}"
    stretches: list[tuple[str, list[object]]] = []
    for place in sorted(known, key=lambda place: place):  # type: ignore[arg-type, return-value]
        leader = known[place]
        if not stretches or stretches[-1][0] != leader:
            stretches.append((leader, []))
        stretches[-1][1].append(place)
    name = key_text(axis)
    if len(stretches) == 1:
        return f"less time at every {name}: {stretches[0][0]}"
    parts = []
    for index, (leader, where) in enumerate(stretches):
        if index == 0:
            parts.append(f"{leader} up to {name} {where[-1]}")
        elif index == len(stretches) - 1:
            parts.append(f"{leader} from {name} {where[0]}")
        else:
            reach = (
                f"at {name} {where[0]}" if len(where) == 1 else f"from {where[0]} to {where[-1]}"
            )
            parts.append(f"{leader} {reach}")
    return f"less time: {', '.join(parts)}"
