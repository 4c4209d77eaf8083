"""What training says of itself over time: each value of a metric, once. Pure."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from dlmon.comparison.compared_run import lower_is_better
from dlmon.records import Batches, BatchSummary, Epoch, Evaluation, Metrics, Record, Trainer
from dlmon.records.record import record
from dlmon.statistics.series import LARGEST, SMALLEST, Series

LOSS = "loss"
LEAST_CHANGE = 1e-3
"""A part of a value: a change that is less is none to speak of."""
# Metrics are foreign: a forged log may hold any number of them.
MOST_METRICS = 16
MOST_VALIDATIONS = 2000


def importance(name: str) -> tuple[bool, bool, bool]:
    """Put the loss first, then other losses, other metrics, and at last those of the optimizer."""
    of_optimizer = name in ("learning_rate", "grad_norm")
    return name != LOSS, of_optimizer, not name.lower().endswith(LOSS)


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


_VALIDATION = re.compile(r"(?:val|valid|validation|eval|dev)[_/.](.+)", re.IGNORECASE)
_TRAINING = re.compile(r"(?:train|training)[_/.](.+)", re.IGNORECASE)
_TEST = re.compile(r"^test[_/.](?=.)", re.IGNORECASE)


def metric_of(name: str) -> tuple[str, bool]:
    """Return what a metric is of, whatever it was taken on, and whether it is of a validation."""
    validation = _VALIDATION.fullmatch(name)
    if validation is not None:
        return validation[1], True
    training = _TRAINING.fullmatch(name)
    return (name if training is None else training[1]), False


class Pass(str, Enum):
    """Over what samples a metric was taken."""

    TRAINING = "training"
    VALIDATION = "validation"
    EVALUATION = "evaluation"


@record(frozen=True)
class MetricReading:
    """One value of one metric.

    Attributes:
        t: when it was known: a validation's at its end.
        metric: what it is of: accuracy and val_accuracy are one.
        of: over what samples it was taken.
        value: None where it is no number.
        why: what it is then: NaN or infinite.
        epoch: which it belongs to, from 0; None for an evaluation after the training.
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
class _Trainer:
    """What one process reported so far."""

    epoch: int = 0
    ended: Epoch | None = None
    reads_means_of_epochs: bool = True


class MetricReadings:
    """Finds the values in the records of a session, each once."""

    def __init__(self) -> None:
        self._trainers: dict[int, _Trainer] = {}
        self._read: dict[tuple[int, str, Pass], int] = {}

    def fold(self, record: Record) -> Iterator[MetricReading]:
        """Take one record, and yield what it says that was not known."""
        if isinstance(record, (Batches, BatchSummary)):
            self._of(record.trainer).epoch = record.epoch
        elif isinstance(record, Trainer):
            # What these say of a metric as they train is its mean since the epoch began.
            is_keras = record.framework in ("keras", "tf_keras")
            self._of(record.number).reads_means_of_epochs = is_keras
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

    def _of(self, trainer: int | None) -> _Trainer:
        return self._trainers.setdefault(trainer or 0, _Trainer())

    def _in_metrics(self, record: Metrics) -> Iterator[MetricReading]:
        number, trainer = record.trainer or 0, self._of(record.trainer)
        ended = trainer.ended
        for name, value in record.values.items():
            metric, is_validation = metric_of(name)
            of = Pass.VALIDATION if is_validation else Pass.TRAINING
            epoch = trainer.epoch
            if not is_validation and ended is not None and ended.end < record.t:
                # The first batches of the next epoch may be written later.
                epoch = max(epoch, ended.epoch + 1)
            why = record.why.get(name, "")
            if self._is_new(number, metric, of, record.t):
                yield MetricReading(record.t, metric, of, value, why, epoch, number)

    def _in_epoch(self, record: Epoch) -> Iterator[MetricReading]:
        number, trainer = record.trainer or 0, self._of(record.trainer)
        before = trainer.ended
        again = before is not None and (before.epoch, before.begin) == (record.epoch, record.begin)
        known = before.metrics if before is not None and again else {}
        if before is None or record.end >= before.end:
            trainer.ended = record
        for name, value in record.metrics.items():
            if name in known:
                continue
            metric, is_validation = metric_of(name)
            of = Pass.VALIDATION if is_validation else Pass.TRAINING
            last = self._read.get((number, metric, of), record.begin)
            # What has another name than what was read may be another figure, as is the mean of an
            # epoch where the means of its parts were read.
            is_other = name != metric or not trainer.reads_means_of_epochs
            if last > record.begin and is_other:
                continue
            t = record.end if is_validation else record.train_end
            why = record.why.get(name, "")
            if self._is_new(number, metric, of, t):
                yield MetricReading(t, metric, of, value, why, record.epoch, number)

    def _is_new(self, number: int, metric: str, of: Pass, t: int) -> bool:
        key = number, metric, of
        if t <= self._read.get(key, t - 1):
            return False
        self._read[key] = t
        return True


@record(frozen=True)
class MetricFigure:
    """What one metric came to, in training or in validation.

    Attributes:
        name: such as loss or val_loss.
        final: its last value; None where that is no number.
        why: what it is then: NaN or infinite.
        best: the best at the end of an epoch of the last one's loop; None where no epoch says it,
            or where its name does not tell whether less or more is better.
        best_epoch: the first epoch that had it, from 0.
        last_epoch: the one that the last value is of, from 0; None where it was read as it trained.
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


def _one_loop(epoch: Epoch) -> object:
    return None


def metric_figures(
    epochs: Sequence[Epoch],
    learning: Learning,
    loop_of: Callable[[Epoch], object] = _one_loop,
) -> tuple[MetricFigure, ...]:
    """Return what each metric came to: the loss first, each with its validation after it.

    Args:
        epochs: all that have ended.
        learning: what was read.
        loop_of: the loop of an epoch; the best is of the last epoch's loop, as another one may
            train another network.
    """
    ends: dict[tuple[str, bool], list[_End]] = {}
    for epoch in epochs:
        for name, value in epoch.metrics.items():
            found = ends.setdefault(metric_of(name), [])
            # Not by its number: other programs may give all of them the same.
            if not found or found[-1].epoch.begin != epoch.begin:
                found.append(_End(epoch, value, epoch.why.get(name, "")))
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
    shown: str, name: str, ends: Sequence[_End], loop_of: Callable[[Epoch], object]
) -> MetricFigure:
    last, final, why = ends[-1]
    is_lower, loop = lower_is_better(name), loop_of(last)
    alike = (end for end in ends if loop_of(end.epoch) is loop)
    known = [(end.value, end.epoch.epoch) for end in alike if end.value is not None]
    if is_lower is None or not known:
        return MetricFigure(shown, final, why, last_epoch=last.epoch)
    best, best_epoch = min(known, key=lambda one: one[0] if is_lower else -one[0])
    return MetricFigure(shown, final, why, best, best_epoch, last.epoch)


def figures_json(figures: Sequence[MetricFigure]) -> Mapping[str, object]:
    """Return what metrics came to as JSON; epochs count from 1, as on the screen."""
    return {
        figure.name: {
            "final": figure.final,
            "best": figure.best,
            "best_epoch": None if figure.best_epoch is None else figure.best_epoch + 1,
            **({"why": figure.why} if figure.why else {}),
            # No framework said what an epoch came to.
            **({"last_read": True} if figure.last_epoch is None else {}),
        }
        for figure in figures
    }
