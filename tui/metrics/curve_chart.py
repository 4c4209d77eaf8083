"""One quantity of one run, or of several over each other, each from the start of its own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from rich.cells import cell_len

from dlmon.comparison.compared_run import Curve
from dlmon.figures import units
from dlmon.figures.report.curves import metric_in_words
from dlmon.figures.value_axis import value_range
from dlmon.session.learning import drawable
from tui.drawing.time_axis import TimeAxis
from tui.widgets.chart import POINT, Chart, ChartPicture, Dot
from tui.widgets.lines import fit

HUES = ("throughput", "gpu", "cpu", "memory", "loss", "power")
"""Of the first run, the second, and so on."""
# The lines of runs differ without colours too: of so many columns, so many are drawn.
_DASHES = ((1, 1), (6, 4), (4, 2), (12, 8), (8, 4), (16, 14))
SIGNS = ("━━", "⠒ ⠒", "⠂ ⠂", "╌╌", "┄┄", "┈┈")
"""How each run's line looks, in a legend."""
_NOTHING = ChartPicture()
_LONGEST_TITLE = 24
# Points that are closer would hide the line.
_POINT_COLUMNS = 12
_MOST_VALUES = 4


class CurveChart(Chart):
    """The curves of a quantity on one axis of time since each run began."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="panel")

    def show_curves(
        self,
        name: str,
        curves: Sequence[tuple[int, Curve]],
        axis: TimeAxis,
        below: ChartPicture = _NOTHING,
        reason: str = "",
        right: str | None = None,
        least_span: float = 0.0,
    ) -> None:
        """Draw curves over each other, and put the quantity and its values into the border.

        Args:
            name: of the quantity; foreign.
            curves: each with the number of its run, by which it has its look.
            axis: the time that is shown, from 0 where each run began.
            below: the marks, shades and cursor under and over the lines.
            reason: why nothing is drawn, where nothing is.
            right: stands in the border in place of the values.
            least_span: the least part of a value that the axis spans: less is no difference.
        """
        if right is None:
            lines = [columns_of(curve, axis) for _, curve in curves]
            unit = _unit_of(curves)
            right = f"{' · '.join(_values(curves, lines, below.cursor, unit))} {unit}".strip()
        self.set_titles(title_of(name), right=right, ruler=self.ruler_of(axis.time_elapsed(0)))
        self.show(picture_of(curves, axis, below, reason, least_span))


def title_of(name: str) -> str:
    """Return the name of a quantity as a chart has it in its border."""
    name = metric_in_words(name)
    title = name[:1].upper() + name[1:]
    return fit(title, _LONGEST_TITLE) if cell_len(title) > _LONGEST_TITLE else title


def picture_of(
    curves: Sequence[tuple[int, Curve]],
    axis: TimeAxis,
    below: ChartPicture,
    reason: str,
    least_span: float = 0.0,
) -> ChartPicture:
    """Return curves over each other, or why there are none; the arguments of `show_curves`."""
    lines = [(number, columns_of(curve, axis)) for number, curve in curves]
    dots = tuple(dot for number, curve in curves for dot in _validations(number, curve, axis))
    values = [value for _, columns in lines for value in columns if value is not None]
    values += [dot.value for dot in dots]
    if not values:
        reason = next((curve.why for _, curve in curves if curve.why), reason)
        columns = (None,) * axis.count
        return replace(below, columns=columns, reason=reason, left_labels=("",))
    bottom, top = value_range(min(values), max(max(values), (1 + least_span) * min(values)))
    if _unit_of(curves) == "%":
        bottom, top = 0.0, max(100.0, *values)
    is_one = len(lines) == 1
    if is_one:
        # Nothing tells one run's points from another's: they have the hue of points.
        dots = tuple(replace(dot, tone=POINT) for dot in dots)
    drawn = ((_tone(n), columns if is_one else dashed(columns, n)) for n, columns in lines)
    return replace(below, lines=tuple(drawn), dots=dots, top=top, bottom=bottom)


def _unit_of(curves: Sequence[tuple[int, Curve]]) -> str:
    return next((curve.unit for _, curve in curves if curve.unit), "")


def _values(
    curves: Sequence[tuple[int, Curve]],
    lines: Sequence[Sequence[float | None]],
    cursor: int | None,
    unit: str,
) -> list[str]:
    """Write the value of each run, now or at the cursor; of a single one its validation too."""
    if cursor is not None:
        return [_written(columns[cursor], unit) for columns in lines[:_MOST_VALUES]]
    texts = []
    for _, curve in curves[:_MOST_VALUES]:
        newest = curve.newest if curve.newest is not None else curve.series.newest
        newest = newest and curve.factor * newest
        texts.append(curve.why or _written(newest, unit))
    if len(curves) == 1 and (validations := curves[0][1].validations):
        texts.append(f"val {curves[0][1].why_validation or _written(validations[-1][1], unit)}")
    return texts


def _written(value: float | None, unit: str) -> str:
    """Write a value; that of a metric, which has no unit, with more digits."""
    if value is None:
        return "–"
    return units.rate(value) if unit else units.metric(value)


def columns_of(curve: Curve, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return a run's values along an axis that begins with its own time."""
    if curve.start_ns:
        axis = replace(axis, start_ns=axis.start_ns + curve.start_ns, elapsed=axis.count)
    return tuple(drawable(value and curve.factor * value) for value in axis.columns(curve.series))


def dashed(columns: Sequence[float | None], number: int) -> tuple[float | None, ...]:
    """Return the line of a run with the gaps that tell it from those of other runs."""
    period, drawn = _DASHES[number % len(_DASHES)]
    return tuple(value if x % period < drawn else None for x, value in enumerate(columns))


def _tone(number: int) -> str:
    return f"$chart-{HUES[number % len(HUES)]}"


def _validations(number: int, curve: Curve, axis: TimeAxis) -> list[Dot]:
    """Return where validations ended, and their values; of many that are close, the last."""
    own = replace(axis, start_ns=axis.start_ns + curve.start_ns)
    dots = [
        Dot(column, drawn, tone=_tone(number))
        for t, value in curve.validations
        if (drawn := drawable(value)) is not None and 0 <= (column := own.column_of(t)) < axis.count
    ]
    if len(dots) * _POINT_COLUMNS <= axis.count:
        return dots
    # By whole columns from the clock's start, so that they stay where they are as the axis moves.
    first = axis.start_ns // axis.column_ns
    return [
        [*close][-1]
        for _, close in groupby(dots, lambda dot: (first + dot.column) // _POINT_COLUMNS)
    ]
