"""What several commands take, and how they refuse it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from dlmon.exit_codes import WRONG_ARGUMENTS
from tui.commands.candidates import folders, session_names, values_of
from tui.options.checks import NO_DIRECTORY
from tui.options.option import Option, as_text
from tui.options.run import OPTIONS
from tui.options.settings import Settings, read_settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


class UserError(Exception):
    """Something a user can fix: one sentence, and the exit code."""

    def __init__(self, message: str, exit_code: int = WRONG_ARGUMENTS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def options_of(options: Iterable[Option]) -> Callable[[_Command], _Command]:
    """Return what gives a command options of `run`, each as the text that was typed, or None.

    So they are read, and refused, as the form does.
    """

    def decorate(command: _Command) -> _Command:
        for option in reversed(tuple(options)):
            command = _as_click(option)(command)
        return command

    return decorate


def _as_click(option: Option) -> Callable[[_Command], _Command]:
    if option.is_switch:
        return click.option(
            f"{option.flag}/--no-{option.flag[2:]}" if option.is_setting else option.flag,
            is_flag=True,
            default=None,
            callback=_switch_text,
            help=option.help,
        )
    return click.option(
        option.flag,
        metavar=option.values_text,
        shell_complete=values_of(option),
        help=f"{option.help} [default: {option.default_text}]",
    )


def _switch_text(
    context: click.Context, parameter: click.Parameter, value: bool | None
) -> str | None:
    return None if value is None else as_text(value)


def _log_dir(context: click.Context, parameter: click.Parameter, text: str | None) -> Path | None:
    """Return the directory that is named; without a name it would be the working one."""
    if text is None:
        return None
    if not text.strip():
        raise UserError(NO_DIRECTORY)
    return Path(text)


log_dir_option = click.option(
    "--log-dir",
    metavar="DIR",
    callback=_log_dir,
    shell_complete=folders,
    help=OPTIONS["log_dir"].help,
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else."
)
plain_option = click.option("--plain", is_flag=True, help="Plain lines instead of the live screen.")
ascii_option = click.option(
    "--ascii/--no-ascii", default=None, help="Draw the screen with plain characters."
)
session_argument = click.argument("session", metavar="SESSION", shell_complete=session_names)


def settings_of(ascii: bool | None) -> Settings:
    """Return the user's settings, with what the command line says of plain characters."""
    settings = read_settings()
    if ascii is None:
        # The console of Linux has no font for what is drawn otherwise.
        ascii = settings.ascii or os.environ.get("TERM") == "linux"
    return replace(settings, ascii=ascii)


def chosen_log_directory(chosen: Path | None, settings: Settings | None = None) -> Path:
    """Return where sessions live: as the command line says, else the settings, else as usual.

    Raises:
        LogError: no such place can be named.
    """
    from dlmon.log.directory import log_directory

    settings = settings or read_settings()
    if chosen is None and settings.log_dir is not None:
        chosen = Path(settings.log_dir)
    return log_directory(chosen)


def in_terminal() -> bool:
    """Return whether a screen can be drawn and keys be read; Textual draws on stderr."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)
