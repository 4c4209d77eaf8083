"""`dlmon stack` and `dlmon profile`: show what the processes of a running session do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlmon.cli import click_options, shared
from dlmon.records import ProcessStack, Profile, to_json
from dlmon.records.sanitize import shown_path

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
    from rich.text import Text

    from dlmon.figures.session.process_stacks import stack_lines
    from dlmon.render.console import line_console
    from dlmon.session.gaps import in_order

    _, records = _ask_session(session, {"ask": "stack"}, host, log_dir)
    if as_json:
        stacks = in_order(record for record in records if isinstance(record, ProcessStack))
        print(json.dumps([to_json(stack) for stack in stacks], indent=2))
        return
    console = line_console()
    for line, style in stack_lines(records):
        console.print(Text(line, "bold" if style == "strong" else style))


@click.command(short_help="Profile the next steps of a run.")
@click_options.session_argument
@click.option(
    "--steps",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="How many steps are profiled.",
)
@click_options.json_option
@click_options.host_option
@click_options.log_dir_option
def profile(
    session: str, steps: int, as_json: bool, host: str | None, log_dir: Path | None
) -> None:
    """Have PyTorch's, JAX's or TensorFlow's own profiler watch the next steps of a run.

    SESSION is an id, a name, a unique prefix of an id, a path, or last. It shows which operations
    took the time, and leaves a trace beside the log that ui.perfetto.dev opens. The steps that are
    profiled count in no figure.
    """
    from dlmon.figures.session.tables import describe_profile
    from dlmon.render.console import table_console
    from dlmon.render.lines import print_sections

    request = {"ask": "profile", "steps": steps}
    header, records = _ask_session(session, request, host, log_dir)
    [answer] = [record for record in records if isinstance(record, Profile)]
    if as_json:
        print(json.dumps(to_json(answer), indent=2))
        return
    print_sections(table_console(), describe_profile(answer))
    if answer.file is None:
        return
    if host is None:
        path = shared.log_of(header.id, log_dir).with_name(answer.file)
        print(f"{shown_path(path)} opens in ui.perfetto.dev")
        return
    from_dir = "" if log_dir is None else f" --from-dir {shlex.quote(str(log_dir))}"
    fetch = f"dlmon fetch --traces --host {shlex.quote(host)}{from_dir} {header.id}"
    print(f"{answer.file} is on {host}: {fetch} brings it here")


def _ask_session(
    session: str, request: Mapping[str, Any], host: str | None, log_dir: Path | None
) -> tuple[SessionHeader, list[Record]]:
    """Send a request to a running session; return the session's header and the answer."""
    from dlmon.log.directory import ask_session, read_entry

    if host is not None:
        from dlmon.remote.host_requests import ask_remote

        return shared.result_of(ask_remote(host, session, request, shared.on_host(log_dir)))
    entry = read_entry(shared.log_of(session, log_dir))
    return entry.header, shared.result_of(ask_session(entry, request))
