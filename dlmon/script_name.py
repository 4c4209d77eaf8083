"""Find the script in a command, its name, and whether the command exists."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePath
from typing import NamedTuple

_FILE_TYPES = (".py", ".sh", ".ipynb")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
# Packages whose modules run the script that follows them.
_LAUNCHERS = {"torch", "accelerate", "deepspeed"}


class NamedScript(NamedTuple):
    """The word of a command that names its script: a file, or with `is_module` a module."""

    word: str
    is_module: bool


def named_script(command: tuple[str, ...]) -> NamedScript | None:
    """Return the script or module that a command names; None if it names none."""
    for word, following in zip(command, (*command[1:], ""), strict=False):
        if word == "-m" and _MODULE.fullmatch(following):
            if following.partition(".")[0] not in _LAUNCHERS:
                return NamedScript(following, is_module=True)
        elif word.endswith(_FILE_TYPES) and not word.startswith("-"):
            return NamedScript(word, is_module=False)
    return None


def from_script(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command from its script on; all of them if it names none."""
    script = named_script(command)
    return command if script is None else command[command.index(script.word) :]


def script_name(command: tuple[str, ...]) -> str:
    """Return a command's display name: its script or module, else the program."""
    script = named_script(command)
    if script is not None:
        return script.word if script.is_module else PurePath(script.word).name
    return PurePath(command[0]).name or command[0]


def missing_command(name: str, directory: Path, path: str | None = None) -> str | None:
    """Return a sentence if a command does not exist or can't be run; None if it can.

    Args:
        name: the command.
        directory: its working directory; a name with a folder is relative to it.
        path: the search path for other names; None for our own PATH.
    """
    if shutil.which(str(directory / name) if os.sep in name else name, path=path) is not None:
        return None
    hint = f": for a Python script, say python {name}" if name.endswith(".py") else ""
    return f"there is no command {name}{hint}"
