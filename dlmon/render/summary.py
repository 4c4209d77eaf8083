"""What came of a session: its figures, its comparison, and what went wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dlmon.comparison.compare import ComparisonRow
from dlmon.comparison.published import own_published
from dlmon.figures import units
from dlmon.figures.account import (
    account_rows,
    gap_of_session,
    longest_gaps,
    names_of,
)
from dlmon.figures.comparison import (
    busy_said_once,
    comparison_rows,
    earlier_sessions,
    metric_of,
    run_names,
    timed_unit,
    timing_of,
)
from dlmon.figures.comparison_row import peak_share
from dlmon.figures.loops import HEADINGS, NUMERIC, loop_rows
from dlmon.figures.sessions import called
from dlmon.figures.summary import summary_rows
from dlmon.log.directory import list_sessions
from dlmon.log.folder import place_options
from dlmon.log.label import read_label
from dlmon.records import Status, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.console import line_console
from dlmon.render.tables import print_table
from dlmon.session.follower import SessionFollower
from dlmon.session.snapshot import Snapshot

WIDTH_FOR_IDS = 100
# Of a line of the summary: a log may say anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20
SHOWN_GAPS, SHOWN_LOOPS = 3, 20


def print_outcome(follower: SessionFollower) -> None:
    """Print the figures of a session and its comparison, and what went wrong on stderr."""
    snapshot = follower.snapshot()
    console = line_console()
    _print_summary(console, follower, snapshot)
    console.file.flush()
    print_problem(line_console(stderr=True), follower, snapshot)


def print_script_outcome(follower: SessionFollower, log_dir: Path | None = None) -> None:
    """Print the figures of a script's session on stderr: stdout is the script's own.

    What the script wrote has come through already, its traceback too.
    What dlmon has to say of it comes last: as the script ran, it would have stood in its output.

    Args:
        follower: the session.
        log_dir: where a person asked for it to be kept; None for the usual place.
    """
    snapshot, errors = follower.snapshot(), line_console(stderr=True)
    _print_summary(errors, follower, snapshot)
    if follower.loss is None:
        errors.print(Text(_kept_text(follower, log_dir)))
    for notice in snapshot.notices:
        errors.print(Text(f"dlmon: {clean(notice.text, LONGEST_TEXT)}"))
    print_problem(errors, follower, snapshot, is_output_printed=True)


def _kept_text(follower: SessionFollower, log_dir: Path | None) -> str:
    """Say which session it was, where its log lies, and how to come back to it."""
    session = follower.session.header.id
    name = called(session, read_label(follower.path))
    return (
        f"\n{name} {follower.status}; recorded in {shown_path(follower.path)}\n"
        f"dlmon attach{place_options(log_dir)} {session} shows it again"
    )


def print_problem(
    errors: Console,
    follower: SessionFollower,
    snapshot: Snapshot,
    is_result_printed: bool = False,
    is_output_printed: bool = False,
) -> None:
    """Print what went wrong with a session, or why its result is in no log."""
    if follower.why_result_unwritten is not None:
        errors.print(Text(unrecorded_result(follower, is_result_printed)))
    elif follower.problem and follower.status in (Status.INTERRUPTED, Status.UNKNOWN):
        held = f"{shown_path(follower.path)} holds what was recorded"
        lost = f"the log {follower.loss} by another program"
        errors.print(Text(f"dlmon: {follower.problem}; {lost if follower.loss else held}"))
    elif snapshot.result is not None and snapshot.result.error:
        _print_failure(errors, snapshot, is_output_printed)
    elif follower.loss is not None and follower.problem:
        errors.print(Text(f"dlmon: {follower.problem}"))


def unrecorded_result(follower: SessionFollower, is_printed: bool = False) -> str:
    """Say why the result is in no log; with the result, unless that is printed already."""
    problem = f"dlmon: {follower.problem}"
    return problem if is_printed else f"{problem}; it is:\n{result_json(follower)}"


def result_json(follower: SessionFollower) -> str:
    """Return the result as `--json` prints it, with what the session is called by now."""
    assert follower.result is not None
    return json.dumps({**to_json(follower.result), "name": read_label(follower.path).name})


def _print_summary(console: Console, follower: SessionFollower, snapshot: Snapshot) -> None:
    console.print()
    table = Table.grid(padding=(0, 2))
    label = read_label(follower.path)
    for name, text in summary_rows(follower.session, snapshot, follower.status, label):
        table.add_row(Text(name, style="dim"), Text(clean(text, LONGEST_TEXT)))
    print_table(console, table)
    if not snapshot.header.is_machine_recording:
        _print_loops(console, snapshot)
        _print_account(console, snapshot)
        _print_comparison(console, follower, snapshot)


def _print_loops(console: Console, snapshot: Snapshot) -> None:
    """Print what each of several loops came to."""
    rows, left = loop_rows(snapshot, SHOWN_LOOPS)
    if not rows:
        return
    console.print()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, numeric in zip(HEADINGS, NUMERIC, strict=True):
        table.add_column(heading, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(clean(cell, LONGEST_TEXT)) for cell in row))
    print_table(console, table)
    if left:
        console.print(Text(f"  and {left:,} more {'loop' if left == 1 else 'loops'}"))


def _print_account(console: Console, snapshot: Snapshot) -> None:
    """Print where the time went, and the longest times without a batch."""
    rows = account_rows(snapshot.account, names_of(snapshot))
    if not rows:
        return
    console.print()
    console.print(Text("where the time went", style="dim"))
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify)
    for row in rows:
        table.add_row(f"  {row.name}", row.time, units.share(row.share))
    print_table(console, table)
    longest = longest_gaps(snapshot.gaps, SHOWN_GAPS)
    for gap in longest:
        console.print(Text(f"  {gap_of_session(gap, snapshot)}"))
    left = len(snapshot.gaps) - len(longest)
    if left:
        times = "time" if left == 1 else "times"
        console.print(Text(f"  and {left:,} more {times} of over a second without a batch"))


def _print_comparison(console: Console, follower: SessionFollower, snapshot: Snapshot) -> None:
    if timing_of(snapshot) is None:
        return
    listed = list_sessions(follower.directory)
    entries = earlier_sessions(listed, snapshot.header, metric=metric_of(snapshot))
    rows = comparison_rows(snapshot, entries)
    if not rows or (snapshot.header.is_script and len(rows) == 1):
        # Nothing is published of a script: before its second run there is nothing to compare.
        return
    console.print()
    rows, of_all = busy_said_once(rows)
    names = run_names(snapshot, entries)
    priced = any(row.kind == "this" and row.cost_usd is not None for row in rows)
    unit, usd = timed_unit(rows[0].metric) or "throughput", ["USD"] if priced else []
    headings = ["", "device", unit, *usd, "year", "of peak", "framework", ""]
    lines: list[tuple[ComparisonRow, list[Text]]] = []
    # An id is copied into a command, so it stands only where it is not broken.
    ids = not console.is_terminal or console.width >= WIDTH_FOR_IDS
    for row in rows:
        own = [row.session] if ids and row.kind == "earlier" and row.session else []
        texts = [
            _mark(row),
            names.get(row.session or "", row.label),
            ("~ " if row.projected else "") + units.duration(row),
            *([_cost(row)] if priced else []),
            str(row.year or ""),
            _share(row),
            row.framework or "",
            "; ".join([*own, *row.badges]),
        ]
        lines.append((row, [Text(clean(text, LONGEST_TEXT)) for text in texts]))
    # Years tell published figures apart; among one's own runs the names do.
    has_years = any(row.kind == "published" for row in rows)
    shown = [
        index
        for index, heading in enumerate(headings)
        if any(cells[index].plain for _, cells in lines) and (heading != "year" or has_years)
    ]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for index in shown:
        numeric = headings[index] in (unit, "USD", "of peak")
        is_note = index == len(headings) - 1
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(headings[index], justify=justify, style="dim" if is_note else "")
    for row, cells in lines:
        style = "bold" if row.kind == "this" else "" if row.comparable else "dim"
        table.add_row(*(cells[index] for index in shown), style=style)
    print_table(console, table)
    if of_all:
        console.print(Text(of_all, style="dim"))
    problem = own_published()[1]
    if problem is not None:
        line_console(stderr=True).print(Text(f"dlmon: {problem}; no own figure is shown"))


def _mark(row: ComparisonRow) -> str:
    if row.published is not None and row.published.own:
        return "+"
    return {"this": "▶", "earlier": "·"}.get(row.kind, " ")


def _share(row: ComparisonRow) -> str:
    share = peak_share(row.published)[0] if row.published else None
    return "" if share is None else units.share(share)


def _cost(row: ComparisonRow) -> str:
    cost = row.cost_usd
    return "" if cost is None else units.dollars(cost).removesuffix(" USD")


def _print_failure(errors: Console, snapshot: Snapshot, is_output_printed: bool) -> None:
    assert snapshot.result is not None
    for line in () if is_output_printed else snapshot.output[-SHOWN_OUTPUT:]:
        errors.print(Text(line.text, style="dim"))
    errors.print(Text(f"dlmon: {snapshot.header.workload} failed: {snapshot.result.error}"))
