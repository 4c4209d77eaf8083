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


def newest_texts(metric: Metric, glyphs: Glyphs, each: str = "epoch") -> tuple[str, ...]:
    """Return what a metric came to last, in as many words as may have room: the longest first."""
    trains = value_text(metric.newest, metric.why)
    if not metric.validations:
        return (trains,)
    validation = f"val {value_text(metric.newest_validation, metric.why_validation)}"
    both = f"{trains}{glyphs.between}{validation}"
    count = abs(metric.trend)
    if count < LEAST_TREND:
        return both, trains
    arrow = glyphs.rises if metric.trend > 0 else glyphs.falls
    return (
        f"{both} {arrow} for {count} {units.plural(each)}",
        f"{both} {arrow} {count}",
        both,
        trains,
    )
