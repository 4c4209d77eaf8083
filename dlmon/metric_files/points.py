"""The metrics of one run as columns of numbers. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import compress, islice, pairwise
from math import fsum, isfinite, nan
from operator import itemgetter, le, lt
from typing import Protocol

from dlmon.records.sanitize import clean
from dlmon.statistics.series import LARGEST, Series

MOST_NAMES = 1000
LONGEST_NAME = 200
MOST_POINTS = 1 << 22
"""Of one metric; beyond it, every second one is dropped."""


class MetricPoints:
    """All values of one metric, in the order of the file."""

    def __init__(self) -> None:
        self.steps, self.walls, self.values = array("d"), array("d"), array("d")

    def add(self, step: float, wall: float, value: float) -> None:
        self.steps.append(step)
        self.walls.append(wall)
        self.values.append(value)

    def thin(self) -> None:
        """Drop every second point."""
        for column in (self.steps, self.walls, self.values):
            del column[::2]


class RunPoints:
    """The metrics of one run, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metrics: dict[str, MetricPoints] = {}
        self.names_left_out = 0
        """The number of values of names beyond `MOST_NAMES`."""
        self.problem: str | None = None
        """Why not all could be read."""
        self.count = 0
        """Grows with each change."""

    def metric(self, name: str) -> MetricPoints | None:
        """Return a metric, a new one if it isn't known; None if there are too many."""
        metric = self.metrics.get(name)
        if metric is None:
            name = clean(name, LONGEST_NAME)
            if name not in self.metrics and len(self.metrics) >= MOST_NAMES:
                self.names_left_out += 1
                return None
            metric = self.metrics.setdefault(name, MetricPoints())
        return metric

    def add(self, name: str, step: float | None, wall: float | None, value: float) -> None:
        """Add a value; without a step, it gets the number of its value."""
        metric = self.metric(name)
        if metric is not None:
            step = float(len(metric.values)) if step is None else step
            metric.add(step, nan if wall is None else wall, value)

    def changed(self) -> None:
        """Note that points were added to metrics, and keep each within its limit."""
        self.count += 1
        for metric in self.metrics.values():
            if len(metric.values) > MOST_POINTS:
                metric.thin()

    def rename(self, name: str) -> None:
        self.name = clean(name, LONGEST_NAME) or self.name


class ReadRun(Protocol):
    """Reads on with each value that is taken; the value is the share read, 1 at the end."""

    def __call__(self, run: RunPoints) -> Iterator[float]: ...


class PointSeries(Series):
    """Single values on an axis; between two of them the line is straight.

    Args:
        xs: where they are, in ascending order; its values are taken as they are now.
        values: the values; those that an axis can't hold are left out.
        origin: the begin of the axis.
        scale: the nanoseconds of the axis that stand for 1.
    """

    def __init__(
        self, xs: array[float], values: array[float], origin: float = 0.0, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.not_numbers = 0
        if values and not (isfinite(sum(values)) and max(max(values), -min(values)) < LARGEST):
            drawn = [-LARGEST < value < LARGEST for value in values]
            self.not_numbers = len(values) - sum(drawn)
            xs, values = (array("d", compress(each, drawn)) for each in (xs, values))
        self._xs, self._values, self._origin, self._scale = xs[:], values[:], origin, scale
        if self._xs:
            self.end_ns = self._ns(self._xs[-1]) + 1
        self._asked: tuple[int, int, int] | None = None
        self._columns: list[float | None] = []

    def _ns(self, x: float) -> int:
        return int((x - self._origin) * self._scale)

    def _x(self, ns: float) -> float:
        return ns / self._scale + self._origin

    @property
    def points(self) -> list[tuple[int, float | None]]:
        return [(self._ns(x), value) for x, value in zip(self._xs, self._values, strict=True)]

    @property
    def newest(self) -> float | None:
        return self._values[-1] if self._values else None

    def mean_between(self, start_ns: int, end_ns: int) -> float | None:
        start = self._x(start_ns)
        return self._mean(bisect_left(self._xs, start), start, self._x(end_ns))[0]

    def _mean(self, after: int, start: float, end: float) -> tuple[float | None, int]:
        """Return the mean between two places, of which `after` is the first; and the next index."""
        behind = bisect_left(self._xs, end, after)
        if behind > after:
            return fsum(self._values[after:behind]) / (behind - after), behind
        if not 0 < after < len(self._xs):
            return None, behind
        (x0, x1), (y0, y1) = self._xs[after - 1 : after + 1], self._values[after - 1 : after + 1]
        middle = min(x1, max(x0, (start + end) / 2))
        return y0 + (middle - x0) / (x1 - x0 or 1) * (y1 - y0), behind

    def columns(self, start_ns: int, column_ns: int, count: int) -> list[float | None]:
        asked = start_ns, column_ns, count
        if asked != self._asked:
            edges = [self._x(start_ns + number * max(1, column_ns)) for number in range(count + 1)]
            at, means = bisect_left(self._xs, edges[0]), list[float | None]()
            for start, end in pairwise(edges):
                mean, at = self._mean(at, start, end)
                means.append(mean)
            self._asked, self._columns = asked, means
        return self._columns


def in_order(xs: array[float], values: array[float], origin: float, scale: float) -> PointSeries:
    """Return the series of values in the order of `xs`; values without a place are left out."""
    if not all(map(le, xs, islice(xs, 1, None))):
        placed = (pair for pair in zip(xs, values, strict=True) if isfinite(pair[0]))
        ordered = sorted(placed, key=itemgetter(0))
        xs, values = (array("d", map(itemgetter(n), ordered)) for n in (0, 1))
    elif xs and not isfinite(xs[0]):
        xs, values = array("d"), array("d")
    return PointSeries(xs, values, origin, scale)


def without_overtaken(steps: array[float], values: array[float], scale: float) -> PointSeries:
    """Return the series on steps; where they go back, after a restart, the later values count."""
    if all(map(lt, steps, islice(steps, 1, None))):
        return PointSeries(steps, values, scale=scale)
    reached, kept = array("d"), array("d")
    for step, value in zip(steps, values, strict=True):
        if not isfinite(step):
            continue
        if reached and step <= reached[-1]:
            at = bisect_left(reached, step)
            del reached[at:], kept[at:]
        reached.append(step)
        kept.append(value)
    return PointSeries(reached, kept, scale=scale)
