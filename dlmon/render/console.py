"""The consoles for plain output."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

_TABLE_WIDTH = 200


class _Console(Console):
    """A console that raises BrokenPipeError when its reader is gone."""

    def on_broken_pipe(self) -> None:
        """Let the command line handle it; Rich would exit with code 1."""
        raise BrokenPipeError


class _PlainFile:
    """A file that is written in ASCII."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        """Write text in ASCII."""
        from dlmon.render.ascii import plain

        return self._file.write(plain(text))


_in_ascii: ContextVar[bool] = ContextVar("in_ascii", default=False)


def print_in_ascii(is_on: bool) -> None:
    """Print in ASCII from now on; the app sets this when it is created."""
    _in_ascii.set(is_on)


def line_console(stderr: bool = False) -> Console:
    """Return a console for lines: never wrapped, never highlighted."""
    file = None
    if _in_ascii.get():
        file = cast(IO[str], _PlainFile(sys.stderr if stderr else sys.stdout))
    return _Console(stderr=stderr, file=file, highlight=False, soft_wrap=True)


def print_error(sentence: str) -> None:
    """Print a sentence of ours on stderr."""
    line_console(stderr=True).print(Text(f"dlmon: {sentence}"))


def table_console() -> Console:
    """Return a console for tables: as wide as the terminal, wide in a pipe."""
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=_TABLE_WIDTH)
