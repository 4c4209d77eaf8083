"""What came of a session: its figures, its comparison, and what went wrong."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dlmon.comparison.compare import ComparisonRow, missing_part
from dlmon.comparison.published import own_published
from dlmon.log.directory import list_sessions
from dlmon.log.folder import place_options
from dlmon.log.label import Label, read_label
from dlmon.records import AccountPart, Model, RunSeconds, SecondsPerEpoch, Status, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.follower import SessionFollower
from dlmon.session.metric_figures import metric_figures
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from tui.formatting import units
from tui.formatting.account import (
    PART_NAMES,
    account_rows,
    gap_of_session,
    longest_gaps,
    names_of,
    regular_steps_text,
)
from tui.formatting.comparison import (
    basis_of_epoch,
    busy_said_once,
    comparable_text,
    comparison_rows,
    device_text,
    earlier_sessions,
    epoch_word,
    match_of,
    metric_of,
    run_names,
    timed_unit,
    timing_of,
    trainers_text,
    unusual_settings,
    why_no_time,
)
from tui.formatting.comparison_row import peak_share
from tui.formatting.epochs import epoch_text_of
from tui.formatting.loops import HEADINGS, NUMERIC, loop_rows, measured_loop
from tui.formatting.metrics import evaluation_text, metrics_line
from tui.formatting.results import result_figures
from tui.formatting.sessions import called, device_name, energy_used, status_text
from tui.formatting.validity import validity_text
from tui.plain.console import line_console
from tui.plain.tables import print_table
from workloads.catalog import WORKLOADS

WIDTH_FOR_IDS = 100
# Of a line of the summary: a log may say anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20
COMMAND, METRICS = "command", "metrics"
VALID, IN_DOUBT = "valid", "in doubt"
SHOWN_GAPS, SHOWN_LOOPS, SHOWN_SLOW = 3, 20, 3
# What a first batch takes beyond a usual one is worth a word from here on.
_A_DELAY_S = 0.01


def print_outcome(follower: SessionFollower) -> None:
    """Print the figures of a session and its comparison, and what went wrong on stderr."""
    snapshot = follower.snapshot()
    console = line_console()
    _print_summary(console, follower, snapshot)
    console.file.flush()
    print_problem(line_console(stderr=True), follower, snapshot)


def _throughput(snapshot: Snapshot) -> str:
    assert snapshot.samples_per_second is not None
    unit = units.rate_unit(snapshot.counts_steps)
    text = units.throughput(snapshot.samples_per_second, unit=unit)
    uncertain = units.is_rate_very_uncertain(snapshot.samples_per_second)
    said = (units.VERY_UNCERTAIN if uncertain else "", trainers_text(snapshot))
    notes = "; ".join(note for note in said if note)
    return f"{text} ({notes})" if notes else text


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


def summary_rows(
    session: Session, snapshot: Snapshot, status: Status, label: Label
) -> list[tuple[str, str]]:
    """Return the names and texts of what came of a session, and what it is called."""
    if snapshot.header.is_machine_recording:
        return _machine_summary(session, snapshot, status)
    model, result = snapshot.model, snapshot.result
    why = snapshot.why | (result.why if result is not None else {})
    named = (("name", label.name), ("note", label.note))
    rows = [(row, text) for row, text in named if text is not None]
    if snapshot.header.command is not None:
        rows.append((COMMAND, shlex.join(snapshot.header.command)))
    else:
        rows.append(("workload", snapshot.header.workload))
    if model is not None:
        rows.append(("device", device_text(snapshot) or "–"))
        if not snapshot.header.is_script:
            rows.append(("data", model.data or "–"))
    unusual = unusual_settings(snapshot.header.options)
    if unusual:
        rows.append(("settings", ", ".join(unusual)))
    rows.append(("status", status_text(status, session.result)))
    if model is not None and model.length_from is not None:
        rows.append(("length", _length(model)))
    if measured_loop(snapshot):
        rows.append(("figures of", measured_loop(snapshot)))
    timing = timing_of(snapshot)
    if snapshot.run_seconds is not None and timing is snapshot.run_seconds:
        rows.append(("whole run", _run_text(snapshot.run_seconds, snapshot)))
    if snapshot.seconds_per_epoch is not None:
        rows.append(("seconds per epoch", _epoch_text(snapshot.seconds_per_epoch, snapshot)))
    elif metric_of(snapshot) != "step_ms":
        rows.append(("seconds per epoch", f"– ({why_no_time(snapshot, status)})"))
    # Of a script that never trained, nothing was too short.
    has_trained = not snapshot.header.is_script or snapshot.batches > 0
    if snapshot.samples_per_second is not None:
        rows.append(("throughput", _throughput(snapshot)))
    elif has_trained:
        rows.append(("throughput", f"– ({why.get('samples_per_second', '')})"))
    if snapshot.step_ms is not None:
        step = snapshot.step_ms
        mean = "" if step.mean is None else f"mean {units.step_time(step.mean)}, "
        within = "" if step.p95 is None else f", 95 % within {units.step_time(step.p95)}"
        rows.append(("step", f"{mean}median {units.step_time(step.median)}{within}"))
    if snapshot.compile_s is not None and snapshot.compiles:
        rows.append(("compile", units.seconds(snapshot.compile_s)))
    elif first := _first_batch(snapshot.first_batch_s, snapshot.validation_compile_s):
        rows.append(("first batch", first))
    metrics = metric_figures(snapshot.epochs, session.learning)
    if metrics:
        rows.append((METRICS, metrics_line(metrics, epoch_word(snapshot.header))))
    if snapshot.evaluation is not None:
        rows.append(("evaluation", evaluation_text(snapshot.evaluation)))
    rows.extend(_slow_epochs(session, snapshot))
    if snapshot.stalls:
        rows.append(("stalls", _stalls(snapshot)))
    if snapshot.regular_steps is not None:
        regular = snapshot.regular_steps
        text = f"{regular_steps_text(regular)}, {units.counted(regular.times, 'time')}"
        rows.append((PART_NAMES[AccountPart.BETWEEN_STEPS], text))
    validity = snapshot.validity
    if validity is not None and has_trained:
        rows.append((VALID if validity.is_valid else IN_DOUBT, validity_text(validity)))
    if snapshot.limit is not None:
        heading = "what limited it" if snapshot.limit.ended else "what limits it"
        rows.append((heading, snapshot.limit.text))
        if snapshot.limit.advice:
            rows.append(("try", snapshot.limit.advice))
    if snapshot.header.workload in WORKLOADS:
        rows.append(("published", comparable_text(match_of(snapshot), as_typed=True)))
    if result is not None:
        rows.append(("wall", units.seconds(result.wall_s)))
        rows.extend(result_figures(result))
    return rows


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


def _machine_summary(session: Session, snapshot: Snapshot, status: Status) -> list[tuple[str, str]]:
    """Return what is known of a machine that was recorded, with or without a result."""
    use = session.machine.use()
    why = "; ".join(dict.fromkeys(text for name, text in use.why.items() if "energy" in name))
    return [
        ("recorded", f"the machine {snapshot.header.host}"),
        ("status", status_text(status, session.result)),
        ("wall", units.clock(snapshot.elapsed_s)),
        ("mean CPU", units.percent(use.cpu_pct)),
        *((f"mean {device_name(gpu)}", units.percent(pct)) for gpu, pct in use.gpu_pct.items()),
        ("energy", energy_used(use) or f"– ({why})"),
    ]


def _length(model: Model) -> str:
    """Say how long the training was to be, and what says so."""
    number, noun = (model.steps or 0, "step") if model.epochs is None else (model.epochs, "epoch")
    return f"{units.counted(number, noun)}, as {model.length_from} says"


def _first_batch(more_s: float | None, in_validation_s: float) -> str:
    """Say what it took beyond a usual one, and that of the first validation; else nothing."""
    parts = []
    if more_s is not None and more_s >= _A_DELAY_S:
        parts.append(f"{units.seconds(more_s)} more than a usual one")
    if more_s is not None and in_validation_s >= _A_DELAY_S:
        parts.append(f"{units.seconds(in_validation_s)} in validation")
    return ", and ".join(parts)


def _slow_epochs(session: Session, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return each epoch that was slow, and what differed in it: the slowest ones."""
    each, slow = epoch_word(snapshot.header), session.slow_epochs(snapshot.epochs)
    slowest = [one for one in snapshot.epochs if one.begin in slow]
    slowest.sort(key=seconds_of, reverse=True)
    rows = [
        (f"slow {each} {one.epoch + 1}", epoch_text_of(one, session, snapshot))
        for one in sorted(slowest[:SHOWN_SLOW], key=lambda one: one.begin)
    ]
    left = len(slowest) - SHOWN_SLOW
    if left > 0:
        rows.append((f"slow {units.plural(each)}", f"{left:,} more"))
    return rows


def _stalls(snapshot: Snapshot) -> str:
    count, openings = snapshot.stalls or 0, snapshot.opening_stalls or 0
    parts = []
    if count > openings:
        parts.append(units.counted(count - openings, "batch"))
    if openings:
        parts.append(f"the start of {units.counted(openings, epoch_word(snapshot.header))}")
    return f"{' and '.join(parts)} took over ten times the median batch"


def _epoch_text(timing: SecondsPerEpoch, snapshot: Snapshot) -> str:
    basis = basis_of_epoch(timing, snapshot.compile_s, snapshot.compiles)
    if units.usual(timing):
        basis = f"{units.usual(timing)}; {basis}"
    elif units.is_very_uncertain(timing):
        basis = f"{units.VERY_UNCERTAIN}; {basis}"
    return f"{units.band(timing)} ({basis}{_left_out(timing, snapshot)})"


def _run_text(timing: RunSeconds, snapshot: Snapshot) -> str:
    band = units.band(timing)
    if timing.projected:
        return f"{band} (projected{_left_out(timing, snapshot)})"
    return f"{band} (without the start)"


def _left_out(timing: RunSeconds | SecondsPerEpoch, snapshot: Snapshot) -> str:
    missing = missing_part(timing, snapshot.why)
    return f", without {missing}" if missing else ""


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
