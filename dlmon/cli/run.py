"""`dlmon run`: train a workload and watch it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import workload_names
from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_arguments
from dlmon.options.run import OPTIONS, RunOptions
from dlmon.options.settings import Settings
from workloads.catalog import UnknownWorkload, Workload, find


@click.command(short_help="Train a workload and watch it.")
@click.argument("workload", metavar="WORKLOAD", shell_complete=workload_names)
@click_options.options_of(option for name, option in OPTIONS.items() if name != "log_dir")
@click_options.no_alerts_option
@click_options.plain_option
@click_options.json_option
@click_options.ascii_option
@click_options.log_dir_option
def run(
    workload: str,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    log_dir: Path | None,
    **texts: str | None,
) -> int | None:
    """Train a workload and watch it; the live screen in a terminal, plain lines in a pipe.

    WORKLOAD is one that dlmon list shows. Where config.toml has a default of your own, that
    stands in place of the one that is shown here.
    """
    settings = shared.settings_of(ascii)
    try:
        chosen = find(workload)
        options = read_arguments(texts, settings.run)
    except (UnknownWorkload, UnreadableOption) as error:
        raise shared.UserError(str(error)) from None
    problem = options.problem(chosen)
    if problem:
        raise shared.UserError(problem)
    if options.host is not None:
        options = replace(options, log_dir=shared.on_host(log_dir))
        return _run_on_host(chosen, options, settings, plain=plain, as_json=as_json)
    directory = shared.chosen_log_directory(log_dir, settings)
    from dlmon.launch.lifeline import launch
    from dlmon.options.jobs import make_job

    started = launch(make_job(chosen, directory, options, settings.alerts))
    if options.detach:
        shared.leave_running(started, options.name, as_json, log_dir)
        return None
    if plain or as_json or not shared.in_terminal():
        from dlmon.render.follow import follow

        shared.end_before_start("the run")
        answer = shared.answer_of(started)
        return follow(Path(answer.log), started, as_json, settings.alerts.desktop)
    from dlmon.cli.start import Start

    return shared.open_screen(Start(directory, settings, started=started))


def _run_on_host(
    workload: Workload, options: RunOptions, settings: Settings, *, plain: bool, as_json: bool
) -> int | None:
    """Train on another machine, and show it unless it is to be left there."""
    from dlmon.options.jobs import make_job
    from dlmon.remote.start import RemoteStart

    assert options.host is not None
    job = make_job(workload, Path(), options, settings.alerts)
    if not options.detach:
        start = RemoteStart(options.host, log_dir=options.log_dir, job=job)
        return shared.show_remote(start, settings, plain=plain, as_json=as_json)
    shared.start_on_host(options.host, job, as_json)
    return None
