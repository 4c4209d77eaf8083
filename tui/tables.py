"""Print lists for `dlmon list`, `sessions` and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from dlmon.doctor import Finding
from dlmon.records import to_json
from dlmon.sessions import SessionEntry
from tui import figures
from tui.console import table_console
from workloads.catalog import WORKLOADS, Workload


def print_workloads(workloads: Sequence[Workload]) -> None:
    """Print one row a workload."""
    table = _table("name", "what it is", "parameters", "FLOP/sample", "batch", "epochs", "source")
    for workload in workloads:
        table.add_row(
            Text(workload.name, style="bold"),
            Text(workload.title),
            f"{workload.parameters:,}",
            figures.count(workload.train_flops),
            str(workload.batch_size),
            str(workload.epochs),
            Text(workload.source, style="dim"),
        )
    table_console().print(table)


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
    workload = WORKLOADS.get(entry.header.workload)
    whole_run = workload is not None and workload.metric == "run_seconds"
    timing = result.run_seconds if whole_run else result.seconds_per_epoch
    if timing is None:
        return ""
    return f"{figures.band(timing)} {'a run' if whole_run else 'an epoch'}"


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        numeric = heading in ("parameters", "FLOP/sample", "batch", "epochs")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    return table
