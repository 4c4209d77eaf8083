"""The consoles that plain output is printed on."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

_TABLE_WIDTH = 200


class _Console(Console):
    """A console whose reader may leave: that is no error of ours."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, in place of Rich's exit with code 1."""
        raise BrokenPipeError


class _PlainFile:
    """A file into which nothing but ASCII is written."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        """Write text, each character that is none of ASCII's as one that is."""
        from dlmon.render.ascii import plain

        return self._file.write(plain(text))


_in_ascii: ContextVar[bool] = ContextVar("in_ascii", default=False)


def print_in_ascii(asked: bool) -> None:
    """Have all that is printed from here on within ASCII: the app says so when it is made."""
    _in_ascii.set(asked)


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
