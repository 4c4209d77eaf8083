"""What `dlmon list` and `dlmon sessions` print, as sections and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlmon.figures import units
from dlmon.figures.sections import Note, Section, Table
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
from dlmon.figures.validity import doubts_of_all, said_of_all
from dlmon.log.directory import SessionEntry
from dlmon.log.folder import place_options
from dlmon.records import to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.sweep.log import SweepEntry
from workloads.catalog import Workload

_LONGEST_NAME, _LONGEST_OUTCOME = 200, 1_000
# As the name of a folder, which it is.
_LONGEST_ID = 255


def describe_workloads(workloads: Sequence[Workload]) -> Iterator[Section]:
    """Yield one row a workload, and where they come from."""
    sources = list(dict.fromkeys(workload.source for workload in workloads))
    headings = ("name", "parameters", "FLOP/sample", "batch", "runs for", "source", "what it is")
    rows = tuple(
        (
            workload.name,
            f"{workload.parameters:,}",
            units.count(workload.train_flops),
            str(workload.batch_size),
            f"{workload.epochs} epochs" if workload.steps is None else f"{workload.steps} steps",
            f"[{sources.index(workload.source) + 1}]",
            workload.title,
        )
        for workload in workloads
    )
    yield Table(headings, rows, (False, True, True, True, True, False, False))
    yield Note(tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1)))


def describe_recorded(
    entries: Sequence[SessionEntry],
    sweeps: Sequence[SweepEntry],
    directory: Path,
    by_path: bool = False,
    resumable: bool = True,
) -> Iterator[Section]:
    """Yield one row a session, newest last, and then one row a sweep.

    Args:
        entries: the sessions.
        sweeps: those of the same directory.
        directory: where they are recorded.
        by_path: name sweeps by their paths in the commands that go on with them.
        resumable: name these commands; those of another machine go on there alone.
    """
    if entries:
        yield from _sessions(entries, runs_of_sweeps(sweeps))
    if sweeps:
        yield _sweeps(sweeps)
        left = [entry for entry in sweeps if resumable and can_be_resumed(entry)]
        commands = tuple(
            f"{units.counted(len(entry.sweep.left()), 'run')} left: "
            f"{clean(resume_command(entry, by_path))}"
            for entry in left
        )
        if commands:
            yield Note(commands)
    if not entries and not sweeps:
        where = place_options(directory if by_path else None)
        yield Note((f"no sessions in {shown_path(directory)} yet; dlmon run{where} starts one",))


def _sessions(
    entries: Sequence[SessionEntry], runs: Mapping[str, RunOfSweep]
) -> Iterator[Table | Note]:
    results = (entry.result for entry in entries)
    of_all = doubts_of_all([result.against or {} for result in results if result is not None])
    rows = []
    for entry in entries:
        device, name = device_of(entry)
        run = runs.get(entry.header.id)
        named = (
            entry.label.name or "",
            workload_of(entry),
            entry.status,
            name or device,
            "" if run is None else run.text,
        )
        rows.append(
            (
                clean(entry.header.id, _LONGEST_ID),
                units.day_and_time(entry.header.wall),
                *(clean(text, _LONGEST_NAME) for text in named),
                clean(outcome(entry, unsaid=of_all), _LONGEST_OUTCOME),
            )
        )
    names = ("session", "started", "name", "workload", "status", "device", "in a sweep", "result")
    dropped = ("started", "workload", "device", "in a sweep", "name")
    yield Table(names, tuple(rows), dropped=dropped, is_cut=True).filled()
    if of_all:
        yield Note((said_of_all(of_all),))


def _sweeps(sweeps: Sequence[SweepEntry]) -> Table:
    rows = []
    for entry in sweeps:
        named = (
            entry.label.name or "",
            workload_of(entry),
            entry.status,
            f"{done_text(entry)} done",
            varied_text(entry.plan) or f"{entry.plan.repeats} times each",
        )
        id = clean(entry.header.id, _LONGEST_ID)
        started = units.day_and_time(entry.header.wall)
        rows.append((id, started, *(clean(text, _LONGEST_NAME) for text in named)))
    names = ("sweep", "started", "name", "workload", "status", "combinations", "varied")
    dropped = ("started", "workload", "name", "combinations")
    return Table(names, tuple(rows), dropped=dropped, is_cut=True).filled()


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
