"""Print lists for `dlmon list`, `sessions` and `doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dlmon.doctor import Finding, examine
from dlmon.records import Facts, to_json
from dlmon.sensing import Sensing
from dlmon.sessions import SessionEntry
from tui import figures
from workloads.catalog import WORKLOADS, Workload

FACTS_S = 10.0
_WIDE = 200


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
    _console().print(table)


def print_sessions(entries: Sequence[SessionEntry], directory: Path) -> None:
    """Print one row a session, newest last."""
    console = _console()
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


def run_doctor(directory: Path) -> tuple[Finding, ...]:
    """Ask the sensors for this machine's facts, once, and examine them."""

    async def first_facts() -> Facts | str:
        told: asyncio.Future[Facts | str] = asyncio.get_running_loop().create_future()

        def tell(answer: Facts | str) -> None:
            if not told.done():
                told.set_result(answer)

        sensing = Sensing(1.0, tell, lambda sample, line: None, tell)
        sensing.start()
        try:
            return await asyncio.wait_for(told, FACTS_S)
        except TimeoutError:
            return f"the sensors did not answer within {FACTS_S:.0f} s"
        finally:
            sensing.close()

    answer = asyncio.run(first_facts())
    facts = answer if isinstance(answer, Facts) else None
    return examine(facts, answer if isinstance(answer, str) else None, directory)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print what was found, each with its next step."""
    console = _console()
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


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)
