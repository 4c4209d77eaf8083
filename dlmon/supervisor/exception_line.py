"""What a script's output says of why it ended, where it does. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dlmon.records import Output
from dlmon.records.sanitize import clean

LONGEST_LINE = 240

_TRACEBACK = "Traceback (most recent call last):"
_OF_AN_EXCEPTION = 1
"""The exit code that Python gives a script that an exception ended."""
# Whatever an exception is called, it is one after a traceback; without one, its name has to say so.
_AFTER_TRACEBACK = re.compile(r"[^\W\d][\w.]*(?::.*)?")
_EXCEPTION = re.compile(r"(?:[^\W\d]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit): \S.*")
_PROGRESS = re.compile(
    r"\W*(?:epoch|step|iter\w*|batch|(?:train\w*\W+)?loss)\b.*\d.* | \s*\d+/\d+\s.*",
    re.VERBOSE | re.IGNORECASE,
)
# Of a process that torchrun started; and of torchrun, which says no more than that one failed.
_RANK = re.compile(r"(\[(?:rank|default)\d+\]): ?(?!\[[IWEF]\d)")
_CHILD_FAILED = re.compile(r"[\w.]*\.ChildFailedError:?\s*")
# Python itself, where there is no such script.
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*|No module named .*)")


def find_error(output: Sequence[Output], exit_code: int) -> str | None:
    """Return the exception of the last line, or of the last traceback; None where there is none.

    What follows a traceback belongs to its message, or was said while the script ended. Where
    training went on, the script has handled it, and so has one with an exit code of its own.

    Args:
        output: the last lines that it wrote.
        exit_code: what it ended with.
    """
    lines = _of_one_process([replace(one, text=one.text.rstrip()) for one in output])
    last = lines[-1].text if lines else ""
    begin = _last_traceback(lines)
    if no_script := _NO_SCRIPT.fullmatch(last):
        return _said(no_script[1])
    if begin is not None and exit_code != _OF_AN_EXCEPTION:
        return None
    if begin is None or _EXCEPTION.fullmatch(last):
        return _said(last) if _EXCEPTION.fullmatch(last) else None
    line, after = _exception(lines, begin)
    # What another stream holds may have been written before: into a pipe it comes late.
    stream = lines[begin].stream
    went_on = any(one.stream == stream and _PROGRESS.fullmatch(one.text) for one in after)
    return None if went_on or not _AFTER_TRACEBACK.fullmatch(line) else _said(line)


def _of_one_process(lines: Sequence[Output]) -> list[Output]:
    """Return what the first process of several says that has a traceback, and what none says.

    What torchrun says last is left out: that one of them failed.
    """
    ranks = [_RANK.match(line.text) for line in lines]
    kept = [replace(line, text=_RANK.sub("", line.text, count=1)) for line in lines]
    of_ranks = list(zip(ranks, kept, strict=True))
    failed = [rank[1] for rank, line in of_ranks if rank and line.text.strip() == _TRACEBACK]
    found = [
        line
        for rank, line in of_ranks
        if line.text and (rank is None or not failed or rank[1] == failed[0])
    ]
    last = _last_traceback(found)
    if last is not None and _CHILD_FAILED.fullmatch(_exception(found, last)[0]):
        before = found[:last]
        return before if _last_traceback(before) is not None else found
    return found


def _last_traceback(lines: Sequence[Output]) -> int | None:
    begins = [number for number, line in enumerate(lines) if line.text.strip() == _TRACEBACK]
    return begins[-1] if begins else None


def _exception(lines: Sequence[Output], begin: int) -> tuple[str, Sequence[Output]]:
    """Return what stands after the indented frames of a traceback, and the lines that follow it."""
    stream = lines[begin].stream
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        if line.stream == stream and not line.text.startswith(" "):
            return line.text, lines[number + 1 :]
    return "", ()


def _said(line: str) -> str:
    return clean(line, LONGEST_LINE).rstrip(":")
