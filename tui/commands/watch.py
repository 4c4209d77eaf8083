"""`dlmon watch`: the machine alone."""

from __future__ import annotations

from dataclasses import replace

import click

from tui.commands.shared import (
    UserError,
    ascii_option,
    chosen_log_directory,
    in_terminal,
    options_of,
    settings_of,
)
from tui.options.checks import check_interval
from tui.options.option import UnreadableOption
from tui.options.read import read_arguments
from tui.options.run import OPTIONS


@click.command()
@options_of((OPTIONS["interval"], OPTIONS["pcie"]))
@ascii_option
def watch(ascii: bool | None, **texts: str | None) -> int:
    """Watch this machine, without a session."""
    settings = settings_of(ascii)
    try:
        options = read_arguments(texts, settings.run)
    except UnreadableOption as error:
        raise UserError(str(error)) from None
    problem = check_interval(options.interval)
    if problem:
        raise UserError(problem)
    if not in_terminal():
        from tui.plain.watch import watch_machine

        return watch_machine(options.interval, options.pcie)
    from tui.app import DlmonApp

    settings = replace(settings, run=replace(settings.run, pcie=options.pcie))
    directory = chosen_log_directory(None, settings)
    shown = DlmonApp(directory, watch_interval_s=options.interval, settings=settings)
    return shown.run_to_exit_code()
