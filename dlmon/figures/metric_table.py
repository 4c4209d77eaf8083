"""A row for each metric of several runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dlmon.figures import units
from dlmon.figures.report.curves import curves_of, metric_text
from dlmon.log.folder import id_of
from dlmon.metric_files.file_session import FileSource
from dlmon.metric_files.find import FoundRun
from dlmon.session.run_figures import read_session

_NOTHING = "no metrics"


def metric_rows(logs: Sequence[Path], runs: Sequence[FoundRun]) -> list[dict[str, Any]]:
    """Return a row for each metric: of sessions its curve, of files its values.

    What has none, or could not be read whole, has a row with the problem.

    Raises:
        LogError: a log can't be read.
    """
    rows: list[dict[str, Any]] = []
    for log in logs:
        session = read_session(log)
        curves = curves_of(session, session.header.t)
        if not curves:
            rows.append({"run": id_of(log), "problem": _NOTHING})
        for name, curve in curves.items():
            last = curve.newest if curve.newest is not None else curve.series.newest
            rows.append({"run": id_of(log), "metric": name, "unit": curve.unit, "last": last})
    for run in runs:
        source = FileSource(run)
        while source.read_share is not None:
            source.poll(math.inf)
        metrics = source.session.points.metrics
        for name, points in metrics.items():
            finite = [value for value in points.values if math.isfinite(value)]
            rows.append(
                {
                    "run": source.session.points.name,
                    "metric": name,
                    "points": len(points.values),
                    "last_step": points.steps[-1] if math.isfinite(points.steps[-1]) else None,
                    "last": finite[-1] if finite else None,
                    "least": min(finite, default=None),
                    "most": max(finite, default=None),
                    "not_numbers": len(points.values) - len(finite),
                }
            )
        if source.problem or not metrics:
            problem = source.problem or _NOTHING
            rows.append({"run": source.session.points.name, "problem": problem})
    return rows


def table_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table, a block for each run."""
    run = None
    width = max((len(row.get("metric", "")) for row in rows), default=0)
    for row in rows:
        if row["run"] != run:
            run = row["run"]
            yield run
        if "problem" in row:
            yield f"  {row['problem']}"
            continue
        write = partial(_text, row["metric"])
        parts = [f"last {write(row['last'])} {row.get('unit', '')}".rstrip()]
        if "points" in row:
            step = "" if row["last_step"] is None else f" at step {row['last_step']:,.0f}"
            parts[0] += step
            parts.append(f"{write(row['least'])} to {write(row['most'])}")
            parts.append(units.counted(row["points"], "value"))
            if row["not_numbers"]:
                parts.append(f"{row['not_numbers']:,} × NaN or infinite")
        yield f"  {row['metric']:{width}}  {', '.join(parts)}"


def _text(name: str, value: float | None) -> str:
    return "–" if value is None else metric_text(name, value)
