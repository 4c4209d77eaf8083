"""The line of a script's output that says why it ended, where one does. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlmon.records.sanitize import clean

LONGEST_LINE = 240

_TRACEBACK = "Traceback (most recent call last):"
# Whatever an exception is called, it is one after a traceback; without one, its name has to say so.
_AFTER_TRACEBACK = re.compile(r"[^\W\d][\w.]*(?::.*)?")
_EXCEPTION = re.compile(r"(?:[^\W\d]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit): \S.*")
# Python itself, where there is no such script.
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*|No module named .*)")


def exception_line(output: Sequence[str]) -> str | None:
    """Return the line with the exception that ended a script; None where no line looks like one.

    Args:
        output: the last lines that it wrote.
    """
    lines = [line.rstrip() for line in output if line.strip()]
    begins = [number for number, line in enumerate(lines) if line.strip() == _TRACEBACK]
    if begins:
        # Its frames are indented; what comes first after them is the exception.
        for line in lines[begins[-1] + 1 :]:
            if not line.startswith(" "):
                return _said(line) if _AFTER_TRACEBACK.fullmatch(line) else None
        return None
    last = lines[-1] if lines else ""
    if _EXCEPTION.fullmatch(last):
        return _said(last)
    no_script = _NO_SCRIPT.fullmatch(last)
    return _said(no_script[1]) if no_script is not None else None


def _said(line: str) -> str:
    return clean(line, LONGEST_LINE).rstrip(":")
