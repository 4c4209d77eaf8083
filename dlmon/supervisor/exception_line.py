"""The line of a script's output that says why it ended, where one does. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile

from dlmon.records.sanitize import clean

LONGEST_LINE = 240

_TRACEBACK = "Traceback (most recent call last):"
_OF_AN_EXCEPTION = 1
"""The exit code that Python gives a script that an exception ended."""
# Whatever an exception is called, it is one after a traceback; without one, its name has to say so.
_AFTER_TRACEBACK = re.compile(r"[^\W\d][\w.]*(?::.*)?")
_EXCEPTION = re.compile(r"(?:[^\W\d]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit): \S.*")
# What PyTorch, JAX, Python, a log in Google's form, or what ran the script adds after an exception.
_ADDED = re.compile(
    r"""\s.*
    | [\W_]*
    | CUDA\ kernel\ errors\ might\ be\ .* | For\ debugging\ consider\ passing\ .*
    | Compile\ with\ `TORCH_USE_CUDA_DSA`\ .*
    | For\ simplicity,\ JAX\ has\ removed\ .*
    | \S+:\d+:\ \w*Warning:\ .*
    | (?:\[rank\d+\]:)?\[?[IWEF]\d*\ .*\.(?:py|cc|cpp):\d+\].*
    | \d{4}-\d\d-\d\d\ [\d:.]+:\ [IWEF]\ .*\.cc:\d+\].*
    | (?:srun|slurmstepd|wandb):\ .*
    """,
    re.VERBOSE,
)
# Python itself, where there is no such script.
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*|No module named .*)")


def exception_line(output: Sequence[str], exit_code: int) -> str | None:
    """Return the line with the exception that ended a script; None where it isn't clear.

    A traceback that is followed by ordinary output is of an exception that was handled, as is one
    of a script that ended with an exit code of its own.

    Args:
        output: the last lines that it wrote.
        exit_code: what it ended with.
    """
    lines = [line.rstrip() for line in output if line.strip()]
    begins = [number for number, line in enumerate(lines) if line.strip() == _TRACEBACK]
    if begins:
        # Its frames are indented; what comes first after them is the exception.
        after = dropwhile(lambda line: line.startswith(" "), lines[begins[-1] + 1 :])
        line = next(after, "")
        if all(map(_ADDED.fullmatch, after)):
            ended_it = exit_code == _OF_AN_EXCEPTION and _AFTER_TRACEBACK.fullmatch(line)
            return _said(line) if ended_it else None
    last = lines[-1] if lines else ""
    if _EXCEPTION.fullmatch(last):
        return _said(last)
    no_script = _NO_SCRIPT.fullmatch(last)
    return _said(no_script[1]) if no_script is not None else None


def _said(line: str) -> str:
    return clean(line, LONGEST_LINE).rstrip(":")
