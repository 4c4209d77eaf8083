"""The throughput of a process that runs in turns with another one. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
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


def rate_in_turns(
    steps: Iterable[Step], turns: Sequence[Turn], guard_s: float = 0.02
) -> float | None:
    """Return the samples per second of running time; None if no step ran in that time.

    A step counts by the share of its running time that counts, so that long steps, of which more
    are cut by the end of a turn, count as much as short ones.

    Args:
        steps: its steps, in any order; time between them, as for validation, does not count.
        turns: the times in which it ran, in order; they don't overlap.
        guard_s: the time after the begin of each turn that does not count: caches are cold.
    """
    guard_ns = round(guard_s * 1e9)
    running = _Spans(turns)
    counted = _Spans(
        [Turn(min(turn.begin_ns + guard_ns, turn.end_ns), turn.end_ns) for turn in turns]
    )
    samples, counted_ns = 0.0, 0
    for step in steps:
        begin_ns = step.end_ns - step.took_ns
        of_step_ns = counted.between(begin_ns, step.end_ns)
        if of_step_ns > 0:
            samples += step.samples * of_step_ns / running.between(begin_ns, step.end_ns)
            counted_ns += of_step_ns
    return samples / counted_ns * 1e9 if counted_ns else None


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
