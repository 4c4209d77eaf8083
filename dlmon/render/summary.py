"""What came of a session: its figures, its comparison, and what went wrong."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from dlmon.comparison.published import own_published
from dlmon.figures.sections import with_texts
from dlmon.figures.sessions import called
from dlmon.figures.summary import Outcome, describe_outcome
from dlmon.log.directory import list_sessions
from dlmon.log.folder import place_options
from dlmon.log.label import read_label
from dlmon.records import Status, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.console import line_console, print_error
from dlmon.render.lines import print_sections
from dlmon.session.follower import SessionFollower
from dlmon.session.snapshot import Snapshot

# Of a line of the summary: a log may say anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20


def print_outcome(follower: SessionFollower) -> None:
    """Print the figures of a session and its comparison, and what went wrong on stderr."""
    snapshot = follower.snapshot()
    console = line_console()
    _print_summary(console, follower, snapshot)
    console.file.flush()
    print_problem(follower, snapshot)


def print_script_outcome(follower: SessionFollower, log_dir: str | None = None) -> None:
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
        print_error(clean(notice.text, LONGEST_TEXT))
    print_problem(follower, snapshot, is_output_printed=True)


def _kept_text(follower: SessionFollower, log_dir: str | None) -> str:
    """Say which session it was, where its log lies, and how to come back to it."""
    session = follower.session.header.id
    name = called(session, read_label(follower.path))
    return (
        f"\n{name} {follower.status}; recorded in {shown_path(follower.path)}\n"
        f"dlmon attach{place_options(log_dir)} {session} shows it again"
    )


def print_problem(
    follower: SessionFollower,
    snapshot: Snapshot,
    is_result_printed: bool = False,
    is_output_printed: bool = False,
) -> None:
    """Print what went wrong with a session, or why its result is in no log."""
    if follower.why_result_unwritten is not None:
        print_error(unrecorded_result(follower, is_result_printed))
    elif follower.problem and follower.status in (Status.INTERRUPTED, Status.UNKNOWN):
        held = f"{shown_path(follower.path)} holds what was recorded"
        lost = f"the log {follower.loss} by another program"
        print_error(f"{follower.problem}; {lost if follower.loss else held}")
    elif snapshot.result is not None and snapshot.result.error:
        for line in () if is_output_printed else snapshot.output[-SHOWN_OUTPUT:]:
            line_console(stderr=True).print(Text(line.text, style="dim"))
        print_error(f"{snapshot.header.workload} failed: {snapshot.result.error}")
    elif follower.loss is not None and follower.problem:
        print_error(follower.problem)


def unrecorded_result(follower: SessionFollower, is_printed: bool = False) -> str:
    """Say why the result is in no log; with the result, unless that is printed already."""
    problem = f"{follower.problem}"
    return problem if is_printed else f"{problem}; it is:\n{result_json(follower)}"


def result_json(follower: SessionFollower) -> str:
    """Return the result as `--json` prints it, with what the session is called by now."""
    assert follower.result is not None
    return json.dumps({**to_json(follower.result), "name": read_label(follower.path).name})


def _print_summary(console: Console, follower: SessionFollower, snapshot: Snapshot) -> None:
    label, entries = read_label(follower.path), list_sessions(follower.directory)
    outcome = Outcome(follower.session, snapshot, follower.status, label)
    sections = tuple(describe_outcome(outcome, entries))
    console.print()
    print_sections(console, with_texts(sections, lambda text: clean(text, LONGEST_TEXT)))
    problem = own_published()[1]
    if problem is not None:
        print_error(f"{problem}; no own figure is shown")
