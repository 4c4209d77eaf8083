"""Fold what the parts of a step took. Pure."""

from __future__ import annotations

from collections import deque
from functools import reduce
from typing import Any

from dlmon.records import StepParts
from dlmon.records.training import STEP_PARTS
from dlmon.session.limits.find import WINDOW_S

# A record a second; a forged log may hold any number of them.
_MOST_RECENT = 4096


class StepPartSums:
    """Adds up the parts of the steps that were measured.

    Args:
        kept_s: for how long before the newest `before` is to know them.
    """

    def __init__(self, kept_s: float = WINDOW_S) -> None:
        self._kept_ns = int(kept_s * 1e9)
        self.total: StepParts | None = None
        """Of all steps; None where none was measured."""
        self.why: str | None = None
        """Why none could be."""
        self._recent = deque[StepParts](maxlen=_MOST_RECENT)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the newest: who goes on from an index reads them again."""
        return vars(self) | {"_recent": deque(maxlen=_MOST_RECENT)}

    def fold(self, record: StepParts) -> None:
        self.why = next(iter(record.why.values()), None)
        parts = [getattr(record, name) or 0 for name in STEP_PARTS]
        if record.steps < 1 or record.step_us < 1 or min(*parts, record.rest_us) < 0:
            return
        self.total = record if self.total is None else self.total.plus(record)
        self._recent.append(record)
        while self._recent[0].t < record.t - self._kept_ns:
            self._recent.popleft()

    def before(self, at_ns: int) -> StepParts | None:
        """Return the sums of the half minute before a moment; None where none was measured."""
        first_ns = at_ns - int(WINDOW_S * 1e9)
        recent = [record for record in self._recent if first_ns <= record.t <= at_ns]
        return reduce(StepParts.plus, recent) if recent else None
