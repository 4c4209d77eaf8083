"""What several commands take, and how they refuse it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dlmon.log.directory import log_directory
from tui.options.run import NO_DIRECTORY
from tui.options.settings import Settings

DONE, FAILED, WRONG_ARGUMENTS, INTERRUPTED_BY_USER = 0, 1, 2, 130
# As the shell says of a program that wrote into a pipe that nobody reads any more (SIGPIPE).
READER_LEFT = 141


def _log_dir(text: str) -> Path:
    """Return the directory that `--log-dir` names; without a name it would be the working one."""
    if not text.strip():
        raise UserError(NO_DIRECTORY)
    return Path(text)


LogDir = Annotated[
    Path | None,
    typer.Option(
        "--log-dir",
        metavar="DIR",
        help="Where sessions are kept.",
        show_default=False,
        parser=_log_dir,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Plain = Annotated[bool, typer.Option("--plain", help="Plain lines instead of the live screen.")]
Ascii = Annotated[
    bool | None,
    typer.Option("--ascii/--no-ascii", help="Draw the screen with plain characters."),
]
Pcie = Annotated[
    bool | None,
    typer.Option(
        "--pcie/--no-pcie",
        help="Measure what crosses each GPU's PCIe link, which takes 40 ms a GPU every 5 s.",
    ),
]


class UserError(Exception):
    """Something a user can mend: one sentence, and the exit code."""

    def __init__(self, message: str, exit_code: int = WRONG_ARGUMENTS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def drawn_as_asked(settings: Settings, ascii: bool | None) -> Settings:
    """Return settings with what the command line says of plain characters, where it does."""
    if ascii is None:
        # The console of Linux has no font for what is drawn otherwise.
        ascii = settings.ascii or os.environ.get("TERM") == "linux"
    return replace(settings, ascii=ascii)


def chosen_log_directory(chosen: Path | None, settings: Settings) -> Path:
    """Return where sessions live: as the command line says, else the settings, else as usual.

    Raises:
        LogError: no such place can be named.
    """
    if chosen is None and settings.log_dir is not None:
        chosen = Path(settings.log_dir)
    return log_directory(chosen)


def in_terminal() -> bool:
    """Tell whether a screen can be drawn and keys be read; Textual draws on stderr."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)
