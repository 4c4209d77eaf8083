"""Which long steps of a loop come every so many steps, as with an evaluation in them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dlmon.statistics.histogram import StepHistogram

# Long steps that come regularly take about as long, within this factor.
_ALIKE = 2.0
# How many in a row make a period: a short one takes more, as chance makes it sooner.
_IN_A_ROW, _IN_A_ROW_OF_SHORT = 3, 4
_SHORT_PERIOD = 10
# A step that takes this many times as long as those before it does not come regularly.
_TOO_LONG = 5.0
_RECENT = 16
_MOST_SERIES = 512


class RegularSteps(NamedTuple):
    """Long steps that come regularly.

    Attributes:
        every: how many steps apart they are.
        times: how many there were.
        seconds: how long they took beyond usual steps.
    """

    every: int
    times: int
    seconds: float


@dataclass(eq=False)
class RegularGaps:
    """Folds the long steps of a loop in order, and finds those that are equally far apart.

    The beginning of a loop, or of an epoch, counts as one: what comes every 100 steps comes 100
    steps after it for the first time.
    """

    histogram: StepHistogram = field(default_factory=StepHistogram)
    """How long those steps took."""
    summarised: int = 0
    """How many there were among batches whose single times are not known."""
    summarised_us: int = 0
    """What these took beyond usual ones."""
    _begin: int = 0
    _recent: list[tuple[int, int, int]] = field(default_factory=list)
    """The newest long steps that are in no series: number, duration, batches that share it."""
    _series: list[tuple[int, int, int]] = field(default_factory=list)
    """Each series: the number of its first step, how far apart they are, that of its last."""
    _residue: int = 0
    _mean_us: float = 0.0

    @property
    def every(self) -> int | None:
        """How many steps apart the newest ones are; None before there are any."""
        return self._series[-1][1] if self._series else None

    def period_at(self, number: int) -> int | None:
        """Return how many steps apart the series is that a step belongs to; None for no series."""
        at = bisect_right(self._series, (number, 2**63, 0)) - 1
        if at < 0:
            return None
        first, every, last = self._series[at]
        return every if number <= last and (number - first) % every == 0 else None

    def begin_at(self, number: int) -> None:
        """Take the number of the step with which a loop, or an epoch, begins."""
        self._begin = number

    def add(self, number: int, took_us: int, batches: int = 1) -> None:
        """Take a long step.

        Args:
            number: of the step among all of the session.
            took_us: how long each of its batches took.
            batches: how many of them ended together, and share their time.
        """
        if self.is_expected(number, took_us * batches):
            self._take(number, took_us, batches)
            return
        alike = [
            step
            for step in self._recent
            if took_us / _ALIKE <= step[1] <= took_us * _ALIKE and step[0] >= self._begin
        ]
        self._recent = [*self._recent, (number, took_us, batches)][-_RECENT:]
        places = [self._begin, *(step[0] for step in alike if step[0] != self._begin), number]
        every = places[-1] - places[-2]
        least = _IN_A_ROW if every >= _SHORT_PERIOD else _IN_A_ROW_OF_SHORT
        in_a_row = places[-least:]
        if every < 2 or len(in_a_row) < least:
            return
        if any(after - before != every for before, after in pairwise(in_a_row)):
            return
        found = [step for step in self._recent if step[0] in in_a_row]
        self._recent = [step for step in self._recent if step not in found]
        first = found[0][0]
        self._series = [*self._series, (first, every, first)][-_MOST_SERIES:]
        self._mean_us = 0.0
        for step in found:
            self._take(*step)

    def add_summary(self, first: int, count: int, stalls: int, stalled_us: int) -> int:
        """Take batches of which it is only known how many were long; return how many were regular.

        Args:
            first: the number of the first of them.
            count: how many there are.
            stalls: how many were long.
            stalled_us: what those took beyond usual ones.
        """
        if not self._series or not stalls:
            return 0
        begin, every, last = self._series[-1]
        expected = (first + count - 1 - last) // every
        if first <= last or not 0 < expected <= stalls:
            return 0
        self._series[-1] = begin, every, last + expected * every
        self.summarised += expected
        self.summarised_us += stalled_us * expected // stalls
        return expected

    def is_expected(self, number: int, took_us: int) -> bool:
        """Return whether a step that took so long is the next of those that come regularly."""
        if not self._series or took_us > _TOO_LONG * self._mean_us:
            return False
        _, every, last = self._series[-1]
        if last >= self._begin:
            return number - last == every
        return (number - self._begin) % every == self._residue

    def _take(self, number: int, took_us: int, batches: int) -> None:
        first, every, last = self._series[-1]
        if last < self._begin <= number:
            # It goes on in another epoch.
            self._series = [*self._series, (number, every, number)][-_MOST_SERIES:]
        else:
            self._series[-1] = first, every, number
        self._residue = (number - self._begin) % every
        together_us = took_us * batches
        self._mean_us += (together_us - self._mean_us) / 8 if self._mean_us else together_us
        self.histogram.add(Counter({took_us: batches}))
