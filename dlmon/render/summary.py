"""Print the outcome of a session: its figures, its problems, and how to come back to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dlmon.comparison.published import own_published
from dlmon.figures import units
from dlmon.figures.sections import with_texts
from dlmon.figures.session.session_list import id_with_name
from dlmon.figures.session.summary import SessionOutcome, describe_outcome
from dlmon.figures.sweeps import findings, problems_of, resumed_by
from dlmon.launch.supervisor_process import SupervisorProcess
from dlmon.log.directory import list_sessions
from dlmon.log.folder import location_options, log_directory_of
from dlmon.log.label import read_label
from dlmon.records import Status, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.console import line_console, print_error
from dlmon.render.lines import print_sections
from dlmon.session.follower import SessionFollower
from dlmon.session.snapshot import Snapshot
from dlmon.sweep.runner import SweepRun

# Lines of the summary are cut at this length, as a log may hold anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20


def print_outcome(follower: SessionFollower) -> None:
    """Print the figures and the comparison of a session, and problems on stderr."""
    snapshot = follower.snapshot()
    console = line_console()
    _print_summary(console, follower, snapshot)
    console.file.flush()
    print_problem(follower, snapshot)


def print_script_outcome(follower: SessionFollower, log_dir: str | None = None) -> None:
    """Print the figures of a script's session on stderr: stdout is the script's own.

    The script's output, with a traceback, was passed on before. Messages of dlmon come last, so
    that they don't mix with it.
    """
    snapshot, errors = follower.snapshot(), line_console(stderr=True)
    _print_summary(errors, follower, snapshot)
    if follower.loss is None and follower.why_result_unwritten is None:
        session = follower.session.header.id
        name = id_with_name(session, read_label(follower.path))
        errors.print(Text(f"\n{name} {follower.status}; recorded in {shown_path(follower.path)}"))
        errors.print(Text(f"dlmon attach{location_options(log_dir)} {session} shows it again"))
    for notice in snapshot.notices:
        print_error(clean(notice.text, LONGEST_TEXT))
    print_problem(follower, snapshot, is_output_printed=True)


def print_problem(
    follower: SessionFollower,
    snapshot: Snapshot,
    is_result_printed: bool = False,
    is_output_printed: bool = False,
) -> None:
    """Print the error of a session, or why its result is in no log."""
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
    """Say why the result is in no log; add the result unless it is printed already."""
    problem = f"{follower.problem}"
    return problem if is_printed else f"{problem}; it is:\n{result_json(follower)}"


def result_json(follower: SessionFollower) -> str:
    """Return the result as `--json` prints it, with the current name of the session."""
    assert follower.result is not None
    return json.dumps({**to_json(follower.result), "name": read_label(follower.path).name})


def _print_summary(console: Console, follower: SessionFollower, snapshot: Snapshot) -> None:
    label, entries = read_label(follower.path), list_sessions(follower.directory)
    outcome = SessionOutcome(follower.session, snapshot, follower.status, label)
    sections = tuple(describe_outcome(outcome, entries))
    console.print()
    print_sections(console, with_texts(sections, lambda text: clean(text, LONGEST_TEXT)))
    problem = own_published()[1]
    if problem is not None:
        print_error(f"{problem}; no own figure is shown")


# ---- coming back to a session, or resuming a sweep ----


def print_exit_message(
    follower: SessionFollower, *, stops: bool, usual: Path | None = None
) -> None:
    """Print the outcome of a session and its log, or how to come back to it.

    Args:
        follower: the session; it is closed.
        stops: the session is ours, and stops as its supervisor is released.
        usual: the default log directory; None if unknown.
    """
    follower.poll()
    session, path = follower.session.header.id, shown_path(follower.path)
    name = id_with_name(session, read_label(follower.path))
    if follower.why_result_unwritten is not None:
        print_error(unrecorded_result(follower))
    elif follower.running and stops:
        print(f"{name} is stopping; it is recorded in {path}")
    elif follower.running:
        print(_how_to_attach(follower, name, usual))
    else:
        print_outcome(follower)
        # The log of another host stays there.
        host = "in" if follower.host is None else f"on {follower.host}, copied to"
        log = f"its log {follower.loss}" if follower.loss else f"recorded {host} {path}"
        print(f"\n{name} {follower.status}; {log}")
    follower.close()


def _how_to_attach(follower: SessionFollower, name: str, usual: Path | None) -> str:
    kept_in = log_directory_of(follower.path)
    where = location_options(None if usual in (None, kept_in) else kept_in)
    if follower.host is not None:
        where = location_options(follower.log_dir_there, follower.host)
    session = follower.session.header.id
    return f"{name} is still running; dlmon attach{where} {session} shows it"


def leave_running(
    follower: SessionFollower, supervisor: SupervisorProcess, usual: Path | None = None
) -> None:
    """Leave our session running after an error of its display, and say how to come back.

    Its log isn't read again, as that may have caused the error.
    """
    supervisor.send("detach")
    supervisor.release()
    name = follower.session.header.id
    print_error(_how_to_attach(follower, name, usual))


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


def print_sweep_exit_message(run: SweepRun, usual: Path | None = None) -> None:
    """Print the findings and problems of a sweep, and how to resume it."""
    sweep, remaining = run.writer.header.id, len(run.sweep.remaining())
    name = id_with_name(sweep, read_label(run.writer.path))
    for sentence in findings(run.sweep):
        print(sentence)
    for problem in problems_of(run):
        print_error(problem)
    if remaining:
        command = resumed_by(sweep, run.directory, usual)
        print(f"{name} has {units.counted(remaining, 'run')} left: {command}")
    else:
        print(f"{name} completed; recorded in {shown_path(run.writer.path)}")
