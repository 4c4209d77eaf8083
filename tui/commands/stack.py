"""`dlmon stack`: what every process of a session that runs is doing now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tui.commands import click_options, shared

if TYPE_CHECKING:
    from dlmon.records import Record, SessionHeader


@click.command(short_help="Show the line of code that each process of a run is at.")
@click_options.session_argument
@click_options.json_option
@click_options.host_option
@click_options.log_dir_option
def stack(session: str, as_json: bool, host: str | None, log_dir: Path | None) -> None:
    """Show what every process of a session that runs is doing now, with the line of the script.

    SESSION is an id, a name, a unique prefix of an id, a path, or last. What it shows is recorded
    too.
    """
    from dlmon.records import ProcessStack, to_json
    from dlmon.session.stacks import in_order
    from tui.formatting.stacks import stack_lines

    _, records = ask_session_of(session, {"ask": "stack"}, host, log_dir)
    stacks = in_order(record for record in records if isinstance(record, ProcessStack))
    if as_json:
        print(json.dumps([to_json(each) for each in stacks], indent=2))
        return
    for line, _ in stack_lines(stacks):
        print(line)


def ask_session_of(
    session: str, request: Mapping[str, Any], host: str | None, log_dir: Path | None
) -> tuple[SessionHeader, list[Record]]:
    """Return how the session that is meant began, and what it answers to a request."""
    from dlmon.control import NotControlled
    from dlmon.log.directory import ask_session, find_session, read_entry
    from dlmon.log.folder import place_options

    if host is not None:
        from dlmon.remote.requests import ask_remote

        return shared.result_of(ask_remote(host, session, request, shared.on_host(log_dir)))
    directory = shared.chosen_log_directory(log_dir)
    entry = read_entry(find_session(session, directory, place_options(log_dir)))
    try:
        return entry.header, ask_session(entry, request)
    except NotControlled as error:
        raise shared.UserError(str(error)) from None
