"""What training says of itself, in words: loss 0.412, val 0.455 ↑ for 3 epochs, and its best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlmon.figures import units
from dlmon.records import Evaluation
from dlmon.session.learning import LOSS, Metric
from dlmon.session.metric_figures import MetricFigure

# A rise from one epoch to the next is none to speak of.
LEAST_TREND = 2
# A script may report any number of metrics.
MOST_IN_A_LINE = 8


def value_text(value: float | None, why: str) -> str:
    """Write a value, or what it is where it is no number: NaN, infinite."""
    return why or "–" if value is None else units.metric(value)


def newest_text(metric: Metric, each: str = "epoch") -> tuple[str, str]:
    """Return what a metric came to last, and for how long its validation has risen or fallen."""
    trains = value_text(metric.newest, metric.why)
    if not metric.validations:
        return trains, ""
    validation = f"val {value_text(metric.newest_validation, metric.why_validation)}"
    both = f"{trains} · {validation}"
    count = abs(metric.trend)
    if count < LEAST_TREND:
        return both, ""
    arrow = "↑" if metric.trend > 0 else "↓"
    return both, f"{arrow} for {count} {units.plural(each)}"


def metrics_line(figures: Sequence[MetricFigure], each: str = "epoch") -> str:
    """Return what all metrics came to; `each` is what an epoch is called."""
    parts = [f"{one.name} {figure_text(one, each)}" for one in figures[:MOST_IN_A_LINE]]
    left = len(figures) - len(parts)
    return ", ".join([*parts, *([f"and {left} more"] if left else [])])


def figure_text(figure: MetricFigure, each: str = "epoch") -> str:
    """Return what one came to, and its best where that is another."""
    final = value_text(figure.final, figure.why)
    if figure.last_epoch is None:
        return f"{final} (last read)"
    if figure.best is None or figure.best_epoch is None:
        return final
    if figure.best_epoch == figure.last_epoch:
        return final if figure.last_epoch == 0 else f"{final} (best)"
    return f"{final} (best {units.metric(figure.best)} in {each} {figure.best_epoch + 1})"


def evaluation_text(evaluation: Evaluation) -> str:
    """Return what the pass over the test set came to: loss 0.45, accuracy 0.87 (1,000 samples)."""
    names = sorted(evaluation.metrics, key=lambda name: name != LOSS)[:MOST_IN_A_LINE]
    values = [f"{name} {_evaluated(name, evaluation)}" for name in names]
    about = [units.seconds(max(0, evaluation.end - evaluation.begin) / 1e9)]
    if evaluation.samples is not None:
        about.insert(0, units.counted(evaluation.samples, "sample"))
    if not evaluation.whole:
        about.append("cut short")
    return f"{', '.join(values) or 'no metric'} ({', '.join(about)})"


def _evaluated(name: str, evaluation: Evaluation) -> str:
    return value_text(evaluation.metrics[name], evaluation.why.get(name, ""))


def evaluation_json(evaluation: Evaluation) -> Mapping[str, object]:
    """Return what the pass over the test set came to, as JSON."""
    return {
        "metrics": evaluation.metrics,
        "samples": evaluation.samples,
        "seconds": (evaluation.end - evaluation.begin) / 1e9,
        "whole": evaluation.whole,
    }
