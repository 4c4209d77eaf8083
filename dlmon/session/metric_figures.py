"""What each metric came to: its last value, and its best with the epoch that had it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dlmon.comparison.run import lower_is_better
from dlmon.records import Epoch
from dlmon.records.record import record
from dlmon.session.learning import Learning, metric_of


@record(frozen=True)
class MetricFigure:
    """What one metric came to, in training or in validation.

    Attributes:
        name: such as loss or val_loss.
        final: its last value; None where that is no number.
        why: what it is then: NaN or infinite.
        best: the best at the end of an epoch; None where no epoch says it, or where its name does
            not tell whether less or more is better.
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
    begin: int
    epoch: int
    value: float | None
    why: str


def metric_figures(epochs: Sequence[Epoch], learning: Learning) -> tuple[MetricFigure, ...]:
    """Return what each metric came to: the loss first, each with its validation after it."""
    ends: dict[tuple[str, bool], list[_End]] = {}
    for epoch in epochs:
        for name, value in epoch.metrics.items():
            found = ends.setdefault(metric_of(name), [])
            # Not by its number: other programs may give all of them the same.
            if not found or found[-1].begin != epoch.begin:
                found.append(_End(epoch.begin, epoch.epoch, value, epoch.why.get(name, "")))
    figures = []
    for name in learning.names:
        metric = learning.metrics[name]
        if ends.get((name, False)):
            figures.append(_of_epochs(name, name, ends[name, False]))
        elif metric.newest is not None or metric.why:
            figures.append(MetricFigure(name, metric.newest, metric.why))
        if ends.get((name, True)):
            figures.append(_of_epochs(f"val_{name}", name, ends[name, True]))
        elif metric.validations:
            newest, why = metric.newest_validation, metric.why_validation
            figures.append(MetricFigure(f"val_{name}", newest, why))
    return tuple(figures)


def _of_epochs(shown: str, name: str, ends: Sequence[_End]) -> MetricFigure:
    _, last_epoch, final, why = ends[-1]
    is_lower = lower_is_better(name)
    known = [(value, epoch) for _, epoch, value, _ in ends if value is not None]
    if is_lower is None or not known:
        return MetricFigure(shown, final, why, last_epoch=last_epoch)
    best, best_epoch = min(known, key=lambda one: one[0] if is_lower else -one[0])
    return MetricFigure(shown, final, why, best, best_epoch, last_epoch)


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
