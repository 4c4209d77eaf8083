"""Sample the lines of the script's own code in training steps.

Steps are mostly the script's own code if a script sleeps, logs or computes between the calls of its
loader, network and optimizer. Then a few samples a second tell the line.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import sys
from collections import Counter

from dlmon.instrument.stacks import MOST_PLACES, Line, ends_of, lines_within
from dlmon.records import CodeSamples, Frame, SeenAt

REPORT_NS = 2_000_000_000
# Parts of a step that are measured: a stack within one of them is not the script's own code.
_MEASURED_PARTS = ("/torch/nn/modules/", "/torch/autograd/", "/torch/optim/", "/torch/utils/data/")


class OwnCodeSampler:
    """Counts the lines at which the training thread runs the script's own code."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Line, Line]] = Counter()
        self._samples = self._report_ns = 0

    def take(self, thread: int, now: int) -> list[CodeSamples]:
        """Sample a thread's stack; return a report if one is due, else nothing.

        Args:
            thread: the ident of the training thread.
            now: CLOCK_MONOTONIC in nanoseconds.
        """
        self._samples += 1
        lines = list(lines_within(sys._current_frames().get(thread)))
        inner, script = ends_of(lines)
        is_measured = any(part in file for file, _, _ in lines for part in _MEASURED_PARTS)
        if inner is not None and script is not None and not is_measured:
            self._counts[inner, script] += 1
        if now < self._report_ns:
            return []
        places = tuple(
            SeenAt(count, Frame(*inner), Frame(*script))
            for (inner, script), count in self._counts.most_common(MOST_PLACES)
        )
        report = CodeSamples(now, self._samples, places)
        self._counts, self._samples, self._report_ns = Counter(), 0, now + REPORT_NS
        return [report]
