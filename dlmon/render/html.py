"""Write a report as one HTML file that needs no network.

The template engine escapes all text from logs. The page's Content-Security-Policy allows only our
own scripts and style, by their hashes.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode

from markupsafe import Markup

from dlmon import __version__
from dlmon.figures.report.curves import chart_json
from dlmon.figures.report.report import Report
from dlmon.figures.sections import Bar, Bars
from dlmon.figures.value_axis import bar_lengths
from dlmon.render.charts import svg_of, templates, text_of_file
from dlmon.render.plot import draw_sweep

_SCRIPTS = ("uplot/uPlot.iife.min.js", "templates/report.js")
_STYLES = ("uplot/uPlot.min.css", "templates/chart.css", "templates/report.css")


def html_of(report: Report) -> str:
    """Return a report as an HTML page."""
    scripts = [text_of_file(name) for name in _SCRIPTS]
    style = "\n".join(text_of_file(name) for name in _STYLES)
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash_of, scripts))}; "
        f"style-src {_hash_of(style)}; base-uri 'none'; form-action 'none'"
    )
    drawn = {
        "charts": [chart_json(chart) for chart in report.charts],
        "metrics": [chart_json(chart) for chart in report.metrics],
        "marks": [{"at": mark.at_s, "text": mark.text} for mark in report.marks],
    }
    return (
        templates()
        .get_template("report.html")
        .render(
            report=report,
            version=__version__,
            policy=policy,
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
            licence=text_of_file("uplot/LICENSE"),
            drawn=drawn,
            lengths=_lengths,
            kind_of=lambda section: type(section).__name__,
            drawn_sweep=lambda chart: svg_of(draw_sweep(chart), standalone=False),
        )
    )


def _lengths(section: Bars) -> tuple[list[tuple[Bar, float]], bool]:
    """Return bars with their lengths in percent, and whether the scale is logarithmic."""
    values = [bar.value for bar in section.bars]
    fractions, is_logarithmic = bar_lengths(values)
    if section.are_parts and is_logarithmic:
        fractions, is_logarithmic = tuple(value / max(values) for value in values), False
    lengths = [round(100 * share, 1) for share in fractions]
    return list(zip(section.bars, lengths, strict=True)), is_logarithmic


def _hash_of(text: str) -> str:
    """Return the hash of an inline script or style, as the policy writes it."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
