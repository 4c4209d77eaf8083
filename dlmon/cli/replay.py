"""`dlmon replay`: play a recorded session, or the recordings of several hosts together."""

from __future__ import annotations

from pathlib import Path

import click

from dlmon.cli import click_options, shared
from dlmon.cli.show import View
from dlmon.log.folder import log_directory_of


@click.command(short_help="Play a recorded session on the live screen.")
@click_options.sessions_argument
@click_options.ascii_option
@click_options.hosts_option
@click_options.log_dir_option
def replay(
    sessions: tuple[str, ...], ascii: bool | None, hosts: tuple[str, ...], log_dir: Path | None
) -> int:
    """Play a recorded session on the live screen; one that still runs, as far as it has come.

    SESSION is an id, a name, a unique prefix of an id, a path, or last.

    Several recordings of machines (dlmon watch --record) are played together, a card for each
    machine, all at the same moment; SESSION may then also be a name that several bear, a pattern
    such as 'lab*', or a list with commas.
    """
    if not sessions:
        raise shared.UserError("say what to play: last, or a session that dlmon sessions lists")
    settings = shared.settings_of(ascii)
    names: tuple[str, ...] = ()
    if hosts:
        logs_by_host = {host: shared.logs_of(sessions, log_dir, host) for host in hosts}
        logs = tuple(log for host in hosts for log in logs_by_host[host])
        names = tuple(host for host in hosts for _ in logs_by_host[host])
    else:
        logs = tuple(shared.logs_of(sessions, log_dir))
        is_word = len(sessions) == 1 and "," not in sessions[0]
        if is_word and len(logs) > 1 and not all(map(_is_machine, logs)):
            # Runs are not played together: this reports which ones the word means.
            logs = (shared.log_of(sessions[0], log_dir),)
    if not shared.in_terminal():
        raise shared.UserError("replay needs a terminal; dlmon attach --plain prints a session")
    return View(settings).open(log_directory_of(logs[0]), replayed=logs, replayed_hosts=names)


def _is_machine(log: Path) -> bool:
    from dlmon.log.directory import read_entry

    return read_entry(log).header.is_machine_recording
