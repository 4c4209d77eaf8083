"""Run a sweep in plain lines: one as each run begins and ends, then table and findings."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from rich.text import Text

from dlmon.exit_codes import INTERRUPTED_BY_USER
from dlmon.figures import units
from dlmon.figures.pairs import pair_findings, pair_sections, progress_text
from dlmon.figures.sections import Note
from dlmon.figures.sweeps import (
    findings,
    left_text,
    outcome_text,
    plan_text,
    problems_of,
    resumed_by,
    slot_text,
    sweep_json,
    sweep_table,
)
from dlmon.log.label import read_label
from dlmon.records import Began, Ended, Event, RunStatus
from dlmon.render.console import print_error, table_console
from dlmon.render.lines import print_line, print_sections
from dlmon.sweep.pairs import is_enough, verdict_of
from dlmon.sweep.results import rows_of
from dlmon.sweep.runner import SweepRun
from dlmon.system.signals import on_signals

_LOOK_S = 1.0


def show_sweep(run: SweepRun, as_json: bool = False, log_dir: Path | None = None) -> int:
    """Run a sweep, print a line for each run, or only the rows as JSON; return the exit code.

    Ctrl-C stops the current run and the sweep, and ends with 130; `--resume` continues it.
    """
    showing = SweepLines(run, silent=as_json)
    asyncio.run(showing.run())
    if as_json:
        path = run.writer.path
        name = read_label(path).name
        print(json.dumps(sweep_json(run.writer.header, run.sweep, str(path), name)))
    else:
        print_results(run)
    sys.stdout.flush()
    for line in run.last_lines:
        print(f"  {line}", file=sys.stderr)
    for problem in problems_of(run):
        print_error(problem)
    left = left_text(run.sweep)
    if left is not None:
        print_error(f"{left}: {resumed_by(run.writer.header.id, log_dir)}")
    return run.exit_code if showing.exit_code is None else showing.exit_code


class SweepLines:
    """Runs a sweep to its end, or to Ctrl-C."""

    def __init__(self, run: SweepRun, silent: bool) -> None:
        self._run = run
        self._silent = silent
        self.exit_code: int | None = None
        self._reported: dict[str, str | None] = {}
        self._pairs = self._notes = 0
        run.on_event = self._print_event

    async def run(self) -> None:
        on_signals(self._end)
        header = self._run.writer.header
        self._print(f"sweep {header.id}")
        self._print(plan_text(self._run.sweep.plan))
        remaining = len(self._run.sweep.remaining())
        if self._run.sweep.plan.pairs is None and remaining < len(self._run.sweep.plan.order):
            self._print(f"{remaining:,} of them left")
        self._runs = asyncio.create_task(self._run.run())
        while not self._runs.done():
            await asyncio.wait({self._runs}, timeout=_LOOK_S)
            self._report_problems()
            self._print_notes()
        if not self._runs.cancelled():
            self._runs.result()

    def _print_notes(self) -> None:
        for note in self._run.notes[self._notes :]:
            print_error(note)
        self._notes = len(self._run.notes)

    def _report_problems(self) -> None:
        """Print each lasting problem of a host once."""
        for host, current in self._run.current.items():
            if host is None or current.follower is None:
                continue
            problem = current.follower.problem
            lasting = current.follower.lasting_problem
            if lasting and lasting != self._reported.get(host):
                print_error(f"{problem}")
            self._reported[host] = lasting

    def _end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        if self._run.stopping or exit_code != INTERRUPTED_BY_USER:
            self._runs.cancel()
        else:
            self._run.stop()
            if self._run.writer.header.slurm is not None:
                print_error("its jobs stay in Slurm")
            else:
                print_error("stopping after the current batch; Ctrl-C again to leave now")

    def _print_event(self, event: Event) -> None:
        plan = self._run.sweep.plan
        if not isinstance(event, (Began, Ended)):
            return
        combination = plan.combinations[event.slot.combination]
        name = slot_text(plan, combination, event.slot.repeat)
        number = f"{plan.order.index(event.slot) + 1} of {len(plan.order)}  "
        if plan.pairs is not None or plan.search_window_s is not None:
            number = ""
        if isinstance(event, Began):
            self._print(f"{number}{name}: session {event.session}")
            return
        metric = plan.metrics[combination.workload]
        time_left = units.time_left(self._run.seconds_left)
        line = f"{number}{name}: {outcome_text(event.outcome, metric)}"
        if plan.pairs is not None:
            self._print(line)
            self._print_pair()
            return
        self._print(f"{line}  {time_left}" if time_left and self._run.sweep.remaining() else line)

    def _print_pair(self) -> None:
        """Print what the pairs say so far, once a pair is complete."""
        sweep = self._run.sweep
        pairs = len(verdict_of(sweep).pairs)
        if pairs > self._pairs:
            self._pairs = pairs
            said = [
                *pair_findings(sweep)[:1],
                *([] if is_enough(sweep) else [progress_text(sweep)]),
            ]
            self._print(f"  {'; '.join(said)}")

    def _print(self, line: str) -> None:
        if not self._silent:
            print_at_once(line)


def print_at_once(line: str) -> None:
    """Print a line behind the time, also into a pipe."""
    console = table_console()
    print_line(console, Text(f"{time.strftime('%H:%M:%S')}  {line}"))
    console.file.flush()


def print_results(run: SweepRun) -> None:
    """Print the table and the findings of a sweep, or that nothing ran."""
    console = table_console()
    console.print()
    if all(row.status == RunStatus.NOT_RUN for row in rows_of(run.sweep)):
        # The reasons were printed for each run.
        count = len(run.sweep.plan.order)
        sentence = f"none of the {count:,} runs was made" if count > 1 else "the run was not made"
        sentence = sentence if run.sweep.plan.pairs is None else "no run was completed"
        print_line(console, Text(sentence))
        return
    if run.sweep.plan.pairs is not None:
        print_sections(
            console, [*pair_sections(run.sweep), Note(tuple(findings(run.sweep)), "verdict")]
        )
        return
    print_sections(console, [sweep_table(run.sweep), Note(tuple(findings(run.sweep)), "verdict")])
