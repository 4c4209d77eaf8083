"""`dlmon exec`: run a script of the user's own, and watch it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dlmon.cli import click_options, shared
from dlmon.cli.show import View, not_started, start_in_slurm, start_session
from dlmon.cli.sweep import make_runs
from dlmon.options.run_options import OPTIONS
from dlmon.options.script import MOST_REPEATS, remember_script

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from dlmon.options.run_options import RunOptions
    from dlmon.options.settings import Settings
    from dlmon.protocol.job import Job
    from dlmon.sweep.runner import SweepRun

_Command = TypeVar("_Command", bound=Callable[..., Any])

_HOST = replace(
    OPTIONS["host"],
    help="Another machine to run it on, which ssh reaches: the command is one of that machine, and "
    "it continues when you close dlmon.",
)
_OPTION_NAMES = ("interval", "pcie", "price", "to", "host", "detach", "name", "alert", "log_dir")
# More than the epochs, the steps, or the samples per step of any training.
_MAX_EXPECTED = 10**12
_NO_COMMAND = "say what to run after --: dlmon exec -- python train.py"


class _Exec(click.Command):
    """A command that exits with `NOT_STARTED` if its arguments are wrong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with not_started():
            return super().parse_args(ctx, args)


class _RangeInWords(click.Option):
    """An option whose help states its range in words, so that click need not add it."""

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def _number(flag: str, name: str, help: str) -> Callable[[_Command], _Command]:
    """Return an option that takes a whole number of at least 1."""
    kind = click.IntRange(1, _MAX_EXPECTED)
    return click.option(flag, name, metavar="N", cls=_RangeInWords, type=kind, help=help)


def _joining(job: Job, name: str, slurm: str | None) -> Job:
    """Return the job as a part of the run that hosts join by this name."""
    from dlmon.log.label import refuse_name

    if refusal := refuse_name(name):
        raise shared.UserError(refusal)
    if slurm is not None:
        raise shared.UserError("--join is one run on several machines: leave out --slurm")
    return replace(job, join=name, name=job.name or name)


def _repeats(
    command: tuple[str, ...],
    directory: str | None,
    options: RunOptions,
    expected: Mapping[str, int | None],
    repeats: int,
    slurm: str | None,
    settings: Settings,
) -> SweepRun:
    """Begin a sweep in which nothing varies."""
    from dlmon.options.script_sweep import make_script_plan
    from dlmon.options.sweep_options import begin_sweep, new_seed

    seed = new_seed()
    plan = make_script_plan(command, directory, options, (), repeats, seed, expected=expected)
    logs = shared.recorded_in(replace(options, host=None), settings)
    return begin_sweep(logs, plan, seed, time.time(), options.name, settings.alerts, slurm)


def _copying(job: Job, hosts: tuple[str, ...], host: str | None) -> Job:
    """Return the job of a joined run whose other parts are copied from hosts."""
    from dlmon.remote.part_copy import check_reachable

    if job.join is None:
        raise shared.UserError("--joined-by names another machine of --join NAME")
    if host is not None:
        raise shared.UserError("--joined-by copies to this machine: leave out --host")
    check_reachable(hosts)
    return replace(job, joined_by=hosts)


@click.command(
    cls=_Exec,
    name="exec",
    short_help="Run a script of your own and watch it.",
    # Options after the command's first word are its own, with or without the --.
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click_options.options_of(_HOST if name == "host" else OPTIONS[name] for name in _OPTION_NAMES)
@click_options.no_alerts_option
@click_options.slurm_option
@click.option(
    "--join",
    metavar="NAME",
    help="Be one session with what is started with this NAME on other machines, which share the "
    "log directory (--log-dir): one run of torchrun --nnodes.",
)
@click_options.hosts_option_of(
    "--joined-by",
    "joined_by",
    "Another machine of --join that doesn't share the log directory, or @GROUP: what is started "
    "there with the same NAME is copied from it by ssh. May be given several times.",
)
@click.option(
    "--directory",
    metavar="DIR",
    help="Where it runs. [default: here; on another machine, the home directory]",
)
@click.option(
    "--repeat",
    metavar="N",
    cls=_RangeInWords,
    type=click.IntRange(1, MOST_REPEATS),
    default=1,
    help="Run it so many times, one after the other; one table of all runs "
    f"(1 to {MOST_REPEATS:,}).",
)
@_number(
    "--epochs",
    "expected_epochs",
    "How many epochs it trains, for the time left, where the script does not say it.",
)
@_number(
    "--steps",
    "expected_steps",
    "How many steps it trains in all, for the time left, where the script does not say it.",
)
@_number(
    "--samples-per-step",
    "samples_per_step",
    "How many samples a step trains on, where the script does not say it.",
)
@click.option(
    "--count-flops",
    is_flag=True,
    help="Have PyTorch count the operations of one early step, for the share of the peak where "
    "they do not follow from the network. That step counts in no figure.",
)
@click_options.plain_option
@click_options.json_option
@click_options.verbose_option
@click_options.ascii_option
def exec_script(
    command: tuple[str, ...],
    directory: str | None,
    repeat: int,
    expected_epochs: int | None,
    expected_steps: int | None,
    samples_per_step: int | None,
    count_flops: bool,
    slurm: str | None,
    join: str | None,
    joined_by: tuple[str, ...],
    plain: bool,
    as_json: bool,
    verbose: bool,
    ascii: bool | None,
    **texts: str | None,
) -> int | None:
    """Run a script of your own, unchanged, and watch it train; the live screen in a terminal.

    Keras, PyTorch and what is built on it, XGBoost and LightGBM are watched by themselves. With
    --plain, or in a pipe, what the script writes comes straight through, and the exit code is its
    own; 125 where it could not be started. What is measured comes before what --epochs, --steps
    and --samples-per-step say.
    """
    with not_started():
        if not command:
            raise shared.UserError(_NO_COMMAND)
        settings = shared.settings_of(ascii)
        options = shared.read_checked(texts, settings)
        from dlmon.options.jobs import make_script_job

        log_dir = shared.recorded_in(options, settings)
        expected = {
            "expected_epochs": expected_epochs,
            "expected_steps": expected_steps,
            "samples_per_step": samples_per_step,
            "count_flops": count_flops or None,
        }
        if repeat > 1:
            contradicting = {"--detach": options.detach, "--join": join}
            if flag := next((flag for flag, value in contradicting.items() if value), None):
                raise shared.UserError(f"--repeat is a table of several runs: leave out {flag}")
            runs = _repeats(command, directory, options, expected, repeat, slurm, settings)
        job = make_script_job(command, directory, log_dir, options, expected, settings.alerts)
        if join is not None:
            job = _joining(job, join, slurm)
        if joined_by:
            job = _copying(job, joined_by, options.host)
    view = View(settings, options.log_dir, plain, as_json, verbose)
    if repeat > 1:
        return make_runs(runs, view, None if options.log_dir is None else Path(options.log_dir))
    if slurm is not None:
        with not_started():
            return start_in_slurm(job, view, slurm, options.host)
    if options.host is None:
        remember_script(command, job.directory)
    return start_session(job, view, options.host)
