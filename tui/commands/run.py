"""`dlmon run`: train a workload and watch it."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.exit_codes import FAILED
from tui.commands.candidates import workload_names
from tui.commands.shared import (
    UserError,
    ascii_option,
    chosen_log_directory,
    in_terminal,
    json_option,
    log_dir_option,
    options_of,
    plain_option,
    settings_of,
)
from tui.options.option import UnreadableOption
from tui.options.read import read_arguments
from tui.options.run import OPTIONS
from workloads.catalog import UnknownWorkload, Workload, find

# Whoever asks for help, or completes a word, pays for none of what starts a run.
if TYPE_CHECKING:
    from dlmon.launch.job import Started
    from dlmon.launch.lifeline import Lifeline


@click.command(short_help="Train a workload and watch it.")
@click.argument("workload", metavar="WORKLOAD", shell_complete=workload_names)
@options_of(option for name, option in OPTIONS.items() if name != "log_dir")
@plain_option
@json_option
@ascii_option
@log_dir_option
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
    settings = settings_of(ascii)
    chosen = _find_workload(workload)
    try:
        options = read_arguments(texts, settings.run)
    except UnreadableOption as error:
        raise UserError(str(error)) from None
    problem = options.problem(chosen)
    if problem:
        raise UserError(problem)
    directory = chosen_log_directory(log_dir, settings)
    from dlmon.launch.lifeline import launch
    from tui.options.jobs import make_job

    started = launch(make_job(chosen, directory, options))
    if options.detach:
        answer = _started(started)
        started.send("detach")
        started.release()
        if as_json:
            print(json.dumps(asdict(answer)))
        else:
            print(f"{answer.session} is running; dlmon attach {answer.session} shows it")
        return None
    if plain or as_json or not in_terminal():
        from tui.plain.follow import follow

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end_before_start)
        answer = _started(started)
        return follow(Path(answer.log), started, as_json=as_json)
    from tui.app import DlmonApp

    return DlmonApp(directory, started=started, settings=settings).run_to_exit_code()


def _find_workload(name: str) -> Workload:
    try:
        return find(name)
    except UnknownWorkload as error:
        raise UserError(str(error)) from None


def _end_before_start(number: int, frame: object) -> None:
    # Without its lifeline the supervisor starts nothing.
    raise UserError("the run was ended by a signal before it started", FAILED)


def _started(started: Lifeline) -> Started:
    from dlmon.launch.job import Refused

    answer = started.answer()
    if isinstance(answer, Refused):
        raise UserError(answer.reason, answer.exit_code)
    return answer
