"""Commands for recorded sessions: `dlmon attach`, `stop`, `sessions` and `name`."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dlmon.cli import click_options, shared
from dlmon.cli.show import View, show_remote, show_session
from dlmon.exit_codes import DONE
from dlmon.log.folder import id_of, location_options, log_directory_of
from dlmon.log.label import Label, read_label
from dlmon.log.submitted import is_of_slurm
from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_duration
from dlmon.records import SweepHeader
from dlmon.records.sanitize import shown_path

if TYPE_CHECKING:
    from dlmon.figures.lists.session_list import Recorded
    from dlmon.log.directory import SessionEntry
    from dlmon.sweep.log import SweepEntry

_Entry = TypeVar("_Entry", bound="Recorded")
NO_MATCH = "no session matches; dlmon sessions lists all"


@click.command()
@click_options.running_session_argument
@click_options.plain_option
@click_options.ascii_option
@click_options.host_option
@click_options.log_dir_option
def attach(
    session: str | None, plain: bool, ascii: bool | None, host: str | None, log_dir: Path | None
) -> int:
    """Show a session that runs, or a finished one as it ended.

    SESSION is an id, a name, a unique prefix of an id, a path, or last; without it, the one that
    runs on this machine. Of a sweep, of ab and of try, the run under way is shown.
    """
    from dlmon.log.directory import running_session
    from dlmon.sweep.log import SWEEP_NAME, session_under_way

    host_log_dir = shared.on_host(log_dir)
    view = View(shared.settings_of(ascii), host_log_dir, plain)
    # The screen has all figures; lines show them at the end.
    view = replace(view, verbose=not view.on_screen)
    if host is not None:
        from dlmon.protocol.job import RemoteStart

        if session is None:
            raise shared.UserError(f"say which session of {host}: last, or its id or name")
        return show_remote(RemoteStart(host, session, host_log_dir), view)
    if session is None:
        path = running_session(shared.chosen_log_directory(log_dir), location_options(log_dir))
    else:
        path = _session_or_sweep(session, log_dir)
        if path.name == SWEEP_NAME:
            path = session_under_way(path)
    return show_session(view, log_directory_of(path), log=path)


@click.command()
@click_options.session_argument
@click_options.host_option
@click_options.log_dir_option
def stop(session: str, host: str | None, log_dir: Path | None) -> None:
    """Stop a session that runs on this machine, or on another one.

    SESSION is an id, a name, a unique prefix of an id, a path, or last; also a sweep or an
    experiment of pairs on this machine, which stops as by Ctrl-C.
    """
    from dlmon.figures.lists.session_list import stop_delay_text
    from dlmon.log.directory import read_entry, stop_session
    from dlmon.sweep.log import SWEEP_NAME, stop_sweep

    if host is not None:
        from dlmon.remote.host_requests import stop_remote

        header, text = shared.result_of(stop_remote(host, session, shared.on_host(log_dir)))
        print(f"{header.id} of {host} {text or f'is stopping{stop_delay_text(header)}'}")
        return
    path = _session_or_sweep(session, log_dir)
    if path.name == SWEEP_NAME:
        stop_sweep(path)
        print(f"{id_of(path)} is stopping")
        return
    entry = read_entry(path)
    if is_of_slurm(entry.path):
        from dlmon.slurm.standing import stop_submitted

        text = stop_submitted(entry)
    else:
        text = stop_session(entry)
    print(f"{entry.header.id} {text or f'is stopping{stop_delay_text(entry.header)}'}")


@click.command(short_help="Give a session a name, and a note.")
@click_options.session_argument
@click.argument("name", metavar="NAME", required=False)
@click.option("--note", metavar="TEXT", help='A note about it; "" removes the note.')
@click_options.host_option
@click_options.log_dir_option
def name(
    session: str, name: str | None, note: str | None, host: str | None, log_dir: Path | None
) -> None:
    """Give a session a name of your own, by which every command finds it; also a note.

    SESSION is an id, a name, a unique prefix of an id, a path, or last; a sweep has a name too,
    which its runs share.
    Several sessions may share a name. An empty NAME ("") removes it.
    """
    from dlmon.sweep.log import relabel

    if name is None and note is None:
        raise shared.UserError("say what to call it, or give it a --note")

    def changed(label: Label) -> Label:
        return Label(
            label.name if name is None else name or None,
            label.note if note is None else note or None,
        )

    if host is not None:
        from dlmon.remote.host_requests import name_remote

        request = name_remote(host, session, changed, shared.on_host(log_dir))
        id, label = shared.result_of(request)
    else:
        path = _session_or_sweep(session, log_dir)
        id, label = id_of(path), changed(read_label(path))
        relabel(path, label)
    called = "has no name" if label.name is None else f'is called "{label.name}"'
    print(f"{shown_path(id)} {called}{'; noted' if note else ''}")


def _session_or_sweep(text: str, log_dir: Path | None) -> Path:
    """Return the log of the session of this name or id, else of the sweep."""
    from dlmon.log.directory import NoSuchLog, SeveralLogs, find_log

    try:
        return shared.log_of(text, log_dir)
    except SeveralLogs:
        raise
    except NoSuchLog as no_session:
        try:
            return find_log(SweepHeader, text, shared.chosen_log_directory(log_dir))
        except NoSuchLog:
            raise no_session from None


def _since(context: click.Context, parameter: click.Parameter, text: str | None) -> float:
    """Return the wall time that `--since` says: when a day begins, or a duration before now."""
    if text is None:
        return -math.inf
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return time.time() - read_duration("--since", text)
    except UnreadableOption as error:
        raise shared.UserError(f"{error}; or a day such as 2026-11-20") from None


def _chosen(entries: Sequence[_Entry], since: float, name: str | None) -> list[_Entry]:
    """Return the entries that began at `since` or later, and whose name matches."""
    return [
        entry
        for entry in entries
        if entry.header.wall >= since
        and (name is None or fnmatchcase(entry.label.name or "", name))
    ]


@click.command(short_help="List what was recorded, and what is running.")
@click.option(
    "--since",
    metavar="WHEN",
    callback=_since,
    help="Only those that began in the last 2h or 7d, or since a day such as 2026-11-20.",
)
@click.option(
    "--name", metavar="NAME", help="Only those with this name, or with one that matches 'base*'."
)
@click_options.json_option
@click_options.hosts_option
@click_options.log_dir_option
def sessions(
    since: float, name: str | None, as_json: bool, hosts: tuple[str, ...], log_dir: Path | None
) -> int:
    """List what was recorded, and what is running: sessions, and sweeps below them."""
    from dlmon.figures.lists.session_list import describe_recorded, runs_of_sweeps, session_json
    from dlmon.render.console import table_console
    from dlmon.render.lines import print_sections

    recorded, exit_code = _recorded(hosts, log_dir)
    objects: list[dict[str, Any]] = []
    for number, (host, directory, all_entries, all_sweeps) in enumerate(recorded):
        entries, sweeps = _chosen(all_entries, since, name), _chosen(all_sweeps, since, name)
        if as_json:
            runs = runs_of_sweeps(all_sweeps)
            # The log is on the host, and not here until it is copied.
            fields = {} if host is None else {"ssh_host": host, "log": None}
            objects += [{**session_json(e, runs.get(e.header.id)), **fields} for e in entries]
            continue
        if number:
            print()
        if len(hosts) > 1:
            print(f"{host}:", flush=True)
        if not (entries or sweeps or all_entries or all_sweeps) and host is not None:
            print(f"no sessions on {host} yet; dlmon run WORKLOAD --host {host} starts one")
        elif (all_entries or all_sweeps) and not (entries or sweeps):
            print(NO_MATCH)
        else:
            sections = describe_recorded(
                entries, sweeps, directory, by_path=log_dir is not None, resumable=host is None
            )
            print_sections(table_console(), sections)
    if as_json and recorded:
        print(json.dumps(objects, indent=2))
    return exit_code


_Recorded = tuple[str | None, Path, Sequence["SessionEntry"], Sequence["SweepEntry"]]


def _recorded(hosts: Sequence[str], log_dir: Path | None) -> tuple[list[_Recorded], int]:
    """Return the sessions and sweeps here, or on each host that answers, and the exit code."""
    if not hosts:
        from dlmon.slurm.standing import list_with_queue
        from dlmon.sweep.log import list_sweeps

        directory = shared.chosen_log_directory(log_dir)
        if os.path.lexists(directory) and not directory.is_dir():
            raise shared.UserError(f"{directory} is not a directory")
        return [(None, directory, list_with_queue(directory), list_sweeps(directory))], DONE
    from dlmon.figures.lists.session_list import sweeps_of_host
    from dlmon.remote.host_requests import ask_each, list_remote
    from dlmon.remote.session_follower import copies_directory

    host_log_dir = shared.on_host(log_dir)
    answers = shared.result_of(ask_each(hosts, lambda host: list_remote(host, host_log_dir)))
    recorded: list[_Recorded] = []
    for host, answer in answers.items():
        if not isinstance(answer, Exception):
            sessions, sweeps = answer
            recorded.append((host, copies_directory(host), sessions, sweeps_of_host(sweeps)))
    return recorded, shared.report_failures(answers)
