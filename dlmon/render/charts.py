"""Pictures of a report as SVG: what it draws over time, and the curves of sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TypeGuard

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dlmon.figures import units
from dlmon.figures.curves import Chart, Mark
from dlmon.figures.metric_curves import MetricChart, PointLine
from dlmon.figures.sections import Curves
from dlmon.figures.value_axis import nice_top, short_number
from dlmon.render.files import ReportError, make_folder, write_file
from dlmon.session.learning import LOSS
from dlmon.statistics.envelope import Columns

SVG, PNG = FORMS = ("svg", "png")
COLOURS = 6

DrawChart = Callable[[Chart, Sequence[Mark]], str | bytes]
DrawMetric = Callable[[MetricChart, Sequence[Mark]], str | bytes]
DrawSweep = Callable[[Curves], str | bytes]

_WIDTH, _HEIGHT = 900, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 884, 34, 262
_KEY_WIDTH, _KEY_ROW_HEIGHT, _KEY_ROWS_AT = 150, 16, 292
_KEYS_IN_A_ROW = (_RIGHT - _LEFT) // _KEY_WIDTH
_TICKS = 4
_MOST_TICKS = 6
_MOST_TIMES = 8
_MOST_POINTS = 1000
_SPANS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)


@dataclass(frozen=True)
class DrawnLine:
    """One line in the coordinates of the picture, and its number among the others.

    Attributes:
        coloured_as: the number of another line that has the same colour, in place of its own.
    """

    number: int
    label: str
    path: str
    band: str = ""
    dots: tuple[tuple[float, float], ...] = ()
    coloured_as: int | None = None
    is_dashed: bool = False

    @property
    def colour(self) -> int:
        number = self.number if self.coloured_as is None else self.coloured_as
        return number % COLOURS

    @property
    def key_x(self) -> int:
        """Where its key stands: below the picture, in rows."""
        return _LEFT + self.number % _KEYS_IN_A_ROW * _KEY_WIDTH

    @property
    def key_y(self) -> int:
        return _KEY_ROWS_AT + self.number // _KEYS_IN_A_ROW * _KEY_ROW_HEIGHT


@dataclass(frozen=True)
class Drawing:
    """A picture: its axes, and its lines."""

    title: str
    unit: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    lines: tuple[DrawnLine, ...]
    marks: tuple[float, ...] = ()
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _RIGHT
    top: int = _TOP
    bottom: int = _BOTTOM


@cache
def templates() -> Environment:
    """Return the templates of a report; whatever is put into them is escaped."""
    return Environment(
        loader=PackageLoader("dlmon.render", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def text_of_file(name: str) -> str:
    """Return a file of this package as it is."""
    return (Path(__file__).parent / name).read_text("utf-8")


def svg_of(drawing: Drawing, standalone: bool = True) -> Markup:
    """Return a picture as SVG.

    Args:
        drawing: the picture.
        standalone: with its own style; within a page it has that of the page.
    """
    template = templates().get_template("chart.svg")
    style = Markup(text_of_file("templates/chart.css")) if standalone else ""
    return Markup(template.render(d=drawing, standalone=standalone, style=style).strip() + "\n")


def write_charts(
    folder: Path,
    charts: Sequence[Chart],
    metrics: Sequence[MetricChart],
    marks: Sequence[Mark],
    sweeps: Sequence[Curves],
    form: str = SVG,
) -> list[Path]:
    """Write each picture into a folder, and return the files. Nothing of a log names one.

    Args:
        folder: where.
        charts: over time.
        metrics: the same; that of the loss is called so, the others by their numbers.
        marks: on their axis.
        sweeps: what was varied.
        form: svg or png.

    Raises:
        ReportError: they can't be written, or there is nothing here that draws them.
    """
    chart_of, metric_of, sweep_of = _drawn_as(form)
    pictures = {_file_name(chart.title): chart_of(chart, marks) for chart in charts}
    for number, metric in enumerate(metrics, 1):
        name = LOSS if metric.metric == LOSS else f"metric-{number}"
        pictures[name] = metric_of(metric, marks)
    pictures |= {f"sweep-{number}": sweep_of(one) for number, one in enumerate(sweeps, 1)}
    make_folder(folder)
    paths = {folder / f"{name}.{form}": picture for name, picture in pictures.items()}
    for path, picture in paths.items():
        write_file(path, [picture])
    return list(paths)


def _drawn_as(form: str) -> tuple[DrawChart, DrawMetric, DrawSweep]:
    """Return what draws a chart, one of a metric, and the curves of a sweep, in a form."""
    if form == SVG:
        return (
            lambda chart, marks: svg_of(draw_chart(chart, marks)),
            lambda chart, marks: svg_of(draw_metric(chart, marks)),
            lambda curves: svg_of(draw_sweep(curves)),
        )
    try:
        from dlmon.render.png import png_of_chart, png_of_metric, png_of_sweep
    except ImportError:
        raise ReportError(
            "pictures as PNG need matplotlib: pip install 'dlmon[png]', or leave out --charts-as"
        ) from None
    return png_of_chart, png_of_metric, png_of_sweep


def _file_name(title: str) -> str:
    return title.lower().replace(" ", "-")


def draw_chart(chart: Chart, marks: Sequence[Mark] = ()) -> Drawing:
    """Draw lines over time, with the band from the least to the greatest behind each."""
    span_s = max(len(line.columns.mean) for line in chart.lines) * chart.width_s or 1.0
    highest = [value for line in chart.lines for value in line.columns.high if _known(value)]
    top = chart.top or nice_top(max(highest, default=0.0))
    columns = [_fewer(line.columns) for line in chart.lines]
    lines = []
    for number, (line, (shown, factor)) in enumerate(zip(chart.lines, columns, strict=True)):
        width_s = chart.width_s * factor
        xs = [_x((index + 0.5) * width_s / span_s) for index in range(len(shown.mean))]
        lines.append(
            DrawnLine(
                number=number,
                label=line.label,
                path=_path(xs, shown.mean, top),
                band=_band(xs, shown, top),
            )
        )
    return Drawing(
        title=chart.title,
        unit=chart.unit,
        x_ticks=_time_ticks(span_s),
        y_ticks=_y_ticks(top),
        lines=tuple(lines),
        marks=_mark_places(marks, span_s),
        height=_height(len(lines)),
    )


def draw_metric(chart: MetricChart, marks: Sequence[Mark] = ()) -> Drawing:
    """Draw a metric over time: its values at their times, joined."""
    span_s = chart.end_s or 1.0
    lines = tuple(
        _drawn_metric(number, line, chart, span_s) for number, line in enumerate(chart.lines)
    )
    values = tick_values(chart.bottom, chart.top)
    return Drawing(
        title=chart.title,
        unit="",
        x_ticks=_time_ticks(span_s),
        y_ticks=tuple(
            (_y(value, chart.top, chart.bottom), label)
            for value, label in zip(values, tick_labels(values), strict=True)
        ),
        lines=lines,
        marks=_mark_places(marks, span_s),
        height=_height(len(lines)),
    )


def _drawn_metric(number: int, line: PointLine, chart: MetricChart, span_s: float) -> DrawnLine:
    xs = [_x(point.t / span_s) for point in line.points]
    ends = chart.top, chart.bottom
    columns = line.columns
    known = [
        (x, _y(mean, *ends)) for x, mean in zip(xs, columns.mean, strict=True) if mean is not None
    ]
    is_alone = len({one.number for one in chart.lines}) == 1
    return DrawnLine(
        number=number,
        label=line.label,
        path=_path(xs, columns.mean, *ends),
        band=_band(xs, columns, *ends),
        dots=tuple(known) if line.has_dots else (),
        coloured_as=None if is_alone else line.number,
        is_dashed=line.is_validation,
    )


def tick_values(bottom: float, top: float) -> list[float]:
    """Return round values of an axis, and its bottom where none of these is near."""
    rough = (top - bottom) / _MOST_TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((part * size for part in (1, 2, 2.5, 5) if part * size >= rough), 10 * size)
    first, last = math.ceil(bottom / step - 1e-6), math.floor(top / step + 1e-6)
    values = [number * step for number in range(first, last + 1)]
    is_far = not values or values[0] - bottom > 0.6 * step
    return [bottom, *values] if is_far else values


def tick_labels(values: Sequence[float]) -> list[str]:
    """Return the labels of an axis, with as many digits as they need."""
    step = min((abs(b - a) for a, b in pairwise(values)), default=1.0)
    largest = max(map(abs, values), default=0.0)
    for decimals in range(7) if largest < 1e6 else ():
        if all(abs(round(value, decimals) - value) <= step / 1000 for value in values):
            return [f"{value:,.{decimals}f}" for value in values]
    labels: list[str] = []
    for digits in range(4, 16):
        labels = [f"{value:.{digits}g}" for value in values]
        pairs = zip(labels, values, strict=True)
        if all(abs(float(label) - value) <= step / 1000 for label, value in pairs):
            break
    return labels


def _time_ticks(span_s: float) -> tuple[tuple[float, str], ...]:
    days = math.ceil(span_s / 86_400 / _MOST_TIMES)
    step_s = next((span for span in _SPANS_S if span_s / span <= _MOST_TIMES), 86_400 * days)
    return tuple((_x(at / span_s), units.clock(at)) for at in range(0, int(span_s) + 1, step_s))


def _mark_places(marks: Sequence[Mark], span_s: float) -> tuple[float, ...]:
    return tuple(_x(mark.at_s / span_s) for mark in marks if 0 < mark.at_s < span_s)


def draw_sweep(curves: Curves) -> Drawing:
    """Draw what combinations took along the axis of what was varied."""
    points = [point for line in curves.lines.values() for point in line]
    xs = sorted({point.x for point in points})
    doubling = len(xs) > 1 and xs[0] > 0 and all(b >= 2 * a for a, b in pairwise(xs))
    scaled = {x: math.log2(x) if doubling else x for x in xs}
    least, most = min(scaled.values(), default=0.0), max(scaled.values(), default=0.0)

    def place(x: float) -> float:
        return _x(0.04 + 0.92 * ((scaled[x] - least) / (most - least) if most > least else 0.5))

    top = nice_top(max(filter(_known, (point.y for point in points)), default=0.0))
    lines = []
    for number, (label, line) in enumerate(curves.lines.items()):
        known = [(place(p.x), _y(p.y, top)) for p in line if p.y is not None and _known(p.y)]
        path = _path([place(point.x) for point in line], [point.y for point in line], top)
        lines.append(DrawnLine(number, label, path, dots=tuple(known)))
    labels = {point.x: point.label for point in points}
    return Drawing(
        title=curves.title,
        unit="",
        x_ticks=tuple((place(x), labels[x]) for x in xs),
        y_ticks=_y_ticks(top),
        lines=tuple(lines),
        height=_height(len(lines)),
    )


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _x(share: float) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * share, 1)


def _y(value: float, top: float, bottom: float = 0.0) -> float:
    share = min(1.0, max(0.0, (value - bottom) / (top - bottom)))
    return round(_BOTTOM - (_BOTTOM - _TOP) * share, 1)


def _y_ticks(top: float) -> tuple[tuple[float, str], ...]:
    values = [top * number / _TICKS for number in range(_TICKS + 1)]
    return tuple((_y(value, top), short_number(value)) for value in values)


def _height(lines: int) -> int:
    """Return how high a picture is with the keys of its lines."""
    rows = -(-lines // _KEYS_IN_A_ROW)
    return _HEIGHT + max(0, rows - 1) * _KEY_ROW_HEIGHT


def _fewer(columns: Columns) -> tuple[Columns, int]:
    """Return no more columns than a picture shows, and how many of the given are in one."""
    factor = -(-len(columns.mean) // _MOST_POINTS) or 1
    if factor == 1:
        return columns, 1

    def merged(values: Sequence[float | None], of: str) -> Iterator[float | None]:
        for start in range(0, len(values), factor):
            known = [value for value in values[start : start + factor] if value is not None]
            if not known:
                yield None
            elif of == "mean":
                yield sum(known) / len(known)
            else:
                yield min(known) if of == "low" else max(known)

    return Columns(
        tuple(merged(columns.mean, "mean")),
        tuple(merged(columns.low, "low")),
        tuple(merged(columns.high, "high")),
    ), factor


def _path(
    xs: Sequence[float], values: Sequence[float | None], top: float, bottom: float = 0.0
) -> str:
    """Return a line through the values; what is unknown is a gap, and a value alone a dot."""
    parts = []
    for known, group in groupby(zip(xs, values, strict=True), key=lambda pair: _known(pair[1])):
        if known:
            points = [(x, _y(value or 0.0, top, bottom)) for x, value in group]
            first = points[0]
            rest = points[1:] or [(first[0] + 1, first[1])]
            parts.append(f"M{first[0]} {first[1]}L" + " ".join(f"{x} {y}" for x, y in rest))
    return "".join(parts)


def _band(xs: Sequence[float], columns: Columns, top: float, bottom: float = 0.0) -> str:
    if columns.low == columns.high:
        return ""
    parts = []
    of_all = zip(xs, columns.low, columns.high, strict=True)
    for known, group in groupby(of_all, key=lambda one: _known(one[1]) and _known(one[2])):
        if known:
            spans = [
                (x, _y(low or 0.0, top, bottom), _y(high or 0.0, top, bottom))
                for x, low, high in group
            ]
            there = " ".join(f"{x} {high}" for x, _, high in spans)
            back = " ".join(f"{x} {low}" for x, low, _ in reversed(spans))
            parts.append(f"M{there} {back}Z")
    return "".join(parts)
