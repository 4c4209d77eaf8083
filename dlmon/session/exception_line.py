"""Find the exception that ended a script in its last lines of output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dlmon.records import Output
from dlmon.records.sanitize import clean

LONGEST_LINE = 240

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION_EXIT_CODE = 1
"""Python's exit code after an uncaught exception."""
# After a traceback, any name is an exception's; without one, the name must look like it.
_AFTER_TRACEBACK = re.compile(r"[^\W\d][\w.]*(?::.*)?")
_EXCEPTION = re.compile(r"(?:[^\W\d]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit): \S.*")
_PROGRESS = re.compile(
    r"\W*(?:epoch|step|iter\w*|batch|(?:train\w*\W+)?loss)\b.*\d.* | \s*\d+/\d+\s.*",
    re.VERBOSE | re.IGNORECASE,
)
# The prefix of a rank under torchrun, and torchrun's own exception, which has no reason.
_RANK = re.compile(r"(\[(?:rank|default)\d+\]): ?(?!\[[IWEF]\d)")
_CHILD_FAILED = re.compile(r"[\w.]*\.ChildFailedError:?\s*")
# Python's own message for a missing script.
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*|No module named .*)")


def find_error(output: Sequence[Output], exit_code: int) -> str | None:
    """Return the exception in the last line, or of the last traceback; None if there is none.

    Lines after a traceback belong to its message, or were written while the script ended. If
    training went on after it, or the exit code is not Python's, the script handled the exception.
    """
    lines = lines_of_one_process(output)
    last = lines[-1].text if lines else ""
    begin = _last_traceback(lines)
    if no_script := _NO_SCRIPT.fullmatch(last):
        return _shortened(no_script[1])
    if begin is not None and exit_code != _EXCEPTION_EXIT_CODE:
        return None
    if _EXCEPTION.fullmatch(last):
        return _shortened(last)
    if begin is None:
        return None
    text, after = _exception(lines, begin)
    # A pipe is buffered, so lines of the other stream may be older.
    stream = lines[begin].stream
    went_on = any(line.stream == stream and _PROGRESS.fullmatch(line.text) for line in after)
    return None if went_on or not _AFTER_TRACEBACK.fullmatch(text) else _shortened(text)


def lines_of_one_process(lines: Sequence[Output]) -> list[Output]:
    """Return the lines without a rank, and those of the first rank with a traceback.

    Prefixes of ranks and trailing spaces are removed, and torchrun's own traceback at the end.
    """
    by_rank = [
        (_RANK.match(line.text), replace(line, text=_RANK.sub("", line.text, count=1).rstrip()))
        for line in lines
    ]
    failed = [rank[1] for rank, line in by_rank if rank and line.text.strip() == _TRACEBACK]
    selected = [
        line
        for rank, line in by_rank
        if line.text and (rank is None or not failed or rank[1] == failed[0])
    ]
    last = _last_traceback(selected)
    if last is not None and _CHILD_FAILED.fullmatch(_exception(selected, last)[0]):
        before = selected[:last]
        return before if _last_traceback(before) is not None else selected
    return selected


def _last_traceback(lines: Sequence[Output]) -> int | None:
    begins = [number for number, line in enumerate(lines) if line.text.strip() == _TRACEBACK]
    return begins[-1] if begins else None


def _exception(lines: Sequence[Output], begin: int) -> tuple[str, Sequence[Output]]:
    """Return the line after the indented frames of a traceback, and the lines that follow it."""
    stream = lines[begin].stream
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        if line.stream == stream and not line.text.startswith(" "):
            return line.text, lines[number + 1 :]
    return "", ()


def _shortened(line: str) -> str:
    return clean(line, LONGEST_LINE).rstrip(":")
