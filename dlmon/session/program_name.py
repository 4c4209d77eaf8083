"""What a person calls a program, of its command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlmon.records.sanitize import clean

NAME_CHARACTERS = 24

_INTERPRETER = re.compile(r"(python[\d.]*|bash|sh|dash|zsh|node|perl|ruby)")
_TAKES_A_VALUE = ("-W", "-X")
_TRAINING_OF_OURS = "dlmon run"


def program_name(command: str | None) -> str | None:
    """Return what a person calls a program: without its folder, the script and not its interpreter.

    None where the command isn't known.
    """
    first, *rest = (command or "").split() or [""]
    name = first if first.startswith("[") else first.rpartition("/")[2]
    if _INTERPRETER.fullmatch(name):
        name = _script(rest) or name
        name = _TRAINING_OF_OURS if name == "workloads" else name
    return clean(name, NAME_CHARACTERS) or None


def _script(words: Sequence[str]) -> str | None:
    """Return the module or the script that an interpreter was given; None for what is neither."""
    following = iter(words)
    for word in following:
        if word == "-m":
            return next(following, None)
        if word in _TAKES_A_VALUE:
            next(following, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return word.rpartition("/")[2]
    return None
