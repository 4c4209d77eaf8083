"""The command line of dlmon.

Whatever a user can do wrong ends in one sentence on stderr and an exit code of
`dlmon.exit_codes`.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from importlib import import_module
from typing import TextIO

import click

from dlmon import __version__
from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER, READER_LEFT, WRONG_ARGUMENTS

COMPLETE_VARIABLE = "_DLMON_COMPLETE"
"""What the environment has where a shell asks how a word could go on."""

# The modules beside this one that the commands are in; each is imported when it is named.
COMMANDS = {
    "run": "run.run",
    "sweep": "sweep.sweep",
    "attach": "sessions.attach",
    "stop": "sessions.stop",
    "sessions": "sessions.sessions",
    "list": "list.list_workloads",
    "watch": "watch.watch",
    "doctor": "doctor.doctor",
    "completion": "completion.completion",
}

# What the parser says, and what helps more.
_MISSING = {
    "Missing argument 'WORKLOAD'.": "say which workload; dlmon list shows them",
    "Missing argument 'SESSION'.": "say which session: last, or one that dlmon sessions lists",
}

# Why stdout may take nothing; logs and other files of ours report that themselves.
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class _Commands(click.Group):
    """Imports a command once it is named, so that no other start pays for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(".")
        command = getattr(import_module(f"tui.commands.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            nearest = get_close_matches(name, COMMANDS, n=1)
            known = f"Did you mean '{nearest[0]}'?" if nearest else "dlmon --help lists them"
            ctx.fail(f"No such command '{name}'. {known}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train a neural network and watch its speed and the hardware on one time axis.\n\n"
    "Without a command it opens the terminal UI: pick a workload, watch the machine.",
)
@click.version_option(__version__, message="dlmon %(version)s", help="Print the version.")
@click.option("--ascii/--no-ascii", default=None, help="Draw the screen with plain characters.")
@click.pass_context
def command_line(context: click.Context, ascii: bool | None) -> int | None:
    """Open the terminal UI, where no command is named."""
    from tui.commands.shared import UserError, chosen_log_directory, in_terminal, settings_of

    command = context.invoked_subcommand
    if command is not None:
        if ascii is not None:
            raise UserError(f"put --ascii after the command: dlmon {command} … --ascii")
        return None
    if not in_terminal():
        raise UserError(
            "the terminal UI needs a terminal; use dlmon run WORKLOAD --plain, or dlmon --help"
        )
    from tui.app import DlmonApp

    settings = settings_of(ascii)
    directory = chosen_log_directory(None, settings)
    return DlmonApp(directory, settings=settings).run_to_exit_code()


def main() -> None:
    """Run the command line and leave with its exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't show a character shows another; that is no error.
            stream.reconfigure(errors="replace")
    instruction = os.environ.get(COMPLETE_VARIABLE)
    exit_code = _run(sys.argv[1:]) if instruction is None else _complete(instruction)
    sys.exit(_written_out(exit_code))


def _complete(instruction: str) -> int:
    from tui.commands.completion import complete

    print(complete(command_line, instruction))
    return DONE


def _open_closed_streams() -> None:
    """Stand in for standard streams that are closed, so that no file of ours takes their place.

    What is written to stdout fails, as it does in other programs; where stderr is closed,
    nobody wants to know.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - for as long as we run
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    at_start = signal.getsignal(signal.SIGINT)
    try:
        if at_start is not signal.SIG_IGN:
            # Until now it left at once; a command may have something to clean up.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Not `command_line.main`: it would take a reader that leaves for a failure.
        with command_line.make_context("dlmon", arguments) as context:
            exit_code: int | None = command_line.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as error:
        return _print_error(_sentence(error), WRONG_ARGUMENTS)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED_BY_USER
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        if error.filename is None and error.errno in _NOT_WRITTEN:
            _silence(sys.stdout)
            return _print_error(f"standard output can't be written: {_reason(error)}", FAILED)
        return _print_error(str(error), FAILED)
    except _user_errors() as error:
        return _print_error(str(error), getattr(error, "exit_code", WRONG_ARGUMENTS))
    finally:
        signal.signal(signal.SIGINT, at_start)
    return DONE if exit_code is None else exit_code


def _user_errors() -> tuple[type[Exception], ...]:
    """Return the errors whose message says what a user can fix."""
    from dlmon.log.directory import NoSuchLog
    from dlmon.log.folder import LogError
    from tui.commands.shared import UserError
    from tui.options.settings import SettingsError

    return (UserError, LogError, NoSuchLog, SettingsError)


def _sentence(error: click.UsageError) -> str:
    """Return what was wrong with the arguments, as one line."""
    from dlmon.records.sanitize import SHOWN_LENGTH, clean

    words = error.format_message().split()
    sentence = " ".join(clean(word, SHOWN_LENGTH) for word in words)
    return _MISSING.get(sentence, sentence)


def _written_out(exit_code: int) -> int:
    """Write out what stdout still holds; return an exit code, another one where that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        _silence(sys.stdout)
        return _print_error(f"standard output can't be written: {_reason(error)}", FAILED)
    return exit_code


def _print_error(sentence: str, exit_code: int) -> int:
    from dlmon.records.sanitize import clean

    try:
        print(f"dlmon: {clean(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    return exit_code


def _silence(stream: TextIO) -> None:
    from tui.plain.console import silence

    silence(stream)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
