"""Logs that nobody recorded are reported, or refused in a sentence; none breaks a report."""

import contextlib
import json

import pytest
from fakes.forged_logs import forge_logs
from fakes.strategies import ANY_RECORDS, header
from hypothesis import given, settings

from dlmon.figures.report import session_report
from dlmon.figures.report.report import make_report
from dlmon.log.folder import LOG_NAME, LogError
from dlmon.records import encode
from dlmon.render.charts import svg_of
from dlmon.render.files import ReportError
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of
from dlmon.render.plot import draw_chart
from dlmon.render.tidy import TABLES, csv_lines, rows_of

LARGEST_BYTES = 2_000_000


def _refuse(constant):
    raise AssertionError(f"{constant} is no number of JSON")


def report_all(path):
    """Make every kind of report of a log, and return how long the longest is."""
    report = make_report([path], [])
    texts = [html_of(report), markdown_of(report), json.dumps(report.as_json(), allow_nan=False)]
    texts += [svg_of(draw_chart(chart, report.marks)) for chart in report.charts]
    texts += [svg_of(draw_chart(chart, report.marks)) for chart in report.metrics]
    for table in (None, *TABLES):
        # A table of nothing is refused.
        with contextlib.suppress(ReportError):
            texts.append("".join(csv_lines(rows_of([path], table))))
    # A text may be "NaN", and a number may not.
    json.loads(texts[2], parse_constant=_refuse)
    return max(map(len, texts))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_forged_log_is_reported_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(session_report, "list_sessions", lambda directory: [])
    forge_logs(tmp_path)
    refused = 0
    # Each attack stands in many fields: some of them will do here.
    for path in sorted(tmp_path.glob(f"*/{LOG_NAME}"))[::8]:
        try:
            assert report_all(path) < LARGEST_BYTES
        except LogError:
            refused += 1
    assert refused


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(records=ANY_RECORDS)
def test_any_records_are_reported(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("log")
    path = folder / "any" / LOG_NAME
    path.parent.mkdir()
    path.write_bytes(b"".join(encode(record) for record in (header(), *records)))
    report_all(path)
