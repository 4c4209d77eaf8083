"""Values at their times in bounded memory: where there get many, neighbours are taken together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest

MOST_POINTS = 2048


@dataclass(frozen=True)
class Point:
    """What was known at a time: of values that were taken together, the mean and the extremes.

    `mean` is None where it was known to be no number: there the line has a gap. A gap is lost
    where it was taken together with numbers: these alone are then what is known.

    Attributes:
        count: how many numbers it holds.
        taken: how many values, with those that are no number.
    """

    t: float
    mean: float | None
    low: float | None
    high: float | None
    count: int = 1
    taken: int = 1


class Points:
    """Values as they come, in the order of their times."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._each = 1

    def __bool__(self) -> bool:
        return any(point.mean is not None for point in self._points)

    def add(self, t: int, value: float | None) -> None:
        """Say that there was a value, or none that is a number, at a time."""
        if value is None or not math.isfinite(value):
            new = Point(t, None, None, None, count=0)
        else:
            new = Point(t, value, value, value)
        last = self._points[-1] if self._points else None
        if last is not None and last.taken < self._each:
            self._points[-1] = _together(last, new)
            return
        self._points.append(new)
        if len(self._points) > 2 * MOST_POINTS:
            self._points = _halved(self._points)
            self._each *= 2

    def at_most(self, most: int) -> tuple[Point, ...]:
        """Return no more than so many points, but one at least where there are any."""
        points = self._points
        while len(points) > max(1, most):
            points = _halved(points)
        return tuple(points)


def _halved(points: list[Point]) -> list[Point]:
    pairs = zip_longest(points[::2], points[1::2])
    return [one if other is None else _together(one, other) for one, other in pairs]


def _together(one: Point, other: Point) -> Point:
    taken = one.taken + other.taken
    t = one.t + (other.t - one.t) * other.taken / taken
    if one.mean is None or one.low is None or one.high is None:
        return replace(other, t=t, taken=taken)
    if other.mean is None or other.low is None or other.high is None:
        return replace(one, t=t, taken=taken)
    count = one.count + other.count
    low, high = min(one.low, other.low), max(one.high, other.high)
    # Not by their difference: two that are as far apart as numbers can be have none.
    mean = one.mean * (one.count / count) + other.mean * (other.count / count)
    return Point(t, min(max(mean, low), high), low, high, count, taken)
