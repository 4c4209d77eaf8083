"""A chart of one quantity of one or several runs, over the time since each run began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from rich.cells import cell_len

from dlmon.comparison.compared_run import Curve
from dlmon.figures.report.curves import metric_in_words, unit_of, value_texts
from dlmon.figures.value_axis import short_number, value_range
from dlmon.records.record import record
from dlmon.render.wrap import shortened
from dlmon.session.learning import drawable
from tui.drawing.time_axis import TimeAxis, TimeLabels
from tui.widgets.chart import BEHIND, POINT, Chart, ChartPicture, Dot
from tui.widgets.lines import BAD, first_parts

Columns = tuple[float | None, ...]

HUES = ("throughput", "gpu", "cpu", "memory", "loss", "power")
"""The colours of the runs, in order."""
# The period and the dash of each run's line in columns, to tell runs apart without colours too.
_DASHES = ((1, 1), (6, 4), (4, 2), (12, 8), (8, 4), (16, 14))
SIGNS = ("━━", "⠒ ⠒", "⠂ ⠂", "╌╌", "┄┄", "┈┈")
"""The lines of the runs in a legend, in order."""
_NOTHING = ChartPicture()
_LOG_MARGIN = 0.02
_LONGEST_TITLE, _LEAST_TITLE, _BORDER_CELLS = 24, 6, 5
# Closer dots would hide the line.
_COLUMNS_PER_DOT = 12
NO_SMOOTHING = "no"
SMOOTHING = {NO_SMOOTHING: 0, "light": 3, "strong": 12}
"""The columns to either side over which a curve is averaged."""


@record(frozen=True)
class CurveStyle:
    """How curves are drawn: on a logarithmic axis, and smoothed by a name of `SMOOTHING`.

    With a `chosen` run, its curve is drawn over the others, which are dim. With `slopes`, a line
    goes straight from the middle of a value's time to that of the next, without steps.
    """

    is_log: bool = False
    smoothing: str = NO_SMOOTHING
    chosen: int | None = None
    slopes: bool = False


_PLAIN = CurveStyle()


class CurveChart(Chart):
    """The curves of a quantity on one axis of time since each run began."""

    def show_curves(
        self,
        name: str,
        curves: Sequence[tuple[int, Curve]],
        axis: TimeAxis,
        below: ChartPicture = _NOTHING,
        reason: str = "",
        right: str | None = None,
        least_span: float = 0.0,
        style: CurveStyle = _PLAIN,
        labels: TimeLabels | None = None,
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
            style: only metrics, which have no unit, have a logarithmic axis.
            labels: replace those of the time.
        """
        if right is None:
            at_cursor = None
            if (x := below.cursor) is not None:
                at_cursor = [columns_of(curve, axis)[x] for _, curve in curves]
            right, unit = values_of(name, [curve for _, curve in curves], at_cursor)
            room, title_cells = self.size.width - _BORDER_CELLS, cell_len(title_of(name))
            whole = f"{right} {unit}".strip()
            written = (whole, whole.removeprefix("mean "), right, right.removeprefix("train "))
            fits = (text for text in written if title_cells + cell_len(text) <= room)
            # The name is cut before a number.
            right = first_parts(
                next(fits, written[-1]), room - min(title_cells, _LEAST_TITLE), " · "
            )
        room = max(_LEAST_TITLE, self.size.width - cell_len(right) - _BORDER_CELLS)
        picture = picture_of(curves, axis, below, reason, least_span, replace(style, slopes=True))
        gaps = sum(curve.not_numbers for _, curve in curves)
        # Only a logarithmic axis has labels of its own.
        is_log = bool(picture.left_labels[1:])
        notes = (
            "log y" * is_log,
            f"{gaps} × NaN or infinite" * bool(gaps),
            "without values ≤ 0" * (is_log and _has_not_positive(curves, axis)),
        )
        ruler = self.ruler_of(labels or axis.time_elapsed(0))
        more = tuple(filter(None, notes))
        self.set_titles(title_of(name, room), "", right, more, ruler=ruler)
        self.show(picture)


def values_of(
    name: str, curves: Sequence[Curve], at_cursor: Sequence[float | None] | None = None
) -> tuple[str, str]:
    """Return each run's value, and their unit unless each has a reason in place of a value."""
    text = " · ".join(value_texts(name, curves, at_cursor))
    is_known = at_cursor is not None or any(not curve.why for curve in curves)
    return text, unit_of(curves) if is_known else ""


def title_of(name: str, room: int = _LONGEST_TITLE) -> str:
    """Return the title of a chart of a quantity, in at most `room` cells."""
    name = metric_in_words(name)
    # With its group it is the name that the script gave.
    return shortened(name if "/" in name else name[:1].upper() + name[1:], room)


def picture_of(
    curves: Sequence[tuple[int, Curve]],
    axis: TimeAxis,
    below: ChartPicture,
    reason: str,
    least_span: float = 0.0,
    style: CurveStyle = _PLAIN,
) -> ChartPicture:
    """Return the picture of curves, or of the reason why there are none.

    The arguments are those of `CurveChart.show_curves`.
    """
    unit = unit_of([curve for _, curve in curves])
    scaled = _log10 if style.is_log and not unit else drawable
    lines = [(n, tuple(map(scaled, columns_of(curve, axis)))) for n, curve in curves]
    if style.slopes:
        # The mean over the time of a value makes a slope of each step.
        widths = [curve.series.width_ns // axis.column_ns for _, curve in curves]
        lines = [(n, smoothed(of, w // 2)) for (n, of), w in zip(lines, widths, strict=True)]
    dots = [dot for number, curve in curves for dot in _validations(number, curve, axis)]
    dots = [replace(dot, value=y) for dot in dots if (y := scaled(dot.value)) is not None]
    values = [value for _, columns in lines for value in columns if value is not None]
    values += [dot.value for dot in dots]
    if not values:
        if scaled is _log10 and _has_not_positive(curves, axis):
            reason = "no value above 0"
        reason = next((curve.why for _, curve in curves if curve.why), reason)
        columns = (None,) * axis.count
        return replace(below, columns=columns, reason=reason, left_labels=("",))
    if scaled is _log10:
        bottom, top = min(values) - _LOG_MARGIN, max(values) + _LOG_MARGIN
        ends = top, (top + bottom) / 2, bottom
        below = replace(below, left_labels=tuple(short_number(10.0**end) for end in ends))
    else:
        least, most = min(values), max(values)
        # What hardly moves lies in the middle.
        beside = max(0.0, least_span * least - (most - least)) / 2 or least * (least == most > 0)
        bottom, top = value_range(least - beside, most + beside)
    if unit == "%":
        bottom, top = 0.0, max(100.0, *values)
    is_single = len(lines) == 1
    if is_single:
        # The colour need not tell the run.
        dots = [replace(dot, tone=POINT) for dot in dots]
    if style.chosen is not None:
        lines.sort(key=lambda line: line[0] == style.chosen)
        behind = f"{_tone(style.chosen)}{BEHIND}"
        tones = [_tone(n) if n == style.chosen else behind for n, _ in lines]
        drawn = tuple((tone, columns) for tone, (_, columns) in zip(tones, lines, strict=True))
        return replace(below, lines=drawn, top=top, bottom=bottom)
    for _, curve in curves:
        at = axis.column_of((curve.series.end_ns or 0) - curve.start_ns)
        # A quantity of the machine has another reason: it can't be read now.
        if curve.why and not curve.unit and 0 <= at <= axis.count:
            y = scaled(curve.series.newest or 0.0)
            dots.append(Dot(at, bottom if y is None else y, f"✗ {curve.why}", BAD))
    styled = []
    beside = SMOOTHING[style.smoothing]
    if beside:
        styled = [(f"{_tone(n)}{BEHIND}", columns) for n, columns in lines]
        lines = [(n, smoothed(columns, beside)) for n, columns in lines]
    styled += [(_tone(n), columns if is_single else dashed(columns, n)) for n, columns in lines]
    return replace(below, lines=tuple(styled), dots=tuple(dots), top=top, bottom=bottom)


def _log10(value: float | None) -> float | None:
    """Return the logarithm of a value; None if it has none."""
    value = drawable(value)
    return math.log10(value) if value is not None and value > 0 else None


def _has_not_positive(curves: Sequence[tuple[int, Curve]], axis: TimeAxis) -> bool:
    return any(
        value is not None and value <= 0 for _, curve in curves for value in columns_of(curve, axis)
    )


def smoothed(columns: Columns, beside: int) -> Columns:
    """Return the mean of each value and of as many columns to either side; gaps stay."""
    means: list[float | None] = []
    for x, value in enumerate(columns):
        near = [v for v in columns[max(0, x - beside) : x + beside + 1] if v is not None]
        means.append(None if value is None else math.fsum(near) / len(near))
    return tuple(means)


def columns_of(curve: Curve, axis: TimeAxis) -> tuple[float | None, ...]:
    """Return a run's values along an axis of the time since the run began."""
    if curve.start_ns:
        axis = replace(axis, start_ns=axis.start_ns + curve.start_ns, elapsed=axis.count)
    return tuple(drawable(value and curve.factor * value) for value in axis.columns(curve.series))


def dashed(columns: Columns, number: int) -> Columns:
    """Return the line of a run with the dashes of its number."""
    period, dash = _DASHES[_dash_of(number)]
    return tuple(value if x % period < dash else None for x, value in enumerate(columns))


def _dash_of(number: int) -> int:
    """Return the dashes of a run: others once the colours begin again."""
    return (number + number // len(HUES)) % len(SIGNS)


def sign_of(number: int) -> tuple[str, str]:
    """Return the line of a run in a legend, and its colour."""
    return SIGNS[_dash_of(number)], _tone(number)


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
