"""`dlmon export`: send recorded sessions to an experiment tracker."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import session_names
from dlmon.exit_codes import DONE, FAILED
from dlmon.log.folder import id_of
from dlmon.options.run_options import OPTIONS

if TYPE_CHECKING:
    from dlmon.trackers.tracker_address import TrackerAddress

_POLL_S = 1.0


@click.command(short_help="Send recorded sessions to an experiment tracker.")
@click.argument(
    "sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=session_names
)
@click.option(
    "--to",
    metavar="TRACKER",
    help="Where to: wandb, mlflow:URI, trackio or tensorboard:DIR. [default: as in config.toml]",
)
@click_options.host_option
@click_options.log_dir_option
def export(
    sessions: tuple[str, ...], to: str | None, host: str | None, log_dir: Path | None
) -> int:
    """Send recorded sessions to an experiment tracker; one that runs until it ends.

    Its library is that of the script's Python, else that of dlmon's.
    """
    from dlmon.options.settings import read_settings
    from dlmon.trackers.tracker_address import address_of_tracker

    to = to or read_settings().run.to
    if to is None:
        raise shared.UserError(
            f"say where to: dlmon export SESSION --to {OPTIONS['to'].values_text}"
        )
    try:
        destination = address_of_tracker(to)
    except ValueError as error:
        raise shared.UserError(str(error)) from None
    logs = shared.logs_of(sessions, log_dir, host)
    are_whole = [_export(log, destination) for log in logs]
    return DONE if all(are_whole) else FAILED


def _export(log: Path, to: TrackerAddress) -> bool:
    """Send a session, and return whether all was sent."""
    from dlmon.log.directory import status_without_result
    from dlmon.log.log_follower import LogFollower
    from dlmon.records import Status
    from dlmon.trackers.sink import Sink

    def say(sentence: str) -> None:
        print(f"dlmon: {sentence}", file=sys.stderr)

    sink = Sink(log, to, say, retries=False)
    lock = LogFollower(log)
    while status_without_result(lock)[0] == Status.RUNNING and not sink.failures:
        if not sink.step():
            time.sleep(_POLL_S)
    lock.close()
    is_whole = sink.end()
    if (text := sink.left_out_text) is not None:
        print(text)
    if is_whole:
        print(f"{id_of(log)} was sent to {to}: {sink.sent:,} rows")
    return is_whole
