"""Try injections in a script, in plain lines or as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from dlmon.exit_codes import DONE, FAILED
from dlmon.figures.sweeps import problems_of
from dlmon.figures.tries import candidates_text, tries_json, tries_sections
from dlmon.protocol.job import Job
from dlmon.records import PairRule
from dlmon.render.console import print_error, table_console
from dlmon.render.lines import print_sections
from dlmon.render.sweep_lines import SweepLines, print_at_once
from dlmon.sweep.candidates import Candidate, candidates_of
from dlmon.sweep.runner import SHOWN_LINES, SweepRun
from dlmon.sweep.tries import FirstSession, Try, run_as_it_is
from dlmon.system.signals import done_or_signalled


def show_tries(
    job: Job, rule: PairRule, begin: Callable[[Candidate, PairRule], SweepRun], as_json: bool
) -> int:
    """Run a script as it is, try what its figures speak for, and return the exit code.

    Args:
        job: the script as it is.
        rule: the rule of all experiments; its time is that of all together.
        begin: begins the experiment of a candidate.
        as_json: print the outcome as JSON, and nothing else.
    """
    ends_at = time.monotonic() + rule.for_s
    say = _silent if as_json else print_at_once
    say("the script as it is")
    first, exit_code = asyncio.run(done_or_signalled(run_as_it_is(job, rule)))
    if first is None:
        return exit_code
    if first.problem is not None or first.run is None:
        return _fail(first)
    candidates = candidates_of(first.run)
    for text in candidates_text(candidates, first.run):
        say(text)
    tries: list[Try] = []
    for number, candidate in enumerate(candidates):
        left_s = ends_at - time.monotonic()
        if left_s <= 0 or exit_code:
            tries.append(Try(candidate))
            continue
        run = begin(candidate, replace(rule, for_s=left_s / (len(candidates) - number)))
        lines = SweepLines(run, silent=as_json)
        asyncio.run(lines.run())
        exit_code = lines.exit_code or DONE
        for problem in problems_of(run):
            print_error(problem)
        tries.append(Try(candidate, run.writer.header.id, run.sweep))
    if as_json:
        print(json.dumps(tries_json(first, tries)))
    elif tries:
        console = table_console()
        console.print()
        print_sections(console, tries_sections(tries))
    sys.stdout.flush()
    return exit_code


def _fail(first: FirstSession) -> int:
    lines = [line.text for line in first.snapshot.output if line.text.strip()]
    for line in lines[-SHOWN_LINES:]:
        print(f"  {line}", file=sys.stderr)
    print_error(f"the script as it is: {first.problem}; nothing was tried")
    return FAILED


def _silent(text: str) -> None:
    """Print nothing."""
