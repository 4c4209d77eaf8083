"""What came of a session: its figures, its comparison, and what went wrong."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dlmon.comparison.compare import ComparisonRow, missing_part
from dlmon.log.directory import list_sessions
from dlmon.records import RunSeconds, Status, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.session.follower import SessionFollower
from dlmon.session.snapshot import Snapshot
from tui.formatting import units
from tui.formatting.comparison import (
    basis_of_epoch,
    comparable_text,
    comparison_rows,
    device_text,
    earlier_sessions,
    match_of,
    metric_of,
    run_names,
    timed_unit,
    timing_of,
    unusual_settings,
    why_no_time,
)
from tui.formatting.comparison_row import peak_share
from tui.formatting.results import result_figures
from tui.plain.console import line_console
from tui.plain.tables import print_table
from workloads.catalog import WORKLOADS

WIDTH_FOR_IDS = 100
# Of a line of the summary: a log may say anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20


def print_outcome(follower: SessionFollower) -> None:
    """Print the figures of a session and its comparison, and what went wrong on stderr."""
    snapshot = follower.snapshot()
    console = line_console()
    _print_summary(console, follower, snapshot)
    console.file.flush()
    print_problem(line_console(stderr=True), follower, snapshot)


def print_problem(
    errors: Console, follower: SessionFollower, snapshot: Snapshot, is_result_printed: bool = False
) -> None:
    """Print what went wrong with a session, or why its result is in no log."""
    if follower.why_result_unwritten is not None:
        errors.print(Text(unrecorded_result(follower, is_result_printed)))
    elif follower.problem and follower.status in (Status.INTERRUPTED, Status.UNKNOWN):
        path = shown_path(follower.path)
        errors.print(Text(f"dlmon: {follower.problem}; {path} holds what was recorded"))
    elif snapshot.result is not None and snapshot.result.error:
        _print_failure(errors, snapshot)


def unrecorded_result(follower: SessionFollower, is_printed: bool = False) -> str:
    """Say why the result is in no log; with the result, unless that is printed already."""
    assert follower.result is not None
    problem = f"dlmon: {follower.problem}"
    return problem if is_printed else f"{problem}; it is:\n{json.dumps(to_json(follower.result))}"


def _print_summary(console: Console, follower: SessionFollower, snapshot: Snapshot) -> None:
    console.print()
    table = Table.grid(padding=(0, 2))
    for name, text in _summary(follower, snapshot):
        table.add_row(Text(name, style="dim"), Text(clean(text, LONGEST_TEXT)))
    print_table(console, table)
    _print_comparison(console, follower, snapshot)


def _summary(follower: SessionFollower, snapshot: Snapshot) -> list[tuple[str, str]]:
    model, result = snapshot.model, snapshot.result
    why = snapshot.why | (result.why if result is not None else {})
    rows = [("workload", snapshot.header.workload)]
    if model is not None:
        rows.append(("device", device_text(snapshot)))
        rows.append(("data", model.data or "–"))
    unusual = unusual_settings(snapshot.header.options)
    if unusual:
        rows.append(("settings", ", ".join(unusual)))
    rows.append(("status", follower.status))
    timing = timing_of(snapshot)
    if snapshot.run_seconds is not None and timing is snapshot.run_seconds:
        rows.append(("whole run", _run_text(snapshot.run_seconds, snapshot)))
    if snapshot.seconds_per_epoch is not None:
        rows.append(("seconds per epoch", _epoch_text(snapshot)))
    elif metric_of(snapshot) != "step_ms":
        rows.append(("seconds per epoch", f"– ({why_no_time(snapshot, follower.status)})"))
    if snapshot.samples_per_second is not None:
        rows.append(("throughput", units.throughput(snapshot.samples_per_second)))
    else:
        rows.append(("throughput", f"– ({why.get('samples_per_second', '')})"))
    if snapshot.step_ms is not None:
        step = snapshot.step_ms
        mean = "" if step.mean is None else f"mean {step.mean:.3g} ms, "
        text = f"{mean}median {step.median:.3g} ms, 95 % within {step.p95:.3g} ms"
        rows.append(("step", text))
    if snapshot.compile_s is not None:
        rows.append(("compile", units.seconds(snapshot.compile_s)))
    if snapshot.stalls:
        rows.append(("stalls", _stalls(snapshot.stalls, snapshot.opening_stalls or 0)))
    if snapshot.limit is not None:
        rows.append(("what limits it", snapshot.limit.text))
    if snapshot.header.workload in WORKLOADS:
        rows.append(("published", comparable_text(match_of(snapshot))))
    if result is not None:
        rows.append(("wall", units.seconds(result.wall_s)))
        rows.extend(result_figures(result))
    return rows


def _stalls(count: int, openings: int) -> str:
    batches, starts = count - openings, openings
    parts = []
    if batches:
        parts.append("1 batch" if batches == 1 else f"{batches:,} batches")
    if starts:
        parts.append("the start of 1 epoch" if starts == 1 else f"the start of {starts:,} epochs")
    return f"{' and '.join(parts)} took over ten times the median batch"


def _epoch_text(snapshot: Snapshot) -> str:
    timing = snapshot.seconds_per_epoch
    assert timing is not None
    missing = missing_part(timing, snapshot.why)
    left_out = f", without {missing}" if missing else ""
    return f"{units.band(timing)} ({basis_of_epoch(timing, snapshot.compile_s)}{left_out})"


def _run_text(timing: RunSeconds, snapshot: Snapshot) -> str:
    if not timing.projected:
        return units.band(timing)
    missing = missing_part(timing, snapshot.why)
    left_out = f", without {missing}" if missing else ""
    return f"{units.band(timing)} (projected{left_out})"


def _print_comparison(console: Console, follower: SessionFollower, snapshot: Snapshot) -> None:
    entries = earlier_sessions(list_sessions(follower.directory), snapshot.header)
    rows = comparison_rows(snapshot, entries)
    if not rows:
        return
    console.print()
    names = run_names(snapshot, entries)
    priced = any(row.kind == "this" and row.cost_usd is not None for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("device")
    table.add_column(timed_unit(rows[0].metric), justify="right")
    if priced:
        table.add_column("USD", justify="right")
    table.add_column("year")
    table.add_column("of peak", justify="right")
    table.add_column("framework")
    table.add_column("")
    # An id is copied into a command, so it stands only where it is not broken.
    ids = not console.is_terminal or console.width >= WIDTH_FOR_IDS
    for row in rows:
        own = [row.session] if ids and row.kind == "earlier" and row.session else []
        table.add_row(
            {"this": "▶", "earlier": "·", "published": " "}[row.kind],
            Text(clean(names.get(row.session or "", row.label), LONGEST_TEXT)),
            ("~ " if row.projected else "") + units.duration(row),
            *([_cost(row)] if priced else []),
            str(row.year or ""),
            _share(row),
            Text(clean(row.framework or "", LONGEST_TEXT)),
            Text(clean("; ".join([*own, *row.badges]), LONGEST_TEXT), style="dim"),
            style="bold" if row.kind == "this" else "" if row.comparable else "dim",
        )
    print_table(console, table)


def _share(row: ComparisonRow) -> str:
    share = peak_share(row.published)[0] if row.published else None
    return "" if share is None else units.share(share)


def _cost(row: ComparisonRow) -> str:
    cost = row.cost_usd
    return "" if cost is None else units.dollars(cost).removesuffix(" USD")


def _print_failure(errors: Console, snapshot: Snapshot) -> None:
    assert snapshot.result is not None
    for line in snapshot.output[-SHOWN_OUTPUT:]:
        errors.print(Text(line.text, style="dim"))
    errors.print(Text(f"dlmon: {snapshot.header.workload} failed: {snapshot.result.error}"))
