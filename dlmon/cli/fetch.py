"""`dlmon fetch`: sessions of another machine, copied to this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from dlmon.cli import click_options, shared
from dlmon.log.folder import is_trace
from dlmon.records.sanitize import shown_path
from dlmon.system.private_files import make_new_private_folder, make_private_folder


@click.command(short_help="Copy sessions of another machine to this one.")
@click.argument("session", metavar="SESSION")
@click_options.host_option_of("Where they were recorded; ssh has to reach it.", required=True)
@click.option(
    "--from-dir",
    metavar="DIR",
    type=click_options.Place(is_folder=True),
    help="Where sessions are kept on that machine. [default: the usual place]",
)
@click.option(
    "--traces", is_flag=True, help="Copy the traces of its profiles too, which may be large."
)
@click_options.log_dir_option
def fetch(
    session: str, host: str, from_dir: Path | None, traces: bool, log_dir: Path | None
) -> None:
    """Copy sessions of another machine to this one, where every command finds them then.

    SESSION is an id, a name, a unique prefix of an id, last, several with commas between them, or
    a pattern such as 'base*'. One that still runs is copied as far as it has come; to copy it
    again takes the rest.
    """
    directory = shared.chosen_log_directory(log_dir)
    for copy in shared.copies_of(host, session, from_dir, traces):
        kept = directory / _keep(copy.parent, directory)
        print(f"{kept.name} of {host} is here")
        found = sorted(path for path in kept.iterdir() if is_trace(path.name)) if traces else []
        for path in found:
            print(f"  {shown_path(path)} opens in ui.perfetto.dev")
        if traces and not found:
            print("  it has no trace of a profile")


def _keep(copied: Path, directory: Path) -> str:
    """Put the copy of a session among those that were recorded here; return its id."""
    make_private_folder(directory)
    # What begins with a dot is being written, or never was to its end.
    files = [path for path in copied.iterdir() if not path.name.startswith(".")]
    being_made = directory / f".{copied.name}"
    shutil.rmtree(being_made, ignore_errors=True)
    make_new_private_folder(being_made)
    try:
        for path in files:
            shutil.copy2(path, being_made)
        kept = directory / copied.name
        if kept.exists():
            for path in being_made.iterdir():
                path.replace(kept / path.name)
        else:
            being_made.rename(kept)
    finally:
        shutil.rmtree(being_made, ignore_errors=True)
    return copied.name
