"""Print lists for `dlmon list`, `sessions` and `doctor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from dlmon.doctor.finding import Finding
from dlmon.log.directory import SessionEntry
from dlmon.log.folder import place_options
from dlmon.records import to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.sweep.log import SweepEntry
from tui.formatting import units
from tui.formatting.sessions import (
    RunOfSweep,
    can_be_resumed,
    device_of,
    done_text,
    outcome,
    resume_command,
    runs_of_sweeps,
    workload_of,
)
from tui.formatting.sweeps import varied_text
from tui.plain.console import table_console
from workloads.catalog import Workload

_WIDTH_FOR_ONE_ROW = 140
# As wide as no row is: in a pipe, none is broken.
_UNWRAPPED = 100_000
_LONGEST_NAME, _LONGEST_OUTCOME = 200, 1_000
# Of a row on a terminal: all of it is in --json, and in the details on the screen.
_LONGEST_ERROR = 72
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
    runs = runs_of_sweeps(sweeps)
    if entries:
        ids = ["session", *(_id(entry) for entry in entries)]
        table = _table_of_sessions(console, entries, runs, with_device=True)
        if not _stands_beside(console, ids, table):
            # What has no room beside the rest stands beside the id above it.
            devices = ["device", *(_device(entry).plain for entry in entries)]
            pairs = zip(ids, devices, strict=True)
            ids = [_with_device(id, device, console) for id, device in pairs]
            table = _table_of_sessions(console, entries, runs, with_device=False)
        _print_named(console, ids, table)
    if entries and sweeps:
        console.print()
    if sweeps:
        _print_sweeps(console, sweeps)
        if resumable:
            _print_commands(console, sweeps, by_path)


def _table_of_sessions(
    console: Console,
    entries: Sequence[SessionEntry],
    runs: Mapping[str, RunOfSweep],
    with_device: bool,
) -> Table:
    device = ("device",) if with_device else ()
    in_sweep = ("in a sweep",) if any(entry.header.id in runs for entry in entries) else ()
    named = _name_heading(entries)
    table = plain_table("started", *named, "workload", "status", *device, *in_sweep, "result")
    for entry in entries:
        run = runs.get(entry.header.id)
        table.add_row(
            units.day_and_time(entry.header.wall),
            *([_name(entry.label.name or "")] if named else []),
            _name(workload_of(entry)),
            _name(entry.status),
            *([_device(entry)] if device else []),
            *([_name(run.text if run else "")] if in_sweep else []),
            Text(_outcome(entry, console.is_terminal)),
        )
    return table


def _device(entry: SessionEntry) -> Text:
    device, name = device_of(entry)
    return _name(name or device)


def _with_device(id: str, device: str, console: Console) -> str:
    """Return an id with its device; on a terminal as much of that as has room in the line."""
    if not console.is_terminal:
        return f"{id}  {device}".rstrip()
    beside = Text(device)
    beside.truncate(max(0, console.width - cell_len(id) - 2), overflow="ellipsis")
    return f"{id}  {beside.plain}".rstrip()


def _outcome(entry: SessionEntry, on_terminal: bool) -> str:
    """Return what came of a session; on a terminal the beginning of an error, whole in a pipe."""
    has_failed = entry.result is not None and entry.result.error is not None
    longest = _LONGEST_ERROR if on_terminal and has_failed else _LONGEST_OUTCOME
    return clean(outcome(entry), longest)


def _print_sweeps(console: Console, sweeps: Sequence[SweepEntry]) -> None:
    named = _name_heading(sweeps)
    table = plain_table("started", *named, "workload", "status", "combinations", "varied")
    for entry in sweeps:
        table.add_row(
            units.day_and_time(entry.header.wall),
            *([_name(entry.label.name or "")] if named else []),
            _name(workload_of(entry)),
            _name(entry.status),
            Text(f"{done_text(entry)} done"),
            _name(varied_text(entry.plan) or f"{entry.plan.repeats} times each"),
        )
    _print_named(console, ["sweep", *(_id(entry) for entry in sweeps)], table)


def _print_commands(console: Console, sweeps: Sequence[SweepEntry], by_path: bool) -> None:
    """Print what goes on with sweeps that have runs left."""
    left = [entry for entry in sweeps if can_be_resumed(entry)]
    if left:
        console.print()
    for entry in left:
        runs = units.counted(len(entry.sweep.left()), "run")
        print_line(console, Text(f"{runs} left: {clean(resume_command(entry, by_path))}"))


def _name_heading(entries: Sequence[SessionEntry | SweepEntry]) -> tuple[str, ...]:
    return ("name",) if any(entry.label.name is not None for entry in entries) else ()


def _name(text: str) -> Text:
    """Return what a log calls something, short enough for a table: it may say anything."""
    return Text(clean(text, _LONGEST_NAME))


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


def _print_named(console: Console, names: Sequence[str], table: Table) -> None:
    """Print a name before each line of a table; above it where the terminal is narrow.

    A name is never broken: one copies it into a command.
    """
    lines = unwrapped(console, table)
    for line in lines:
        line.rstrip()
    width = max(cell_len(name) for name in names) + 2
    beside = _stands_beside(console, names, table)
    for index, (name, line) in enumerate(zip(names, lines, strict=True)):
        named = Text(name, style="bold" if index else "dim")
        if beside:
            named.pad_right(width - named.cell_len)
            print_line(console, named + line)
        else:
            print_line(console, named)
            for number, part in enumerate(line.wrap(console, max(1, console.width - 4))):
                print_line(console, Text("    " if number else "  ") + part)


def _stands_beside(console: Console, names: Sequence[str], table: Table) -> bool:
    """Return whether there is room for each name before its line of a table."""
    widest = max(cell_len(name) for name in names) + 2
    widest += max(cell_len(line.plain.rstrip()) for line in unwrapped(console, table))
    return not console.is_terminal or widest <= console.width


def unwrapped(console: Console, table: Table) -> list[Text]:
    """Return the heading and the rows of a table, a line each."""
    options = console.options.update(width=_UNWRAPPED)
    rows = console.render_lines(table, options, pad=False)
    return [
        Text.assemble(*((segment.text, segment.style or "") for segment in row)) for row in rows
    ]


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
