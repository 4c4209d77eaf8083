"""The exit codes of dlmon, and what each means."""

from __future__ import annotations

DONE = 0
"""What was asked for is done."""

FAILED = 1
"""The workload failed or was ended by a signal, or something could not be written."""

WRONG_ARGUMENTS = 2
"""What was asked for can't be, and nothing was started."""

UNREACHABLE = 3
"""A host could not be reached."""

END_UNKNOWN = 124
"""A script was started, and how it ended is not known: what recorded it was killed."""

NOT_STARTED = 125
"""A script could not be started; any other code but `END_UNKNOWN` is its own."""

INTERRUPTED_BY_USER = 130
"""Ctrl-C; a shell reports 128 + SIGINT for a program that it ended."""

READER_LEFT = 141
"""Nobody reads our output any more; a shell reports 128 + SIGPIPE for that."""


def code_of_script(returned: int | None) -> int:
    """Return the exit code of a script's process as a shell gives it: 128 + n for signal n.

    Args:
        returned: what became of the process, negative for a signal; None where none was started.
    """
    if returned is None:
        return NOT_STARTED
    return 128 - returned if returned < 0 else returned
