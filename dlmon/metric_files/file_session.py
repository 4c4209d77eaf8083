"""Show the metrics of a file as those of a session that has no machine."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.comparison.compared_run import Curve
from dlmon.metric_files.points import (
    MetricPoints,
    PointSeries,
    RunPoints,
    in_order,
    without_overtaken,
)
from dlmon.records import SCHEMA, MachineFacts, SessionHeader, Status
from dlmon.session.learning import MOST_VALIDATIONS, Learning, importance, metric_of
from dlmon.session.session import Session
from dlmon.session.source import SLICE_S, SessionSource

# Imported for types only: a screen without such a run needs no reader.
if TYPE_CHECKING:
    from dlmon.metric_files.find import FoundRun

NS_PER_STEP = 1_000_000
"""The length on the axis of steps that stands for one."""
_READ_AGAIN_S = 2.0


def group_of(name: str) -> str:
    """Return the group of a metric, as people name them: `train` of `train/loss`."""
    return name.rpartition("/")[0].partition("/")[0]


class _FileLearning(Learning):
    """The names of the metrics, of which there may be many."""

    def __init__(self, session: FileSession) -> None:
        super().__init__()
        self._session = session

    @property
    def names(self) -> list[str]:
        return list(self._session.curves(False))


class FileSession(Session):
    """A run that another program has recorded; the time is that since its first value."""

    def __init__(self, points: RunPoints) -> None:
        super().__init__(
            SessionHeader(SCHEMA, points.name, "", "", 0, 0.0, points.name, {}, MachineFacts(), {})
        )
        self.points = points
        self.learning = _FileLearning(self)
        self._curves: dict[bool, tuple[int, dict[str, Curve]]] = {}
        self._recorded_names: dict[str, list[str]] = {}

    @property
    def has_times(self) -> bool:
        return not math.isnan(self.begin_wall)

    @property
    def begin_wall(self) -> float:
        """The time of the first value; NaN if none has a time."""
        walls = [m.walls[0] for m in self.points.metrics.values() if m.walls]
        return min((wall for wall in walls if math.isfinite(wall)), default=math.nan)

    def names_of(self, metric: str) -> Sequence[str]:
        """Return the names in the file of what has one chart: `train/loss` and `val/loss`."""
        return self._recorded_names.get(metric, ())

    @property
    def last_step(self) -> float:
        lasts = (curve.end_ns for curve in self.curves(True).values())
        return max(lasts, default=0) / NS_PER_STEP

    def curves(self, over_steps: bool) -> Mapping[str, Curve]:
        """Return the curve of each metric over steps, or over time; losses first, then groups."""
        count, curves = self._curves.get(over_steps, (-1, {}))
        if count != self.points.count:
            curves = self._made_curves(over_steps)
            self._curves[over_steps] = self.points.count, curves
            self.last_t = max(self.last_t, *(curve.end_ns for curve in curves.values()), 0)
        return curves

    def _made_curves(self, over_steps: bool) -> dict[str, Curve]:
        metrics, begin = self.points.metrics, self.begin_wall

        def series_of(metric: MetricPoints) -> PointSeries:
            if over_steps:
                return without_overtaken(metric.steps, metric.values, NS_PER_STEP)
            return in_order(metric.walls, metric.values, begin, 1e9)

        self._recorded_names = {}
        training: dict[str, Curve] = {}
        validations: dict[str, PointSeries] = {}
        for name, metric in list(metrics.items()):
            base, is_validation = metric_of(name)
            series = series_of(metric)
            is_dots = is_validation and len(metric.values) <= MOST_VALIDATIONS
            others = validations if is_dots else training
            if base in others or (base in metrics and not is_dots):
                base, is_dots = name, False
            self._recorded_names.setdefault(base, []).append(name)
            if is_dots:
                validations[base] = series
                continue
            training[base] = Curve(series, 0, newest=series.newest, not_numbers=series.not_numbers)
        for base, series in validations.items():
            curve = training.setdefault(base, Curve(PointSeries(array("d"), array("d")), 0))
            training[base] = replace(curve, validations=series.points)
        names = sorted(training, key=lambda name: (group_of(name), importance(name)))
        return {name: training[name] for name in names}


class FileSource(SessionSource):
    """A run in a file, which is read on while it grows."""

    def __init__(self, found: FoundRun, clock: Callable[[], float] = time.monotonic) -> None:
        points = RunPoints(found.name)
        self.session: FileSession = FileSession(points)
        self.path = Path(found.name)
        self.status = Status.UNKNOWN
        self.read_share = 0.0
        self._clock, self._read_at = clock, -math.inf
        self._shares = found.read(points)
        self._is_closed = False

    def poll(self, max_s: float | None = None) -> object:
        is_early = self.read_share is None and self._clock() < self._read_at + _READ_AGAIN_S
        if self._is_closed or is_early:
            return None
        until = self._clock() + (SLICE_S if max_s is None else max_s)
        for share in self._shares:
            self.read_share = None if share >= 1 else share
            if share >= 1 or self._clock() >= until:
                break
        else:
            self.read_share = None
        if self.read_share is None:
            self._read_at = self._clock()
        self.problem = self.session.points.problem
        return None

    def now(self) -> int:
        return self.session.last_t

    def close(self) -> None:
        """Read no more."""
        self._is_closed = True

    def second(self) -> int:
        return int(self._clock())
