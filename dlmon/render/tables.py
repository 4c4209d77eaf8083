"""Print lists for `dlmon list`, `sessions` and `doctor`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from dlmon.doctor.finding import Finding
from dlmon.figures import sections, units
from dlmon.figures.comparison import ALL_BUSY
from dlmon.figures.sections import Bars, Figures, Note, Section
from dlmon.figures.sessions import (
    RunOfSweep,
    can_be_resumed,
    device_of,
    done_text,
    outcome,
    resume_command,
    runs_of_sweeps,
    workload_of,
)
from dlmon.figures.sweeps import varied_text
from dlmon.log.directory import SessionEntry
from dlmon.log.folder import place_options
from dlmon.records import Doubt, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.console import table_console
from dlmon.sweep.log import SweepEntry
from workloads.catalog import Workload

_WIDTH_FOR_ONE_ROW = 140
# As wide as no row is: in a pipe, none is broken.
_UNWRAPPED = 100_000
_LONGEST_NAME, _LONGEST_OUTCOME = 200, 1_000
# Of a row on a terminal: all of it is in --json, and in the details on the screen.
_LONGEST_ERROR = 72
# So many cells the last column keeps before others go.
_LEAST_OF_LAST = 32
# As the name of a folder, which it is.
_LONGEST_ID = 255


def print_workloads(workloads: Sequence[Workload]) -> None:
    """Print one row a workload, two where the terminal is narrow, and where they come from."""
    console = table_console()
    one_row = console.width >= _WIDTH_FOR_ONE_ROW
    what = ("what it is",) if one_row else ()
    table = plain_table("name", *what, "parameters", "FLOP/sample", "batch", "runs for", "source")
    sources = list(dict.fromkeys(workload.source for workload in workloads))
    for workload in workloads:
        table.add_row(
            Text(workload.name, style="bold"),
            *([Text(workload.title)] if one_row else []),
            f"{workload.parameters:,}",
            units.count(workload.train_flops),
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
        print_line(console, Text(f"[{number}] {source}", style="dim"))


def run_length(workload: Workload) -> str:
    """Return how long a run of a workload is: 10 epochs, or 100 steps."""
    if workload.steps is not None:
        return f"{workload.steps} steps"
    return f"{workload.epochs} epochs"


def print_sessions(
    entries: Sequence[SessionEntry],
    directory: Path,
    sweeps: Sequence[SweepEntry] = (),
    by_path: bool = False,
    resumable: bool = True,
) -> None:
    """Print one row a session, newest last, and then one row a sweep.

    Args:
        entries: the sessions.
        directory: where they are recorded.
        sweeps: those of the same directory.
        by_path: name sweeps by their paths in the commands that go on with them.
        resumable: print these commands; those of another machine go on there alone.
    """
    console = table_console()
    if not entries and not sweeps:
        where = place_options(directory if by_path else None)
        print_line(
            console,
            Text(f"no sessions in {shown_path(directory)} yet; dlmon run{where} starts one"),
        )
        return
    if entries:
        _print_sessions(console, entries, runs_of_sweeps(sweeps))
    if entries and sweeps:
        console.print()
    if sweeps:
        _print_sweeps(console, sweeps)
        if resumable:
            _print_commands(console, sweeps, by_path)


def _print_sessions(
    console: Console, entries: Sequence[SessionEntry], runs: Mapping[str, RunOfSweep]
) -> None:
    is_said_once = console.is_terminal and _all_were_busy(entries)
    busy = {Doubt.BUSY_AT_START} if is_said_once else set()
    columns = {
        "session": [_id(entry) for entry in entries],
        "started": [units.day_and_time(entry.header.wall) for entry in entries],
        "name": [_name(entry.label.name or "") for entry in entries],
        "workload": [_name(workload_of(entry)) for entry in entries],
        "status": [_name(entry.status) for entry in entries],
        "device": [_device(entry) for entry in entries],
        "in a sweep": [_name(runs[id].text) if id in runs else "" for id in map(_id, entries)],
        "result": [_outcome(entry, console.is_terminal, busy) for entry in entries],
    }
    _print_rows(console, columns, ("started", "workload", "device", "in a sweep", "name"))
    if busy:
        print_line(console, Text(ALL_BUSY, style="dim"))


def _device(entry: SessionEntry) -> str:
    device, name = device_of(entry)
    return _name(name or device)


def _all_were_busy(entries: Sequence[SessionEntry]) -> bool:
    """Return whether the machine was busy at the start of each of several runs with figures."""
    judged = [entry.result.against or {} for entry in entries if entry.result is not None]
    return len(judged) > 1 and all(Doubt.BUSY_AT_START in against for against in judged)


def _print_rows(
    console: Console, columns: Mapping[str, Sequence[str]], dropped: Sequence[str]
) -> None:
    """Print columns under their headings, a line a row; those that are empty are left out.

    On a terminal, columns go where there is no room, and the last one is cut. The first is never
    cut: one copies it into a command.

    Args:
        console: where to.
        columns: the texts of each, by its heading.
        dropped: the headings of those that go, the first one first.
    """
    first, *_, last = columns
    kept = {name: texts for name, texts in columns.items() if any(texts) or name == last}
    widths = {name: max(map(cell_len, (name, *texts))) for name, texts in kept.items()}
    for name in dropped if console.is_terminal else ():
        least = sum(widths[each] + 2 for each in kept if each != last)
        if least + min(widths[last], _LEAST_OF_LAST) <= console.width:
            break
        kept.pop(name, None)
    for row in ([*kept], *zip(*kept.values(), strict=True)):
        is_heading = row[0] == first
        line = Text()
        for name, text in zip(kept, row, strict=True):
            style = "dim" if is_heading else "bold" if name == first else ""
            line.append(text + " " * (widths[name] - cell_len(text) + 2), style=style)
        line.rstrip()
        if console.is_terminal:
            line.truncate(max(console.width, widths[first]), overflow="ellipsis")
        print_line(console, line)


def _outcome(entry: SessionEntry, on_terminal: bool, unsaid: Container[str]) -> str:
    """Return what came of a session; on a terminal the beginning of an error, whole in a pipe."""
    has_failed = entry.result is not None and entry.result.error is not None
    longest = _LONGEST_ERROR if on_terminal and has_failed else _LONGEST_OUTCOME
    return clean(outcome(entry, unsaid=unsaid), longest)


def _print_sweeps(console: Console, sweeps: Sequence[SweepEntry]) -> None:
    columns = {
        "sweep": [_id(entry) for entry in sweeps],
        "started": [units.day_and_time(entry.header.wall) for entry in sweeps],
        "name": [_name(entry.label.name or "") for entry in sweeps],
        "workload": [_name(workload_of(entry)) for entry in sweeps],
        "status": [_name(entry.status) for entry in sweeps],
        "combinations": [f"{done_text(entry)} done" for entry in sweeps],
        "varied": [
            _name(varied_text(entry.plan) or f"{entry.plan.repeats} times each") for entry in sweeps
        ],
    }
    _print_rows(console, columns, ("started", "workload", "name", "combinations"))


def _print_commands(console: Console, sweeps: Sequence[SweepEntry], by_path: bool) -> None:
    """Print what goes on with sweeps that have runs left."""
    left = [entry for entry in sweeps if can_be_resumed(entry)]
    if left:
        console.print()
    for entry in left:
        runs = units.counted(len(entry.sweep.left()), "run")
        print_line(console, Text(f"{runs} left: {clean(resume_command(entry, by_path))}"))


def _name(text: str) -> str:
    """Return what a log calls something, short enough for a table: it may say anything."""
    return clean(text, _LONGEST_NAME)


def _id(entry: SessionEntry | SweepEntry) -> str:
    return clean(entry.header.id, _LONGEST_ID)


def session_json(entry: SessionEntry, run: RunOfSweep | None = None) -> dict[str, Any]:
    """Return a session as `sessions --json` prints it, with the sweep that it is a run of."""
    result, name = entry.result, entry.label.name
    return {
        "session": entry.header.id,
        "name": name,
        "note": entry.label.note,
        "workload": entry.header.workload,
        "status": entry.status,
        "host": entry.header.host,
        "wall": entry.header.wall,
        "pid": entry.pid,
        "log": str(entry.path),
        "options": entry.header.options,
        "result": None if result is None else {**to_json(result), "name": name},
        "sweep": None if run is None else sweep_entry_json(run.sweep),
    }


def sweep_entry_json(entry: SweepEntry) -> dict[str, Any]:
    """Return how a sweep stands: the same for each of its sessions."""
    plan, sweep = entry.plan, entry.sweep
    return {
        "id": entry.header.id,
        "name": entry.label.name,
        "status": entry.status,
        "wall": entry.header.wall,
        "pid": entry.pid,
        "log": str(entry.path),
        "workloads": list(plan.workloads),
        "vary": {variation.key: list(variation.values) for variation in plan.variations},
        "repeat": plan.repeats,
        "combinations": len(plan.combinations),
        "combinations_done": sweep.combinations_over,
        "runs": len(plan.order),
        "runs_left": len(sweep.left()),
        "resume": resume_command(entry, by_path=True) if can_be_resumed(entry) else None,
    }


def print_findings(findings: Sequence[Finding]) -> None:
    """Print what was found, each with its next step."""
    console = table_console()
    marks = {
        "ok": ("✓", "green"),
        "missing": ("✗", "red"),
        "warning": ("!", "yellow"),
        "absent": ("–", "dim"),
    }
    for finding in findings:
        mark, style = marks[finding.state]
        line = Text.assemble(
            (f"{mark} ", style), (f"{finding.topic}: ", "bold"), clean(finding.text)
        )
        print_line(console, line)
        if finding.next_step:
            print_line(console, Text(f"    → {clean(finding.next_step)}", style="dim"))


def plain_table(*headings: str) -> Table:
    """Return a table without lines; each of these headings is that of words or of numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        numeric = heading in ("parameters", "FLOP/sample", "batch", "runs for")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    return table


def unwrapped(console: Console, table: Table) -> list[Text]:
    """Return the heading and the rows of a table, a line each."""
    options = console.options.update(width=_UNWRAPPED)
    rows = console.render_lines(table, options, pad=False)
    return [
        Text.assemble(*((segment.text, segment.style or "") for segment in row)) for row in rows
    ]


def print_section(console: Console, section: Section) -> None:
    """Print a section of what is said of a session, a blank line before it."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    match section:
        case Figures():
            table = Table.grid(padding=(0, 2))
            for name, text in section.rows:
                table.add_row(Text(name, style="dim"), Text(text))
        case Bars():
            table = Table.grid(padding=(0, 2))
            for justify in ("left", "right", "right"):
                table.add_column(justify=justify)
            for bar in section.bars:
                table.add_row(f"  {bar.label}", *bar.text.rsplit(", ", 1))
        case sections.Table():
            for heading, numeric in zip(section.headings, section.numeric, strict=True):
                table.add_column(heading, justify="right" if numeric else "left")
            for row in section.rows:
                table.add_row(*map(Text, row), style="bold" if row[0] == "▶" else "")
        case Note():
            for sentence in section.sentences:
                console.print(Text(f"  {sentence}" if section.kind == "list" else sentence))
            return
        case _:
            return
    console.print()
    if section.heading:
        console.print(Text(section.heading, style="dim"))
    print_table(console, table)
    if isinstance(section, sections.Table) and section.left_out:
        console.print(Text(f"  and {section.left_out:,} more"))


def print_table(console: Console, table: Table) -> None:
    """Print a table: in the width of the terminal, a line for each row in a pipe."""
    if console.is_terminal:
        console.print(table)
        return
    for line in unwrapped(console, table):
        line.rstrip()
        print_line(console, line)


def print_line(console: Console, line: Text) -> None:
    """Print a line: wrapped at the width of the terminal, whole in a pipe."""
    console.print(line, soft_wrap=not console.is_terminal)
