"""What is printed in the shell when the screens close."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dlmon.records.sanitize import clean, shown_path
from dlmon.session.follower import Viewer

if TYPE_CHECKING:
    from dlmon.sweep.runner import SweepRun


def print_exit_message(viewer: Viewer, *, stops: bool) -> None:
    """Print what came of a session and where it is recorded, or how to come back.

    Args:
        viewer: the session; it is closed.
        stops: it was ours, and stops now that its lifeline is released.
    """
    from tui.plain.summary import print_outcome, unrecorded_result

    viewer.poll()
    session, path = viewer.session.header.id, shown_path(viewer.path)
    if viewer.why_result_unwritten is not None:
        print(unrecorded_result(viewer), file=sys.stderr)
    elif viewer.running and stops:
        print(f"{session} is stopping; it is recorded in {path}")
    elif viewer.running:
        print(f"{session} is still running; dlmon attach {session} shows it")
    else:
        print_outcome(viewer)
        print(f"\n{session} {viewer.status}; recorded in {path}")
    viewer.close()


def print_sweep_exit_message(run: SweepRun) -> None:
    """Print what a sweep found, and how to go on with what is left of it; release its lock."""
    from tui.formatting.sweeps import findings, runs_text

    run.release()
    name, left = run.writer.header.id, len(run.sweep.left())
    for sentence in findings(run.sweep):
        print(sentence)
    if run.trouble is not None:
        print(f"dlmon: {clean(run.trouble)}", file=sys.stderr)
    if left:
        print(f"{name} has {runs_text(left)} left: dlmon sweep --resume {name}")
    else:
        print(f"{name} completed; recorded in {shown_path(run.writer.path)}")
