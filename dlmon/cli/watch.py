"""`dlmon watch`: show or record this machine, or other hosts over ssh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.cli import click_options, shared
from dlmon.cli.candidates import host_names, job_numbers
from dlmon.cli.show import View, say_running, start_session
from dlmon.options.run_options import OPTIONS, RunOptions

_SAMPLING_OPTIONS = ("interval", "pcie")
_RECORDING_OPTIONS = ("detach", "name", "alert", "log_dir")
_DETACH = replace(OPTIONS["detach"], help="Record in the background, and print the session.")


@click.command(short_help="Watch this machine, or others over ssh.")
@click.argument("hosts", nargs=-1, metavar="[HOST]...", shell_complete=host_names)
@click.option(
    "--job",
    "jobs",
    metavar="JOB",
    multiple=True,
    shell_complete=job_numbers,
    help="The nodes of a job of Slurm's, by its number; may be given several times.",
)
@click.option("--jobs", "all_jobs", is_flag=True, help="The nodes of all your jobs that run.")
@click.option(
    "--record",
    "records",
    is_flag=True,
    help="Record the machine as a session: its log is kept, and any terminal can attach to it.",
)
@click.option(
    "--for",
    "for_s",
    metavar="TIME",
    type=click_options.Duration(),
    help="Record for so long: 90s, 10m, 2h or 1d. [default: until it is stopped]",
)
@click_options.options_of(
    _DETACH if name == "detach" else OPTIONS[name]
    for name in (*_SAMPLING_OPTIONS, *_RECORDING_OPTIONS)
)
@click.option(
    "--serve",
    "address",
    metavar="[ADDRESS:PORT]",
    is_flag=False,
    flag_value="",
    help="Serve metrics of this machine and its sessions to Prometheus; without an address, at "
    "127.0.0.1:9817.",
)
@click_options.no_alerts_option
@click_options.plain_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON object a line for each sample, and nothing else.",
)
@click_options.ascii_option
def watch(
    hosts: tuple[str, ...],
    jobs: tuple[str, ...],
    all_jobs: bool,
    records: bool,
    for_s: float | None,
    address: str | None,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    **texts: str | None,
) -> int | None:
    """Watch this machine, without a workload, or others over ssh; --record keeps what is seen.

    With --job or --jobs, the nodes of jobs are watched, from within these.

    HOST is what ssh takes: NAME, USER@NAME, ssh://USER@NAME:PORT or a name of ~/.ssh/config; or
    @GROUP, of the settings. Nothing has to be installed there but Python 3.10 or newer.

    A recording is a session: dlmon attach shows it, and dlmon stop ends it.
    """
    settings = shared.settings_of(ascii)
    if jobs or all_jobs:
        from dlmon.slurm.step import nodes_of_jobs

        if hosts or records:
            raise shared.UserError("the nodes of jobs are watched alone: leave out the rest")
        hosts = tuple(nodes_of_jobs(jobs))
    options = shared.read_checked(texts, settings, here=not (hosts and records))
    if records and as_json:
        raise shared.UserError("--json prints samples as they come: use it without --record")
    view = View(settings, options.log_dir, plain, as_json)
    if address is not None and (hosts or records or as_json):
        raise shared.UserError("--serve is of this machine: leave out HOST, --record and --json")
    if records:
        from dlmon.options.jobs import make_recording

        if hosts:
            return _record_hosts(hosts, view, options, for_s)
        directory = shared.recorded_in(options, settings)
        return start_session(make_recording(directory, options, for_s, settings.alerts), view)
    values = {"for": for_s, **texts}
    for name in ("for", *_RECORDING_OPTIONS):
        # Hosts that are watched send alerts too, and the sessions of any directory can be served.
        is_taken = (hosts and name == "alert") or (address is not None and name == "log_dir")
        if values[name] and not is_taken:
            flag = f"--{name.replace('_', '-')}"
            raise shared.UserError(f"{flag} is for a recording: use it with --record")
    if hosts:
        return _watch_hosts(hosts, view, options)
    if address is not None:
        return _serve(address, view, options)
    if not view.on_screen:
        from dlmon.render.watch_lines import watch_here

        return shared.result_of(watch_here(options.interval, options.pcie, as_json))
    return _open_watch(view, options)


def _record_hosts(
    words: tuple[str, ...], view: View, options: RunOptions, for_s: float | None
) -> int:
    """Start a recording on each host, which continues without us; show them unless detached."""
    from dlmon.options.jobs import make_recording
    from dlmon.remote.host_names import hosts_from
    from dlmon.remote.host_requests import ask_each, start_remote

    hosts = hosts_from(words, view.settings.hosts)
    job = make_recording(Path(), options, for_s, view.settings.alerts)
    job = replace(job, log_dir=options.log_dir or "", outlives_viewer=True)
    answers = shared.result_of(ask_each(hosts, lambda host: start_remote(host, job)))
    sessions = {host: id for host, id in answers.items() if not isinstance(id, Exception)}
    for host, session in sessions.items():
        say_running({"session": session}, job.name, view, host)
    exit_code = shared.report_failures(answers)
    if not sessions or options.detach or not view.on_screen:
        return exit_code
    return _watch_hosts(words, view, options)


def _watch_hosts(words: Sequence[str], view: View, options: RunOptions) -> int:
    """Watch other hosts, on the screen or in lines."""
    from dlmon.remote.host_names import hosts_from
    from dlmon.slurm.step import node_of

    are_job_nodes = any(node_of(word) is not None for word in words)
    hosts = tuple(words if are_job_nodes else hosts_from(words, view.settings.hosts))
    alerts = view.settings.alerts.chosen(options.alert)
    if view.on_screen:
        settings = replace(view.settings, alerts=alerts or AlertSettings())
        return _open_watch(replace(view, settings=settings), options, hosts=hosts)
    from dlmon.render.watch_lines import watch_hosts

    watching = watch_hosts(hosts, options.interval, options.pcie, view.as_json, alerts)
    return shared.result_of(watching)


def _serve(address: str, view: View, options: RunOptions) -> int:
    """Serve metrics of this machine and its sessions, beside the screen or without it."""
    from dlmon.figures.machine.readings import serving_text
    from dlmon.launch.exporter_process import listen, serving_beside

    directory = shared.recorded_in(options, view.settings)
    with listen(address) as listening:
        notice = serving_text(*listening.getsockname()[:2])
        if view.on_screen:
            with serving_beside(listening, directory, options.interval, options.pcie):
                return _open_watch(view, options, notice=notice)
        from dlmon.exporter.exporter import serve
        from dlmon.session.local_machine import LocalMachine
        from dlmon.system.signals import done_or_signalled

        print(notice, flush=True)
        machine = LocalMachine(options.interval, options.pcie)
        return shared.result_of(done_or_signalled(serve(listening, directory, machine)))[1]


def _open_watch(view: View, options: RunOptions, **content: Any) -> int:
    settings = replace(view.settings, run=replace(view.settings.run, pcie=options.pcie))
    directory = shared.chosen_log_directory(None, settings)
    view = replace(view, settings=settings)
    return view.open(directory, watch_interval_s=options.interval, **content)
