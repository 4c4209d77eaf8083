"""Pictures of a report as SVG: what it draws over time, and the curves of sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeGuard

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dlmon.figures import units
from dlmon.figures.report.curves import Mark
from dlmon.figures.report.sections import Chart, Line
from dlmon.figures.value_axis import is_doubling, nice_step, nice_top
from dlmon.render.files import ReportError, make_folder, write_file
from dlmon.session.learning import LOSS

SVG = "svg"
COLOURS = 6
# Of short runs, each value of a metric is to be seen.
MOST_DOTS = 60

_WIDTH, _HEIGHT = 900, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 884, 34, 262
_KEY_WIDTH, _KEY_ROW_HEIGHT, _KEY_ROWS_AT = 150, 16, 292
_KEYS_IN_A_ROW = (_RIGHT - _LEFT) // _KEY_WIDTH
_MOST_TICKS, _MOST_DECIMALS = 6, 6
_MOST_TIMES = 8
_SPANS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
# This share of a sweep's axis is left free at each end.
_FREE = 0.04


@dataclass(frozen=True)
class Plot:
    """A picture in the units of what it shows, drawn as SVG and as PNG.

    Attributes:
        start, end: of the axis along the bottom, whose labels are `x_ticks`.
        marks: moments on it.
        most_dots: each value is to be seen of a line that has no more.
    """

    title: str
    unit: str
    start: float
    end: float
    x_ticks: tuple[tuple[float, str], ...]
    bottom: float
    top: float
    lines: tuple[Line, ...]
    marks: tuple[float, ...] = ()
    most_dots: int = 0

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        return ticks(self.bottom, self.top)

    def colour(self, number: int) -> int:
        """Return the colour of a line: that of its session where there are several."""
        is_alone = len({line.session for line in self.lines}) == 1
        return (number if is_alone else self.lines[number].session) % COLOURS

    def x(self, value: float) -> float:
        """Return where a value stands in the picture as SVG."""
        share = (value - self.start) / (self.end - self.start)
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    def y(self, value: float) -> float:
        """Return the same of a value of the lines; what is beyond the scale stays at its end."""
        share = min(1.0, max(0.0, (value - self.bottom) / (self.top - self.bottom)))
        return round(_BOTTOM - (_BOTTOM - _TOP) * share, 1)


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


def svg_of(plot: Plot, standalone: bool = True) -> Markup:
    """Return a picture as SVG; one that stands alone has its own style, not that of a page."""
    template = templates().get_template("chart.svg")
    style = Markup(text_of_file("templates/chart.css")) if standalone else ""
    places = {"left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM, "width": _WIDTH}
    rows = -(-len(plot.lines) // _KEYS_IN_A_ROW)
    places["height"] = _HEIGHT + max(0, rows - 1) * _KEY_ROW_HEIGHT
    lines = [svg_line(plot, number) for number in range(len(plot.lines))]
    drawn = template.render(p=plot, d=places, lines=lines, standalone=standalone, style=style)
    return Markup(drawn.strip() + "\n")


def svg_line(plot: Plot, number: int) -> dict[str, Any]:
    """Return a line in the coordinates of the picture as SVG, and where its key stands."""
    line = plot.lines[number]
    xs = [plot.x(x) for x in line.xs]
    known = zip(xs, line.mean, strict=True) if len(xs) <= plot.most_dots else ()
    return {
        "label": line.label,
        "colour": plot.colour(number),
        "is_dashed": line.is_validation,
        "path": _path(plot, xs, line.mean),
        "band": _band(plot, xs, line) if line.varies else "",
        "dots": [(x, plot.y(value)) for x, value in known if _known(value)],
        "key_x": _LEFT + number % _KEYS_IN_A_ROW * _KEY_WIDTH,
        "key_y": _KEY_ROWS_AT + number // _KEYS_IN_A_ROW * _KEY_ROW_HEIGHT,
    }


def _path(plot: Plot, xs: Sequence[float], values: Sequence[float | None]) -> str:
    """Return a line through the values; what is unknown is a gap, and a value alone a dot."""
    parts = []
    for known, group in groupby(zip(xs, values, strict=True), key=lambda pair: _known(pair[1])):
        if known:
            points = [(x, plot.y(value or 0.0)) for x, value in group]
            first = points[0]
            rest = points[1:] or [(first[0] + 1, first[1])]
            parts.append(f"M{first[0]} {first[1]}L" + " ".join(f"{x} {y}" for x, y in rest))
    return "".join(parts)


def _band(plot: Plot, xs: Sequence[float], line: Line) -> str:
    parts = []
    of_all = zip(xs, line.low, line.high, strict=True)
    for known, group in groupby(of_all, key=lambda one: _known(one[1]) and _known(one[2])):
        if known:
            spans = [(x, plot.y(low or 0.0), plot.y(high or 0.0)) for x, low, high in group]
            there = " ".join(f"{x} {high}" for x, _, high in spans)
            back = " ".join(f"{x} {low}" for x, low, _ in reversed(spans))
            parts.append(f"M{there} {back}Z")
    return "".join(parts)


def write_charts(
    folder: Path,
    charts: Sequence[Chart],
    metrics: Sequence[Chart],
    marks: Sequence[Mark],
    sweeps: Sequence[Chart],
    form: str = SVG,
) -> list[Path]:
    """Write each picture as svg or png into a folder, and return the files.

    Nothing of a log names one: of the metrics the loss is called so, the others by their numbers.

    Raises:
        ReportError: they can't be written, or there is nothing here that draws them.
    """
    picture_of = svg_of if form == SVG else _drawn_as_png()
    plots = {chart.title.lower().replace(" ", "-"): draw_chart(chart, marks) for chart in charts}
    for number, metric in enumerate(metrics, 1):
        name = LOSS if metric.metric == LOSS else f"metric-{number}"
        plots[name] = draw_chart(metric, marks)
    plots |= {f"sweep-{number}": draw_sweep(one) for number, one in enumerate(sweeps, 1)}
    make_folder(folder)
    paths = {folder / f"{name}.{form}": plot for name, plot in plots.items()}
    for path, plot in paths.items():
        write_file(path, [picture_of(plot)])
    return list(paths)


def _drawn_as_png() -> Callable[[Plot], bytes]:
    try:
        from dlmon.render.png import png_of
    except ImportError:
        raise ReportError(
            "pictures as PNG need matplotlib: pip install 'dlmon[png]', or leave out --charts-as"
        ) from None
    return png_of


def draw_chart(chart: Chart, marks: Sequence[Mark] = ()) -> Plot:
    """Draw lines over time, with the band from the least to the greatest behind each."""
    highest = [value for line in chart.lines for value in line.high if _known(value)]
    span_s = chart.end_s or 1.0
    days = math.ceil(span_s / 86_400 / _MOST_TIMES)
    step_s = next((span for span in _SPANS_S if span_s / span <= _MOST_TIMES), 86_400 * days)
    return Plot(
        title=chart.title,
        unit=chart.unit,
        start=0.0,
        end=span_s,
        x_ticks=tuple((float(at), units.clock(at)) for at in range(0, int(span_s) + 1, step_s)),
        bottom=chart.bottom,
        top=nice_top(max(highest, default=0.0)) if chart.top is None else chart.top,
        lines=chart.lines,
        marks=tuple(mark.at_s for mark in marks if 0 < mark.at_s < span_s),
        most_dots=MOST_DOTS if chart.metric else 0,
    )


def ticks(bottom: float, top: float) -> list[tuple[float, str]]:
    """Return round values of an axis, with as many digits as they need."""
    step = nice_step((top - bottom) / _MOST_TICKS)
    first, last = math.ceil(bottom / step - 1e-6), math.floor(top / step + 1e-6)
    values = [number * step for number in range(first, last + 1)]
    decimals = max(0, -math.floor(math.log10(step)))
    is_plain = decimals < _MOST_DECIMALS and max(map(abs, values)) < 1e6
    return [(v, f"{v:,.{decimals}f}" if is_plain else f"{v:.6g}") for v in values]


def draw_sweep(chart: Chart) -> Plot:
    """Draw what combinations took along the axis of what was varied."""
    xs = [x for x, _ in chart.x_labels]
    scale = math.log2 if is_doubling(xs) else float
    place = {x: scale(x) for x in xs}
    free = _FREE * (place[xs[-1]] - place[xs[0]]) or 0.5
    values = [value for line in chart.lines for value in (*line.mean, *line.high) if _known(value)]
    return Plot(
        title=chart.title,
        unit="",
        start=place[xs[0]] - free,
        end=place[xs[-1]] + free,
        x_ticks=tuple((place[x], label) for x, label in chart.x_labels),
        bottom=0.0,
        top=nice_top(max(values, default=0.0)),
        lines=tuple(replace(line, xs=tuple(place[x] for x in line.xs)) for line in chart.lines),
        most_dots=len(xs),
    )


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
