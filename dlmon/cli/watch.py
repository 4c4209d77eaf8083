"""`dlmon watch`: this machine alone, shown or recorded, or others over ssh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.alerts.settings import AlertSettings
from dlmon.cli import click_options, shared
from dlmon.cli.candidates import host_names
from dlmon.options.checks import check_alert, check_interval, check_name
from dlmon.options.duration import read_duration
from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_arguments
from dlmon.options.run import OPTIONS, RunOptions

if TYPE_CHECKING:
    from dlmon.launch.job import Job
    from dlmon.options.settings import Settings


@click.command(short_help="Watch this machine, or others over ssh.")
@click.argument("hosts", nargs=-1, metavar="[HOST]...", shell_complete=host_names)
@click.option(
    "--record",
    "records",
    is_flag=True,
    help="Record the machine as a session: its log is kept, and any terminal can attach to it.",
)
@click.option(
    "--for",
    "length",
    metavar="TIME",
    help="Record for so long: 90s, 10m, 2h or 1d. [default: until it is stopped]",
)
@click.option("--detach", is_flag=True, help="Record in the background, and print the session.")
@click_options.options_of((OPTIONS["interval"], OPTIONS["pcie"], OPTIONS["name"], OPTIONS["alert"]))
@click_options.no_alerts_option
@click_options.plain_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON object a line for each sample, and nothing else.",
)
@click_options.ascii_option
@click_options.log_dir_option
def watch(
    hosts: tuple[str, ...],
    records: bool,
    length: str | None,
    detach: bool,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    log_dir: Path | None,
    **texts: str | None,
) -> int | None:
    """Watch this machine, without a workload, or others over ssh; --record keeps what is seen.

    HOST is what ssh takes: NAME, USER@NAME, ssh://USER@NAME:PORT or a name of ~/.ssh/config; or
    @GROUP, of the settings. Nothing has to be installed there but Python 3.10 or newer.

    A recording is a session: dlmon attach shows it, and dlmon stop ends it.
    """
    settings = shared.settings_of(ascii)
    try:
        options = read_arguments(texts, settings.run)
        for_s = None if length is None else read_duration("--for", length)
    except UnreadableOption as error:
        raise shared.UserError(str(error)) from None
    problem = check_interval(options.interval) or check_name(options.name)
    problem = problem or check_alert(options.alert, here=not (hosts and records))
    if problem:
        raise shared.UserError(problem)
    if records and as_json:
        raise shared.UserError("--json prints samples as they come: use it without --record")
    of_recording: tuple[tuple[str, object], ...] = (
        *(("--for", length), ("--detach", detach)),
        *(("--name", options.name), ("--log-dir", log_dir)),
        *((("--alert", options.alert),) if not hosts else ()),
    )
    if hosts:
        options = replace(options, detach=detach, log_dir=shared.on_host(log_dir))
        if records:
            return _record_hosts(hosts, settings, options, for_s, plain=plain)
        _refuse_without_recording(of_recording)
        return _watch_hosts(hosts, settings, options, plain=plain, as_json=as_json)
    if records:
        from dlmon.options.jobs import make_recording

        directory = shared.chosen_log_directory(log_dir, settings)
        options = replace(options, detach=detach)
        job = make_recording(directory, options, for_s, settings.alerts)
        return _record(job, settings, log_dir, plain=plain)
    _refuse_without_recording(of_recording)
    if plain or as_json or not shared.in_terminal():
        from dlmon.render.watch import watch_machine

        return watch_machine(options.interval, options.pcie, as_json=as_json)
    from dlmon.cli.start import Start

    settings = replace(settings, run=replace(settings.run, pcie=options.pcie))
    directory = shared.chosen_log_directory(None, settings)
    start = Start(directory, settings, watch_interval_s=options.interval)
    return shared.open_screen(start)


def _refuse_without_recording(given: Sequence[tuple[str, object]]) -> None:
    for flag, value in given:
        if value:
            raise shared.UserError(f"{flag} is for a recording: use it with --record")


def _record_hosts(
    words: tuple[str, ...],
    settings: Settings,
    options: RunOptions,
    for_s: float | None,
    *,
    plain: bool,
) -> int:
    """Have each host record itself, which goes on without us; then show them, unless detached."""
    from dlmon.log.folder import place_options
    from dlmon.options.jobs import make_recording
    from dlmon.remote.hosts import hosts_from
    from dlmon.remote.requests import record_on_hosts

    hosts = hosts_from(words, settings.hosts)
    job = replace(
        make_recording(Path(), options, for_s, settings.alerts),
        log_dir=options.log_dir or "",
        outlives_viewer=True,
    )
    started = shared.result_of(record_on_hosts(hosts, job))
    for host, session in started.items():
        if not isinstance(session, Exception):
            where = place_options(options.log_dir, host)
            called = shared.called(session, job.name)
            print(f"{called} is recording on {host}; dlmon attach{where} {session} shows it")
    exit_code = shared.report_failures(started)
    none_records = all(isinstance(each, Exception) for each in started.values())
    if none_records or options.detach or plain or not shared.in_terminal():
        return exit_code
    return _watch_hosts(words, settings, options, plain=False, as_json=False)


def _watch_hosts(
    words: tuple[str, ...], settings: Settings, options: RunOptions, *, plain: bool, as_json: bool
) -> int:
    """Watch other machines, on the screen or line by line."""
    from dlmon.remote.hosts import hosts_from

    hosts = tuple(hosts_from(words, settings.hosts))
    alerts = settings.alerts.chosen(options.alert)
    settings = replace(settings, alerts=alerts or AlertSettings())
    if plain or as_json or not shared.in_terminal():
        from dlmon.render.hosts import watch_hosts

        return watch_hosts(hosts, options.interval, options.pcie, as_json=as_json, alerts=alerts)
    from dlmon.cli.start import Start

    settings = replace(settings, run=replace(settings.run, pcie=options.pcie))
    directory = shared.chosen_log_directory(None, settings)
    start = Start(directory, settings, watch_interval_s=options.interval, hosts=hosts)
    return shared.open_screen(start)


def _record(job: Job, settings: Settings, log_dir: Path | None, *, plain: bool) -> int | None:
    """Record this machine, and show it unless that is to go on without us."""
    from dlmon.launch.lifeline import launch
    from dlmon.log.folder import place_options

    started = launch(job)
    if job.outlives_viewer:
        answer = shared.answer_of(started)
        started.send("detach")
        started.release()
        session = answer.session
        called, where = shared.called(session, job.name), place_options(log_dir)
        said = f"dlmon attach{where} {session} shows it, dlmon stop{where} {session} ends it"
        print(f"{called} is recording; {said}")
        return None
    if plain or not shared.in_terminal():
        from dlmon.render.follow import follow

        shared.end_before_start("the recording")
        log = Path(shared.answer_of(started).log)
        return follow(log, started, desktop=settings.alerts.desktop)
    from dlmon.cli.start import Start

    return shared.open_screen(Start(Path(job.log_dir), settings, started=started))
