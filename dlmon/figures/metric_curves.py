"""What a report draws of the metrics of training: each a chart, its values at their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlmon.figures.value_axis import value_range
from dlmon.records import Record, SessionHeader
from dlmon.session.learning import MOST_METRICS, drawable, importance
from dlmon.session.metric_readings import MetricReadings, Pass
from dlmon.statistics.envelope import Columns
from dlmon.statistics.points import Point, Points

# Of all lines together: a point takes some forty characters of a page.
_ALL_POINTS, _POINTS_OF_A_LINE = 3000, 600
_FEWEST_POINTS = 30
# Of short runs, each value is to be seen.
MOST_DOTS = 60
_MOST_SESSIONS = 16
_OWN = "training"
_VALIDATION = "validation, at the end of each epoch"


@dataclass(frozen=True)
class PointLine:
    """One line of a chart; its points are in seconds from the start of its session.

    Attributes:
        number: of its session: the validation of one has the colour of its training.
    """

    label: str
    points: tuple[Point, ...]
    number: int
    is_validation: bool

    @property
    def columns(self) -> Columns:
        """Their means and extremes."""
        return Columns(
            mean=tuple(point.mean for point in self.points),
            low=tuple(point.low for point in self.points),
            high=tuple(point.high for point in self.points),
        )

    @property
    def has_dots(self) -> bool:
        """Whether each of its points is to be seen."""
        return len(self.points) <= MOST_DOTS


@dataclass(frozen=True)
class MetricChart:
    """One metric over time, from `bottom` to `top`."""

    metric: str
    lines: tuple[PointLine, ...]
    bottom: float
    top: float

    @property
    def title(self) -> str:
        """What stands over it."""
        return self.metric[:1].upper() + self.metric[1:]

    @property
    def count(self) -> int:
        """How many numbers it is written with."""
        return 4 * sum(len(line.points) for line in self.lines)

    @property
    def end_s(self) -> float:
        """When its last value was known."""
        return max(line.points[-1].t for line in self.lines)


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
                line = self.lines.setdefault(reading.metric, {}).setdefault(reading.of, Points())
                line.add(max(0, reading.t - self.header.t), drawable(reading.value))

    def renamed(self, text: Callable[[str], str]) -> MetricCurves:
        """Return the same with other names of the metrics."""
        return replace(self, lines={text(name): lines for name, lines in self.lines.items()})

    @property
    def names(self) -> list[str]:
        """The metrics that have a value: the loss, other losses, then the others as they came."""
        known = [name for name, lines in self.lines.items() if any(lines.values())]
        return sorted(known, key=importance)


def metric_charts(
    sessions: Sequence[MetricCurves], names: Sequence[str]
) -> tuple[MetricChart, ...]:
    """Return a chart of each metric, with a line, or two, of each session."""
    sessions = sessions[:_MOST_SESSIONS]
    metrics = list(dict.fromkeys(name for session in sessions for name in session.names))
    metrics.sort(key=importance)
    found: dict[str, list[tuple[str, Points, int, bool]]] = {}
    for metric in metrics[:MOST_METRICS]:
        for number, session in enumerate(sessions):
            lines = session.lines.get(metric, {})
            for of in (Pass.TRAINING, Pass.VALIDATION):
                if lines.get(of):
                    label = _label(of, names[number] if len(sessions) > 1 else None)
                    is_validation = of is Pass.VALIDATION
                    found.setdefault(metric, []).append((label, lines[of], number, is_validation))
    count = sum(map(len, found.values()))
    most = max(_FEWEST_POINTS, min(_POINTS_OF_A_LINE, _ALL_POINTS // max(1, count)))
    return tuple(_chart(metric, lines, most) for metric, lines in found.items())


def _label(of: Pass, session: str | None) -> str:
    if session is None:
        return _VALIDATION if of is Pass.VALIDATION else _OWN
    return f"{session}, validation" if of is Pass.VALIDATION else session


def _chart(metric: str, lines: Sequence[tuple[str, Points, int, bool]], most: int) -> MetricChart:
    drawn = tuple(
        PointLine(label, tuple(_in_seconds(points.at_most(most))), number, is_validation)
        for label, points, number, is_validation in lines
    )
    values = [
        value
        for line in drawn
        for point in line.points
        for value in (point.low, point.high)
        if value is not None
    ]
    return MetricChart(metric, drawn, *value_range(min(values), max(values)))


def _in_seconds(points: Sequence[Point]) -> Sequence[Point]:
    return [replace(point, t=point.t / 1e9) for point in points]


def metric_json(chart: MetricChart) -> dict[str, object]:
    """Return a chart's numbers."""
    return {
        "title": chart.title,
        "metric": chart.metric,
        "bottom": chart.bottom,
        "top": chart.top,
        "lines": [_line_json(line) for line in chart.lines],
    }


def _line_json(line: PointLine) -> Mapping[str, object]:
    columns = line.columns
    varied = columns.low != columns.high
    extremes = {
        "low": list(map(_rounded, columns.low)),
        "high": list(map(_rounded, columns.high)),
    }
    return {
        "label": line.label,
        "session": line.number,
        "is_validation": line.is_validation,
        "at_s": [round(point.t, 2) for point in line.points],
        "mean": list(map(_rounded, columns.mean)),
        **(extremes if varied else {}),
    }


def _rounded(value: float | None) -> float | None:
    """Return a value to five digits: a loss may change little."""
    return None if value is None else float(f"{value:.5g}")
