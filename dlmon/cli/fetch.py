"""`dlmon fetch`: copy sessions of another host to this machine."""

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
    type=click_options.NamedPath(is_folder=True),
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
        folder = _import_session(copy.parent, directory)
        print(f"{folder.name} of {host} is here")
        if not traces:
            continue
        trace_paths = sorted(path for path in folder.iterdir() if is_trace(path.name))
        for path in trace_paths:
            print(f"  {shown_path(path)} opens in ui.perfetto.dev")
        if not trace_paths:
            print("  it has no trace of a profile")


def _import_session(copied: Path, directory: Path) -> Path:
    """Copy a session's folder into the log directory; return the new folder."""
    make_private_folder(directory)
    # A file whose name begins with a dot is not complete.
    files = [path for path in copied.iterdir() if not path.name.startswith(".")]
    unfinished = directory / f".{copied.name}"
    shutil.rmtree(unfinished, ignore_errors=True)
    make_new_private_folder(unfinished)
    try:
        for path in files:
            shutil.copy2(path, unfinished)
        folder = directory / copied.name
        if folder.exists():
            for path in unfinished.iterdir():
                path.replace(folder / path.name)
        else:
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
