"""Long steps that come at a regular distance, such as those with an evaluation in them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dlmon.statistics.histogram import StepHistogram

# The durations of regular long steps differ at most by this factor.
_ALIKE = 2.0
# Long steps in a row that make a period. Chance makes a short period sooner: it takes one more.
_IN_A_ROW, _IN_A_ROW_OF_SHORT = 3, 4
_SHORT_PERIOD = 10
# A step that takes this many times as long as the regular ones before it isn't one of them.
_TOO_LONG = 5.0
_RECENT = 16
_MOST_SERIES = 512
_MOST_OF_WARM_UP = 100


class LongStep(NamedTuple):
    """A step that may be long.

    Attributes:
        number: its number in the session.
        took_us: the time of each of its batches.
        batches: the number of batches that ended together and share their time.
    """

    number: int
    took_us: int
    batches: int

    @property
    def together_us(self) -> int:
        """The time of all of its batches."""
        return self.took_us * self.batches


class RegularSteps(NamedTuple):
    """Long steps that come regularly.

    Attributes:
        every: the distance between two of them, in steps.
        times: their number.
        seconds: their time beyond that of usual steps.
    """

    every: int
    times: int
    seconds: float


@dataclass(eq=False)
class RegularGaps:
    """The long steps of a loop that are equally far apart, found as steps are added in order.

    The beginning of a loop or an epoch counts as a long step: an evaluation every 100 steps comes
    100 steps after it for the first time.
    """

    histogram: StepHistogram = field(default_factory=StepHistogram)
    """The durations of regular long steps."""
    of_warm_up: StepHistogram = field(default_factory=StepHistogram)
    """The durations of those of the warm-up, which is no part of the steady state."""
    summarised: int = 0
    """The number of regular long steps in summaries, which lack the times of single batches."""
    summarised_us: int = 0
    """The time of these beyond that of usual steps."""
    _begin: int = 0
    _recent: list[LongStep] = field(default_factory=list)
    """The newest long steps that are in no series."""
    _series: list[tuple[int, int, int]] = field(default_factory=list)
    """The series: number of the first step, distance between steps, number of the last step."""
    _kept_of_warm_up: list[tuple[LongStep, int]] = field(default_factory=list)
    """The longest steps of the warm-up in no series, and the steps before each in its epoch."""
    _residue: int = 0
    _mean_us: float = 0.0

    @property
    def every(self) -> int | None:
        """The distance between the newest regular steps; None before there are any."""
        return self._series[-1][1] if self._series else None

    def period_at(self, number: int) -> int | None:
        """Return the distance between the steps of a step's series; None if it is in none."""
        at = bisect_right(self._series, (number, 2**63, 0)) - 1
        if at < 0:
            return None
        first, every, last = self._series[at]
        return every if number <= last and (number - first) % every == 0 else None

    def begin_at(self, number: int) -> None:
        """Set the number of the step with which a loop, or an epoch, begins."""
        self._begin = number

    def keep_of_warm_up(self, step: LongStep) -> None:
        """Keep a long step of the warm-up, which is regular if a later series fits it.

        It can't begin a series: steps of the warm-up are long at many distances.
        """
        self._kept_of_warm_up.append((step, step.number - self._begin))
        if len(self._kept_of_warm_up) >= 2 * _MOST_OF_WARM_UP:
            by_time = sorted(self._kept_of_warm_up, key=lambda entry: entry[0].took_us)
            self._kept_of_warm_up = sorted(by_time[-_MOST_OF_WARM_UP:])

    def add(self, step: LongStep) -> None:
        """Add a long step."""
        if self.is_expected(step.number, step.together_us):
            self._add_regular(step)
            return
        least_us, most_us = step.took_us / _ALIKE, step.took_us * _ALIKE
        alike = [
            number
            for number, took_us, _ in self._recent
            if least_us <= took_us <= most_us and number > self._begin
        ]
        self._recent = [*self._recent, step][-_RECENT:]
        numbers = [self._begin, *alike, step.number]
        every = numbers[-1] - numbers[-2]
        least = _IN_A_ROW if every >= _SHORT_PERIOD else _IN_A_ROW_OF_SHORT
        in_a_row = numbers[-least:]
        if every < 2 or len(in_a_row) < least:
            return
        if any(after - before != every for before, after in pairwise(in_a_row)):
            return
        regular = [long for long in self._recent if long.number in in_a_row]
        self._recent = [long for long in self._recent if long not in regular]
        first = regular[0].number
        self._series = [*self._series, (first, every, first)][-_MOST_SERIES:]
        self._mean_us = 0.0
        for long in regular:
            self._add_regular(long)
        self._add_of_warm_up(every)

    def _add_of_warm_up(self, every: int) -> None:
        """Add the steps of the warm-up that fit the newest series."""
        remaining, most_us = [], _TOO_LONG * self._mean_us
        least_us = self._mean_us / _TOO_LONG
        for step, place in self._kept_of_warm_up:
            fits = place and place % every == self._residue
            if fits and least_us <= step.together_us <= most_us:
                self._series.append((step.number, every, step.number))
                self.of_warm_up.add(Counter({step.took_us: step.batches}))
            else:
                remaining.append((step, place))
        self._kept_of_warm_up = remaining
        self._series.sort()

    def add_summary(self, first: int, count: int, stalls: int, stalled_us: int) -> None:
        """Add summarised batches, and count how many of the long ones were regular.

        Args:
            first: the number of the first batch.
            count: the number of batches.
            stalls: the number of long ones among them.
            stalled_us: the time of the long ones beyond that of usual steps.
        """
        if not self._series or not stalls:
            return
        begin, every, last = self._series[-1]
        expected = (first + count - 1 - last) // every
        if first > last and 0 < expected <= stalls:
            self._series[-1] = begin, every, last + expected * every
            self.summarised += expected
            self.summarised_us += stalled_us * expected // stalls

    def is_expected(self, number: int, took_us: int) -> bool:
        """Return whether a step of this duration is the next regular one."""
        if not self._series or took_us > _TOO_LONG * self._mean_us:
            return False
        _, every, last = self._series[-1]
        if last >= self._begin:
            return number - last == every
        return (number - self._begin) % every == self._residue

    def _add_regular(self, step: LongStep) -> None:
        number = step.number
        first, every, last = self._series[-1]
        if last < self._begin <= number:
            # The series goes on in another epoch.
            self._series = [*self._series, (number, every, number)][-_MOST_SERIES:]
        else:
            self._series[-1] = first, every, number
        self._residue = (number - self._begin) % every
        beyond_us = step.together_us - self._mean_us
        self._mean_us += beyond_us / 8 if self._mean_us else beyond_us
        self.histogram.add(Counter({step.took_us: step.batches}))
