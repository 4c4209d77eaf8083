"""The consoles that plain output is printed on."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_TABLE_WIDTH = 200


class _Console(Console):
    """A console whose reader may leave: that is no error of ours."""

    def on_broken_pipe(self) -> None:
        """Tell the command line, in place of Rich's exit with code 1."""
        raise BrokenPipeError


def line_console(stderr: bool = False) -> Console:
    """Return a console for lines: never wrapped, never highlighted."""
    return _Console(stderr=stderr, highlight=False, soft_wrap=True)


def table_console() -> Console:
    """Return a console for tables: as wide as the terminal, wide in a pipe."""
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=_TABLE_WIDTH)


def close_stdout() -> None:
    """Point stdout at nothing: its reader has gone, and the interpreter will flush it again."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
