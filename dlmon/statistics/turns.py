"""The throughput of a process that runs in turns with another one. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from statistics import stdev
from typing import NamedTuple


class Step(NamedTuple):
    """A step, on any clock; it may span the end of a turn."""

    end_ns: int
    took_ns: int
    samples: float


class Turn(NamedTuple):
    """A time in which the process ran, on the clock of the steps."""

    begin_ns: int
    end_ns: int


class TurnSum(NamedTuple):
    """What counts of a turn."""

    samples: float
    counted_ns: int

    @property
    def rate(self) -> float | None:
        """The samples per second; None if no step ran in that time."""
        return self.samples / self.counted_ns * 1e9 if self.counted_ns else None


def turn_sums(
    steps: Iterable[Step], turns: Sequence[Turn], guard_s: float = 0.02
) -> tuple[TurnSum, ...]:
    """Return the samples and the running time of each turn.

    A step counts by the share of its running time that counts, so that long steps, of which more
    are cut by the end of a turn, count as much as short ones.

    Args:
        steps: its steps, in any order; time between them, as for validation, does not count.
        turns: the times in which it ran, in order; they don't overlap.
        guard_s: the time after the begin of each turn that does not count: caches are cold.
    """
    guard_ns = round(guard_s * 1e9)
    running, begins = _Spans(turns), [turn.begin_ns for turn in turns]
    samples, counted_ns = [0.0] * len(turns), [0] * len(turns)
    for step in steps:
        begin_ns = step.end_ns - step.took_ns
        first = max(0, bisect_right(begins, begin_ns) - 1)
        for number in range(first, bisect_right(begins, step.end_ns)):
            since_ns = max(begins[number] + guard_ns, begin_ns)
            of_step_ns = min(turns[number].end_ns, step.end_ns) - since_ns
            if of_step_ns > 0:
                share = of_step_ns / running.between(begin_ns, step.end_ns)
                samples[number] += share * step.samples
                counted_ns[number] += of_step_ns
    return tuple(map(TurnSum, samples, counted_ns))


def sum_of_turns(sums: Iterable[TurnSum]) -> TurnSum:
    """Return what counts of all turns together."""
    turns = list(sums)
    samples = math.fsum(turn.samples for turn in turns)
    return TurnSum(samples, sum(turn.counted_ns for turn in turns))


def log_ratio_error(one: Sequence[TurnSum], other: Sequence[TurnSum]) -> float | None:
    """Return the standard error of the logarithm of a ratio of rates; None with few turns.

    The turns of `one` and `other` follow each other, so that each two of them had the same machine.
    """
    rates = [(a.rate, b.rate) for a, b in zip(one, other)]  # noqa: B905 - one may have a turn more
    logs = [math.log(a / b) for a, b in rates if a and b]
    return stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None


class _Spans:
    """Spans of time in order."""

    def __init__(self, spans: Sequence[Turn]) -> None:
        self._spans = spans
        self._begins = [span.begin_ns for span in spans]
        self._before_ns = [0, *accumulate(span.end_ns - span.begin_ns for span in spans)]

    def between(self, begin_ns: int, end_ns: int) -> int:
        """Return how much of a time lies within the spans."""
        return self._until(end_ns) - self._until(begin_ns)

    def _until(self, t: int) -> int:
        number = bisect_right(self._begins, t) - 1
        if number < 0:
            return 0
        begin_ns, end_ns = self._spans[number]
        return self._before_ns[number] + min(t, end_ns) - begin_ns
