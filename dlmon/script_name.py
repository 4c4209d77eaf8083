"""Find the script in a command, its name, and whether the command exists."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from dlmon.records.sanitize import clean

_FILE_TYPES = (".py", ".sh", ".ipynb")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
# Packages whose modules run the script that follows them.
_LAUNCHERS = {"torch", "accelerate", "deepspeed"}
_INTERPRETER = re.compile(r"(python[\d.]*|bash|sh|dash|zsh|node|perl|ruby)")


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


def program_name(command: str | None) -> str | None:
    """Return the short name of a program: its script if an interpreter runs one.

    None if the command is unknown.
    """
    first, *rest = (command or "").split() or [""]
    name = first if first.startswith("[") else first.rpartition("/")[2]
    if _INTERPRETER.fullmatch(name):
        name = _script(rest) or name
        name = "dlmon run" if name == "workloads" else name
    return clean(name, 24) or None


def _script(words: Sequence[str]) -> str | None:
    """Return the module or script that an interpreter runs; None if it runs neither."""
    following = iter(words)
    for word in following:
        if word == "-m":
            return next(following, None)
        if word in ("-W", "-X"):
            next(following, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return word.rpartition("/")[2]
    return None


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
