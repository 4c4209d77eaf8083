"""Print the outcome of a session: its figures, its problems, and how to come back to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dlmon.comparison.published import own_published
from dlmon.figures import units
from dlmon.figures.lists.session_list import id_with_name
from dlmon.figures.report.summary import (
    TRY,
    WENT_WRONG,
    SessionOutcome,
    describe_outcome,
    outcome_rows,
)
from dlmon.figures.sections import with_texts
from dlmon.figures.session.headline import headline_of
from dlmon.figures.session.time_breakdown import time_bar
from dlmon.figures.sweeps import findings, in_short, left_text, problems_of, resumed_by
from dlmon.launch.supervisor_process import SupervisorProcess
from dlmon.log.directory import SessionEntry, list_sessions
from dlmon.log.folder import location_options, log_directory_of
from dlmon.log.label import read_label
from dlmon.records import FailureKind, Status, to_json
from dlmon.records.record import record
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.console import line_console, print_error, print_sentence
from dlmon.render.lines import print_sections
from dlmon.render.wrap import between_words, first_words, wrapped
from dlmon.session.follower import SessionFollower
from dlmon.session.snapshot import Snapshot
from dlmon.sweep.runner import SweepRun
from dlmon.sweep.tries import TryRun

# Lines of the summary are cut at this length, as a log may hold anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20
_MOST_LINES, _MOST_FINDINGS, _MOST_NOTICES = 10, 6, 2


@record(frozen=True)
class Ending:
    """How the outcome of a session is printed.

    Attributes:
        verbose: print all figures, not the answer in ten lines.
        usual: the default log directory; None if unknown.
    """

    verbose: bool = False
    usual: Path | None = None


IN_SHORT = Ending()


def print_outcome(
    follower: SessionFollower, ending: Ending = IN_SHORT, is_script: bool = False
) -> None:
    """Print the answer in at most ten lines, or all figures; then where the rest is.

    Problems go to stderr. With `is_script` all does, as stdout is the script's own, whose output
    was passed on before.
    """
    snapshot, console = follower.snapshot(), line_console(stderr=is_script)
    entries = list_sessions(follower.directory)
    label = read_label(follower.path)
    outcome = SessionOutcome(follower.session, snapshot, follower.status, label)
    notices = [clean(notice.text, LONGEST_TEXT) for notice in snapshot.notices if is_script]
    where, problem = _where_it_is(follower, ending, entries), _problem_text(follower, snapshot)
    console.print()
    if ending.verbose:
        sections = tuple(describe_outcome(outcome, entries))
        print_sections(console, with_texts(sections, lambda text: clean(text, LONGEST_TEXT)))
        why_no_own = own_published()[1]
        if why_no_own is not None:
            print_error(f"{why_no_own}; no own figure is shown")
        where = ["", *where] if where else []
    else:
        # The last one often says how to mend it.
        if len(notices) > _MOST_NOTICES:
            notices[1:-1] = [units.counted(len(notices) - 2, "more notice")]
        width = console.width if console.is_terminal else LONGEST_TEXT
        result, errors = snapshot.result, line_console(stderr=True)
        is_memory = result is not None and result.failure == FailureKind.OUT_OF_MEMORY
        if is_memory and follower.loss is None and console.is_terminal and errors.is_terminal:
            # The rows have this long error, with what held the memory.
            problem = ""
        texts = (*where, *(f"dlmon: {text}" for text in (*notices, problem) if text))
        lines = (line for text in texts for line in between_words(text, width))
        below = sum(-(-cell_len(line) // width) for line in lines)
        _print_in_short(console, outcome, entries, _MOST_LINES - 1 - below)
    for line in where:
        print_sentence(console, line)
    console.file.flush()
    if ending.verbose and not is_script and snapshot.result and snapshot.result.error:
        for output in snapshot.output[-SHOWN_OUTPUT:]:
            line_console(stderr=True).print(Text(output.text, style="dim"))
    for sentence in (*notices, problem):
        if sentence:
            print_error(sentence)


def _print_in_short(
    console: Console, outcome: SessionOutcome, entries: Sequence[SessionEntry], most: int
) -> None:
    """Print the answer in at most `most` lines, with the time breakdown as a bar.

    What went wrong and the advice take several lines each rather than be cut, the advice first.
    """
    has_bar = bool(outcome.snapshot.time_breakdown)
    most_rows = most - has_bar
    rows = outcome_rows(outcome, entries, most_rows)
    lead = max((len(name) for name, _ in rows), default=0) + 2
    room = max(1, console.width - lead) if console.is_terminal else LONGEST_TEXT
    more = {
        name: len(wrapped(clean(text, LONGEST_TEXT), room)) - 1
        for name, text in reversed(rows)
        if name in (TRY, WENT_WRONG)
    }
    if WENT_WRONG in more:
        rows = outcome_rows(outcome, entries, max(len(more), most_rows - sum(more.values())))
    spare = most_rows - len(rows)
    for name in more:
        more[name] = min(spare, more[name])
        spare -= more[name]
    bars = (time_bar(outcome.snapshot, count) for count in (2, 1) if has_bar)
    rows += [("time", bar) for bar in bars if cell_len(bar) <= room][:1]
    for name, text in rows:
        text = clean(text, LONGEST_TEXT)
        count = 1 + more.get(name, 0)
        lines = wrapped(text, room, count) if count > 1 else [first_words(text, room)]
        for number, line in enumerate(lines):
            shown_name = "" if number else name
            console.print(Text.assemble((shown_name.ljust(lead), "dim"), line))


def _where_it_is(
    follower: SessionFollower, ending: Ending, entries: Sequence[SessionEntry]
) -> list[str]:
    """Say where a session is recorded, and which commands show the rest of it."""
    if follower.why_result_unwritten is not None:
        return []
    session, path = follower.session.header.id, shown_path(follower.path)
    name = id_with_name(session, read_label(follower.path))
    if follower.loss is not None:
        return [f"{name} {follower.status}; its log {follower.loss}"]
    # The log of another host stays there.
    host = "in" if follower.host is None else f"on {follower.host}, copied to"
    is_last = follower.host is None and entries[-1].header.id == session
    meant = f"{_location(follower, ending)} {'last' if is_last else session}"
    return [
        f"{name} {follower.status}; recorded {host} {path}",
        f"dlmon report{meant} has all figures, dlmon attach{meant} shows it again",
    ]


def _location(follower: SessionFollower, ending: Ending) -> str:
    """Return the options that select the host and the log directory of a session."""
    if follower.host is not None:
        return location_options(follower.log_dir_there, follower.host)
    kept_in = log_directory_of(follower.path)
    return location_options(None if ending.usual in (None, kept_in) else kept_in)


def print_problem(follower: SessionFollower, snapshot: Snapshot) -> None:
    """Print the error of a session whose result is printed, or why that is in no log."""
    problem = _problem_text(follower, snapshot, is_result_printed=True)
    if problem:
        print_error(problem)


def _problem_text(
    follower: SessionFollower, snapshot: Snapshot, is_result_printed: bool = False
) -> str:
    """Return the error of a session, or why its result is in no log; empty without either."""
    if follower.why_result_unwritten is not None:
        return unrecorded_result(follower, is_result_printed)
    if follower.problem and follower.status in (Status.INTERRUPTED, Status.UNKNOWN):
        held = f"{shown_path(follower.path)} holds what was recorded"
        lost = f"the log {follower.loss} by another program"
        return f"{follower.problem}; {lost if follower.loss else held}"
    if snapshot.result is not None and snapshot.result.error:
        return f"{snapshot.header.workload} failed: {snapshot.result.error}"
    return f"{follower.problem}" if follower.loss is not None and follower.problem else ""


def unrecorded_result(follower: SessionFollower, is_printed: bool = False) -> str:
    """Say why the result is in no log; add the result unless it is printed already."""
    problem = f"{follower.problem}"
    return problem if is_printed else f"{problem}; it is:\n{result_json(follower)}"


def result_json(follower: SessionFollower) -> str:
    """Return the result as `--json` prints it, with the current name of the session."""
    assert follower.result is not None
    headline = headline_of(follower.snapshot(), False, follower.status)
    said = None if headline is None else headline.as_json
    name = read_label(follower.path).name
    return json.dumps({**to_json(follower.result), "name": name, "headline": said})


# ---- coming back to a session, or resuming a sweep ----


def print_exit_message(
    follower: SessionFollower, *, stops: bool, ending: Ending = IN_SHORT
) -> None:
    """Print the outcome of a session, or how to come back to it; close its follower.

    If it `stops`, it is ours, and its supervisor was released.
    """
    follower.poll()
    session = follower.session.header.id
    name = id_with_name(session, read_label(follower.path))
    if follower.why_result_unwritten is not None:
        print_error(unrecorded_result(follower))
    elif follower.running and stops:
        print_sentence(
            line_console(), f"{name} is stopping; it is recorded in {shown_path(follower.path)}"
        )
    elif follower.running:
        print_sentence(line_console(), _how_to_attach(follower, name, ending))
    else:
        print_outcome(follower, ending)
    follower.close()


def _how_to_attach(follower: SessionFollower, name: str, ending: Ending) -> str:
    where, session = _location(follower, ending), follower.session.header.id
    return f"{name} is still running; dlmon attach{where} {session} shows it"


def leave_running(
    follower: SessionFollower, supervisor: SupervisorProcess, usual: Path | None = None
) -> None:
    """Leave our session running after an error of its display, and say how to come back.

    Its log isn't read again, as that may have caused the error.
    """
    supervisor.detach()
    supervisor.release()
    name = follower.session.header.id
    print_error(_how_to_attach(follower, name, Ending(usual=usual)))


@contextmanager
def leaving_running_on_error(
    follower: SessionFollower, supervisor: SupervisorProcess | None
) -> Iterator[None]:
    """Leave our session running if an error of dlmon ends its display.

    A closed output stream isn't such an error: the person is done with it.
    """
    try:
        yield
    except Exception as error:
        if supervisor is not None and follower.running and not isinstance(error, OSError):
            leave_running(follower, supervisor)
        raise


def print_experiment_exit_message(run: SweepRun | TryRun, usual: Path | None = None) -> None:
    """Print the findings and problems of an experiment, and how to resume it."""
    if not isinstance(run, SweepRun):
        from dlmon.render.try_lines import print_tries

        print_tries(run)
        return
    sweep = run.writer.header.id
    name = id_with_name(sweep, read_label(run.writer.path))
    for sentence in in_short(findings(run.sweep), _MOST_FINDINGS):
        print(sentence)
    for problem in problems_of(run):
        print_error(problem)
    left = left_text(run.sweep)
    if left is not None:
        command = resumed_by(sweep, run.directory, usual)
        print_sentence(line_console(), f"{name} ended; {left}: {command}")
    else:
        status = run.sweep.closed or Status.COMPLETED
        text = f"{name} {status}; recorded in {shown_path(run.writer.path)}"
        print_sentence(line_console(), text)
