"""What a report draws of the metrics of training: each a chart, its values at their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from dlmon.figures.sections import Chart, Line
from dlmon.figures.value_axis import value_range
from dlmon.records import Record, SessionHeader
from dlmon.session.learning import MOST_METRICS, drawable, importance
from dlmon.session.metric_readings import MetricReadings, Pass

# Of all lines together: a point takes some forty characters of a page.
_ALL_POINTS, _POINTS_OF_A_LINE = 3000, 600
_FEWEST_POINTS = 30
_MOST_SESSIONS = 16
Points = list[tuple[int, float | None]]
"""When each value was known, from the start of the session, and None where it is no number."""
_OWN = "training"
_VALIDATION = "validation, at the end of each epoch"


@dataclass
class MetricCurves:
    """Folds the records of one session into its metrics over time."""

    header: SessionHeader
    lines: dict[str, dict[Pass, Points]] = field(default_factory=dict)
    _readings: MetricReadings = field(default_factory=MetricReadings)

    def fold(self, record: Record) -> None:
        """Take one record."""
        for reading in self._readings.fold(record):
            is_drawn = not reading.trainer and reading.of is not Pass.EVALUATION
            is_known = reading.metric in self.lines
            if is_drawn and (is_known or len(self.lines) < MOST_METRICS):
                line = self.lines.setdefault(reading.metric, {}).setdefault(reading.of, [])
                line.append((max(0, reading.t - self.header.t), drawable(reading.value)))

    def renamed(self, text: Callable[[str], str]) -> MetricCurves:
        """Return the same with other names of the metrics."""
        return replace(self, lines={text(name): lines for name, lines in self.lines.items()})

    @property
    def names(self) -> list[str]:
        """The metrics that have a value: the loss, other losses, then the others as they came."""
        known = [name for name, lines in self.lines.items() if any(map(_is_drawn, lines.values()))]
        return sorted(known, key=importance)


def metric_charts(sessions: Sequence[MetricCurves], names: Sequence[str]) -> tuple[Chart, ...]:
    """Return a chart of each metric, with a line, or two, of each session."""
    sessions = sessions[:_MOST_SESSIONS]
    metrics = list(dict.fromkeys(name for session in sessions for name in session.names))
    metrics.sort(key=importance)
    found: dict[str, list[tuple[Points, str, int, bool]]] = {}
    for metric in metrics[:MOST_METRICS]:
        for number, session in enumerate(sessions):
            lines = session.lines.get(metric, {})
            for of in (Pass.TRAINING, Pass.VALIDATION):
                if _is_drawn(lines.get(of, [])):
                    label = _label(of, names[number] if len(sessions) > 1 else None)
                    line = (lines[of], label, number, of is Pass.VALIDATION)
                    found.setdefault(metric, []).append(line)
    count = sum(map(len, found.values()))
    most = max(_FEWEST_POINTS, min(_POINTS_OF_A_LINE, _ALL_POINTS // max(1, count)))
    return tuple(
        _chart(metric, [_line(most, *line) for line in lines]) for metric, lines in found.items()
    )


def _label(of: Pass, session: str | None) -> str:
    if session is None:
        return _VALIDATION if of is Pass.VALIDATION else _OWN
    return f"{session}, validation" if of is Pass.VALIDATION else session


def _is_drawn(points: Points) -> bool:
    return any(value is not None for _, value in points)


def _line(most: int, points: Points, label: str, session: int, is_validation: bool) -> Line:
    """Return at most so many points, each of as many neighbours: their mean and extremes."""
    each = 1
    while -(-len(points) // each) > most:
        each *= 2
    shown = [points[at : at + each] for at in range(0, len(points), each)]
    numbers = [[value for _, value in one if value is not None] for one in shown]
    return Line(
        label,
        tuple(fmean(t for t, _ in one) / 1e9 for one in shown),
        tuple(fmean(known) if known else None for known in numbers),
        tuple(min(known, default=None) for known in numbers),
        tuple(max(known, default=None) for known in numbers),
        session,
        is_validation,
    )


def _chart(metric: str, lines: Sequence[Line]) -> Chart:
    known = [value for line in lines for value in (*line.low, *line.high) if value is not None]
    title = metric[:1].upper() + metric[1:]
    bottom, top = value_range(min(known), max(known))
    return Chart(title, "", tuple(lines), bottom, top, metric=metric)
