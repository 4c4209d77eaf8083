"""`dlmon run`: train a workload and watch it."""

from __future__ import annotations

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import workload_names
from dlmon.cli.show import View, start_in_slurm, start_session
from dlmon.options.run_options import OPTIONS
from workloads.catalog import find


@click.command(short_help="Train a workload and watch it.")
@click.argument("workload", metavar="WORKLOAD", shell_complete=workload_names)
@click_options.options_of(OPTIONS.values())
@click_options.no_alerts_option
@click_options.slurm_option
@click_options.plain_option
@click_options.json_option
@click_options.verbose_option
@click_options.ascii_option
def run(
    workload: str,
    slurm: str | None,
    plain: bool,
    as_json: bool,
    verbose: bool,
    ascii: bool | None,
    **texts: str | None,
) -> int | None:
    """Train a workload and watch it; the live screen in a terminal, plain lines in a pipe.

    WORKLOAD is one that dlmon list shows. Where config.toml has a default of your own, that
    stands in place of the one that is shown here.
    """
    shared.refuse_script(workload)
    settings = shared.settings_of(ascii)
    chosen = find(workload)
    options = shared.read_checked(texts, settings, chosen, here=slurm is None)
    from dlmon.options.jobs import make_job

    directory = shared.recorded_in(options, settings)
    job = make_job(chosen, directory, options, settings.alerts)
    view = View(settings, options.log_dir, plain, as_json, verbose)
    if slurm is not None:
        return start_in_slurm(job, view, slurm, options.host)
    return start_session(job, view, options.host)
