"""Try injections in a script, in plain lines or as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from dlmon.exit_codes import INTERRUPTED_BY_USER
from dlmon.figures.sweeps import problems_of
from dlmon.figures.tries import candidates_text, tries_json, tries_problems, tries_sections
from dlmon.render.console import print_error, table_console
from dlmon.render.lines import print_sections
from dlmon.render.sweep_lines import SweepLines, print_at_once
from dlmon.sweep.runner import SweepRun
from dlmon.sweep.tries import TryRun
from dlmon.system.signals import on_signals


def show_tries(run: TryRun, as_json: bool) -> int:
    """Try injections, print lines, or only the outcome as JSON; return the exit code."""
    lines = _TryLines(run, as_json)
    asyncio.run(lines.run())
    if not as_json:
        print_tries(run)
    elif run.first is not None and run.first.problem is None:
        print(json.dumps(tries_json(run.first, run.tries)))
    sys.stdout.flush()
    return run.exit_code if lines.exit_code is None else lines.exit_code


def print_tries(run: TryRun) -> None:
    """Print what came of the tries, and why there is nothing."""
    if run.tries:
        console = table_console()
        console.print()
        print_sections(console, tries_sections(run.tries))
    for line in run.last_lines:
        print(f"  {line}", file=sys.stderr)
    for problem in tries_problems(run):
        print_error(problem)


class _TryLines:
    """Runs the tries to their end, or to Ctrl-C."""

    def __init__(self, run: TryRun, silent: bool) -> None:
        self.exit_code: int | None = None
        self._run, self._silent, self._has_said = run, silent, False

    async def run(self) -> None:
        on_signals(self._end)
        self._say("the script as it is")
        self._tries = asyncio.create_task(self._run.run(self._make_runs))
        await asyncio.wait({self._tries})
        if not self._tries.cancelled():
            self._tries.result()
        self._say_candidates()

    async def _make_runs(self, run: SweepRun) -> None:
        self._say_candidates()
        lines = SweepLines(run, self._silent)
        await lines.run()
        on_signals(self._end)
        for problem in problems_of(run):
            print_error(problem)
        if lines.exit_code is not None:
            self.exit_code = lines.exit_code
            self._run.stop()

    def _say_candidates(self) -> None:
        first = self._run.first
        if self._has_said or first is None or first.run is None or first.problem is not None:
            return
        self._has_said = True
        for text in candidates_text([tried.candidate for tried in self._run.tries], first.run):
            self._say(text)

    def _end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        if self._run.stopping or exit_code != INTERRUPTED_BY_USER:
            self._tries.cancel()
        self._run.stop()

    def _say(self, text: str) -> None:
        if not self._silent:
            print_at_once(text)
