"""The consoles for plain output."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import IO, Any, cast

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dlmon.render.wrap import between_words

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
    """Print in ASCII from now on; the app and --ascii set this."""
    _in_ascii.set(is_on)


def line_console(stderr: bool = False) -> Console:
    """Return a console for lines: never wrapped, never highlighted."""
    return _Console(stderr=stderr, file=_plain_file(stderr), highlight=False, soft_wrap=True)


def _plain_file(stderr: bool = False) -> IO[str] | None:
    """Return a file for what is printed in ASCII; None for a console's own."""
    stream = sys.stderr if stderr else sys.stdout
    return cast(IO[str], _PlainFile(stream)) if _in_ascii.get() else None


def print_error(sentence: str) -> None:
    """Print a sentence of ours on stderr."""
    print_sentence(line_console(stderr=True), f"dlmon: {sentence}")


def print_sentence(console: Console, sentence: str) -> None:
    """Print a sentence; on a terminal, a long one is broken between words."""
    width = console.width if console.is_terminal else cell_len(sentence)
    for line in sentence.split("\n"):
        for part in between_words(line, width) or [""]:
            console.print(Text(part))


def table_console() -> Console:
    """Return a console for tables: as wide as the terminal, wide in a pipe."""
    console = _Console(file=_plain_file(), highlight=False)
    if not console.is_terminal:
        console.width = _TABLE_WIDTH
    return console
