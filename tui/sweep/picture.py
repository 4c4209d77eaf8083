"""Turn what a sweep found into a picture: points along what is varied, or bars. Pure.

It shows the time of a sample, by which the best is found, and which any two
workloads can be put beside each other by.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dlmon.figures.combinations import label
from dlmon.figures.sweeps import beside_its_host, heading_of, time_text
from dlmon.figures.value_axis import bar_fractions
from dlmon.options.run import option_name
from dlmon.records import RunStatus
from dlmon.sweep.plan import Plan
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import (
    CombinationRow,
    axis_of,
    best_rows,
    of_workload,
    ranking_rows,
)
from tui.sweep.plot import Bar, Point, PointSeries, is_doubling


@dataclass(frozen=True)
class SweepPicture:
    """What the chart of a sweep shows: series along an axis, or else bars.

    `title` names the quantity, `note` the scale where it is not the usual one.
    """

    title: str
    note: str = ""
    series: tuple[PointSeries, ...] = ()
    bars: tuple[Bar, ...] = ()


def picture_of(sweep: Sweep, workload: str) -> SweepPicture:
    """Return the picture of one workload's combinations; of all workloads where nothing varies."""
    plan, rows = sweep.plan, ranking_rows(sweep)
    best = {row.combination.index for row in best_rows(sweep).values()}
    if not plan.variations:
        return _bars(rows, best)
    rows = tuple(of_workload(rows, workload))
    axis = axis_of(plan.variations)
    possible = [row for row in rows if row.status != RunStatus.IMPOSSIBLE]
    if axis is None or not possible:
        return _bars(rows, best)
    return _points(plan, possible, axis)


def _points(plan: Plan, rows: Sequence[CombinationRow], axis: str) -> SweepPicture:
    others = [key for key in plan.varied if key != axis]
    series: dict[str, list[Point]] = {}
    for row in rows:
        value = row.combination.varied[axis]
        point = Point(
            x=float(value),
            label=f"{value}",
            y=row.value,
            low=row.low,
            high=row.high,
            out_of_memory=row.status == RunStatus.OUT_OF_MEMORY,
        )
        series.setdefault(label(row.combination, others) if others else "", []).append(point)
    by_axis = (
        PointSeries(name, tuple(sorted(points, key=lambda point: point.x)))
        for name, points in series.items()
    )
    doubling = is_doubling([float(row.combination.varied[axis]) for row in rows])
    name = option_name(axis)
    notes = [f"{name}, logarithmic" if doubling else name]
    if any(row.status == RunStatus.OUT_OF_MEMORY for row in rows):
        notes.append("✗ memory ran out")
    return SweepPicture(
        title=f"{heading_of(rows[0].metric)} against {name}",
        note="  ".join(notes),
        series=tuple(by_axis),
    )


def _bars(rows: Sequence[CombinationRow], best: Collection[int]) -> SweepPicture:
    bars = []
    for row in rows:
        text = beside_its_host(row.combination, row.reason) if row.reason else str(row.status)
        if row.value is not None:
            text = time_text(row)
        bars.append(Bar(label(row.combination), row.value, text, row.combination.index in best))
    values = [row.value for row in rows if row.value is not None]
    is_logarithmic = any(
        abs(fraction * max(values) - value) > 1e-9 * max(values)
        for value, fraction in zip(values, bar_fractions(values), strict=True)
    )
    return SweepPicture(
        title=heading_of(rows[0].metric),
        note="logarithmic scale" if is_logarithmic else "",
        bars=tuple(bars),
    )
