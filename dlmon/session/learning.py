"""The metrics that a training reports over time. Pure."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from dlmon.comparison.compared_run import lower_is_better
from dlmon.records import Batches, BatchSummary, Epoch, Evaluation, Metrics, Record, Trainer
from dlmon.records.record import record
from dlmon.statistics.series import LARGEST, SMALLEST, Series

LOSS = "loss"
MEANS_OF_EPOCHS = ("keras", "tf_keras")
"""The frameworks that report a metric during training as its mean since the epoch began."""
LEAST_CHANGE = 1e-3
"""The smallest relative change that isn't noise."""
# A forged log may hold any number of metrics.
MOST_METRICS = 16
MOST_VALIDATIONS = 2000


def importance(name: str) -> tuple[bool, bool, bool]:
    """Return a sort key: the loss, other losses, other metrics, then those of the optimizer."""
    of_optimizer = name in ("learning_rate", "grad_norm")
    return name != LOSS, of_optimizer, not name.lower().endswith(LOSS)


def drawable(value: float | None) -> float | None:
    """Return a value that an axis can hold; None for one that is too large, as for NaN."""
    if value is None or not abs(value) < LARGEST:
        return None
    return value if abs(value) > SMALLEST else 0.0


class Metric:
    """The values of one metric in training and in each validation."""

    not_numbers = 0
    """The number of training values that are NaN or infinite, which are gaps."""

    def __init__(self) -> None:
        self.series = Series()
        self.validations = deque[tuple[int, float | None]](maxlen=MOST_VALIDATIONS)
        """The end of each validation and its value; None for NaN or infinite."""
        self.newest: float | None = None
        self.why = ""
        """The reason if the newest is None: NaN or infinite; empty if none was read."""
        self.last_ns = 0
        """The time of the newest value."""
        self.readings = 0
        """The number of values in the curve."""
        self.newest_validation: float | None = None
        self.why_validation = ""

    @property
    def is_known(self) -> bool:
        return bool(self.newest is not None or self.why or self.validations)

    @property
    def trend(self) -> int:
        """The number of validations in a row in which it rose, or fell as a negative number.

        A change of less than `LEAST_CHANGE` is noise, and ends the row.
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
        """Add the value that was read at `t`; the curve holds it from `since_ns` on."""
        if t <= self.last_ns:
            return
        drawn = drawable(value)
        if drawn is not None:
            self.series.add(max(since_ns, self.last_ns), t, drawn)
            self.readings += 1
        self.not_numbers += bool(why)
        self.newest, self.why, self.last_ns = value, why, t

    def add_validation(self, t: int, value: float | None, why: str) -> None:
        if self.validations and t <= self.validations[-1][0]:
            return
        self.validations.append((t, value))
        self.newest_validation, self.why_validation = value, why


class Learning:
    """All metrics of a training, in bounded memory."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        """By base name: accuracy and val_accuracy are one."""
        self._readings = MetricReadings()

    def metric(self, name: str) -> Metric | None:
        """Return a metric, a new one if it isn't known; None if there are too many."""
        if name not in self.metrics and len(self.metrics) < MOST_METRICS:
            self.metrics[name] = Metric()
        return self.metrics.get(name)

    @property
    def names(self) -> list[str]:
        """The metrics that have a value: the loss, other losses, then the others as they came."""
        names = [name for name, metric in self.metrics.items() if metric.is_known]
        return sorted(names, key=importance)

    def add(self, record: Record, since_ns: int = 0) -> None:
        """Add a record of the process that is shown in full, which trains since `since_ns`."""
        for reading in self._readings.add(record):
            metric = self.metric(reading.metric)
            if metric is None or reading.of is Pass.EVALUATION:
                continue
            if reading.of is Pass.VALIDATION:
                metric.add_validation(reading.t, reading.value, reading.why)
            else:
                begin_ns = record.begin if isinstance(record, Epoch) else since_ns
                metric.add(begin_ns, reading.t, reading.value, reading.why)
        if isinstance(record, Epoch):
            for name, mean in record.metrics.items():
                metric = self.metrics.get(name)
                # The curve has the values of its steps; later ones are of the next epoch.
                if metric and mean is not None and not metric.why and metric.last_ns <= record.end:
                    metric.newest = mean


_VALIDATION = re.compile(
    r"(?:val|valid|validation|eval|dev)[_/.](.+)|(.+)/(?:val|valid|validation|eval|dev)",
    re.IGNORECASE,
)
_TRAINING = re.compile(r"(?:train|training)[_/.](.+)|(.+)/(?:train|training)", re.IGNORECASE)
_TEST = re.compile(r"^test[_/.](?=.)", re.IGNORECASE)


@lru_cache
def metric_of(name: str) -> tuple[str, bool]:
    """Return the base name of a metric, and whether it is of a validation."""
    validation = _VALIDATION.fullmatch(name)
    if validation is not None:
        return validation[1] or validation[2], True
    training = _TRAINING.fullmatch(name)
    return (name if training is None else training[1] or training[2]), False


class Pass(str, Enum):
    """The pass that a metric is of."""

    TRAINING = "training"
    VALIDATION = "validation"
    EVALUATION = "evaluation"


@record(frozen=True)
class MetricReading:
    """One value of one metric.

    Attributes:
        t: its time; for a validation the end of it.
        metric: the base name: accuracy and val_accuracy are one.
        of: the pass that it is of.
        value: None for NaN or infinite.
        why: which of the two.
        epoch: its epoch, from 0; None for an evaluation after the training.
        trainer: the number of the process that reported it.
    """

    t: int
    metric: str
    of: Pass
    value: float | None
    why: str = ""
    epoch: int | None = None
    trainer: int = 0


@dataclass
class _Process:
    """The epochs that one process reported so far."""

    epoch: int = 0
    last_ended: Epoch | None = None
    reads_means_of_epochs: bool = True


class MetricReadings:
    """Finds the metric values in the records of a session, each once."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._newest_t: dict[tuple[int, str, Pass], int] = {}

    def add(self, record: Record) -> Iterator[MetricReading]:
        """Yield the new values in a record."""
        if isinstance(record, (Batches, BatchSummary)):
            self._process(record.trainer).epoch = record.epoch
        elif isinstance(record, Trainer):
            reads_means = record.framework in MEANS_OF_EPOCHS
            self._process(record.number).reads_means_of_epochs = reads_means
        elif isinstance(record, Metrics):
            yield from self._in_metrics(record)
        elif isinstance(record, Epoch):
            yield from self._in_epoch(record)
        elif isinstance(record, Evaluation):
            for name, value in record.metrics.items():
                why = record.why.get(name, "")
                metric = metric_of(_TEST.sub("", name))[0]
                number = record.trainer or 0
                yield MetricReading(record.end, metric, Pass.EVALUATION, value, why, trainer=number)

    def _process(self, number: int | None) -> _Process:
        return self._processes.setdefault(number or 0, _Process())

    def _in_metrics(self, record: Metrics) -> Iterator[MetricReading]:
        number, process = record.trainer or 0, self._process(record.trainer)
        last_ended = process.last_ended
        for name, value in record.values.items():
            metric, is_validation = metric_of(name)
            of = Pass.VALIDATION if is_validation else Pass.TRAINING
            epoch = process.epoch
            if not is_validation and last_ended is not None and last_ended.end < record.t:
                # The first batches of the next epoch may be reported later.
                epoch = max(epoch, last_ended.epoch + 1)
            why = record.why.get(name, "")
            if self._is_new(number, metric, of, record.t):
                yield MetricReading(record.t, metric, of, value, why, epoch, number)

    def _in_epoch(self, record: Epoch) -> Iterator[MetricReading]:
        number, process = record.trainer or 0, self._process(record.trainer)
        before = process.last_ended
        again = before is not None and (before.epoch, before.begin) == (record.epoch, record.begin)
        reported = before.metrics if before is not None and again else {}
        if before is None or record.end >= before.end:
            process.last_ended = record
        for name, value in record.metrics.items():
            if name in reported:
                continue
            metric, is_validation = metric_of(name)
            of = Pass.VALIDATION if is_validation else Pass.TRAINING
            newest_t = self._newest_t.get((number, metric, of), record.begin)
            # A value under another name may be another figure than those read in the epoch. So is
            # the mean of an epoch, unless those were means since its begin.
            is_other = name != metric or not process.reads_means_of_epochs
            if newest_t > record.begin and is_other:
                continue
            t = record.end if is_validation else record.train_end
            why = record.why.get(name, "")
            if self._is_new(number, metric, of, t):
                yield MetricReading(t, metric, of, value, why, record.epoch, number)

    def _is_new(self, number: int, metric: str, of: Pass, t: int) -> bool:
        key = number, metric, of
        if t <= self._newest_t.get(key, t - 1):
            return False
        self._newest_t[key] = t
        return True


@record(frozen=True)
class MetricFigure:
    """The final and best value of one metric, in training or in validation.

    Attributes:
        name: such as loss or val_loss.
        final: its last value; None for NaN or infinite.
        why: which of the two.
        best: the best value at the end of an epoch of the last loop; None if no epoch reports it,
            or if its name doesn't tell whether less or more is better.
        best_epoch: the first epoch with that value, from 0.
        last_epoch: the epoch of the last value, from 0; None if it was read during training.
    """

    name: str
    final: float | None
    why: str = ""
    best: float | None = None
    best_epoch: int | None = None
    last_epoch: int | None = None


class _End(NamedTuple):
    epoch: Epoch
    value: float | None
    why: str


def metric_figures(
    epochs: Sequence[Epoch],
    learning: Learning,
    loop_of: Callable[[Epoch], object] = lambda epoch: None,
) -> tuple[MetricFigure, ...]:
    """Return the figures of each metric, those of its validation after it; the loss first.

    Args:
        epochs: all that have ended.
        learning: the metrics.
        loop_of: the loop of an epoch; the best is of the last epoch's loop, because another loop
            may train another network.
    """
    ends: dict[tuple[str, bool], list[_End]] = {}
    for epoch in epochs:
        for name, value in epoch.metrics.items():
            metric_ends = ends.setdefault(metric_of(name), [])
            # Compared by begin: another program may give all epochs the same number.
            if not metric_ends or metric_ends[-1].epoch.begin != epoch.begin:
                metric_ends.append(_End(epoch, value, epoch.why.get(name, "")))
    figures = []
    for name in learning.names:
        metric = learning.metrics[name]
        if ends.get((name, False)):
            figures.append(_of_epochs(name, name, ends[name, False], loop_of))
        elif metric.newest is not None or metric.why:
            figures.append(MetricFigure(name, metric.newest, metric.why))
        if ends.get((name, True)):
            figures.append(_of_epochs(f"val_{name}", name, ends[name, True], loop_of))
        elif metric.validations:
            newest, why = metric.newest_validation, metric.why_validation
            figures.append(MetricFigure(f"val_{name}", newest, why))
    return tuple(figures)


def _of_epochs(
    title: str, name: str, ends: Sequence[_End], loop_of: Callable[[Epoch], object]
) -> MetricFigure:
    last, final, why = ends[-1]
    is_lower, loop = lower_is_better(name), loop_of(last)
    alike = (end for end in ends if loop_of(end.epoch) is loop)
    values = [(end.value, end.epoch.epoch) for end in alike if end.value is not None]
    if is_lower is None or not values:
        return MetricFigure(title, final, why, last_epoch=last.epoch)
    best, best_epoch = min(values, key=lambda value: value[0] if is_lower else -value[0])
    return MetricFigure(title, final, why, best, best_epoch, last.epoch)


def figures_json(figures: Sequence[MetricFigure]) -> Mapping[str, object]:
    """Return metric figures as JSON; epochs count from 1, as on the screen."""
    return {
        figure.name: {
            "final": figure.final,
            "best": figure.best,
            "best_epoch": None if figure.best_epoch is None else figure.best_epoch + 1,
            **({"why": figure.why} if figure.why else {}),
            # No framework reported the value of an epoch.
            **({"last_read": True} if figure.last_epoch is None else {}),
        }
        for figure in figures
    }
