"""A chart of one quantity of one or several runs, over the time since each run began."""

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
"""The colours of the runs, in order."""
# The period and the dash of each run's line in columns, to tell runs apart without colours too.
_DASHES = ((1, 1), (6, 4), (4, 2), (12, 8), (8, 4), (16, 14))
SIGNS = ("━━", "⠒ ⠒", "⠂ ⠂", "╌╌", "┄┄", "┈┈")
"""The lines of the runs in a legend, in order."""
_NOTHING = ChartPicture()
_LONGEST_TITLE = 24
# Closer dots would hide the line.
_COLUMNS_PER_DOT = 12
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
        """Draw curves over each other, with the quantity and its values in the border.

        Args:
            name: the quantity's name, which may be any text.
            curves: each with the number of its run, which decides its colour and dashes.
            axis: the time to show; each run begins at 0.
            below: the marks, shades and cursor of the picture.
            reason: why nothing is drawn, if nothing is.
            right: replaces the values in the border.
            least_span: the least span of the value axis, as a share of the lowest value: smaller
                differences mean nothing.
        """
        if right is None:
            lines = [columns_of(curve, axis) for _, curve in curves]
            unit = _unit_of(curves)
            right = f"{' · '.join(_values(curves, lines, below.cursor, unit))} {unit}".strip()
        self.set_titles(title_of(name), right=right, ruler=self.ruler_of(axis.time_elapsed(0)))
        self.show(picture_of(curves, axis, below, reason, least_span))


def title_of(name: str) -> str:
    """Return the title of a chart of a quantity."""
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
    """Return the picture of curves, or of the reason why there are none.

    The arguments are those of `CurveChart.show_curves`.
    """
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
    is_single = len(lines) == 1
    if is_single:
        # The colour need not tell the run.
        dots = tuple(replace(dot, tone=POINT) for dot in dots)
    styled = ((_tone(n), columns if is_single else dashed(columns, n)) for n, columns in lines)
    return replace(below, lines=tuple(styled), dots=dots, top=top, bottom=bottom)


def _unit_of(curves: Sequence[tuple[int, Curve]]) -> str:
    return next((curve.unit for _, curve in curves if curve.unit), "")


def _values(
    curves: Sequence[tuple[int, Curve]],
    lines: Sequence[Sequence[float | None]],
    cursor: int | None,
    unit: str,
) -> list[str]:
    """Return each run's value now or at the cursor; the newest validation too of a single run."""
    if cursor is not None:
        return [_value_text(columns[cursor], unit) for columns in lines[:_MOST_VALUES]]
    texts = []
    for _, curve in curves[:_MOST_VALUES]:
        newest = curve.newest if curve.newest is not None else curve.series.newest
        newest = newest and curve.factor * newest
        texts.append(curve.why or _value_text(newest, unit))
    if len(curves) == 1 and (validations := curves[0][1].validations):
        texts.append(f"val {curves[0][1].why_validation or _value_text(validations[-1][1], unit)}")
    return texts


def _value_text(value: float | None, unit: str) -> str:
    """Write a value; a metric, which has no unit, gets more digits."""
    if value is None:
        return "–"
    return units.rate(value) if unit else units.metric(value)


def columns_of(curve: Curve, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return a run's values along an axis of the time since the run began."""
    if curve.start_ns:
        axis = replace(axis, start_ns=axis.start_ns + curve.start_ns, elapsed=axis.count)
    return tuple(drawable(value and curve.factor * value) for value in axis.columns(curve.series))


def dashed(columns: Sequence[float | None], number: int) -> tuple[float | None, ...]:
    """Return the line of a run with the dashes of its number."""
    period, dash = _DASHES[number % len(_DASHES)]
    return tuple(value if x % period < dash else None for x, value in enumerate(columns))


def _tone(number: int) -> str:
    return f"$chart-{HUES[number % len(HUES)]}"


def _validations(number: int, curve: Curve, axis: TimeAxis) -> list[Dot]:
    """Return a dot at the end of each validation, or at the last of several close ones."""
    run_axis = replace(axis, start_ns=axis.start_ns + curve.start_ns)
    dots = [
        Dot(column, y, tone=_tone(number))
        for t, value in curve.validations
        if (y := drawable(value)) is not None
        and 0 <= (column := run_axis.column_of(t)) < axis.count
    ]
    if len(dots) * _COLUMNS_PER_DOT <= axis.count:
        return dots
    # Group columns as counted from time 0, so that dots don't jump when the axis moves.
    first = axis.start_ns // axis.column_ns
    return [
        [*close_dots][-1]
        for _, close_dots in groupby(dots, lambda dot: (first + dot.column) // _COLUMNS_PER_DOT)
    ]
