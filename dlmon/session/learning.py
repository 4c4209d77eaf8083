"""What training says of itself over time: each metric, and what it is in validation. Pure."""

from __future__ import annotations

import math
from collections import deque

from dlmon.records import Epoch, Record
from dlmon.session.metric_readings import MetricReadings, Pass
from dlmon.statistics.series import LARGEST, SMALLEST, Series

LOSS = "loss"
LEAST_CHANGE = 1e-3
"""A part of a value: a change that is less is none to speak of."""
# Metrics are foreign: a forged log may hold any number of them.
MOST_METRICS = 16
MOST_VALIDATIONS = 2000

_OF_THE_OPTIMIZER = ("learning_rate", "grad_norm")


def importance(name: str) -> tuple[bool, bool, bool]:
    """Put the loss first, then other losses, other metrics, and at last those of the optimizer."""
    return name != LOSS, name in _OF_THE_OPTIMIZER, not name.lower().endswith(LOSS)


def drawable(value: float | None) -> float | None:
    """Return a value that an axis can hold; what is too large is drawn as what is no number."""
    if value is None or not abs(value) < LARGEST:
        return None
    return value if abs(value) > SMALLEST else 0.0


class Metric:
    """One metric: its values while it trains, and in each validation."""

    def __init__(self) -> None:
        self.series = Series()
        self.validations = deque[tuple[int, float | None]](maxlen=MOST_VALIDATIONS)
        """When each validation ended, and what it came to; None where that is no number."""
        self.newest: float | None = None
        self.why = ""
        """Why the newest is None: NaN or infinite; empty where none was read."""
        self.last_ns = 0
        """When the newest was read."""
        self.readings = 0
        """How many values the curve is drawn of."""
        self.newest_validation: float | None = None
        self.why_validation = ""

    @property
    def is_known(self) -> bool:
        return bool(self.newest is not None or self.why or self.validations)

    @property
    def trend(self) -> int:
        """For how many validations in a row it rose; less than 0 where it fell as often.

        What differs by less than `LEAST_CHANGE` is noise, and ends it.
        """
        count = 0
        values = [value for _, value in self.validations]
        for before, after in zip(reversed(values[:-1]), reversed(values[1:]), strict=True):
            if before is None or after is None or math.isclose(before, after, rel_tol=LEAST_CHANGE):
                break
            step = 1 if after > before else -1
            if count * step < 0:
                break
            count += step
        return count

    def add(self, since_ns: int, t: int, value: float | None, why: str) -> None:
        """Take a value that was read at a time; until then it was unknown."""
        if t <= self.last_ns:
            return
        drawn = drawable(value)
        if drawn is not None:
            self.series.add(max(since_ns, self.last_ns), t, drawn)
            self.readings += 1
        self.newest, self.why, self.last_ns = value, why, t

    def add_validation(self, t: int, value: float | None, why: str) -> None:
        if self.validations and t <= self.validations[-1][0]:
            return
        self.validations.append((t, value))
        self.newest_validation, self.why_validation = value, why


class Learning:
    """Folds what training says of itself; what is drawn of it is bounded in memory."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        """By what they are of: accuracy and val_accuracy are one."""
        self._readings = MetricReadings()

    def metric(self, name: str) -> Metric | None:
        """Return a metric, a new one where it is not known; None where there are too many."""
        if name not in self.metrics and len(self.metrics) < MOST_METRICS:
            self.metrics[name] = Metric()
        return self.metrics.get(name)

    @property
    def names(self) -> list[str]:
        """The metrics that have a value: the loss, other losses, then the others as they came."""
        known = [name for name, metric in self.metrics.items() if metric.is_known]
        return sorted(known, key=importance)

    def fold(self, record: Record, since_ns: int = 0) -> None:
        """Take a record of the process that is shown in full; it trains since a time."""
        for one in self._readings.fold(record):
            metric = self.metric(one.metric)
            if metric is None or one.of is Pass.EVALUATION:
                continue
            if one.of is Pass.VALIDATION:
                metric.add_validation(one.t, one.value, one.why)
            else:
                begin_ns = record.begin if isinstance(record, Epoch) else since_ns
                metric.add(begin_ns, one.t, one.value, one.why)
