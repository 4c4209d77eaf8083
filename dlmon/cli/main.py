"""Run the command line: every user error is one sentence on stderr and an exit code."""

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

# An error may quote the command line, in which one word can have 128 kB.
_MAX_ERROR_LENGTH = 2_000

_ERROR_HANDLER = "plain characters"

# Errors without a file name that mean that stdout can't be written.
_STDOUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(show: ShowScreen) -> None:
    """Run the command line and exit with its code; `show` opens a screen."""
    _open_closed_streams()
    codecs.register_error(_ERROR_HANDLER, _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERROR_HANDLER)
    instruction = os.environ.get(COMPLETE_VARIABLE)
    exit_code = _run(sys.argv[1:], show) if instruction is None else _complete(instruction)
    sys.exit(_flush_stdout(exit_code))


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks, each by one of the same width."""
    assert isinstance(error, UnicodeEncodeError)
    from dlmon.render.ascii import plain

    return plain(error.object[error.start : error.end]), error.end


def _complete(instruction: str) -> int:
    from dlmon.cli.command_line import command_line
    from dlmon.cli.completion import complete

    print(complete(command_line, instruction))
    return DONE


def _open_closed_streams() -> None:
    """Open standard streams that are closed, so that no other file gets their descriptors.

    Writes to stdout then fail, as in other programs; writes to stderr are discarded.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - for as long as we run
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


def _run(arguments: list[str], show: ShowScreen | None = None) -> int:
    """Run one command and return its exit code; print an error as one sentence on stderr."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        if handler is not signal.SIG_IGN:
            # Raise KeyboardInterrupt, because a command may have something to clean up.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if arguments:
            from dlmon.cli.command_line import run_command

            exit_code = run_command(arguments, show)
        else:
            # Without arguments, don't import the parser, which takes a while.
            assert show is not None
            exit_code = open_terminal_ui(show, ascii=None)
    except KeyboardInterrupt:
        return INTERRUPTED_BY_USER
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        if error.filename is None and error.errno in _STDOUT_ERRORS:
            return _report_stdout_error(error)
        return _print_error(str(error), FAILED)
    except user_errors() as error:
        return _print_error(str(error), getattr(error, "exit_code", WRONG_ARGUMENTS))
    finally:
        signal.signal(signal.SIGINT, handler)
    return DONE if exit_code is None else exit_code


def _flush_stdout(exit_code: int) -> int:
    """Flush stdout; return the exit code, or another one if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        return _report_stdout_error(error)
    return exit_code


def _report_stdout_error(error: OSError) -> int:
    _silence(sys.stdout)
    reason = (error.strerror or str(error)).lower()
    return _print_error(f"standard output can't be written: {reason}", FAILED)


def _print_error(sentence: str, exit_code: int) -> int:
    from dlmon.records.sanitize import clean

    try:
        print(f"dlmon: {clean(sentence, _MAX_ERROR_LENGTH)}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    return exit_code


def _silence(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null, because the interpreter flushes it again at exit."""
    null_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_fd, stream.fileno())
    os.close(null_fd)
