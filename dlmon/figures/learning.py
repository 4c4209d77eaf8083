"""What training says of itself, in words: loss 0.412, val 0.455 ↑ for 3 epochs."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.figures.glyphs import Glyphs
from dlmon.session.learning import Metric

# A rise from one epoch to the next is none to speak of.
LEAST_TREND = 2


def value_text(value: float | None, why: str) -> str:
    """Write a value, or what it is where it is no number: NaN, infinite."""
    return why or "–" if value is None else units.metric(value)


def newest_text(metric: Metric, glyphs: Glyphs, each: str = "epoch") -> tuple[str, str]:
    """Return what a metric came to last, and for how long its validation has risen or fallen."""
    trains = value_text(metric.newest, metric.why)
    if not metric.validations:
        return trains, ""
    validation = f"val {value_text(metric.newest_validation, metric.why_validation)}"
    both = f"{trains}{glyphs.between}{validation}"
    count = abs(metric.trend)
    if count < LEAST_TREND:
        return both, ""
    arrow = glyphs.rises if metric.trend > 0 else glyphs.falls
    return both, f"{arrow} for {count} {units.plural(each)}"
