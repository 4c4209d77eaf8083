"""What a script's output says of why it ended, where it does. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dlmon.records import Output
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
    | Compile\ with\ `TORCH_USE_CUDA_DSA`\ .* | Search\ for\ `cuda\w+['`]\ in\ .*
    | For\ simplicity,\ JAX\ has\ removed\ .*
    | \S+:\d+:\ \w*Warning:\ .*
    | (?:\[rank\d+\]:)?\[?[IWEF]\d*\ .*\.(?:py|cc|cpp):\d+\].*
    | \d{4}-\d\d-\d\d\ [\d:.]+:\ [IWEF]\ .*\.cc:\d+\].*
    | (?:srun|slurmstepd|wandb):\ .*
    """,
    re.VERBOSE,
)
# tqdm draws its bar once more as an exception passes: that is no sign that training went on.
_BAR = re.compile(r".*\d+%\|.*\|.*\[.*\]\s*")
_PROGRESS = re.compile(
    r"\W*(?:epoch|step|iter\w*|batch|(?:train\w*\W+)?loss)\b.*\d.* | \s*\d+/\d+\s.*",
    re.VERBOSE | re.IGNORECASE,
)
# Of a process that torchrun started; and of torchrun, which says no more than that one failed.
_RANK = re.compile(r"(\[(?:rank|default)\d+\]): ?(?!\[[IWEF]\d)")
_CHILD_FAILED = re.compile(r"[\w.]*\.ChildFailedError:?\s*")
# Python itself, where there is no such script.
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*|No module named .*)")


class ScriptError(NamedTuple):
    """A line with an exception, and whether that is known to be what ended the script."""

    line: str
    ended_it: bool


class _Line(NamedTuple):
    text: str
    stream: str


def find_error(output: Sequence[Output], exit_code: int) -> ScriptError | None:
    """Return the exception of the last traceback, or of the last line; None where there is none.

    What follows a traceback may belong to its message, or be written by a script that handled it
    and went on: then that traceback is just the last one. Where training went on, it is nothing,
    and so it is of a script that ended with an exit code of its own.

    Args:
        output: the last lines that it wrote.
        exit_code: what it ended with.
    """
    lines = _of_one_process([_Line(one.text.rstrip(), one.stream) for one in output])
    last = lines[-1].text if lines else ""
    begin = _last_traceback(lines)
    line, after = ("", lines) if begin is None else _exception(lines, begin)
    if begin is not None and all(_is_added(one.text) for one in after):
        is_one = exit_code == _OF_AN_EXCEPTION and _AFTER_TRACEBACK.fullmatch(line)
        return ScriptError(_said(line), True) if is_one else None
    if _EXCEPTION.fullmatch(last):
        return ScriptError(_said(last), True)
    no_script = _NO_SCRIPT.fullmatch(last)
    if no_script is not None:
        return ScriptError(_said(no_script[1]), True)
    if begin is None or exit_code != _OF_AN_EXCEPTION or not _AFTER_TRACEBACK.fullmatch(line):
        return None
    # What another stream holds may have been written before: into a pipe it comes late.
    stream = lines[begin].stream
    went_on = any(one.stream == stream and _PROGRESS.fullmatch(one.text) for one in after)
    return None if went_on else ScriptError(_said(line), False)


def _of_one_process(lines: Sequence[_Line]) -> list[_Line]:
    """Return what the first process of several says that has a traceback, and what none says.

    What torchrun says last is left out: that one of them failed.
    """
    ranks = [_RANK.match(line.text) for line in lines]
    kept = [line._replace(text=_RANK.sub("", line.text, count=1)) for line in lines]
    failed = [
        rank[1]
        for rank, line in zip(ranks, kept, strict=True)
        if rank is not None and line.text.strip() == _TRACEBACK
    ]
    found = [
        line
        for rank, line in zip(ranks, kept, strict=True)
        if line.text and (rank is None or not failed or rank[1] == failed[0])
    ]
    last = _last_traceback(found)
    if last is not None and _CHILD_FAILED.fullmatch(_exception(found, last)[0]):
        before = found[:last]
        return before if _last_traceback(before) is not None else found
    return found


def _last_traceback(lines: Sequence[_Line]) -> int | None:
    begins = [number for number, line in enumerate(lines) if line.text.strip() == _TRACEBACK]
    return begins[-1] if begins else None


def _exception(lines: Sequence[_Line], begin: int) -> tuple[str, Sequence[_Line]]:
    """Return what stands after the frames of a traceback, and the lines that follow it.

    The frames are indented; what comes first after them is the exception.
    """
    stream = lines[begin].stream
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        if line.stream == stream and not line.text.startswith(" "):
            return line.text, lines[number + 1 :]
    return "", ()


def _is_added(text: str) -> bool:
    return bool(_ADDED.fullmatch(text)) and not (_BAR.fullmatch(text) or _PROGRESS.fullmatch(text))


def _said(line: str) -> str:
    return clean(line, LONGEST_LINE).rstrip(":")
