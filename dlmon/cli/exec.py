"""`dlmon exec`: run a script of your own and watch it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dlmon.cli import click_options, shared
from dlmon.exit_codes import NOT_STARTED
from dlmon.log.folder import LogError
from dlmon.options import checks
from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_arguments
from dlmon.options.run import OPTIONS, RunOptions
from dlmon.options.script import MOST_REPEATS
from dlmon.options.settings import Settings, SettingsError

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from dlmon.launch.job import Job
    from dlmon.launch.lifeline import Lifeline

_Command = TypeVar("_Command", bound=Callable[..., Any])

_HOST = replace(
    OPTIONS["host"],
    help="Another machine to run it on, which ssh reaches: the command is one of that machine, and "
    "it continues when you close dlmon.",
)
_OF_A_SCRIPT = (
    *(OPTIONS[name] for name in ("interval", "pcie", "price")),
    _HOST,
    *(OPTIONS[name] for name in ("detach", "name", "alert")),
)
# No training has as many epochs, steps, or samples in one of them.
MOST_EXPECTED = 10**12
_NO_COMMAND = "say what to run after --: dlmon exec -- python train.py"


class _NotStarted(shared.UserError):
    """The script was not started; every other exit code is its own."""

    def __init__(self, message: str) -> None:
        super().__init__(message, NOT_STARTED)


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Raise `_NotStarted` for whatever keeps the script from being started."""
    try:
        yield
    except (shared.UserError, SettingsError, UnreadableOption, LogError, OSError) as error:
        raise _NotStarted(str(error)) from None


class _Exec(click.Command):
    """A command whose wrong arguments have the exit code of a script that was not started."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            with _starting():
                return super().parse_args(ctx, args)
        except click.UsageError as error:
            from dlmon.cli.usage_errors import sentence_of

            raise _NotStarted(sentence_of(error)) from None


class _RangeInWords(click.Option):
    """An option whose help says in words from where to where its values go."""

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def _number(flag: str, name: str, words: str) -> Callable[[_Command], _Command]:
    """Return an option that takes a whole number from 1 on."""
    kind = click.IntRange(1, MOST_EXPECTED)
    return click.option(flag, name, metavar="N", cls=_RangeInWords, type=kind, help=words)


@click.command(
    cls=_Exec,
    name="exec",
    short_help="Run a script of your own and watch it.",
    # What follows the command's first word is its own, with or without the --.
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click_options.options_of(_OF_A_SCRIPT)
@click_options.no_alerts_option
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
@click_options.plain_option
@click_options.json_option
@click_options.ascii_option
@click_options.log_dir_option
def exec_script(
    command: tuple[str, ...],
    directory: str | None,
    repeat: int,
    expected_epochs: int | None,
    expected_steps: int | None,
    samples_per_step: int | None,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    log_dir: Path | None,
    **texts: str | None,
) -> int | None:
    """Run a script of your own, unchanged, and watch it train; the live screen in a terminal.

    Keras, PyTorch and what is built on it, XGBoost and LightGBM are watched by themselves. With
    --plain, or in a pipe, what the script writes comes straight through, and the exit code is its
    own; 125 where it could not be started. What is measured comes before what --epochs, --steps
    and --samples-per-step say.
    """
    if not command:
        raise _NotStarted(_NO_COMMAND)
    expected = {
        "expected_epochs": expected_epochs,
        "expected_steps": expected_steps,
        "samples_per_step": samples_per_step,
    }
    with _starting():
        settings = shared.settings_of(ascii)
        options = read_arguments(texts, settings.run)
        problem = _problem(options, repeat)
        if problem is not None:
            raise _NotStarted(problem)
        if options.host is not None:
            options = replace(options, log_dir=shared.on_host(log_dir))
            kept_in = Path()
        else:
            kept_in = shared.chosen_log_directory(log_dir, settings)
        from dlmon.options.jobs import make_script_job

        job = make_script_job(command, directory, kept_in, options, expected, settings.alerts)
    try:
        if options.host is not None:
            return _run_on_host(job, options, settings, plain, as_json)
        if options.detach:
            shared.leave_running(_launched(job), options.name, as_json, log_dir)
            return None
        if plain or as_json or repeat > 1 or not shared.in_terminal():
            return _run_plain([job] * repeat, as_json, log_dir, settings.alerts.desktop)
        return _run_on_screen(job, kept_in, settings)
    except shared.UserError as error:
        raise _NotStarted(str(error)) from None


def _launched(job: Job) -> Lifeline:
    from dlmon.launch.lifeline import launch

    with _starting():
        return launch(job)


def _problem(options: RunOptions, repeat: int) -> str | None:
    """Say why a script can't be run with these; None where it can."""
    once = [f"--{name}" for name in ("host", "detach") if getattr(options, name)]
    problems = (
        f"--repeat waits for each run on this machine: leave out {once[0]}"
        if repeat > 1 and once
        else None,
        checks.check_interval(options.interval),
        checks.check_price(options.price),
        checks.check_host(options.host),
        checks.check_name(options.name),
        checks.check_alert(options.alert, here=options.host is None),
    )
    return next((problem for problem in problems if problem is not None), None)


def _run_plain(jobs: list[Job], as_json: bool, log_dir: Path | None, desktop: bool) -> int:
    """Run one after the other, until one fails; return the exit code of the last."""
    from dlmon.render.script import ScriptRefused, run_script

    code = 0
    for number, job in enumerate(jobs, start=1):
        turn = f"run {number} of {len(jobs)}"
        is_announced = len(jobs) > 1 and not as_json
        if is_announced:
            apart = "\n" if number > 1 else ""
            print(f"{apart}dlmon: {turn}", file=sys.stderr, flush=True)
        try:
            code = run_script(job, as_json, log_dir, desktop)
        except ScriptRefused as error:
            raise _NotStarted(str(error)) from None
        if code != 0:
            if is_announced and number < len(jobs):
                ended = f"dlmon: {turn} ended with exit code {code}; the others are not started"
                print(ended, file=sys.stderr)
            break
    return code


def _run_on_screen(job: Job, kept_in: Path, settings: Settings) -> int:
    from dlmon.cli.start import Start
    from dlmon.options.jobs import output_size

    terminal = output_size(*os.get_terminal_size(sys.stderr.fileno()))
    started = _launched(replace(job, terminal=terminal))
    return shared.open_screen(Start(kept_in, settings, started=started))


def _run_on_host(
    job: Job, options: RunOptions, settings: Settings, plain: bool, as_json: bool
) -> int | None:
    from dlmon.remote.start import RemoteStart

    assert options.host is not None
    if not options.detach:
        start = RemoteStart(options.host, log_dir=options.log_dir, job=job)
        return shared.show_remote(start, settings, plain=plain, as_json=as_json)
    shared.start_on_host(options.host, job, as_json)
    return None
