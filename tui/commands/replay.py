"""`dlmon replay`: the live screen of a recorded session, played."""

from __future__ import annotations

from pathlib import Path

import click

from tui.commands import click_options, shared


@click.command(short_help="Play a recorded session on the live screen.")
@click_options.session_argument
@click_options.ascii_option
@click_options.host_option
@click_options.log_dir_option
def replay(session: str, ascii: bool | None, host: str | None, log_dir: Path | None) -> int:
    """Play a recorded session on the live screen; one that still runs, as far as it has come.

    SESSION is an id, a name, a unique prefix of an id, a path, or last.
    """
    from dlmon.log.directory import find_session

    settings = shared.settings_of(ascii)
    if host is not None:
        (path,) = shared.copies_of(host, session, log_dir)[-1:]
    else:
        path = find_session(session, shared.chosen_log_directory(log_dir))
    if not shared.in_terminal():
        raise shared.UserError("replay needs a terminal; dlmon attach --plain prints a session")
    from dlmon.log.folder import log_directory_of
    from tui.app import DlmonApp
    from tui.navigation import Start

    return DlmonApp(Start(log_directory_of(path), settings, replayed=path)).run_to_exit_code()
