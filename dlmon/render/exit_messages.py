"""What is printed in the shell when the screens close."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.records.sanitize import shown_path

if TYPE_CHECKING:
    from dlmon.launch.lifeline import Lifeline
    from dlmon.session.follower import SessionFollower
    from dlmon.sweep.runner import SweepRun


def print_exit_message(
    follower: SessionFollower, *, stops: bool, usual: Path | None = None
) -> None:
    """Print what came of a session and where it is recorded, or how to come back.

    Args:
        follower: the session; it is closed.
        stops: it was ours, and stops now that its lifeline is released.
        usual: where sessions are kept that name no place; None where that isn't known.
    """
    from dlmon.figures.sessions import called
    from dlmon.log.label import read_label
    from dlmon.render.console import print_error
    from dlmon.render.summary import print_outcome, unrecorded_result

    follower.poll()
    session, path = follower.session.header.id, shown_path(follower.path)
    name = called(session, read_label(follower.path))
    if follower.why_result_unwritten is not None:
        print_error(unrecorded_result(follower))
    elif follower.running and stops:
        print(f"{name} is stopping; it is recorded in {path}")
    elif follower.running:
        print(_how_to_attach(follower, name, usual))
    else:
        print_outcome(follower)
        # The log of another machine stays there.
        kept = "recorded in" if follower.host is None else f"recorded on {follower.host}, copied to"
        where = f"its log {follower.loss}" if follower.loss else f"{kept} {path}"
        print(f"\n{name} {follower.status}; {where}")
    follower.close()


def _how_to_attach(follower: SessionFollower, name: str, usual: Path | None) -> str:
    from dlmon.log.folder import log_directory_of, place_options

    kept_in = log_directory_of(follower.path)
    where = place_options(None if usual in (None, kept_in) else kept_in)
    if follower.host is not None:
        where = place_options(follower.log_dir_there, follower.host)
    session = follower.session.header.id
    return f"{name} is still running; dlmon attach{where} {session} shows it"


def leave_running(follower: SessionFollower, launch: Lifeline, usual: Path | None = None) -> None:
    """Let a session of ours go on though an error ends what shows it; say how to come back.

    Nothing new is read of it: that may be what the error is about.

    Args:
        follower: the session, which runs.
        launch: its lifeline.
        usual: as for `print_exit_message`.
    """
    launch.send("detach")
    launch.release()
    name = follower.session.header.id
    from dlmon.render.console import print_error

    print_error(_how_to_attach(follower, name, usual))


@contextmanager
def leaving_running_on_error(follower: SessionFollower, launch: Lifeline | None) -> Iterator[None]:
    """Leave a session of ours running where an error of dlmon's own ends what shows it.

    Streams that take no more are none: who closes them wants to see no more of it.
    """
    try:
        yield
    except Exception as error:
        if launch is not None and follower.running and not isinstance(error, OSError):
            leave_running(follower, launch)
        raise


def print_sweep_exit_message(run: SweepRun, usual: Path | None = None) -> None:
    """Print what a sweep found, what went wrong, and how to go on with what is left of it.

    Args:
        run: the sweep.
        usual: as for `print_exit_message`.
    """
    from dlmon.figures import units
    from dlmon.figures.sessions import called
    from dlmon.figures.sweeps import findings, problems_of, resumed_by
    from dlmon.log.label import read_label
    from dlmon.render.console import print_error

    sweep, left = run.writer.header.id, len(run.sweep.left())
    name = called(sweep, read_label(run.writer.path))
    for sentence in findings(run.sweep):
        print(sentence)
    for problem in problems_of(run):
        print_error(problem)
    if left:
        command = resumed_by(sweep, run.directory, usual)
        print(f"{name} has {units.counted(left, 'run')} left: {command}")
    else:
        print(f"{name} completed; recorded in {shown_path(run.writer.path)}")
