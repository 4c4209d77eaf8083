"""A command: which of its words is the script that it runs, its name, and whether it is there."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePath
from typing import NamedTuple

_FILE_TYPES = (".py", ".sh", ".ipynb")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
# Packages of which a module runs a script that follows.
_LAUNCHERS = {"torch", "accelerate", "deepspeed"}


class NamedScript(NamedTuple):
    """The word of a command that names its script: a file, or with `is_module` a module."""

    word: str
    is_module: bool


def named_script(command: tuple[str, ...]) -> NamedScript | None:
    """Return the script or module that a command names; None where it names none."""
    for word, following in zip(command, (*command[1:], ""), strict=False):
        if word == "-m" and _MODULE.fullmatch(following):
            if following.partition(".")[0] not in _LAUNCHERS:
                return NamedScript(following, is_module=True)
        elif word.endswith(_FILE_TYPES) and not word.startswith("-"):
            return NamedScript(word, is_module=False)
    return None


def script_name(command: tuple[str, ...]) -> str:
    """Return what a command is called: its script or module, else the command itself."""
    named = named_script(command)
    if named is not None:
        return named.word if named.is_module else PurePath(named.word).name
    return PurePath(command[0]).name or command[0]


def missing_command(name: str, directory: Path, path: str | None = None) -> str | None:
    """Say that a command is not there, or can't be run; None where it can.

    Args:
        name: the command.
        directory: where it runs; one with a folder in its name is looked for from there.
        path: where others are; None for those of our own PATH.
    """
    if shutil.which(str(directory / name) if os.sep in name else name, path=path) is not None:
        return None
    step = f": for a Python script, say python {name}" if name.endswith(".py") else ""
    return f"there is no command {name}{step}"
