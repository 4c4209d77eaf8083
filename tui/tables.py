"""Print lists for `dlmon list`, `sessions` and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from dlmon.doctor import Finding
from dlmon.records import to_json
from dlmon.sessions import SessionEntry
from tui import figures
from tui.compared import compared_metric, mode_of, timed_unit, timing_of_result
from tui.console import table_console
from workloads.catalog import Workload

_WIDTH_FOR_ONE_ROW = 140


def print_workloads(workloads: Sequence[Workload]) -> None:
    """Print one row a workload, two where the terminal is narrow, and where they come from."""
    console = table_console()
    one_row = console.width >= _WIDTH_FOR_ONE_ROW
    what = ("what it is",) if one_row else ()
    table = _table("name", *what, "parameters", "FLOP/sample", "batch", "runs for", "source")
    sources = list(dict.fromkeys(workload.source for workload in workloads))
    for workload in workloads:
        table.add_row(
            Text(workload.name, style="bold"),
            *([Text(workload.title)] if one_row else []),
            f"{workload.parameters:,}",
            figures.count(workload.train_flops),
            str(workload.batch_size),
            run_length(workload),
            Text(f"[{sources.index(workload.source) + 1}]", style="dim"),
        )
    # Titles are longer than any column: they stand below, over all of them.
    options = console.options.update(width=max(console.width, _WIDTH_FOR_ONE_ROW))
    rows = console.render_lines(table, options, pad=False)
    titles = ("", *(f"  {workload.title}" for workload in workloads))
    for row, title in zip(rows, titles, strict=True):
        console.print(Segments([*row, Segment.line()]), crop=False)
        if title and not one_row:
            console.print(Text(title, style="dim"))
    console.print()
    for number, source in enumerate(sources, start=1):
        console.print(Text(f"[{number}] {source}", style="dim"))


def run_length(workload: Workload) -> str:
    """Return how long a run of a workload is: 10 epochs, or 100 steps."""
    if workload.steps is not None:
        return f"{workload.steps} steps"
    return f"{workload.epochs} epochs"


def print_sessions(entries: Sequence[SessionEntry], directory: Path) -> None:
    """Print one row a session, newest last."""
    console = table_console()
    if not entries:
        console.print(Text(f"no sessions in {directory} yet; dlmon run makes one"))
        return
    table = _table("session", "started", "workload", "status", "device", "result")
    for entry in entries:
        table.add_row(
            Text(entry.header.id, style="bold"),
            figures.day_and_time(entry.header.wall),
            Text(entry.header.workload),
            Text(entry.status),
            Text(_device(entry)),
            Text(_outcome(entry)),
        )
    console.print(table)


def session_json(entry: SessionEntry) -> dict[str, Any]:
    """Return a session as `sessions --json` prints it."""
    return {
        "session": entry.header.id,
        "workload": entry.header.workload,
        "status": entry.status,
        "host": entry.header.host,
        "wall": entry.header.wall,
        "pid": entry.pid,
        "log": str(entry.path),
        "options": entry.header.options,
        "result": to_json(entry.result) if entry.result is not None else None,
    }


def print_findings(findings: Sequence[Finding]) -> None:
    """Print what was found, each with its next step."""
    console = table_console()
    marks = {"ok": ("✓", "green"), "missing": ("✗", "red"), "warning": ("!", "yellow")}
    for finding in findings:
        mark, style = marks[finding.state]
        console.print(
            Text.assemble((f"{mark} ", style), (f"{finding.topic}: ", "bold"), finding.text)
        )
        if finding.next_step:
            console.print(Text(f"    → {finding.next_step}", style="dim"))


def _device(entry: SessionEntry) -> str:
    if entry.result is None:
        return str(entry.header.options.get("device") or "")
    return entry.result.device_name or entry.result.device or ""


def _outcome(entry: SessionEntry) -> str:
    result = entry.result
    if result is None:
        return ""
    if result.error:
        return result.error
    timing = timing_of_result(result, entry.header.workload)
    if timing is None:
        return ""
    metric = compared_metric(entry.header.workload, mode_of(result.options))
    return f"{figures.band(timing)} {timed_unit(metric)}"


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        numeric = heading in ("parameters", "FLOP/sample", "batch", "runs for")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    return table
