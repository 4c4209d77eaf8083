"""Draw the charts of a report as SVG, and write pictures to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dlmon.figures.report.curves import TimeMark
from dlmon.figures.sections import Line, LineChart
from dlmon.render.files import ReportError, make_folder, write_file
from dlmon.render.plot import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Plot,
    draw_chart,
    draw_sweep,
    is_drawn,
)
from dlmon.session.learning import LOSS

SVG = "svg"
_KEY_WIDTH, _KEY_ROW_HEIGHT, _KEY_ROWS_AT = 150, 16, 292
_KEYS_IN_A_ROW = (RIGHT - LEFT) // _KEY_WIDTH


@cache
def templates() -> Environment:
    """Return the templates of a report; they escape all values."""
    return Environment(
        loader=PackageLoader("dlmon.render", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def text_of_file(name: str) -> str:
    """Return the text of a file of this package."""
    return (Path(__file__).parent / name).read_text("utf-8")


def svg_of(plot: Plot, standalone: bool = True) -> Markup:
    """Return a picture as SVG; a standalone one has its own style."""
    template = templates().get_template("chart.svg")
    style = Markup(text_of_file("templates/chart.css")) if standalone else ""
    places = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "width": WIDTH}
    rows = -(-len(plot.lines) // _KEYS_IN_A_ROW)
    places["height"] = HEIGHT + max(0, rows - 1) * _KEY_ROW_HEIGHT
    lines = [svg_line(plot, number) for number in range(len(plot.lines))]
    drawn = template.render(p=plot, d=places, lines=lines, standalone=standalone, style=style)
    return Markup(drawn.strip() + "\n")


def svg_line(plot: Plot, number: int) -> dict[str, Any]:
    """Return a line and the position of its key, in SVG coordinates."""
    line = plot.lines[number]
    xs = [plot.x(x) for x in line.xs]
    points = zip(xs, line.mean, strict=True) if len(xs) <= plot.most_dots else ()
    return {
        "label": line.label,
        "colour": plot.colour(number),
        "is_dashed": line.is_validation,
        "path": _path(plot, xs, line.mean),
        "band": _band(plot, xs, line) if line.varies else "",
        "dots": [(x, plot.y(value)) for x, value in points if is_drawn(value)],
        "key_x": LEFT + number % _KEYS_IN_A_ROW * _KEY_WIDTH,
        "key_y": _KEY_ROWS_AT + number // _KEYS_IN_A_ROW * _KEY_ROW_HEIGHT,
    }


def _path(plot: Plot, xs: Sequence[float], values: Sequence[float | None]) -> str:
    """Return a path through the values: unknown ones are gaps, single ones dots."""
    parts = []
    for is_known, group in groupby(zip(xs, values, strict=True), key=lambda p: is_drawn(p[1])):
        if is_known:
            points = [(x, plot.y(value or 0.0)) for x, value in group]
            first = points[0]
            rest = points[1:] or [(first[0] + 1, first[1])]
            parts.append(f"M{first[0]} {first[1]}L" + " ".join(f"{x} {y}" for x, y in rest))
    return "".join(parts)


def _band(plot: Plot, xs: Sequence[float], line: Line) -> str:
    parts = []
    of_all = zip(xs, line.low, line.high, strict=True)
    for is_known, group in groupby(of_all, key=lambda p: is_drawn(p[1]) and is_drawn(p[2])):
        if is_known:
            spans = [(x, plot.y(low or 0.0), plot.y(high or 0.0)) for x, low, high in group]
            there = " ".join(f"{x} {high}" for x, _, high in spans)
            back = " ".join(f"{x} {low}" for x, low, _ in reversed(spans))
            parts.append(f"M{there} {back}Z")
    return "".join(parts)


def write_charts(
    folder: Path,
    charts: Sequence[LineChart],
    metrics: Sequence[LineChart],
    marks: Sequence[TimeMark],
    sweeps: Sequence[LineChart],
    form: str = SVG,
) -> list[Path]:
    """Write each picture as svg or png into a folder, and return the files.

    File names hold nothing from a log: metrics other than the loss are numbered.

    Raises:
        ReportError: they can't be written, or matplotlib isn't installed.
    """
    picture_of = svg_of if form == SVG else _drawn_as_png()
    plots = {chart.title.lower().replace(" ", "-"): draw_chart(chart, marks) for chart in charts}
    for number, metric in enumerate(metrics, 1):
        name = LOSS if metric.metric == LOSS else f"metric-{number}"
        plots[name] = draw_chart(metric, marks)
    plots |= {f"sweep-{number}": draw_sweep(sweep) for number, sweep in enumerate(sweeps, 1)}
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
