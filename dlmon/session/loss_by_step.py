"""Add up the training loss of a session over its steps, to compare the same steps of two runs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from dlmon.records import Batches, BatchSummary, Record, Trainer
from dlmon.session.learning import LOSS, MEANS_OF_EPOCHS, MetricReading, MetricReadings, Pass

LossSums = Sequence[tuple[int, float]]
"""Numbers of steps, and the sum of the loss over the steps until then; NaN once a loss is."""


class LossBySteps:
    """Adds up the loss of the process that trains first, from the records of its session."""

    def __init__(self) -> None:
        self._readings = MetricReadings()
        self._losses: list[MetricReading] = []
        self._ends: list[int] = []
        self._process: int | None = None
        self._reads_means_of_epochs = False

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, (Batches, BatchSummary)):
                self._add_steps(record)
            elif isinstance(record, Trainer) and record.framework in MEANS_OF_EPOCHS:
                self._reads_means_of_epochs = True
            self._losses += (
                reading
                for reading in self._readings.add(record)
                if (reading.metric, reading.of) == (LOSS, Pass.TRAINING)
                if reading.trainer == (self._process or 0)
            )

    def _add_steps(self, record: Batches | BatchSummary) -> None:
        number = record.trainer or 0
        self._process = number if self._process is None else self._process
        if number != self._process:
            return
        if isinstance(record, BatchSummary):
            self._ends += [record.t_last] * record.count
        else:
            later_us = accumulate(record.dt_us[1:], initial=0)
            self._ends += (record.t + 1000 * after_us for after_us in later_us)

    def sums(self) -> LossSums:
        """Return the sums at each reading of the loss, in order."""
        sums: list[tuple[int, float]] = []
        ends = sorted(self._ends)
        steps, total, since, epoch = 0, 0.0, (0, 0.0), None
        for reading in self._losses:
            value = math.nan if reading.value is None else reading.value
            if not self._reads_means_of_epochs or reading.epoch != epoch:
                since, epoch = (steps, total), reading.epoch
            steps = bisect_right(ends, reading.t)
            total = since[1] + value * (steps - since[0])
            sums.append((steps, total))
        return sums


def mean_loss(sums: LossSums, steps: int) -> float:
    """Return the mean loss of the first steps, which are at most those that were added up."""
    after = next(number for number, (until, _) in enumerate(sums) if until >= steps)
    (begin, before), (end, total) = ((0, 0.0), *sums)[after : after + 2]
    share = (steps - begin) / (end - begin) if end > begin else 1.0
    return (before + share * (total - before)) / steps
