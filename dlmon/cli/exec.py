"""`dlmon exec`: run a script of the user's own, and watch it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dlmon.cli import click_options, shared
from dlmon.cli.show import View, not_started, start_in_slurm, start_session
from dlmon.options.run_options import OPTIONS
from dlmon.options.script import MOST_REPEATS, remember_script

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from dlmon.protocol.job import Job

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


def _joining(job: Job, name: str, repeat: int, slurm: str | None) -> Job:
    """Return the job as a part of the run that hosts join by this name."""
    from dlmon.log.label import refuse_name

    if refusal := refuse_name(name):
        raise shared.UserError(refusal)
    if repeat > 1 or slurm is not None:
        other = "--slurm" if slurm is not None else "--repeat"
        raise shared.UserError(f"--join is one run on several machines: leave out {other}")
    return replace(job, join=name, name=job.name or name)


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
    help="Run it so many times, one after the other, without the live screen "
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
        contradicting = [f"--{name}" for name in ("host", "detach") if getattr(options, name)]
        if repeat > 1 and contradicting:
            raise shared.UserError(
                f"--repeat waits for each run on this machine: leave out {contradicting[0]}"
            )
        from dlmon.options.jobs import make_script_job

        log_dir = shared.recorded_in(options, settings)
        expected = {
            "expected_epochs": expected_epochs,
            "expected_steps": expected_steps,
            "samples_per_step": samples_per_step,
            "count_flops": count_flops or None,
        }
        job = make_script_job(command, directory, log_dir, options, expected, settings.alerts)
        if join is not None:
            job = _joining(job, join, repeat, slurm)
    view = View(settings, options.log_dir, plain or repeat > 1, as_json, verbose)
    if slurm is not None:
        with not_started():
            if repeat > 1:
                raise shared.UserError("--repeat runs here, not in Slurm: leave out one of them")
            return start_in_slurm(job, view, slurm, options.host)
    if options.host is None:
        remember_script(command, job.directory)
    code = None
    for number in range(1, repeat + 1):
        title = "" if as_json or repeat == 1 else f"dlmon: run {number} of {repeat}"
        if title:
            blank_line = "\n" if number > 1 else ""
            print(f"{blank_line}{title}", file=sys.stderr, flush=True)
        code = start_session(job, view, options.host)
        if code:
            if title and number < repeat:
                text = f"{title} ended with exit code {code}; the others are not started"
                print(text, file=sys.stderr)
            break
    return code
