"""What is done with recorded sessions: `dlmon attach`, `dlmon stop` and `dlmon sessions`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from tui.commands.shared import (
    UserError,
    ascii_option,
    chosen_log_directory,
    in_terminal,
    json_option,
    log_dir_option,
    plain_option,
    session_argument,
    settings_of,
)


@click.command()
@session_argument
@plain_option
@ascii_option
@log_dir_option
def attach(session: str, plain: bool, ascii: bool | None, log_dir: Path | None) -> int:
    """Show a session that runs, or a finished one as it ended.

    SESSION is an id, a unique prefix of one, a path, or last.
    """
    settings = settings_of(ascii)
    path = _find(session, log_dir)
    if plain or not in_terminal():
        from tui.plain.follow import follow

        return follow(path, None)
    from dlmon.log.folder import log_directory_of
    from tui.app import DlmonApp

    return DlmonApp(log_directory_of(path), path, settings=settings).run_to_exit_code()


@click.command()
@session_argument
@log_dir_option
def stop(session: str, log_dir: Path | None) -> None:
    """Stop a session that runs on this machine.

    SESSION is an id, a unique prefix of one, a path, or last.
    """
    from dlmon.log.directory import read_entry, stop_session
    from dlmon.records import Status

    entry = read_entry(_find(session, log_dir))
    if entry.status != Status.RUNNING:
        raise UserError(f"{entry.header.id} is not running: it is {entry.status}")
    try:
        stopping = stop_session(entry)
    except PermissionError:
        raise UserError(f"{entry.header.id} belongs to another user") from None
    if not stopping:
        raise UserError(f"{entry.header.id} runs on {entry.header.host}: stop it there")
    print(f"{entry.header.id} is stopping after the current batch")


@click.command(short_help="List what was recorded, and what is running.")
@json_option
@log_dir_option
def sessions(as_json: bool, log_dir: Path | None) -> None:
    """List what was recorded, and what is running: sessions, and sweeps below them."""
    from dlmon.log.directory import list_sessions
    from dlmon.sweep.log import list_sweeps
    from tui.formatting.sessions import runs_of_sweeps
    from tui.plain.tables import print_sessions, session_json

    directory = chosen_log_directory(log_dir)
    if os.path.lexists(directory) and not directory.is_dir():
        raise UserError(f"{directory} is not a directory")
    entries, sweeps = list_sessions(directory), list_sweeps(directory)
    if as_json:
        runs = runs_of_sweeps(sweeps)
        listed = [session_json(entry, runs.get(entry.header.id)) for entry in entries]
        print(json.dumps(listed, indent=2))
        return
    print_sessions(entries, directory, sweeps, by_path=log_dir is not None)


def _find(session: str, log_dir: Path | None) -> Path:
    from dlmon.log.directory import NoSuchLog, find_session

    try:
        return find_session(session, chosen_log_directory(log_dir))
    except NoSuchLog as error:
        raise UserError(str(error)) from None
