"""The command line of dlmon.

Whatever a user can do wrong ends in one sentence on stderr and an exit code of
`dlmon.exit_codes`.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, TextIO

from dlmon.cli.shared import COMPLETE_VARIABLE, open_terminal_ui, user_errors
from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER, READER_LEFT, WRONG_ARGUMENTS

if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen

# A word of a command line can have 128 kB, all of them 2 MB.
_LONGEST_ERROR = 2_000

_PLAIN = "plain characters"
"""What Python calls by this name where an encoding lacks a character."""

# Why stdout may take nothing; logs and other files of ours report that themselves.
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(show: ShowScreen) -> None:
    """Run the command line and leave with its exit code; `show` opens a screen."""
    _open_closed_streams()
    codecs.register_error(_PLAIN, _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't show a character shows another; that is no error.
            stream.reconfigure(errors=_PLAIN)
    instruction = os.environ.get(COMPLETE_VARIABLE)
    exit_code = _run(sys.argv[1:], show) if instruction is None else _complete(instruction)
    sys.exit(_written_out(exit_code))


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Stand in for what an encoding lacks, cell for cell."""
    assert isinstance(error, UnicodeEncodeError)
    from dlmon.render.ascii import plain

    return plain(error.object[error.start : error.end]), error.end


def _complete(instruction: str) -> int:
    from dlmon.cli.command_line import command_line
    from dlmon.cli.completion import complete

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


def _run(arguments: list[str], show: ShowScreen | None = None) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    at_start = signal.getsignal(signal.SIGINT)
    try:
        if at_start is not signal.SIG_IGN:
            # Until now it left at once; a command may have something to clean up.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if arguments:
            from dlmon.cli.command_line import run_command

            exit_code = run_command(arguments, show)
        else:
            # To read no arguments needs no parser, which takes a while to import.
            assert show is not None
            exit_code = open_terminal_ui(show, ascii=None)
    except KeyboardInterrupt:
        return INTERRUPTED_BY_USER
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        if error.filename is None and error.errno in _NOT_WRITTEN:
            _silence(sys.stdout)
            return _print_error(f"standard output can't be written: {_reason(error)}", FAILED)
        return _print_error(str(error), FAILED)
    except user_errors() as error:
        return _print_error(str(error), getattr(error, "exit_code", WRONG_ARGUMENTS))
    finally:
        signal.signal(signal.SIGINT, at_start)
    return DONE if exit_code is None else exit_code


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
        print(f"dlmon: {clean(sentence, _LONGEST_ERROR)}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    return exit_code


def _silence(stream: TextIO) -> None:
    """Point a stream that can't be written at nothing, for the interpreter will flush it again."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
