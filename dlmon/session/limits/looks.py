"""What the rules say of a run every few seconds of its own clock. Pure.

All who follow a session look at it at the same moments, whenever each of them began, so they see
the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from dlmon.records import Machine
from dlmon.session.limits.evidence import MIN_SAMPLES
from dlmon.session.limits.find import Look, window_s

_IN_A_WINDOW = 6
"""So often a run is looked at in the time of which the samples are taken together."""
_LOOKS = 12
"""So many looks say what limits a run."""
_SETTLED_NS = 2_000_000_000
"""What a batch says may be written so much later than the sample of that time."""
_MAX_SAMPLES = 2000


def looked_back_s(interval_s: float) -> float:
    """Return how long before a moment lies all that says what limits a run then."""
    window = window_s(interval_s)
    return window + (_LOOKS + 1) * window / _IN_A_WINDOW + _SETTLED_NS / 1e9


class Looks:
    """Keeps the newest samples, and what was seen of them.

    Args:
        start_ns: when the session began, on its own clock.
        interval_s: how far apart samples are taken.
    """

    def __init__(self, start_ns: int, interval_s: float) -> None:
        self._start_ns = start_ns
        self._window_ns = int(window_s(interval_s) * 1e9)
        self._every_ns = self._window_ns // _IN_A_WINDOW
        self._kept_ns = int(looked_back_s(interval_s) * 1e9)
        self._samples: deque[Machine] = deque(maxlen=_MAX_SAMPLES)
        self._seen: dict[int, Look | None] = {}
        self._known: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the samples: who goes on from an index reads them again."""
        return vars(self) | {"_samples": deque(maxlen=_MAX_SAMPLES), "_seen": {}, "_known": None}

    def add(self, sample: Machine) -> None:
        self._samples.append(sample)
        while self._samples[0].t < sample.t - self._kept_ns:
            self._samples.popleft()

    @property
    def newest(self) -> tuple[Machine, ...]:
        return self._before(self._samples[-1].t) if self._samples else ()

    @property
    def are_enough(self) -> bool:
        """Whether there are samples enough to say anything."""
        return len(self._samples) >= MIN_SAMPLES

    def take(
        self, known: Any, look: Callable[[tuple[Machine, ...], int], Look]
    ) -> tuple[Look, ...]:
        """Return what is seen of the run, the oldest first; none where samples are too few.

        Args:
            known: all else that what is seen depends on: where it changes, all is seen anew.
            look: says what is seen of samples that end at a moment.
        """
        if not self.are_enough:
            return ()
        if known != self._known:
            self._known, self._seen = known, {}
        newest_ns = self._samples[-1].t
        last = (newest_ns - _SETTLED_NS - self._start_ns) // self._every_ns
        seen = {}
        for number in range(last - _LOOKS + 1, last + 1):
            if number not in self._seen:
                at_ns = self._start_ns + number * self._every_ns
                samples = self._before(at_ns)
                few = len(samples) < MIN_SAMPLES
                self._seen[number] = None if few else look(samples, at_ns)
            seen[number] = self._seen[number]
        self._seen = seen
        looks = tuple(one for one in seen.values() if one is not None)
        if looks:
            return looks
        # At first there is no such moment yet: what the first samples say stands until then.
        first = tuple(islice(self._samples, MIN_SAMPLES))
        return (look(first, first[-1].t + _SETTLED_NS),)

    def _before(self, at_ns: int) -> tuple[Machine, ...]:
        first_ns = at_ns - self._window_ns
        return tuple(sample for sample in self._samples if first_ns <= sample.t <= at_ns)
